// Every part in both themes and at both widths: nothing that a rule of accessible pages forbids, nothing too wide.

import { browse, faults, part, step } from "./browser.mjs";

const PARTS = ["Overview", "Agents", "Sessions", "Asks", "Workflows", "Runs", "Peers", "Offices", "Delegations", "Journal", "Usage"];
const SIZES = { narrow: { width: 360, height: 780 }, wide: { width: 1440, height: 900 } };
/** Where pictures of everything go, for people who look. */
const shots = process.env.DASHBOARD_SHOTS;
/** Each theme and each width once; their combinations differ in nothing that a rule sees. */
const LOOKS = [["narrow", "light"], ["wide", "dark"]].concat(shots ? [["narrow", "dark"], ["wide", "light"]] : []);

browse(async ({ page, link }) => {
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const look = async (name) => {
    for (const [width, theme] of LOOKS) {
      await page.setViewportSize(SIZES[width]);
      await page.emulateMedia({ colorScheme: theme });
      const where = `${name} ${width} ${theme}`;
      await step(where, () => faults(page, where));
      if (shots) await page.screenshot({ path: `${shots}/${name.toLowerCase().replaceAll(" ", "-")}-${width}-${theme}.png` });
    }
    await page.setViewportSize(SIZES.wide);
  };
  await step("a conversation with a bit of everything, and an ask that waits", async () => {
    await part(page, "Agents");
    await page.getByRole("button", { name: "Talk to writer" }).click();
    const prompt = page.getByRole("textbox", { name: "Prompt" });
    const send = async (text) => {
      await prompt.fill(text);
      await prompt.press("Enter");
    };
    const over = (count) => page.waitForFunction((wanted) => document.querySelectorAll(".notice.end").length >= wanted, count);
    await send("/think How should the notes be ordered?");
    await over(1);
    await send("/write notes.md # Notes");
    await page.locator(".said.ask").getByRole("button", { name: /allow/i }).first().click();
    await over(2);
    await send("/plan read the notes; order them; say what changed");
    await over(3);
    await send("/write notes.md # Notes, in order");
    await page.locator(".said.ask:not(.settled)").waitFor();
  });
  await step("a workflow that has been run", async () => {
    await part(page, "Workflows");
    await page.getByRole("main").getByRole("link", { name: "loops" }).click();
    await page.getByRole("button", { name: "Run" }).click();
    await page.locator(".notice.end").waitFor();
  });
  await look("One run");
  for (const name of PARTS) {
    await part(page, name);
    await look(name);
  }
  const deep = async (name, from, target) => {
    await part(page, from);
    await page.getByRole("main").getByRole("link", { name: target }).first().click();
    await page.getByRole("heading", { level: 1, name: target }).waitFor();
    await look(name);
  };
  await deep("One session", "Sessions", "writer");
  await deep("One computer", "Offices", "nova");
  await deep("One agent", "Agents", "writer");
  await deep("One workflow", "Workflows", "release");
  await deep("One delegation", "Delegations", "count with digits");
});
