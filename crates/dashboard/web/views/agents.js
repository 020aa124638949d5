// Agents: look, create, start, stop, talk, remove.

import { get, post, remove } from "../api.js";
import { attempt } from "../app.js";
import { fill, keep, make, tag, top } from "../dom.js";

/** Kinds without a process of their own: they need no start. */
const WITHOUT_PROCESS = ["workflow", "peer", "delegation", "model"];

const size = (bytes) => (bytes ? `${(bytes / 1048576).toFixed(1)} MiB` : null);

export async function show(place) {
  const list = make("ul", { class: "rows" });
  const templates = await get("/api/templates");
  const hint = make("small", { class: "soft", id: "template-words" });
  const choose = make("select", { name: "template", required: true, "aria-describedby": "template-words", onchange: () => describe() },
    templates.map((template) => make("option", {}, template.name)));
  const describe = () => {
    const chosen = templates.find(({ name }) => name === choose.value);
    fill(hint, chosen ? [chosen.backend, chosen.description].filter(Boolean).join(" · ") : "There are no templates yet.");
  };
  const create = make("form", { class: "panel", onsubmit: attempt(async () => {
    const form = new FormData(create);
    await post("/api/agents", { name: form.get("name"), template: form.get("template") });
    create.reset();
    await update();
  }) },
    make("div", { class: "inline" }, make("label", {}, "Name", make("input", { name: "name", required: true, autocomplete: "off", spellcheck: "false" })),
      make("label", {}, "Template", choose), make("button", { class: "main" }, "Create")), hint);
  describe();
  fill(place, top("Agents", "Each has a workspace of its own and stays until it is removed."), list, make("h2", {}, "New agent"), create);

  const row = (agent) => {
    const path = `/api/agents/${encodeURIComponent(agent.name)}`;
    const act = (name, word) => make("button", { id: `act-${agent.name}`, "aria-label": `${word} ${agent.name}`, onclick: attempt(async () => {
      await post(`${path}/${name}`);
      await update();
    }) }, word);
    const needsStart = !WITHOUT_PROCESS.includes(agent.backendType);
    const facts = [agent.templateName, agent.backendType, agent.pid ? `pid ${agent.pid}` : null, size(agent.memoryBytes), agent.reason].filter(Boolean);
    return make("li", { class: "row" },
      make("span", { class: "grow" }, make("strong", {}, agent.name), make("small", {}, facts.join(" · "))),
      tag(!needsStart && agent.status === "created" ? "ready" : agent.status),
      make("span", { class: "acts" },
        needsStart ? (agent.status === "running" ? act("stop", "Stop") : act("start", "Start")) : null,
        make("button", { id: `talk-${agent.name}`, class: "main", "aria-label": `Talk to ${agent.name}`, onclick: attempt(async () => {
          const session = await post("/api/sessions", { agent: agent.name });
          location.hash = `sessions/${encodeURIComponent(session.sessionId)}`;
        }) }, "Talk"),
        make("button", { id: `remove-${agent.name}`, class: "danger", "aria-label": `Remove ${agent.name}`, onclick: attempt(async () => {
          if (!confirm(`Remove ${agent.name} and its workspace?`)) return;
          await remove(path);
          await update();
        }) }, "Remove")));
  };
  const update = async () => keep(list, await get("/api/agents"), ({ name }) => name, row, "There are no agents yet. Create the first one below.");
  await update();
  return { update };
}
