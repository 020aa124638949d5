// Pages that nobody sees: one that really sleeps in the middle of a stream, and more of them than a browser has connections.
//
// Playwright keeps every page awake and visible, so this speaks to the browser itself, over a pipe.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { FLAGS, PATIENCE_MS, demand, equal, say, step } from "./browser.mjs";

const PAUSE_MS = 100;
/** Keeps the streams of a page, so that they can be looked at. */
const COUNTED = "window.streams = []; window.EventSource = class extends EventSource { constructor(url) { super(url); window.streams.push(this); } };";
const OPEN = "window.streams.filter(({ readyState }) => readyState === EventSource.OPEN).length";
const [link] = process.argv.slice(2);
const { origin } = new URL(link);
const profile = mkdtempSync(join(tmpdir(), "agentcraft-browser-"));
const browser = spawn(process.env.DASHBOARD_CHROMIUM, ["--headless=new", "--remote-debugging-pipe", `--user-data-dir=${profile}`, ...FLAGS, "about:blank"],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
process.on("SIGTERM", () => {
  browser.kill("SIGKILL");
  process.exit(1);
});

const [input, output] = [browser.stdio[3], browser.stdio[4]];
const calls = new Map();
let [last, rest] = [0, ""];
output.on("data", (bytes) => {
  const messages = `${rest}${bytes}`.split("\0");
  rest = messages.pop();
  for (const message of messages) {
    const { id, result, error } = JSON.parse(message);
    calls.get(id)?.(error ? Promise.reject(new Error(error.message)) : result);
    calls.delete(id);
  }
});
const call = (method, params = {}, sessionId = undefined) => new Promise((resolve) => {
  last += 1;
  calls.set(last, resolve);
  input.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
});

/** Opens a page in front of the others, which are hidden from then on. */
async function open(url) {
  const { targetId } = await call("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
  await call("Page.enable", {}, sessionId);
  await call("Page.addScriptToEvaluateOnNewDocument", { source: COUNTED }, sessionId);
  const front = () => call("Target.activateTarget", { targetId });
  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, sessionId);
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  };
  const until = async (expression) => {
    const end = Date.now() + PATIENCE_MS;
    while (!await evaluate(expression).catch(() => false)) {
      if (Date.now() > end) throw new Error(`${expression} never came true: ${await evaluate("document.body.innerText").catch(String)}`);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  };
  const lifecycle = (state) => call("Page.setWebLifecycleState", { state }, sessionId);
  await front();
  await call("Page.navigate", { url }, sessionId);
  return { evaluate, until, front, lifecycle };
}

const shows = (title) => `document.querySelector("h1")?.textContent === ${JSON.stringify(title)}`;
const hidden = 'document.visibilityState === "hidden"';
const ask = (path, body) => `fetch(${JSON.stringify(path)}, { method: "POST", headers: { "content-type": "application/json" }, body: ${JSON.stringify(JSON.stringify(body))} }).then((answer) => answer.json())`;

async function script() {
  const page = await open(link);
  const pages = [page];
  await page.until(shows("Overview"));

  await step("a page that sleeps in the middle of a stream shows all of it when it wakes", async () => {
    const id = await page.evaluate(`${ask("/api/sessions", { agent: "writer" })}.then(({ sessionId }) => sessionId)`);
    await page.evaluate(`location.hash = "/sessions/${id}"`);
    await page.until(shows("writer"));
    await page.evaluate(`window.seen = []; for (const name of ["freeze", "resume"]) document.addEventListener(name, () => window.seen.push(name)); 1`);
    await page.evaluate(`${ask(`/api/sessions/${id}/prompt`, { text: "/slow 150 20" })}.then(() => 1)`);
    await page.until(`document.querySelector(".said.agent") !== null`);
    const cover = await open("about:blank");
    await page.until(hidden);
    await page.lifecycle("frozen");
    await page.until('window.seen.join() === "freeze"');
    await demand("wait until nothing is busy");
    equal(await page.evaluate(`document.querySelectorAll(".notice.end").length`), 0, "ends that a sleeping page has seen");
    await page.lifecycle("active");
    await page.front();
    await page.until(`document.querySelectorAll(".notice.end").length === 1`);
    equal(await page.evaluate("window.seen.join()"), "freeze,resume", "what happened to it");
    const words = await page.evaluate(`document.querySelector(".said.agent").innerText`);
    for (let count = 1; count <= 150; count += 1) equal(words.includes(`chunk ${count} of 150`), true, `chunk ${count}`);
    await cover.evaluate("1");
  });

  await step("more pages than a browser has connections are open at once", async () => {
    for (let count = 0; count < 8; count += 1) {
      const other = await open(`${origin}/#/agents`);
      pages.push(other);
      await other.until(shows("Agents"));
      await other.until(`document.getElementById("line").textContent === "connected"`);
    }
    await page.until(hidden);
  });

  await step("a page that was hidden catches up when it is seen", async () => {
    await page.evaluate(`location.hash = "/agents"`);
    await page.until(shows("Agents"));
    await demand("create late");
    await page.front();
    await page.until(`[...document.querySelectorAll("main a")].some((link) => link.textContent === "late")`);
    await page.until(`document.getElementById("line").textContent === "connected"`);
  });

  await step("of all that are hidden one stays, so that somebody is there to be asked", async () => {
    await open("about:blank");
    await page.until(hidden);
    const end = Date.now() + PATIENCE_MS;
    for (let counts = []; counts.reduce((sum, count) => sum + count, 0) !== 1;) {
      if (Date.now() > end) throw new Error(`streams that are open: ${counts}`);
      counts = await Promise.all(pages.map(({ evaluate }) => evaluate(OPEN)));
    }
  });
}

let code = 0;
try {
  await script();
} catch (error) {
  code = 1;
  say({ failed: String(error.message ?? error) });
}
await Promise.race([call("Browser.close"), new Promise((resolve) => browser.once("exit", resolve))]);
if (browser.exitCode === null && browser.signalCode === null) await new Promise((resolve) => browser.once("exit", resolve));
rmSync(profile, { recursive: true, force: true });
process.exit(code);
