// A conversation that does not go on as it was: prompts that wait, an agent that stopped, an end elsewhere.

import { browse, demand, equal, faults, part, step } from "./browser.mjs";

browse(async ({ page, link }) => {
  const main = page.getByRole("main");
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  const send = async (text) => {
    await prompt.fill(text);
    await prompt.press("Enter");
  };
  await page.goto(link);
  await part(page, "Agents");
  await page.getByRole("button", { name: "Talk to writer" }).click();

  await step("a prompt that waits is shown, and taken back", async () => {
    await send("/hang");
    await page.locator(".said.me").waitFor();
    await send("first of two");
    await send("second of two");
    const waiting = page.getByRole("list", { name: "Prompts that wait" }).getByRole("listitem");
    await waiting.nth(1).waitFor();
    equal((await waiting.locator(".quote").allInnerTexts()).join(), "first of two,second of two", "what waits");
    await faults(page, "prompts that wait");
    await page.getByRole("button", { name: "Take back: first" }).click();
    await page.getByText("was taken back").waitFor();
    equal(await page.getByRole("button", { name: "Cancel the turn" }).isEnabled(), true, "that the turn still runs");
    await page.getByRole("button", { name: "Cancel the turn" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".notice.end").length === 2);
    equal((await page.locator(".said.me .body").allInnerTexts()).join(), "/hang,second of two", "what was sent");
    await page.getByRole("list", { name: "Prompts that wait" }).waitFor({ state: "hidden" });
  });

  await step("an agent that stopped is told, and started from here", async () => {
    await demand("stop the agent");
    await page.getByRole("button", { name: "Start writer" }).click();
    await page.getByRole("button", { name: "Start writer" }).waitFor({ state: "hidden" });
    await send("there again");
    await page.waitForFunction(() => document.querySelectorAll(".notice.end").length === 3);
  });

  await step("an end elsewhere is told", async () => {
    await demand("close the session");
    await page.getByText("This conversation is over").waitFor();
    await prompt.waitFor({ state: "detached" });
    await faults(page, "a conversation that is over");
  });

  await step("an agent that cannot be talked to says why", async () => {
    await part(page, "Agents");
    await page.getByRole("button", { name: "Start clock" }).click();
    await page.getByRole("button", { name: "Stop clock" }).waitFor();
    await page.getByRole("button", { name: "Talk to clock" }).click();
    await page.getByRole("alert").getByText("protocol: acp").waitFor();
  });

  await step("an address that nobody wrote leads nowhere, in words", async () => {
    await page.evaluate(() => { location.hash = "#/agents/%"; });
    await main.getByText("There is no agent called %").waitFor();
  });
});
