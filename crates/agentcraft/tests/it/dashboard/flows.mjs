// Workflows and what the network asked for: a form made from inputs, the graph as it runs, an approval, and a run.

import { browse, equal, part, step } from "./browser.mjs";

browse(async ({ page, link }) => {
  const main = page.getByRole("main");
  await page.goto(link);

  await step("a form is made from the inputs", async () => {
    await part(page, "Workflows");
    await main.getByRole("link", { name: "release" }).click();
    await page.getByRole("heading", { level: 1, name: "release" }).waitFor();
    const channel = page.getByLabel("channel");
    equal(await channel.inputValue(), "beta", "the default");
    await channel.selectOption("stable");
    equal(await page.getByLabel("retries").getAttribute("max"), "5", "the bound");
    await page.getByRole("button", { name: "Run" }).click();
    equal(await page.getByLabel("version").evaluate((field) => field.validity.valueMissing), true, "a required field left empty");
    await page.getByLabel("version").fill("1.4.0");
    await page.getByRole("button", { name: "Run" }).click();
  });

  const coloured = (name, state) => page.locator(`.graph g.${state}`, { hasText: name }).waitFor();
  await step("its graph is coloured as it runs", async () => {
    await coloured("check", "completed");
    await coloured("publish", "in-progress");
  });

  await step("what it waits for is in the inbox", async () => {
    await part(page, "Asks");
    await main.getByText("Publish 1.4.0?").first().waitFor();
    await main.getByText("cannot be undone").waitFor();
  });

  await step("the overview counts it, says that it waits, and leads to it", async () => {
    await part(page, "Overview");
    await main.getByRole("link", { name: /1\s*workflow runs/ }).waitFor();
    await main.getByRole("link", { name: /1\s*ask waits for you/ }).waitFor();
    await main.getByText("Publish 1.4.0?").first().waitFor();
    await main.locator("li.row", { hasText: "/release" }).getByRole("link").first().click();
    await coloured("publish", "in-progress");
    await page.locator(".said.ask").getByRole("button").first().click();
  });

  await step("the graph finishes", async () => {
    await coloured("publish", "completed");
    await page.locator(".notice.end").waitFor();
    await coloured("done", "completed");
    equal(await page.locator(".graph g.failed").count(), 0, "steps that failed");
  });

  await step("the run is listed with what came of it, and leads to its transcript", async () => {
    await part(page, "Workflows");
    const run = main.getByRole("listitem").filter({ hasText: "1.4.0 is out" });
    await run.getByText("succeeded").waitFor();
    await run.getByRole("link").click();
    await page.locator(".said.me", { hasText: "/release" }).waitFor();
  });

  await step("the end of a loop is coloured, too", async () => {
    await part(page, "Workflows");
    await main.getByRole("link", { name: "loops", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "loops" }).waitFor();
    equal(await page.locator(".graph .way.failure").count(), 1, "ways that are taken when a step fails");
    equal(await page.locator(".graph .way.inner").count(), 1, "ways to a step inside");
    await page.getByRole("button", { name: "Run" }).click();
    await page.locator(".notice.end").waitFor();
    await coloured("paint", "completed");
    await coloured("done", "completed");
  });

  await step("a way that has a condition says it", async () => {
    await part(page, "Workflows");
    await main.getByRole("link", { name: "chooses", exact: true }).click();
    const conditions = page.getByRole("list", { name: "Conditions" }).getByRole("listitem");
    await conditions.filter({ hasText: 'look to odd when states.look.Output == "7"' }).waitFor();
    equal(await conditions.count(), 1, "conditions");
    equal(await page.locator(".graph .condition").count(), 1, "numbers in the drawing");
  });

  await step("a step that fails is drawn so, and so is the end that it leads to", async () => {
    const run = async (name) => {
      await part(page, "Workflows");
      await main.getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { level: 1, name }).waitFor();
      await page.getByRole("button", { name: "Run" }).click();
      await page.locator(".notice.end").waitFor();
    };
    const told = (words) => page.getByRole("img", { name: words }).waitFor();
    await run("breaks");
    await told("Steps of breaks: build completed, test failed, done pending, failed failed");
    await run("mends");
    await told("Steps of mends: both failed, bad failed, good completed, mend completed, done completed, failed pending");
  });

  await step("a run of the network is listed and leads to its transcript", async () => {
    await part(page, "Runs");
    const run = main.getByRole("listitem").filter({ hasText: "hello from the network" });
    await run.getByText("completed").waitFor();
    await run.getByRole("link").first().click();
    await page.locator(".said.me", { hasText: "hello from the network" }).waitFor();
  });

  await step("an agent that is a workflow is drawn whatever it is told, and is known by its target", async () => {
    await page.evaluate(async () => {
      const asked = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ agent: "workflow:release" }) };
      const made = await (await fetch("/api/sessions", asked)).json();
      location.hash = `/sessions/${encodeURIComponent(made.sessionId)}`;
    });
    await page.getByRole("heading", { level: 1, name: "workflow:release" }).waitFor();
    const prompt = page.getByRole("textbox", { name: "Prompt" });
    await prompt.fill("1.5.0");
    await prompt.press("Enter");
    await coloured("check", "completed");
    await page.locator(".said.ask").getByRole("button").first().click();
    await coloured("publish", "completed");
  });

  await step("sessions are found by their agent and by how they are", async () => {
    await part(page, "Sessions");
    const rows = main.locator("ul.rows").getByRole("listitem");
    await main.getByRole("link", { name: /^workflow:release: 1.5.0/ }).waitFor();
    await page.getByLabel("Agent or words").fill("1.5.0");
    equal(await rows.count(), 1, "sessions with these words");
    await page.getByLabel("State").selectOption("busy");
    await main.getByText("None is like that.").waitFor();
  });

  await step("the journal leaves out who asked for what until that is wanted", async () => {
    await part(page, "Journal");
    await main.getByText("turn.ended").first().waitFor();
    equal(await main.locator("code", { hasText: "audit." }).count(), 0, "lines of the audit");
    await page.getByLabel("Also who asked for what").check();
    await main.locator("code", { hasText: "audit." }).first().waitFor();
  });

  await step("usage is a chart that is chosen, with a table that says the same", async () => {
    await part(page, "Usage");
    await page.getByRole("img", { name: /^Turns: \d+ in 30 days/ }).waitFor();
    await page.getByLabel("Of the last").selectOption("14");
    const chart = page.getByRole("img", { name: /^Turns: \d+ in 14 days/ });
    const total = Number((await chart.getAttribute("aria-label")).match(/\d+/)[0]);
    await main.getByText("As a table").click();
    const cells = await main.locator("td.number").allTextContents();
    equal(cells.map(Number).reduce((sum, value) => sum + value, 0), total, "turns in the table");
    equal(total > 0, true, "turns are counted");
    await page.getByLabel("Show").selectOption("cost");
    await main.getByText("no agent told of this").waitFor();
  });
});
