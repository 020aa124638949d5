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
    await page.goBack();
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
});
