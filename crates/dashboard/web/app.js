// The frame of the page: which part is shown, the line to the node, and what is told when something goes wrong.

import { follow, get } from "./api.js";
import { fill, make } from "./dom.js";
import * as overview from "./views/overview.js";
import * as agents from "./views/agents.js";
import * as sessions from "./views/sessions.js";
import * as asks from "./views/asks.js";
import * as workflows from "./views/workflows.js";
import * as runs from "./views/runs.js";
import * as peers from "./views/peers.js";
import * as offices from "./views/offices.js";
import * as delegations from "./views/delegations.js";
import * as journal from "./views/journal.js";
import * as usage from "./views/usage.js";

const PARTS = [
  ["overview", "Overview", overview.show],
  ["agents", "Agents", agents.show],
  ["sessions", "Sessions", sessions.show],
  ["asks", "Asks", asks.show],
  ["workflows", "Workflows", workflows.show],
  ["runs", "Runs", runs.show],
  ["peers", "Peers", peers.show],
  ["offices", "Offices", offices.show],
  ["delegations", "Delegations", delegations.show],
  ["journal", "Journal", journal.show],
  ["usage", "Usage", usage.show],
];

/** How long a mistake is shown, how long lines of the journal are gathered, when a stream that ended is begun anew, and how
 * often a part looks at what tells nobody that it changes: clocks, logs, memory. */
const SAY_MS = 8000, GATHER_MS = 150, AGAIN_MS = 1500, BEAT_MS = 1000;

const main = document.getElementById("main");
const line = document.getElementById("line");
let current = {};
let opened = 0;
let unfollow = () => {};
let isBroken = false;

/** Says what went wrong, for a while. */
export function say(error) {
  const words = make("p", {}, error.message ?? String(error));
  fill(document.getElementById("says"), words);
  setTimeout(() => words.remove(), SAY_MS);
}

/** Does something for the user, once at a time, and tells if it failed. */
export const attempt = (act) => async (event) => {
  event?.preventDefault();
  const place = event?.currentTarget;
  if (place?.getAttribute("aria-busy") === "true") return;
  place?.setAttribute("aria-busy", "true");
  try {
    await act(event);
  } catch (error) {
    say(error);
  } finally {
    place?.removeAttribute("aria-busy");
  }
};

function tell(state) {
  line.textContent = state;
  line.className = state === "connected" ? "" : "broken";
}

function connect(view, number) {
  unfollow();
  unfollow = follow({
    session: view.session,
    from: view.from?.() ?? 1,
    onJournal: () => soon(),
    onMissed: () => soon(),
    onAnew: () => {
      view.anew?.();
      soon();
    },
    onSession: (event) => view.onSession?.(event),
    onLine: (state) => {
      tell(state === "closed" ? "reconnecting" : state);
      // What was missed in between is read anew.
      if (state === "connected" && isBroken) soon();
      isBroken = state !== "connected";
      // A stream that the browser gave up on is begun anew, by us.
      if (state === "closed") again(view, number);
    },
  });
}

function again(view, number) {
  setTimeout(async () => {
    if (number !== opened) return;
    try {
      await get("/api/overview");
      connect(view, number);
    } catch (error) {
      tell(error.isLogin ? "logged out: run agentcraft dashboard" : "reconnecting");
      again(view, number);
    }
  }, AGAIN_MS);
}

let planned = null;
function soon() {
  planned ??= setTimeout(async () => {
    planned = null;
    try {
      await Promise.all([current.update?.(), count()]);
    } catch (error) {
      // The line says it already while it is broken.
      if (!isBroken) say(error);
    }
  }, GATHER_MS);
}

/** What the frame shows of the node wherever one is: its name, and how much waits. */
async function count() {
  const node = await get("/api/overview");
  document.getElementById("node").textContent = node.name;
  const badge = document.getElementById("waiting");
  fill(badge, node.asks ? [String(node.asks), make("span", { class: "hidden" }, " waiting")] : null);
  badge.hidden = !node.asks;
}

/** Shows the link of the part where the links do not fit side by side. */
function reveal() {
  const link = document.querySelector("nav a[aria-current]");
  const nav = link?.closest("nav");
  // Not scrollIntoView: with it the next Tab would begin here instead of at the top of the page.
  if (nav) nav.scrollLeft = link.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
}

async function open() {
  const number = opened += 1;
  const [name, ...rest] = (location.hash.replace(/^#\/?/, "") || "overview").split("/").map(decodeURIComponent);
  const [part, title, show] = PARTS.find(([known]) => known === name) ?? PARTS[0];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${part}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  reveal();
  document.title = `${title} · AgentCraft`;
  const place = make("div", {});
  let view = {};
  try {
    view = (await show(place, rest)) ?? {};
  } catch (error) {
    fill(place, make("h1", {}, title), make("p", { class: "empty" }, error.message));
  }
  if (number !== opened) return; // Somebody went on meanwhile.
  current = view;
  fill(main, place);
  scrollTo(0, 0);
  if (number > 1) main.focus({ preventScroll: true });
  connect(current, number);
}

// A page that nobody sees looks at nothing.
setInterval(() => {
  if (!document.hidden && !isBroken) Promise.resolve(current.beat?.()).catch(() => {}); // The next one may work.
}, BEAT_MS);

fill(document.getElementById("parts"), PARTS.map(([name, title]) =>
  make("li", {}, make("a", { href: `#/${name}` }, title, name === "asks" ? make("span", { id: "waiting", class: "badge", hidden: true }) : null))));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
count().catch(say);
addEventListener("hashchange", open);
addEventListener("resize", reveal);
open();
