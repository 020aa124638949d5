// Nothing but keys: past the links of the frame, to a part, to a prompt, and to an answer.

import { browse, equal, step } from "./browser.mjs";

browse(async ({ page, link }) => {
  const focused = () => page.evaluate(() => {
    const { activeElement: at } = document;
    return at.getAttribute("aria-label") || at.labels?.[0]?.textContent || at.textContent;
  });
  /** Presses Tab until something of that name has the focus. */
  const reach = async (name, key = "Tab") => {
    for (let pressed = 0; pressed < 60; pressed += 1) {
      if (name.test(await focused())) return;
      await page.keyboard.press(key);
    }
    throw new Error(`${key} never came to ${name}; it is at ${await focused()}`);
  };
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();

  await step("the first key leads past the links of the frame", async () => {
    await page.keyboard.press("Tab");
    equal(await focused(), "Skip to the content", "the first stop");
    await page.keyboard.press("Enter");
    equal(await page.evaluate(() => document.activeElement.id), "main", "where it leads");
  });

  await step("a part is opened, and the focus goes with it", async () => {
    await reach(/^Agents$/, "Shift+Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
    await page.waitForFunction(() => document.activeElement.id === "main");
  });

  await step("an agent is talked to", async () => {
    await reach(/^Talk to writer$/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "writer" }).waitFor();
    await page.waitForFunction(() => document.activeElement.id === "main");
    await reach(/^Prompt$/);
    await page.keyboard.type("/write by-keys.txt yes");
    await page.keyboard.press("Enter");
  });

  await step("what it asks is answered", async () => {
    await page.locator(".said.ask").waitFor();
    await reach(/allow/i, "Shift+Tab");
    await page.keyboard.press("Enter");
    await page.locator(".said.ask.settled").waitFor();
    await page.locator(".notice.end").waitFor();
  });
});
