// Logging in and out: without a login, with a link that was used, at two nodes of one machine, and leaving.

import { browse, equal, faults, step } from "./browser.mjs";

browse(async ({ page, context, link, origin }) => {
  const [, other] = process.argv.slice(2);
  const title = page.getByRole("heading", { level: 1 });
  const at = async (address, name) => {
    await page.goto(address);
    await title.filter({ hasText: name }).waitFor();
  };

  await step("whoever is not logged in is told how to", async () => {
    await at(origin, "AgentCraft");
    await page.getByText("agentcraft dashboard").waitFor();
    await faults(page, "the page for those who are not logged in");
  });

  await step("a link works once", async () => {
    await at(link, "Overview");
    await at(link, "AgentCraft");
    await page.getByText("used already").waitFor();
    await page.getByText("agentcraft dashboard").waitFor();
  });

  await step("another node of the machine has a login of its own", async () => {
    await at(other, "Overview");
    await at(origin, "Overview");
    await page.getByRole("status").filter({ hasText: "connected" }).waitFor();
    const names = (await context.cookies()).map(({ name }) => name);
    equal(new Set(names).size, 2, "cookies");
  });

  await step("a person logs out, of this node alone", async () => {
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByText("agentcraft dashboard").waitFor();
    await at(new URL(other).origin, "Overview");
  });
});
