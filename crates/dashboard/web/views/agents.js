// Agents: look, create, start, stop, talk, remove; and one of them with its log as it grows.

import { get, post, remove } from "../api.js";
import { attempt } from "../app.js";
import { bytes, facts, fill, keep, make, moment, plural, stateOf, tag, top } from "../dom.js";

/** Kinds without a process of their own: they need no start. */
const WITHOUT_PROCESS = ["workflow", "peer", "delegation", "a2a", "openai-compatible", "command"];

const pathOf = (name) => `/api/agents/${encodeURIComponent(name)}`;
export const needsStart = (agent) => !WITHOUT_PROCESS.includes(agent.backendType);
/** What an agent is called: one that was made for a target is known by that. */
export const titleOf = (agent) => agent.metadata?.target ?? agent.name;
/** Colours of a terminal are none here. */
const plain = (text) => text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "");
const state = (agent) => tag(!needsStart(agent) && agent.status === "created" ? "ready" : agent.status);

export async function show(place, [name]) {
  return name ? one(place, name) : all(place);
}

/** Start or stop, talk, remove. Ids let the focus stay where it was when a list is shown anew. */
function acts(agent, after, gone) {
  const act = (name, word) => make("button", { id: `act-${agent.name}`, "aria-label": `${word} ${agent.name}`, onclick: attempt(async () => {
    await post(`${pathOf(agent.name)}/${name}`);
    await after();
  }) }, word);
  return make("span", { class: "acts" },
    needsStart(agent) ? (agent.status === "running" ? act("stop", "Stop") : act("start", "Start")) : null,
    make("button", { id: `talk-${agent.name}`, class: "main", "aria-label": `Talk to ${agent.name}`, onclick: attempt(async () => {
      const session = await post("/api/sessions", { agent: agent.name });
      location.hash = `/sessions/${encodeURIComponent(session.sessionId)}`;
    }) }, "Talk"),
    make("button", { id: `remove-${agent.name}`, class: "danger", "aria-label": `Remove ${agent.name}`, onclick: attempt(async () => {
      if (!confirm(`Remove ${agent.name} and its workspace?${agent.status === "running" ? " It is running, and what it does is ended." : ""}`)) return;
      await remove(pathOf(agent.name));
      await gone();
    }) }, "Remove"));
}

async function all(place) {
  const list = make("ul", { class: "rows" });
  const templates = await get("/api/templates");
  const hint = make("small", { class: "soft", id: "template-words" });
  const choose = make("select", { name: "template", required: true, "aria-describedby": "template-words", onchange: () => describe() },
    templates.map((template) => make("option", {}, template.name)));
  const describe = () => {
    const chosen = templates.find(({ name }) => name === choose.value);
    fill(hint, chosen ? [chosen.backend, chosen.description].filter(Boolean).join(" · ")
      : ["There are no templates yet. They are files in the folder of templates: ", make("code", {}, "agentcraft template --help")]);
  };
  const create = make("form", { class: "panel", onsubmit: attempt(async () => {
    const form = new FormData(create);
    await post("/api/agents", { name: form.get("name"), template: form.get("template") });
    create.reset();
    describe();
    await update();
  }) },
    make("div", { class: "inline" }, make("label", {}, "Name", make("input", { name: "name", required: true, autocomplete: "off", spellcheck: "false", pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,62}", title: "letters, digits, - and _" })),
      make("label", {}, "Template", choose), make("button", { class: "main" }, "Create")), hint);
  describe();
  fill(place, top("Agents", "Each has a workspace of its own and stays until it is removed."), list, make("h2", {}, "New agent"), create);
  const row = (agent) => make("li", { class: "row" },
    make("span", { class: "grow" }, make("a", { href: `#/agents/${encodeURIComponent(agent.name)}` }, titleOf(agent)),
      make("small", {}, [titleOf(agent) === agent.name ? agent.templateName : agent.name, agent.backendType, bytes(agent.memoryBytes)].filter(Boolean).join(" · ")),
      agent.reason ? make("small", { class: "trouble" }, agent.reason) : null),
    state(agent), acts(agent, update, update));
  const update = async () => keep(list, await get("/api/agents"), ({ name }) => name, row, "There are no agents yet. Create the first one below.");
  await update();
  return { update };
}

async function one(place, name) {
  const [head, about, sessions] = [make("div", {}), make("div", {}), make("ul", { class: "rows" })];
  const words = make("pre", { tabindex: "0", class: "words", role: "group", "aria-label": "Words of the program" });
  fill(place, head, about, make("h2", {}, "Sessions"), sessions, make("section", { "aria-label": "Log" }, make("h2", {}, "Log"), words));
  let before = "";
  const look = async () => {
    const agent = (await get("/api/agents")).find((known) => known.name === name);
    if (!agent) throw new Error(`There is no agent called ${name}.`);
    const now = JSON.stringify(agent);
    if (now === before) return;
    before = now;
    const focused = document.activeElement?.id;
    fill(head, top(titleOf(agent), agent.reason ?? "", make("div", { class: "acts" }, make("span", { role: "status" }, state(agent)),
      acts(agent, look, () => { location.hash = "/agents"; }))));
    fill(about, facts([["Name", titleOf(agent) === agent.name ? null : agent.name, "wide"], ["Template", agent.templateName], ["Backend", agent.backendType], ["Memory", bytes(agent.memoryBytes)], ["Process", agent.pid ? String(agent.pid) : null],
      ["Created", agent.createdAt ? moment(agent.createdAt) : null], ["Workspace", agent.workspaceDir ?? agent.workDir, "wide"]]));
    if (focused) document.getElementById(focused)?.focus();
  };
  const log = async () => {
    const { text } = await get(`${pathOf(name)}/log`);
    const shown = plain(text) || "The program has printed nothing beside its answers.";
    if (words.textContent === shown) return;
    const atEnd = words.scrollTop + words.clientHeight >= words.scrollHeight - 20;
    words.textContent = shown;
    if (atEnd) words.scrollTop = words.scrollHeight;
  };
  const update = async () => {
    await look(); // Without the agent there is nothing else to say.
    const [found] = await Promise.all([get("/api/sessions"), log()]);
    keep(sessions, found.filter(({ agentName }) => agentName === name).map(({ sessionId, turns, lastActivityAt, ...how }) => ({ sessionId, turns, word: stateOf(how), lastActivityAt })),
      ({ sessionId }) => sessionId, ({ sessionId, turns, word, lastActivityAt }) => make("li", { class: "row" },
        make("span", { class: "grow" }, make("a", { href: `#/sessions/${encodeURIComponent(sessionId)}`, "aria-label": `${plural(turns, "turn")}, session ${sessionId}` }, plural(turns, "turn")), make("small", {}, "last active ", moment(lastActivityAt))),
        tag(word)), "Nobody is talking to it. Press Talk.");
  };
  await update();
  return { update, beat: () => Promise.all([look(), log()]) };
}
