// Sessions: the list, and one of them with its transcript as it grows.

import { get, post, remove } from "../api.js";
import { attempt, insist } from "../app.js";
import { fill, keep, make, moment, plural, stateOf, tag, top } from "../dom.js";
import { transcript } from "../transcript.js";
import { needsStart, titleOf } from "./agents.js";

const OVER = ["closed", "expired"];
/** An agent in one of these takes no prompt before it is started. */
const ABSENT = ["stopped", "crashed", "error", "created"];
/** Letters of a prompt that waits, and how long events are gathered before it is asked what waits. */
const WAITING_MAX = 300, GATHER_MS = 150;
/** What was begun to be written in each session, for those who look at something else meanwhile. */
const drafts = new Map();
/** How near to its end a page is at its end; and sessions that are shown at first. */
const END_NEAR = 160, SHOWN = 50;

export async function show(place, [id]) {
  return id ? one(place, id) : all(place);
}

async function all(place) {
  const list = make("ul", { class: "rows" });
  const row = (session) => make("li", { class: "row" },
    make("span", { class: "grow" },
      make("a", { href: `#/sessions/${encodeURIComponent(session.sessionId)}`, "aria-label": `${session.name}: ${session.prompt ?? "nothing said yet"}` }, session.name),
      session.prompt ? make("span", { class: "quote" }, session.prompt) : null,
      make("small", {}, `${plural(session.turns, "turn")}${session.clients ? ` · ${session.clients} watching` : ""} · last active `, moment(session.lastActivityAt))),
    make("span", { class: "tags" }, session.asks ? make("a", { class: "tag warn", href: "#/asks" }, plural(session.asks, "ask")) : null, tag(stateOf(session))));
  let [known, shown] = [[], SHOWN];
  const words = make("input", { type: "search", name: "words", autocomplete: "off", oninput: () => filter() });
  const states = make("select", { name: "state", onchange: () => filter() }, [["", "All"], ["busy", "Busy"], ["asks", "Waiting for an answer"], ["ready", "Ready"]].map(([value, title]) => make("option", { value }, title)));
  const search = make("form", { class: "panel inline", role: "search", onsubmit: (event) => event.preventDefault() }, make("label", {}, "Agent or words", words), make("label", {}, "State", states));
  const more = make("button", { onclick: () => { shown += SHOWN; filter(); } }, "More sessions");
  fill(place, top("Sessions", "A conversation goes on when the page is closed, and when the node restarts."), search, list, more);
  const filter = () => {
    const wanted = words.value.trim().toLowerCase();
    const has = (session) => [session.name, session.agentName, session.prompt, session.sessionId].some((text) => text?.toLowerCase().includes(wanted));
    const is = (session) => !states.value || (states.value === "asks" ? session.asks > 0 : stateOf(session) === states.value);
    const found = known.filter((session) => has(session) && is(session));
    search.hidden = !known.length;
    more.hidden = found.length <= shown;
    keep(list, found.slice(0, shown), ({ sessionId }) => sessionId, row, () => (known.length ? "None is like that." : ["Nobody is talking yet. ", make("a", { href: "#/agents" }, "Choose an agent"), " and press Talk."]));
  };
  const update = async () => {
    const [sessions, agents] = await Promise.all([get("/api/sessions"), get("/api/agents")]);
    const names = new Map(agents.map((agent) => [agent.name, titleOf(agent)]));
    known = sessions.map((session) => ({ ...session, name: names.get(session.agentName) ?? session.agentName }));
    filter();
  };
  await update();
  return { update };
}

/** Prompts that wait for the turns before them, each of which can be taken back. */
function queue(path, after) {
  const list = make("ul", { class: "rows queue", "aria-label": "Prompts that wait" });
  const row = ({ turn, text }) => make("li", { class: "row" },
    make("span", { class: "grow" }, make("span", { class: "quote" }, text.length > WAITING_MAX ? `${text.slice(0, WAITING_MAX)}…` : text),
      make("small", {}, "will be sent after this turn")),
    make("button", { id: `take-back-${turn}`, "aria-label": `Take back: ${text.slice(0, WAITING_MAX)}`, onclick: attempt(async () => {
      await remove(`${path}/turns/${turn}`);
      await after();
    }) }, "Take back"));
  return { list, show: (prompts) => {
    list.hidden = !prompts.length;
    keep(list, prompts, ({ turn }) => turn, row, "");
  } };
}

/** Says that nobody is there to take a prompt, and starts the agent. */
function absent(agent, after) {
  return [make("p", { class: "grow" }, make("strong", {}, agent.name), ` is ${agent.status}. ${agent.reason ?? ""}`),
    make("button", { class: "main", onclick: attempt(async () => {
      await post(`/api/agents/${encodeURIComponent(agent.name)}/start`);
      await after();
    }) }, `Start ${agent.name}`)];
}

async function one(place, id) {
  const path = `/api/sessions/${encodeURIComponent(id)}`;
  const [session, workflows, known] = await Promise.all([get(path), get("/api/workflows").catch(() => []), get("/api/agents")]);
  const speaker = known.find(({ name }) => name === session.agentName);
  const own = speaker?.backendType === "workflow" ? speaker.backendConfig?.workflow : null;
  const state = make("span", { role: "status" }, tag(stateOf(session)));
  const cancel = make("button", { disabled: !session.busy, onclick: attempt(() => post(`${path}/cancel`)) }, "Cancel the turn");
  let isBusy = session.busy, planned = null;
  const view = transcript(id, workflows, own, (isNow) => {
    if (isNow !== null) {
      isBusy = isNow;
      cancel.disabled = !isNow;
      fill(state, tag(isNow ? "busy" : "ready"));
    }
    // A transcript that is read from its beginning tells of many turns at once.
    planned ??= setTimeout(() => {
      planned = null;
      look().catch(() => {}); // The next event tells it, too.
    }, GATHER_MS);
  });
  const acts = make("div", { class: "acts" }, state,
    make("button", { class: "danger", onclick: attempt(async () => {
      if (!confirm("End this conversation? What was said in it stays in the journal.")) return;
      await remove(path);
      location.hash = "/sessions";
    }) }, "End"));
  const input = make("textarea", { rows: "2", name: "text", required: true, "aria-label": "Prompt", placeholder: "Say something. Enter sends, Shift+Enter begins a line.",
    value: drafts.get(id) ?? "", oninput: () => drafts.set(id, input.value) });
  // One after the other, in the order in which they were sent; what could not be sent is in the box again. With its key it is the
  // same prompt, however often it is sent.
  let outbox = Promise.resolve(), failed = null;
  const deliver = (prompt) => attempt(async () => {
    try {
      await insist(() => post(`${path}/prompt`, prompt));
    } catch (error) {
      failed = prompt;
      input.value = [prompt.text, input.value].filter(Boolean).join("\n");
      drafts.set(id, input.value);
      throw error;
    }
    scrollTo(0, document.documentElement.scrollHeight);
    await look();
  })();
  const send = make("form", { class: "composer", onsubmit: (event) => {
    event.preventDefault();
    const text = input.value;
    const prompt = failed?.text === text ? failed : { text, key: Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("") };
    [failed, input.value] = [null, ""];
    drafts.delete(id);
    outbox = outbox.then(() => deliver(prompt));
  } }, input, make("div", { class: "acts" }, make("button", { class: "main" }, "Send"), cancel));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send.requestSubmit();
    }
  });
  // What waits tells nobody that it changes.
  const look = async () => {
    if (send.isConnected || !place.isConnected) waiting.show(await get(`${path}/waiting`));
  };
  const waiting = queue(path, look);
  const gone = make("div", { class: "panel inline trouble", hidden: true });
  const bottom = make("div", { class: "bottom" }, waiting.list, gone, send);
  const over = (word) => {
    fill(acts, tag(word));
    fill(bottom, make("p", { class: "empty" }, "This conversation is over. ", make("a", { href: `#/agents/${encodeURIComponent(session.agentName)}` }, "Its agent"), " may begin another one."));
  };
  const update = async () => {
    const [now, agents] = await Promise.all([get(path), get("/api/agents"), look()]);
    if (OVER.includes(now.state)) return over(now.state);
    const agent = agents.find(({ name }) => name === now.agentName);
    const isGone = agent && needsStart(agent) && ABSENT.includes(agent.status);
    if (gone.dataset.status !== (isGone ? agent.status : "")) fill(gone, isGone ? absent(agent, update) : null);
    gone.dataset.status = isGone ? agent.status : "";
    gone.hidden = !isGone;
  };
  // What grows at the bottom pushes nothing out of sight that was in it.
  let height = 0;
  new ResizeObserver(() => {
    const grown = bottom.offsetHeight - height;
    height = bottom.offsetHeight;
    if (grown > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - grown - END_NEAR) scrollTo(0, document.documentElement.scrollHeight);
  }).observe(bottom);
  fill(place, top(speaker ? titleOf(speaker) : session.agentName, `Session ${id}`, acts), view.element, bottom);
  await update();
  return { session: id, from: view.next, onSession: view.take, anew: view.anew, update, beat: () => (isBusy ? look() : null) };
}
