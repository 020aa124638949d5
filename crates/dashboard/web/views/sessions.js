// Sessions: the list, and one of them with its transcript as it grows.

import { get, post, remove } from "../api.js";
import { attempt } from "../app.js";
import { fill, make, moment, tag } from "../dom.js";
import { transcript } from "../transcript.js";

export async function show(place, [id]) {
  return id ? one(place, id) : all(place);
}

async function all(place) {
  const update = async () => {
    const sessions = await get("/api/sessions");
    const row = (session) => make("li", { class: "row" },
      make("span", { class: "grow" },
        make("a", { href: `#sessions/${encodeURIComponent(session.sessionId)}` }, session.agentName), " ",
        make("small", {}, `${session.turns} turns · ${session.clients} watching · `, moment(session.lastActivityAt))),
      session.asks ? make("a", { class: "tag warn", href: "#asks" }, `${session.asks} asks`) : null,
      tag(session.busy ? "running" : session.state));
    fill(place, make("h1", {}, "Sessions"),
      make("ul", { class: "rows" }, sessions.length ? sessions.map(row)
        : make("li", { class: "soft" }, "Nobody is talking. Begin with an agent.")));
  };
  await update();
  return { update };
}

async function one(place, id) {
  const view = transcript(id);
  const input = make("textarea", { rows: "2", name: "text", required: true, "aria-label": "Prompt", placeholder: "Say something" });
  const path = `/api/sessions/${encodeURIComponent(id)}`;
  const send = make("form", { class: "composer", onsubmit: attempt(async () => {
    await post(`${path}/prompt`, { text: input.value });
    input.value = "";
  }) }, input, make("button", { class: "main" }, "Send"));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send.requestSubmit();
    }
  });
  fill(place,
    make("h1", {}, "Session"),
    make("p", { class: "row" }, make("small", { class: "grow" }, id),
      make("button", { onclick: attempt(() => post(`${path}/cancel`)) }, "Cancel the turn"),
      make("button", { class: "danger", onclick: attempt(async () => {
        await remove(path);
        location.hash = "sessions";
      }) }, "End")),
    view.element, send);
  return { session: id, from: 1, onSession: view.take, onJournal: () => {} };
}
