// What an agent asks, as it really asks: with what it wants to do, with a form, and while it goes on; and what it writes.

import { browse, equal, faults, part, step } from "./browser.mjs";

browse(async ({ page, link }) => {
  const main = page.getByRole("main");
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  const send = async (text) => {
    await prompt.fill(text);
    await prompt.press("Enter");
  };
  const told = (words) => page.locator(".said.agent", { hasText: words }).waitFor();
  await page.goto(link);
  await part(page, "Agents");
  await page.getByRole("button", { name: "Talk to talker" }).click();

  /** Everything a person must know before they say yes. */
  const whole = async (ask) => {
    const given = ask.getByRole("group", { name: "What it is given" });
    await given.getByText("DE44 5001 0517").waitFor();
    await given.getByText("9999").waitFor();
    await ask.getByText("/etc/passwd:3").waitFor();
    equal(await given.locator("b").count(), 0, "markup in it");
    await given.getByText("<b>bold</b> [U+202E]reversed").waitFor();
    await given.getByText("… 10000 more letters").waitFor();
  };
  await step("a permission shows what it is for, in the session and in the inbox", async () => {
    await send("transfer");
    await whole(page.locator(".said.ask"));
    await part(page, "Asks");
    await whole(main.getByRole("listitem").filter({ hasText: "mcp__bank__transfer" }));
    await faults(page, "a permission with an input");
  });

  await step("the focus stays in the list when an ask is answered", async () => {
    await main.getByRole("button", { name: "Yes" }).press("Enter");
    await page.getByText("Nothing waits for you").waitFor();
    equal(await page.evaluate(() => document.activeElement.tagName), "LI", "where the focus is");
    await page.goBack();
    await told("yes");
  });

  await step("a tool call opens to what it was given and gave back", async () => {
    const tool = page.locator(".said.tool", { hasText: "mcp__bank__transfer" });
    equal(await tool.getByText("r-77").isVisible(), false, "open from the beginning");
    await tool.locator("summary").click();
    await tool.getByText("r-77").waitFor();
    await tool.getByText("9999").waitFor();
  });

  await step("a question with a form is answered with its fields", async () => {
    await send("deploy");
    const ask = page.locator(".said.ask:not(.settled)");
    await ask.getByRole("button", { name: "Answer" }).click();
    equal(await ask.getByLabel("Target").evaluate((field) => field.validity.valueMissing), true, "a choice that is missing");
    await ask.getByLabel("Target").selectOption("Staging");
    equal(await ask.getByLabel("replicas").getAttribute("max"), "9", "the bound");
    await ask.getByLabel("replicas").fill("2");
    await faults(page, "a question with a form");
    await ask.getByRole("button", { name: "Answer" }).press("Enter");
    await told(/"action":"accept".*"target":"staging"/);
    await told(/"replicas":2[,}]/);
    equal(await page.evaluate(() => document.activeElement.classList.contains("ask")), true, "that the focus stays at the ask");
  });

  await step("the node refuses an answer that the form does not take", async () => {
    await send("deploy");
    await page.locator(".said.ask:not(.settled)").waitFor();
    const refused = await page.evaluate(async () => {
      const [{ session, ask }] = await (await fetch("/api/asks")).json();
      const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ answer: "text", text: "staging" }) };
      const answer = await fetch(`/api/sessions/${session}/asks/${ask.id}`, options);
      return `${answer.status} ${(await answer.json()).error}`;
    });
    equal(refused, "400 the question wants a form as JSON with force, replicas, target", "the answer");
    await page.locator(".said.ask:not(.settled)").getByRole("button", { name: "Decline" }).click();
    await told('"action":"decline"');
  });

  await step("an ask stays in the inbox however much the session says meanwhile", async () => {
    await send("busy");
    await page.locator(".said.tool", { hasText: "built" }).waitFor();
    await part(page, "Asks");
    const ask = main.getByRole("listitem").filter({ hasText: "Delete the old logs" });
    await ask.getByText("cannot be undone").waitFor();
    await ask.getByRole("button", { name: "No" }).click();
    await page.getByText("Nothing waits for you").waitFor();
    await page.goBack();
    await told('"optionId":"no"');
  });

  await step("Markdown is shown as it was meant", async () => {
    await send("markdown");
    await page.waitForFunction(() => document.querySelectorAll(".notice.end").length === 5);
    const body = page.locator(".said.agent .body").last();
    equal(await body.locator("> ol").count(), 1, "ordered lists");
    equal(await body.locator("> ol > li").count(), 3, "items of it");
    equal(await body.locator("> ol > li pre").innerText(), "const a = 1;", "code in an item");
    equal(await body.locator("> ol > li > ul > li").count(), 2, "items of the list in it");
    equal(await body.locator("> ol strong").innerText(), "all", "what is bold");
    equal(await body.locator("> ol em").innerText(), "tests", "what is emphasised");
    equal((await body.getByRole("img").evaluateAll((boxes) => boxes.map((box) => box.ariaLabel))).join(), "done,open", "task boxes");
    equal(await body.locator("> pre").innerText(), "```\ninside\n\nstill inside\n```", "a fence in a fence");
    equal(await body.getByRole("link", { name: "a chart" }).getAttribute("href"), "https://example.org/chart.png", "an image");
    await body.locator("code", { hasText: "file:///tmp/report.pdf" }).waitFor();
    await body.getByText("snake_case_name").waitFor();
    equal(await body.locator("td").first().innerText(), "1 | 2", "a cell");
  });

  const open = page.locator(".said.ask:not(.settled)");
  await step("what is told only with the permission is in view, and letters that hide are named", async () => {
    await send("split");
    await open.locator(".diff", { hasText: "/etc/cron.d/[U+200B]backup" }).waitFor();
    await open.locator(".diff .plus", { hasText: "rm -rf / [U+202E]# safe" }).waitFor();
    await open.getByRole("button", { name: "Deny [U+202E]wolla" }).waitFor();
    await open.getByRole("button", { name: "No" }).click();
    await page.getByText("Answered by dashboard: No.").last().waitFor();
  });

  await step("a line of a long file is a change of one line, and a long word fits a telephone", async () => {
    await send("long");
    await open.locator(".diff", { hasText: "+1 −1" }).waitFor();
    await part(page, "Asks");
    await page.setViewportSize({ width: 360, height: 780 });
    await main.getByRole("listitem").filter({ hasText: "run --config" }).waitFor();
    await faults(page, "a long word in an ask");
    await page.setViewportSize({ width: 1440, height: 900 });
    await main.getByRole("button", { name: "No" }).click();
    await page.getByText("Nothing waits for you").waitFor();
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll(".notice.end").length === 7);
  });

  /** Prompts, answers what is asked, and gives the last words of the turn. */
  const talk = async (text, answer) => {
    const before = await page.locator(".notice.end").count();
    await send(text);
    await answer();
    await page.waitForFunction((count) => document.querySelectorAll(".notice.end").length > count, before);
    return (await page.locator(".said.agent .body").last().innerText()).trim();
  };
  const press = (name) => open.getByRole("button", { name }).click();

  await step("a form without fields is accepted or declined", async () => {
    equal(await talk("go", () => press("Accept")), 'told {"action":"accept","content":{}}', "what is told");
    equal(await talk("go", () => press("Decline")), 'told {"action":"decline"}', "what is told");
  });

  await step("a field that is left out is left out, and a pattern is looked for anywhere", async () => {
    equal(await talk("force", () => press("Answer")), 'told {"action":"accept","content":{}}', "what is told");
    const said = await talk("version", async () => {
      await open.getByLabel("version").fill("v12.3");
      await open.getByLabel("why").fill("because");
      await press("Answer");
    });
    equal(said, 'told {"action":"accept","content":{"version":"v12.3","why":"because"}}', "what is told");
  });

  await step("several are chosen with boxes", async () => {
    const said = await talk("checks", async () => {
      await open.getByRole("group", { name: "Checks" }).waitFor();
      await press("Answer");
      await page.getByRole("alert").getByText("checks has fewer than 1").waitFor();
      await open.getByLabel("lint").check();
      await open.getByLabel("build").check();
      await faults(page, "a choice of several");
      await press("Answer");
    });
    equal(said, 'told {"action":"accept","content":{"checks":["lint","build"]}}', "what is told");
  });

  await step("a text that goes too deep is shown, and what comes after it", async () => {
    const said = await talk("deep", async () => {});
    equal(said.endsWith("after it"), true, "that its end is there");
    await page.getByRole("status").filter({ hasText: "ready" }).waitFor();
  });

  await step("what turns used is counted", async () => {
    await part(page, "Usage");
    const row = main.getByRole("listitem").filter({ hasText: /turns?/ });
    await row.filter({ hasText: "talker" }).getByText(/[\d.]+k? tokens in, [\d.]+k? out/).waitFor();
    await page.getByLabel("Show").selectOption("input");
    await page.getByRole("img", { name: /^Tokens in: [\d.]+k? in 30 days/ }).waitFor();
  });
});
