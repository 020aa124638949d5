// What the scripts share: a browser, steps with names, and questions to the test that started us.
//
// A script prints one JSON line per step. Waits are for conditions of the page, never for time.

import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const modules = createRequire(join(process.env.DASHBOARD_MODULES, "x.js"));
const { chromium } = modules("playwright-core");
const axe = modules.resolve("axe-core/axe.min.js");

export const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];
/** How long a condition of the page may take, on a machine that is busy with other tests. */
export const PATIENCE_MS = 30000;

export const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Does something under a name; a failure says which it was. */
export async function step(name, act) {
  try {
    const found = await act();
    say({ step: name });
    return found;
  } catch (error) {
    say({ step: name, failed: String(error.stack ?? error) });
    throw error;
  }
}

/** Asks the test to do something, and waits until it has. */
export async function demand(what) {
  say({ demand: what });
  return (await answers.next()).value;
}

/** Opens a browser for the script; `errors` are what the page itself complained about. */
export async function browse(script) {
  const [link] = process.argv.slice(2);
  const profile = mkdtempSync(join(tmpdir(), "agentcraft-browser-"));
  let code = 0;
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.DASHBOARD_CHROMIUM, args: FLAGS, viewport: { width: 1440, height: 900 }, reducedMotion: "reduce",
  });
  try {
    context.setDefaultTimeout(PATIENCE_MS);
    const page = context.pages()[0] ?? await context.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("console", (message) => {
      // A line that breaks is part of some scripts, and the page says it itself.
      if (message.type() === "error" && !/net::ERR_|Failed to load resource/.test(message.text())) errors.push(message.text());
    });
    await script({ page, context, link, origin: new URL(link).origin });
    await step("nothing went wrong in the page", async () => {
      if (errors.length) throw new Error(errors.join("\n"));
    });
  } catch (error) {
    code = 1;
    say({ failed: String(error.message ?? error) });
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
  process.exit(code);
}

export function equal(found, wanted, what) {
  if (found !== wanted) throw new Error(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
}

/** Opens a part by its link, and waits until it is there. */
export async function part(page, name, title = name) {
  await page.getByRole("navigation").getByRole("link", { name: new RegExp(`^${name}`) }).click();
  await page.getByRole("heading", { level: 1, name: title }).waitFor();
}

/** Every rule that the page breaks, in words; wide pages break one too. */
export async function faults(page, where) {
  if (!await page.evaluate(() => "axe" in window)) {
    await page.evaluate(modules("node:fs").readFileSync(axe, "utf8"));
  }
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    const words = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html, any }) => `${html} ${any.map(({ message }) => message).join("; ")}`).join(" | ")}`);
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) words.push(`the page is ${scrollWidth} wide in a window of ${clientWidth}`);
    return words;
  });
  if (found.length) throw new Error(`${where}:\n${found.join("\n")}`);
}
