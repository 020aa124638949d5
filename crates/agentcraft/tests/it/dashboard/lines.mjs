// Lines that are bad in other ways than a break: slow, and dead without a word.

import { createServer, connect } from "node:net";

import { browse, demand, equal, part, step } from "./browser.mjs";

/** A way to the node that can swallow everything on the connections that are open; new ones work. */
async function tunnel(port) {
  const pairs = new Set();
  const server = createServer((here) => {
    const there = connect(port, "127.0.0.1");
    const pair = { isDead: false };
    pairs.add(pair);
    for (const [from, to] of [[here, there], [there, here]]) {
      from.on("data", (bytes) => { if (!pair.isDead) to.write(bytes); });
      from.on("error", () => {});
      from.on("close", () => { if (!pair.isDead) to.destroy(); });
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: server.address().port, swallow: () => { for (const pair of pairs) pair.isDead = true; }, close: () => server.close() };
}

browse(async ({ page, link, origin }) => {
  const main = page.getByRole("main");
  const way = await tunnel(new URL(origin).port);
  await page.clock.install();
  await page.goto(link.replace(origin, `http://127.0.0.1:${way.port}`));
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();

  await step("what happens between the list and the stream is in the list", async () => {
    let release;
    const held = new Promise((resolve) => { release = resolve; });
    await page.route("**/api/stream**", async (route) => {
      await held;
      await route.continue().catch(() => {}); // The page may have followed anew meanwhile.
    });
    await part(page, "Agents");
    await main.getByRole("link", { name: "writer" }).waitFor();
    await demand("create late");
    release();
    await main.getByRole("link", { name: "late" }).waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });

  await step("a line that is dead without a word is followed anew", async () => {
    await page.getByRole("button", { name: "Talk to writer" }).click();
    const prompt = page.getByRole("textbox", { name: "Prompt" });
    await prompt.fill("/slow 200 20");
    await prompt.press("Enter");
    await page.locator(".said.agent").waitFor();
    way.swallow();
    // Longer than the node is ever silent.
    await page.clock.fastForward(45000);
    // The browser keeps connections to use them again. They are as dead, and each is tried until it took too long to open.
    const end = page.locator(".notice.end");
    for (let tries = 0; tries < 10; tries += 1) {
      if (await end.waitFor({ timeout: 5000 }).then(() => true, () => false)) break;
      await page.clock.fastForward(12000);
    }
    await end.waitFor();
    const words = await page.locator(".said.agent").last().innerText();
    equal(words.includes("chunk 1 of 200") && words.includes("chunk 200 of 200"), true, "the first and the last word");
    await page.locator("#line").filter({ hasText: "connected" }).waitFor();
  });

  await step("a prompt on a dead line is under way in words, and sent once", async () => {
    way.swallow();
    const prompt = page.getByRole("textbox", { name: "Prompt" });
    await prompt.fill("said once");
    await prompt.press("Enter");
    await page.clock.fastForward(2000);
    await page.getByRole("status").filter({ hasText: "Waiting for the node" }).waitFor();
    await page.clock.fastForward(43000);
    const said = page.locator(".said.me", { hasText: "said once" });
    for (let tries = 0; tries < 10; tries += 1) {
      if (await said.waitFor({ timeout: 5000 }).then(() => true, () => false)) break;
      await page.clock.fastForward(12000);
    }
    await page.locator(".notice.end").nth(1).waitFor();
    equal(await said.count(), 1, "prompts");
    await page.waitForFunction(() => document.querySelector(".composer textarea").value === "");
  });
  way.close();
});
