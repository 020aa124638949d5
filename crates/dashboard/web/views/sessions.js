// Sessions: the list, and one of them with its transcript as it grows.

import { get, post, remove } from "../api.js";
import { attempt } from "../app.js";
import { fill, keep, make, moment, plural, tag, top } from "../dom.js";
import { transcript } from "../transcript.js";

const OVER = ["closed", "expired"];

export async function show(place, [id]) {
  return id ? one(place, id) : all(place);
}

async function all(place) {
  const list = make("ul", { class: "rows" });
  const row = (session) => make("li", { class: "row" },
    make("span", { class: "grow" },
      make("a", { href: `#/sessions/${encodeURIComponent(session.sessionId)}` }, session.agentName),
      session.prompt ? make("span", { class: "quote" }, session.prompt) : null,
      make("small", {}, `${plural(session.turns, "turn")}${session.clients ? ` · ${session.clients} watching` : ""} · last active `, moment(session.lastActivityAt))),
    session.asks ? make("a", { class: "tag warn", href: "#/asks" }, plural(session.asks, "ask")) : null,
    tag(session.busy ? "busy" : session.state));
  fill(place, top("Sessions", "A conversation goes on when the page is closed, and when the node restarts."), list);
  const update = async () => keep(list, await get("/api/sessions"), ({ sessionId }) => sessionId, row, () => ["Nobody is talking yet. ", make("a", { href: "#/agents" }, "Choose an agent"), " and press Talk."]);
  await update();
  return { update };
}

async function one(place, id) {
  const path = `/api/sessions/${encodeURIComponent(id)}`;
  const [session, workflows] = await Promise.all([get(path), get("/api/workflows").catch(() => [])]);
  const state = make("span", { role: "status" }, tag(session.busy ? "busy" : session.state));
  const cancel = make("button", { disabled: !session.busy, onclick: attempt(() => post(`${path}/cancel`)) }, "Cancel the turn");
  const view = transcript(id, workflows, (isBusy) => {
    cancel.disabled = !isBusy;
    fill(state, tag(isBusy ? "busy" : "ready"));
  });
  const head = top(session.agentName, `Session ${id}`, make("div", { class: "acts" }, state, cancel,
    make("button", { class: "danger", onclick: attempt(async () => {
      if (!confirm("End this conversation? Its history stays.")) return;
      await remove(path);
      location.hash = "/sessions";
    }) }, "End")));
  const input = make("textarea", { rows: "2", name: "text", required: true, "aria-label": "Prompt", placeholder: "Say something. Enter sends, Shift+Enter begins a line." });
  const send = make("form", { class: "composer", onsubmit: attempt(async () => {
    await post(`${path}/prompt`, { text: input.value });
    input.value = "";
    scrollTo(0, document.documentElement.scrollHeight);
  }) }, input, make("button", { class: "main" }, "Send"));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send.requestSubmit();
    }
  });
  const isOver = OVER.includes(session.state);
  if (isOver) fill(head.querySelector(".acts"), tag(session.state));
  fill(place, head, view.element, isOver ? make("p", { class: "empty" }, "This conversation is over.") : send);
  return { session: id, from: view.next, onSession: view.take, anew: view.anew };
}
