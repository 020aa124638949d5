// The frame of the page: which part is shown, the line to the node, and what is told when something goes wrong.

import { follow, get } from "./api.js";
import { fill, make } from "./dom.js";
import * as overview from "./views/overview.js";
import * as agents from "./views/agents.js";
import * as sessions from "./views/sessions.js";
import * as asks from "./views/asks.js";
import * as workflows from "./views/workflows.js";
import * as records from "./views/records.js";
import * as journal from "./views/journal.js";
import * as usage from "./views/usage.js";

const PARTS = [
  ["overview", "Overview", overview.show],
  ["agents", "Agents", agents.show],
  ["sessions", "Sessions", sessions.show],
  ["asks", "Asks", asks.show],
  ["workflows", "Workflows", workflows.show],
  ["runs", "Runs", records.runs],
  ["peers", "Peers", records.peers],
  ["offices", "Offices", records.offices],
  ["delegations", "Delegations", records.delegations],
  ["journal", "Journal", journal.show],
  ["usage", "Usage", usage.show],
];

const main = document.getElementById("main");
const line = document.getElementById("line");
let current = null;
let unfollow = () => {};
let refresh = null;

/** Says what went wrong, for a while. */
export function say(error) {
  const says = document.getElementById("says");
  const words = make("p", {}, error.message ?? String(error));
  fill(says, words);
  setTimeout(() => words.remove(), 8000);
}

/** Does something for the user and tells if it failed. */
export const attempt = (act) => async (event) => {
  event?.preventDefault();
  const button = event?.submitter ?? event?.currentTarget;
  if (button instanceof HTMLButtonElement) button.disabled = true;
  try {
    await act(event);
  } catch (error) {
    say(error);
  } finally {
    if (button instanceof HTMLButtonElement) button.disabled = false;
  }
};

function connect(view) {
  unfollow();
  unfollow = follow({
    session: view.session,
    from: view.from,
    onJournal: (row) => {
      view.onJournal?.(row);
      if (!view.onJournal) soon();
    },
    onSession: (event) => view.onSession?.(event),
    onLine: (state) => {
      line.textContent = state;
      line.className = state === "connected" ? "" : "broken";
      if (state === "connected" && refresh === "late") soon();
      refresh = state === "connected" ? null : "late";
      // A stream that the browser gave up on is begun anew, by us.
      if (state === "closed") setTimeout(() => connect(view), 1000);
    },
  });
}

let planned = null;
function soon() {
  if (planned) return;
  planned = setTimeout(async () => {
    planned = null;
    try {
      await current?.update?.();
    } catch (error) {
      say(error);
    }
  }, 150);
}

async function open() {
  const [name, ...rest] = (location.hash.slice(1) || "overview").split("/").map(decodeURIComponent);
  const [, title, show] = PARTS.find(([part]) => part === name) ?? PARTS[0];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${title} · AgentCraft`;
  const place = make("section", { "aria-label": title });
  fill(main, place);
  try {
    current = (await show(place, rest)) ?? {};
    connect(current);
  } catch (error) {
    fill(place, make("h1", {}, title), make("p", {}, error.message));
    current = {};
  }
  main.focus();
}

fill(document.getElementById("parts"), PARTS.map(([name, title]) =>
  make("li", {}, make("a", { href: `#${name}` }, title))));
get("/api/overview").then((node) => {
  document.getElementById("node").textContent = node.name || "AgentCraft";
}).catch(say);
addEventListener("hashchange", open);
open();
