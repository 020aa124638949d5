// The node at a glance.

import { get } from "../api.js";
import { fill, keep, make, plural, tag, top } from "../dom.js";
import { row as journalRow } from "./journal.js";

const RECENT = 8;

const card = (count, words, href, tone) => make("li", {},
  make("a", { class: `card ${tone}`, href }, make("strong", {}, String(count)), make("span", {}, words)));

export async function show(place) {
  const [cards, busy, recent, head] = [make("ul", { class: "cards" }), make("ul", { class: "rows" }), make("ul", { class: "rows lines" }), make("div", {})];
  fill(place, head, cards,
    make("h2", {}, "Busy now"), busy, make("h2", {}, "Lately"), recent);
  const update = async () => {
    const [node, sessions, lines] = await Promise.all([get("/api/overview"), get("/api/sessions"), get(`/api/journal?limit=${RECENT}`)]);
    fill(head, top("Overview", `${node.name} runs AgentCraft ${node.version}`));
    const counts = [
      [node.running, `of ${plural(node.agents, "agent")} running`, "#agents", "good"],
      [node.busy, `of ${plural(node.sessions, "session")} busy`, "#sessions", ""],
      [node.asks, node.asks === 1 ? "ask waits for you" : "asks wait for you", "#asks", node.asks ? "warn" : ""],
    ];
    keep(cards, counts, ([, , href]) => href, (item) => card(...item), "");
    const working = sessions.filter((session) => session.busy).map(({ sessionId, agentName, asks }) => ({ sessionId, agentName, asks }));
    keep(busy, working, ({ sessionId }) => sessionId, ({ sessionId, agentName, asks }) =>
      make("li", { class: "row" }, make("a", { class: "grow", href: `#sessions/${encodeURIComponent(sessionId)}` }, agentName), tag(asks ? "waiting" : "busy")),
    "No turn runs at the moment.");
    keep(recent, lines, ({ seq }) => seq, journalRow, "Nothing has happened yet.");
  };
  await update();
  return { update };
}
