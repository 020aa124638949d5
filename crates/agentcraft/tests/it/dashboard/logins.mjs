// Logging in and out: without a login, with a link that was used, at two nodes of one machine, and leaving.

import { createServer } from "node:http";

import { browse, demand, equal, faults, step } from "./browser.mjs";

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

  await step("a page whose login ends elsewhere reads nothing more, asks for little, and comes back with the next login", async () => {
    const elsewhere = await context.newPage();
    await elsewhere.goto(origin);
    await elsewhere.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.bringToFront();
    let asked = 0;
    page.on("request", () => { asked += 1; });
    const ended = page.waitForEvent("requestfinished", (request) => request.url().includes("/api/stream"));
    const left = await elsewhere.evaluate(async () => (await fetch("/logout", { method: "POST" })).status);
    equal(left, 204, "the answer");
    await ended;
    await page.locator("#line").filter({ hasText: "logged out" }).waitFor();
    equal(asked < 20, true, `that ${asked} requests are few`);
    await elsewhere.goto(await demand("link"));
    await elsewhere.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.locator("#line").filter({ hasText: /^connected$/ }).waitFor();
    await elsewhere.close();
  });

  await step("a link works from a page of another site, too", async () => {
    const fresh = await demand("link");
    await context.clearCookies();
    const foreign = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(`<a href="${fresh}">open it</a>`));
    await new Promise((resolve) => foreign.listen(0, "127.0.0.1", resolve));
    await page.goto(`http://localhost:${foreign.address().port}/`);
    await page.getByRole("link", { name: "open it" }).click();
    await title.filter({ hasText: "Overview" }).waitFor();
    equal(page.url(), `${origin}/`, "the address");
    foreign.close();
    await at(await demand("other link"), "Overview");
    await at(origin, "Overview");
  });

  await step("a person logs out, of this node alone", async () => {
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByText("agentcraft dashboard").waitFor();
    await at(new URL(other).origin, "Overview");
  });
});
