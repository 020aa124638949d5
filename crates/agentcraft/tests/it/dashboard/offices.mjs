// An office with a computer in it: who is there, its tools, and a call of one from the console.

import { browse, demand, equal, faults, part, step } from "./browser.mjs";

browse(async ({ page, link }) => {
  const main = page.getByRole("main");
  await page.goto(link);

  await step("the computer is in its office", async () => {
    await part(page, "Offices");
    const office = main.getByRole("listitem").filter({ hasText: "studio" }).first();
    await office.getByText("1 computer").waitFor();
    await office.getByRole("link", { name: "nova" }).click();
    await page.getByRole("heading", { level: 1, name: "nova" }).waitFor();
  });

  await step("a tool is called with a form made from what it takes", async () => {
    await main.locator("summary", { hasText: "Adds two numbers." }).click();
    await page.getByLabel("a", { exact: true }).fill("40");
    await page.getByLabel("b", { exact: true }).fill("2");
    await page.getByRole("button", { name: "Call" }).click();
    await main.getByRole("status").getByText("completed").waitFor();
    equal((await main.getByRole("status").locator("pre").innerText()).trim(), "42", "the answer");
    await faults(page, "the console");
  });

  await step("a computer that leaves goes from the page", async () => {
    await part(page, "Offices");
    await main.getByRole("link", { name: "nova" }).waitFor();
    await demand("leave");
    await page.getByText("Nobody is in an office").waitFor();
  });
});
