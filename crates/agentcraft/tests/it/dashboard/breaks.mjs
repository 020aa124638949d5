// The line breaks: a reload, a node that dies in the middle of a stream, and one that stops and comes back.

import { browse, demand, equal, part, step } from "./browser.mjs";

browse(async ({ page, link, origin }) => {
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  const line = page.locator("#line");
  const text = () => page.locator(".said.agent").last().innerText();
  await page.goto(link);
  await part(page, "Agents");
  await page.getByRole("button", { name: "Talk to writer" }).click();

  await step("a reload in the middle of a stream shows all of it", async () => {
    await prompt.fill("/slow 200 20");
    await prompt.press("Enter");
    await page.locator(".said.agent").first().waitFor();
    await page.reload();
    await page.locator(".notice.end").waitFor();
    const words = await text();
    equal(words.includes("1") && words.includes("200"), true, "the first and the last word");
  });

  await step("a node that dies in the middle of a stream is told, and found again", async () => {
    await prompt.fill("/slow 100000 20");
    await prompt.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll(".said.agent").length === 2);
    await demand("kill");
    await line.filter({ hasText: "reconnecting" }).waitFor();
    await demand("start");
    await line.filter({ hasText: "connected" }).and(page.locator(":not(.broken)")).waitFor();
    // What the turn came to is told by the node, without a hand at the page.
    await page.waitForFunction(() => document.querySelectorAll(".notice.end").length === 2);
  });

  await step("the page is still logged in, and goes on", async () => {
    equal(page.url().startsWith(origin), true, "the address");
    await prompt.fill("/slow 2 10");
    await prompt.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll(".notice.end").length === 3);
    equal(await page.locator(".said.me").count(), 3, "prompts, each of them once");
  });

  await step("what happened while the page was away is in its list", async () => {
    await part(page, "Agents");
    await demand("stop");
    await line.filter({ hasText: "reconnecting" }).waitFor();
    await demand("start and create late");
    await page.getByRole("main").getByRole("link", { name: "late" }).waitFor();
  });

  await step("a part that was opened while the node was away is shown when it is back", async () => {
    await demand("stop");
    await line.filter({ hasText: "reconnecting" }).waitFor();
    await page.getByRole("navigation").getByRole("link", { name: "Sessions" }).click();
    await page.getByText("The node does not answer").waitFor();
    await demand("start");
    await page.getByRole("main").getByRole("link", { name: /^writer/ }).first().waitFor();
  });

  await step("what was asked by a node that died is no question any more", async () => {
    await page.getByRole("main").getByRole("link", { name: /^writer/ }).first().click();
    await prompt.fill("/write notes.md one");
    await prompt.press("Enter");
    await page.locator(".said.ask:not(.settled)").waitFor();
    await demand("kill");
    await demand("start");
    await page.getByText("The turn ended before it was answered").waitFor();
    equal(await page.locator(".answers").count(), 0, "answers that can be given");
    await page.locator(".said.tool").last().getByText("interrupted").waitFor();
    equal(await page.locator(".said.tool").getByText("running").count(), 0, "calls that still run");
  });
});
