// The page in a browser: how soon it can be used, what it holds, and which updates it shows.

import { readFileSync } from "node:fs";
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
  // The page after the login goes on by itself.
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.goto(`${new URL(link).origin}/#sessions/${encodeURIComponent(session)}`);
  /** Until something can be typed after a reload, the median of some, by the page's own clock, which begins with the navigation. */
  const usable = async (what) => {
    const times = [];
    for (let reload = 0; reload < RELOADS; reload += 1) {
      await what.reload();
      times.push(await what.evaluate(() => new Promise((done) => {
        const look = () => (document.querySelector(".composer textarea") ? done(performance.now()) : requestAnimationFrame(look));
        look();
      })));
    }
    return times.sort((left, right) => left - right)[Math.floor(RELOADS / 2)];
  };
  /** What the process of the page holds, as the system counts it: elements and pictures are not in the heap of its scripts. */
  const resident = async () => {
    const { processInfo } = await (await browser.newBrowserCDPSession()).send("SystemInfo.getProcessInfo");
    const sizes = processInfo.filter(({ type }) => type === "renderer").map(({ id }) => Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${id}/status`, "utf8"))[1]) / 1024);
    return Math.max(...sizes);
  };
  say({ usable: await usable(page) });
  const inside = await page.context().newCDPSession(page);
  await inside.send("Performance.enable");
  for await (const wish of createInterface({ input: process.stdin })) {
    if (wish === "memory") {
      await inside.send("HeapProfiler.collectGarbage");
      const { metrics } = await inside.send("Performance.getMetrics");
      say({ memory: metrics.find(({ name }) => name === "JSHeapUsedSize").value / 1048576 });
    } else if (wish === "resident") {
      say({ resident: await resident() });
    } else if (wish === "usable") {
      // Another window, so that the one that is counted stays as it is.
      const other = await page.context().newPage();
      await other.goto(`${new URL(link).origin}/#sessions/${encodeURIComponent(session)}`);
      say({ usable: await usable(other) });
      await other.close();
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
