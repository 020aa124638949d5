// Workspaces that are lent, and the node they are lent to: a countdown, a cancel, the changes, an undo.

import { browse, equal, part, step } from "./browser.mjs";

browse(async ({ page, link }) => {
  const main = page.getByRole("main");
  await page.goto(link);

  await step("the peer is on the picture and in the list", async () => {
    await part(page, "Peers");
    await main.getByRole("img", { name: /^desk knows build-box online/ }).waitFor();
    await main.getByRole("listitem").filter({ hasText: "build-box" }).first().getByText("worker").waitFor();
  });

  await step("a lease counts down and is cancelled", async () => {
    await part(page, "Delegations");
    const row = main.getByRole("listitem").filter({ hasText: "wait for ever" });
    await row.getByText("running").waitFor();
    const left = row.locator(".countdown");
    const before = await left.innerText();
    await page.waitForFunction(([shown, words]) => shown.textContent !== words, [await left.elementHandle(), before]);
    await row.getByRole("button", { name: /^Cancel/ }).click();
    await row.getByText("cancelled").waitFor();
    equal(await row.locator(".countdown").count(), 0, "countdowns of a lease that is over");
  });

  await step("its changes are read line by line", async () => {
    await main.getByRole("link", { name: "count with digits" }).click();
    await page.getByRole("heading", { level: 1, name: "count with digits" }).waitFor();
    await main.getByText("Counted with digits.").waitFor();
    await main.getByText("added result.txt").waitFor();
    await main.locator(".diff .minus", { hasText: "-two" }).waitFor();
    await main.locator(".diff .plus", { hasText: "+2" }).waitFor();
  });

  await step("they are undone", async () => {
    page.once("dialog", (dialog) => dialog.accept());
    const undone = page.waitForResponse((response) => response.url().endsWith("/undo"));
    await page.getByRole("button", { name: "Undo the changes" }).click();
    equal((await undone).status(), 200, "the answer");
  });
});
