// The node at a glance: what waits for somebody, what goes on, how much there is of everything, what happened lately.

import { get } from "../api.js";
import { icon } from "../icons.js";
import { fill, keep, make, plural, tag, top } from "../dom.js";
import { row as askRow } from "./asks.js";
import { countdown, tick } from "./delegations.js";
import { row as journalRow } from "./journal.js";
import { plain } from "./runs.js";

/** Lines that are shown. What the page itself asks for is no news. */
const RECENT = 8;
/** Asks that are answered here; the rest are behind a link. */
const ASKS = 3;
/** How often, in seconds, it is looked at what tells nobody that it changes: who is in an office, which peer answers. */
const EVERY = 3;

const number = (counts = {}) => Object.values(counts).reduce((sum, count) => sum + count, 0);

/** Each part with its number, what that is the number of, and whether it is good or wants somebody. */
function counts(node, glance) {
  const { runs, tasks, workflows, peers, offices, delegations } = glance;
  const asked = runs.count + tasks.count;
  const waits = (count) => (count ? `, ${count} ${count === 1 ? "waits" : "wait"}` : "");
  const cards = [
    ["asks", node.asks, node.asks === 1 ? "ask waits for you" : "asks wait for you", node.asks ? "warn" : ""],
    ["agents", node.running, node.runnable < node.agents ? `of ${plural(node.runnable, "agent")} running, ${node.agents - node.runnable} more without a process` : `of ${plural(node.agents, "agent")} running`, node.running ? "good" : ""],
    ["sessions", node.busy, `of ${plural(node.sessions, "session")} busy`, node.busy ? "good" : ""],
    ["workflows", workflows.count, `${workflows.count === 1 ? "workflow runs" : "workflows run"}${waits(workflows.waiting)}`, workflows.waiting ? "warn" : workflows.count ? "good" : ""],
    ["runs", asked, `${asked === 1 ? "run" : "runs"} from the network open${waits(runs.waiting + tasks.waiting)}`, runs.waiting + tasks.waiting ? "warn" : asked ? "good" : ""],
  ];
  if (delegations) cards.push(["delegations", delegations.count, `${delegations.count === 1 ? "workspace" : "workspaces"} lent or taken${waits(delegations.waiting.length)}`, delegations.waiting.length ? "warn" : delegations.count ? "good" : ""]);
  if (peers) cards.push(["peers", peers.byStatus.online ?? 0, `of ${plural(number(peers.byStatus), "peer")} online${waits(peers.pairing.length)}`, peers.pairing.length ? "warn" : peers.byStatus.online ? "good" : ""]);
  cards.push(["offices", offices.count, `${offices.count === 1 ? "office" : "offices"} with ${plural(offices.computers, "computer")}`, offices.count ? "good" : ""]);
  return cards;
}

const card = ([part, count, words, tone]) => make("li", {},
  make("a", { class: `card ${tone}`, href: `#/${part}` }, icon(part), make("strong", {}, String(count)), make("span", {}, words)));

/** What goes on: turns, runs, tasks, workflows and lent workspaces, each with a way to it. */
function underWay(sessions, { runs, tasks, workflows, delegations }) {
  const turns = sessions.filter((session) => session.busy).map(({ sessionId, agentName, asks, prompt }) =>
    ({ key: sessionId, kind: "turn", name: agentName, words: prompt, href: `#/sessions/${encodeURIComponent(sessionId)}`, state: asks ? "waiting" : "busy" }));
  const talked = new Set(sessions.filter((session) => session.busy).map(({ sessionId }) => sessionId));
  const written = (kind, part, list) => list.shown
    // A turn that is shown already is no second thing.
    .filter(({ record }) => !talked.has(record.session))
    .map(({ id, record }) => ({ key: id, kind, name: record.workflow ?? record.agent ?? id, words: record.prompt ?? record.message,
      href: record.session ? `#/sessions/${encodeURIComponent(record.session)}` : `#/${part}`, state: plain(record.state) }));
  const lent = (delegations?.shown ?? []).map(({ id, task, state, isOurs, expiresAt }) =>
    ({ key: id, kind: isOurs ? "lent workspace" : "taken workspace", name: task, href: `#/delegations/${encodeURIComponent(id)}`, state, expiresAt }));
  return [...turns, ...written("workflow", "workflows", workflows), ...written("run", "runs", runs), ...written("A2A task", "runs", tasks), ...lent];
}

const work = ({ kind, name, words, href, state, expiresAt }) => make("li", { class: "row" },
  make("span", { class: "grow" }, make("a", { href }, name), words ? make("span", { class: "quote" }, words) : null, make("small", {}, kind)),
  expiresAt ? countdown({ expiresAt, state }) : null, tag(state));

/** What waits for somebody and is no ask: nodes that want to be paired, changes that came home. */
function decisions({ peers, delegations }) {
  const pairing = (peers?.pairing ?? []).map((name) => ({ key: `pair ${name}`, name: `${name} wants to be paired`, words: "Compare the codes on both machines, then: agentcraft peer pair --accept CODE", href: "#/peers" }));
  const home = (delegations?.waiting ?? []).map(({ id, task }) => ({ key: id, name: task, words: "The changes came home. Apply or discard them.", href: `#/delegations/${encodeURIComponent(id)}` }));
  return [...pairing, ...home];
}

const decision = ({ name, words, href }) => make("li", { class: "row ask" },
  make("span", { class: "grow" }, make("a", { href }, name), make("small", {}, words)), tag("waiting"));

export async function show(place) {
  const start = make("div", { class: "panel start", hidden: true }, make("h2", {}, "Begin here"), make("ol", {},
    make("li", {}, make("a", { href: "#/agents" }, "Create an agent"), " from a template, and start it."),
    make("li", {}, "Press ", make("strong", {}, "Talk"), " and say what it shall do."),
    make("li", {}, "What it may not do by itself, it asks you: see ", make("a", { href: "#/asks" }, "Asks"), ".")));
  const [cards, waiting, busy, recent, head] = [make("ul", { class: "cards", "aria-label": "Parts" }), make("ul", { class: "rows", "aria-label": "Waits for you" }),
    make("ul", { class: "rows", "aria-label": "Under way" }), make("ul", { class: "rows lines", "aria-label": "Lately" }), make("div", {})];
  const more = make("p", { hidden: true }, make("a", { href: "#/asks" }, ""));
  const waits = make("section", { "aria-label": "Waits for you" }, make("h2", {}, "Waits for you"), waiting, more);
  fill(place, head, waits, cards, start, make("h2", {}, "Under way"), busy, make("h2", {}, "Lately"), recent);
  let told = "";
  const look = async () => {
    const [node, glance, sessions] = await Promise.all([get("/api/overview"), get("/api/glance"), get("/api/sessions")]);
    const asks = node.asks ? await get("/api/asks") : [];
    const words = `${node.name} runs AgentCraft ${node.version}`;
    if (told !== words) fill(head, top("Overview", words));
    told = words;
    start.hidden = node.agents > 0;
    keep(cards, counts(node, glance), ([part]) => part, card, "");
    const open = [...asks.slice(0, ASKS), ...decisions(glance)];
    waits.hidden = !open.length;
    keep(waiting, open, ({ key, session, ask }) => key ?? `${session} ${ask.id}`, (item) => (item.ask ? askRow(item, update) : decision(item)), "");
    more.hidden = asks.length <= ASKS;
    more.firstChild.textContent = `All ${asks.length} asks`;
    keep(busy, underWay(sessions, glance), ({ key }) => key, work, "Nothing runs at the moment.");
    tick(busy);
  };
  const update = async () => {
    const [, lines] = await Promise.all([look(), get(`/api/journal?news=true&limit=${RECENT}`)]);
    keep(recent, lines, ({ seq }) => seq, journalRow, "Nothing has happened yet.");
  };
  await update();
  let beats = 0;
  return { update, beat: () => {
    tick(busy);
    beats += 1;
    return beats % EVERY ? null : look();
  } };
}
