// The frame of the page: which part is shown, the line to the node, and what is told when something goes wrong.

import { follow, get, hangUp, post } from "./api.js";
import { fill, make } from "./dom.js";
import { icon } from "./icons.js";
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

/** How long a page may be hidden before it lets go of its stream, and how long it is waited for a node that may be gone. */
const HIDDEN_MS = 2000, THERE_MS = 4000;

/** How long something may take before it is told that it is under way, and how often it is looked whether somebody has logged
 * in anew, in another window of this browser. */
const SLOW_MS = 1000, LOGIN_MS = 15000;

/** Connections that a browser has to a node: on a line that died each of them may be dead. */
const CONNECTIONS = 6;

const main = document.getElementById("main");
const line = document.getElementById("line");
let current = {};
let opened = 0;
let stream = null;
let isBroken = false;
/** The stream is closed and will be begun anew; nobody sees the page and it has let go of its stream. */
let isReturning = false, isAway = false;
/** Nobody is logged in; and how often it was begun to wait for the node. */
let isOut = false, waits = 0;

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
  const words = make("p", {}, "Waiting for the node…");
  const slow = setTimeout(() => document.getElementById("busy").append(words), SLOW_MS);
  try {
    await act(event);
  } catch (error) {
    say(error);
  } finally {
    clearTimeout(slow);
    words.remove();
    place?.removeAttribute("aria-busy");
  }
};

/** Whoever waits for the line. */
let hopeful = [];

/** Does something that may be done twice, once more on another line if this one dies under it. */
export async function insist(act) {
  try {
    return await act();
  } catch (error) {
    if (!error.isCut) throw error;
    if (isBroken) await new Promise((resolve) => hopeful.push(resolve));
    return act();
  }
}

function tell(state) {
  line.textContent = state;
  line.className = state === "connected" ? "" : "broken";
  if (state !== "connected") return;
  for (const resolve of hopeful) resolve();
  hopeful = [];
}

function connect(view, number) {
  isReturning = isOut = false;
  stream?.close();
  stream = follow({
    session: view.session,
    from: view.from?.() ?? 1,
    // The list was read before the stream began; what happened in between is in neither.
    onHello: () => soon(),
    onOver: () => soon(),
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

function again(view, number, tries = 1, pause = AGAIN_MS) {
  isReturning = true;
  const mine = waits += 1;
  setTimeout(async () => {
    if (mine !== waits) return; // It was tried sooner.
    if (number !== opened || isAway) return;
    try {
      await Promise.any(Array.from({ length: tries }, () => get("/api/overview", THERE_MS)));
      if (number === opened && !isAway) connect(view, number);
    } catch ({ errors }) {
      if (errors.some(({ isLogin }) => isLogin)) return leave();
      tell("reconnecting");
      again(view, number, tries);
    }
  }, pause);
}

/** Nobody is logged in here any more: nothing is asked for until somebody is. */
function leave() {
  stream?.close();
  isBroken = isOut = true;
  tell("logged out: run agentcraft dashboard");
  again(current, opened, 1, LOGIN_MS);
}

let planned = null;
function soon() {
  planned ??= setTimeout(async () => {
    planned = null;
    try {
      await Promise.all([current.update?.(), count()]);
    } catch (error) {
      if (error.isLogin && !isOut) leave();
      // The line says it already while it is broken.
      else if (!isBroken) say(error);
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

/** A part of the address; what was not written by this page is taken as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Follows anew: a line that is dead looks like one where nothing happens. */
function reconnect() {
  if (isAway || isReturning) return;
  stream?.close();
  hangUp();
  tell("reconnecting");
  isBroken = true;
  again(current, opened, CONNECTIONS);
}

// Browsers open six connections to a node, and each page that is open holds one. So a page that nobody sees lets go of its
// stream, and reads everything anew when it is seen; of all that are hidden one stays, so that the node knows that somebody
// is there to be asked. Without locks, which a browser has on a safe line alone, each of them stays.
let seen = null;
function hide() {
  if (!navigator.locks) return;
  seen = new AbortController();
  const { signal } = seen;
  let isOurs = false;
  navigator.locks.request("agentcraft-hidden-page", { signal }, () => {
    if (signal.aborted) return null;
    isOurs = true;
    if (isAway) comeBack();
    return new Promise((resolve) => signal.addEventListener("abort", resolve));
  }).catch(() => {}); // It was seen before it was its turn.
  setTimeout(() => {
    if (isOurs || signal.aborted) return;
    [isAway, isReturning] = [true, false];
    stream?.close();
  }, HIDDEN_MS);
}

function comeBack() {
  isAway = false;
  connect(current, opened);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return hide();
  seen?.abort();
  if (isAway) comeBack();
  else if (isOut) again(current, opened, 1, 0);
  else if (stream?.isDead()) reconnect();
});
addEventListener("online", reconnect);
addEventListener("pageshow", (event) => { if (event.persisted) reconnect(); });

async function open() {
  const number = opened += 1;
  const [name, ...rest] = (location.hash.replace(/^#\/?/, "") || "overview").split("/").map(decoded);
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
    view = { update: () => retry(number, place, show, rest) };
  }
  if (number !== opened) return; // Somebody went on meanwhile.
  current = view;
  fill(main, place);
  scrollTo(0, 0);
  if (number > 1) main.focus({ preventScroll: true });
  if (!isAway) connect(current, number);
}

/** A part that could not be shown, while the node was away or before there was anything, is shown as soon as it can be. */
async function retry(number, before, show, rest) {
  const place = make("div", {});
  let view;
  try {
    view = (await show(place, rest)) ?? {};
  } catch (error) {
    if (error.isLogin) throw error;
    const said = before.querySelector(".empty");
    if (said && said.textContent !== error.message) said.textContent = error.message;
    return;
  }
  if (number !== opened) return;
  current = view;
  fill(main, place);
  // Its session is followed from here on; the other parts live from the stream that is there.
  if (view.session && !isAway) connect(view, number);
}

// A page that nobody sees looks at nothing.
let isLooking = false;
setInterval(async () => {
  if (!isOut && stream?.isDead()) reconnect();
  if (document.hidden || isBroken || isLooking) return;
  isLooking = true;
  try {
    await current.beat?.();
  } catch {
    // The next one may work.
  }
  isLooking = false;
}, BEAT_MS);

fill(document.getElementById("parts"), PARTS.map(([name, title]) =>
  make("li", {}, make("a", { href: `#/${name}` }, icon(name), title, name === "asks" ? make("span", { id: "waiting", class: "badge", hidden: true }) : null))));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("leave").addEventListener("click", attempt(async () => {
  await post("/logout");
  location.reload();
}));
count().catch(say);
if (document.hidden) hide();
addEventListener("hashchange", open);
addEventListener("resize", reveal);
open();
