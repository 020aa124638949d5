// The node at a glance.

import { get } from "../api.js";
import { fill, keep, make, plural, tag, top } from "../dom.js";
import { row as journalRow } from "./journal.js";

/** Lines that are shown. What the page itself asks for is no news. */
const RECENT = 8;

const card = (count, words, href, tone) => make("li", {},
  make("a", { class: `card ${tone}`, href }, make("strong", {}, String(count)), make("span", {}, words)));

export async function show(place) {
  const start = make("div", { class: "panel start", hidden: true }, make("h2", {}, "Begin here"), make("ol", {},
    make("li", {}, make("a", { href: "#/agents" }, "Create an agent"), " from a template, and start it."),
    make("li", {}, "Press ", make("strong", {}, "Talk"), " and say what it shall do."),
    make("li", {}, "What it may not do by itself, it asks you: see ", make("a", { href: "#/asks" }, "Asks"), ".")));
  const [cards, busy, recent, head] = [make("ul", { class: "cards" }), make("ul", { class: "rows" }), make("ul", { class: "rows lines" }), make("div", {})];
  fill(place, head, cards,
    start, make("h2", {}, "Busy now"), busy, make("h2", {}, "Lately"), recent);
  const update = async () => {
    const [node, sessions, lines] = await Promise.all([get("/api/overview"), get("/api/sessions"), get(`/api/journal?news=true&limit=${RECENT}`)]);
    fill(head, top("Overview", `${node.name} runs AgentCraft ${node.version}`));
    const counts = [
      [node.running, node.runnable < node.agents ? `of ${plural(node.runnable, "agent")} running, ${node.agents - node.runnable} more without a process` : `of ${plural(node.agents, "agent")} running`, "#/agents", "good"],
      [node.busy, `of ${plural(node.sessions, "session")} busy`, "#/sessions", ""],
      [node.asks, node.asks === 1 ? "ask waits for you" : "asks wait for you", "#/asks", node.asks ? "warn" : ""],
    ];
    start.hidden = node.agents > 0;
    keep(cards, counts, ([, , href]) => href, (item) => card(...item), "");
    const working = sessions.filter((session) => session.busy).map(({ sessionId, agentName, asks, prompt }) => ({ sessionId, agentName, asks, prompt }));
    keep(busy, working, ({ sessionId }) => sessionId, ({ sessionId, agentName, asks, prompt }) =>
      make("li", { class: "row" }, make("span", { class: "grow" }, make("a", { href: `#/sessions/${encodeURIComponent(sessionId)}` }, agentName), prompt ? make("span", { class: "quote" }, prompt) : null),
        asks ? make("a", { class: "tag warn", href: "#/asks" }, plural(asks, "ask")) : null, tag("busy")),
    "No turn runs at the moment.");
    keep(recent, lines, ({ seq }) => seq, journalRow, "Nothing has happened yet.");
  };
  await update();
  return { update };
}
