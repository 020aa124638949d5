// A person at the page: starts an agent, talks to it, answers what it asks, looks at what happened.

import { browse, equal, part, step } from "./browser.mjs";

browse(async ({ page, link, origin }) => {
  const main = page.getByRole("main");
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  const send = async (text) => {
    await prompt.fill(text);
    await prompt.press("Enter");
  };
  const over = (count) => page.waitForFunction((wanted) => document.querySelectorAll(".notice.end").length >= wanted, count);

  await step("the link logs in and leaves the address", async () => {
    await page.goto(link);
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    equal(page.url(), `${origin}/`, "the address");
    equal(await page.evaluate(() => document.cookie), "", "what scripts see of the cookie");
    await page.getByRole("status").filter({ hasText: "connected" }).waitFor();
  });

  await step("an agent is created and started", async () => {
    await part(page, "Agents");
    await page.getByLabel("Name").fill("writer");
    await page.getByLabel("Template").selectOption("writer");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("button", { name: "Start writer" }).click();
    const row = main.getByRole("listitem").filter({ hasText: "writer" });
    await row.getByText("running").waitFor();
    await row.getByText("MiB").waitFor();
  });

  await step("a prompt is answered in a stream", async () => {
    await page.getByRole("button", { name: "Talk to writer" }).click();
    await send("/slow 4 20");
    await page.locator(".said.agent").first().waitFor();
    await over(1);
  });

  await step("Markdown is shown as such, and markup of an agent is text", async () => {
    await send("hello <img src=x onerror=alert(1)>");
    await over(2);
    await page.locator(".said.agent code", { hasText: "/help" }).first().waitFor();
    equal(await page.locator(".transcript img").count(), 0, "images in the transcript");
  });

  await step("a text that grows is settled only where a block is over", async () => {
    const ends = await page.evaluate(async () => {
      const { settled } = await import("/assets/transcript.js");
      return ["one", "one\n\ntwo", "```\na\n\nb", "```\na\n```\n\nb"].map(settled);
    });
    equal(ends.join(), "0,5,0,11", "where it is settled");
  });

  await step("a permission is answered from the inbox, with the change in view", async () => {
    await send("/write notes.md one line");
    await page.locator(".said.ask").waitFor();
    await part(page, "Asks");
    const ask = main.getByRole("listitem").filter({ hasText: "writer" });
    await ask.locator(".diff .plus", { hasText: "one line" }).waitFor();
    await ask.getByRole("button", { name: /allow/i }).first().click();
    await page.getByText("Nothing waits for you").waitFor();
    await page.goBack();
    await over(3);
    await page.locator(".said.tool[data-status=completed]").waitFor();
    await page.locator(".said.tool .diff").waitFor();
  });

  await step("a question is answered where it is asked", async () => {
    await send("/run echo never");
    const ask = page.locator(".said.ask:not(.settled)");
    await ask.getByRole("button", { name: /reject|deny/i }).first().click();
    await over(4);
    await page.locator(".said.ask.settled").nth(1).waitFor();
  });

  await step("a turn is cancelled", async () => {
    await send("/hang");
    await page.getByRole("button", { name: "Cancel the turn" }).click();
    await over(5);
    await page.getByText(/cancelled/i).first().waitFor();
  });

  await step("the log of the agent is read", async () => {
    await part(page, "Agents");
    await main.getByRole("link", { name: "writer" }).click();
    await page.getByRole("heading", { level: 1, name: "writer" }).waitFor();
    await page.getByRole("region", { name: "Log" }).waitFor();
  });

  await step("the journal finds it", async () => {
    await part(page, "Journal");
    await page.getByLabel("Kind begins with").fill("ask.");
    await page.getByRole("button", { name: "Search" }).click();
    await main.locator("summary", { hasText: "ask.settled" }).first().waitFor();
    await page.getByLabel("Text").fill("nobody ever said this");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("Nothing was found").waitFor();
  });

  await step("usage is drawn, and told for each agent", async () => {
    await part(page, "Usage");
    await page.getByRole("img", { name: /^Turns: 5 in/ }).waitFor();
    await main.getByRole("listitem").filter({ hasText: "writer" }).getByText("5 turns").waitFor();
  });

  await step("the agent is stopped and removed", async () => {
    await part(page, "Agents");
    await page.getByRole("button", { name: "Stop writer" }).click();
    await page.getByRole("button", { name: "Start writer" }).waitFor();
    page.once("dialog", (dialog) => dialog.accept());
    await page.getByRole("button", { name: "Remove writer" }).click();
    await page.getByRole("button", { name: "Remove writer" }).waitFor({ state: "detached" });
  });
});
