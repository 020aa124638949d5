// The page in a browser: how soon it can be used, what it holds, and which updates it shows.

import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const { chromium } = createRequire(join(process.env.DASHBOARD_MODULES, "x.js"))("playwright-core");
const [link, session] = process.argv.slice(-2);
const RELOADS = 5, END_MS = 120000;
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const browser = await chromium.launch({ executablePath: process.env.DASHBOARD_CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(link);
  await page.goto(`${new URL(link).origin}/#sessions/${encodeURIComponent(session)}`);
  const times = [];
  for (let reload = 0; reload < RELOADS; reload += 1) {
    await page.reload();
    // By the page's own clock, which begins with the navigation.
    times.push(await page.evaluate(() => new Promise((done) => {
      const look = () => (document.querySelector(".composer textarea") ? done(performance.now()) : requestAnimationFrame(look));
      look();
    })));
  }
  say({ usable: times.sort((left, right) => left - right)[Math.floor(RELOADS / 2)] });
  const inside = await page.context().newCDPSession(page);
  await inside.send("Performance.enable");
  for await (const wish of createInterface({ input: process.stdin })) {
    if (wish === "memory") {
      await inside.send("HeapProfiler.collectGarbage");
      const { metrics } = await inside.send("Performance.getMetrics");
      say({ memory: metrics.find(({ name }) => name === "JSHeapUsedSize").value / 1048576 });
    } else if (wish === "finish") {
      await page.locator(".notice.end").waitFor({ timeout: END_MS });
      // Numbers from zero, each at the beginning of a line; the first that is missing ends the count.
      const text = await page.locator(".said.agent").evaluateAll((said) => said.map((one) => one.innerText).join("\n"));
      const numbers = [...text.matchAll(/^(\d+) \d+$/gm)].map(([, number]) => Number(number));
      const gap = numbers.findIndex((number, index) => number !== index);
      say({ shown: gap < 0 ? numbers.length : gap });
    }
  }
} finally {
  await browser.close();
}
