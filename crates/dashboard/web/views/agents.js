// Agents: look, create, start, stop, talk, remove.

import { get, post, remove } from "../api.js";
import { attempt } from "../app.js";
import { fill, make, tag } from "../dom.js";

const size = (bytes) => (bytes ? `${(bytes / 1048576).toFixed(1)} MiB` : "");

export async function show(place) {
  const list = make("ul", { class: "rows" });
  const templates = await get("/api/templates");
  const create = make("form", { class: "inline", onsubmit: attempt(async (event) => {
    const form = new FormData(event.target);
    await post("/api/agents", { name: form.get("name"), template: form.get("template") });
    event.target.reset();
    await update();
  }) },
    make("label", {}, "Name", make("input", { name: "name", required: true, autocomplete: "off" })),
    make("label", {}, "Template", make("select", { name: "template" },
      templates.map((template) => make("option", {}, template.name)))),
    make("button", { class: "main" }, "Create"));
  fill(place, make("h1", {}, "Agents"), list, make("h2", {}, "New agent"), create);

  const row = (agent) => {
    const act = (name, word) => make("button", { onclick: attempt(async () => {
      await post(`/api/agents/${encodeURIComponent(agent.name)}/${name}`);
      await update();
    }) }, word);
    return make("li", { class: "row" },
      make("span", { class: "grow" }, make("strong", {}, agent.name), " ",
        make("small", {}, [agent.templateName, agent.backendType, size(agent.memoryBytes), agent.reason].filter(Boolean).join(" · "))),
      tag(agent.status),
      agent.status === "running" ? act("stop", "Stop") : act("start", "Start"),
      make("button", { class: "main", onclick: attempt(async () => {
        const session = await post("/api/sessions", { agent: agent.name });
        location.hash = `sessions/${encodeURIComponent(session.sessionId)}`;
      }) }, "Talk"),
      make("button", { class: "danger", "aria-label": `Remove ${agent.name}`, onclick: attempt(async () => {
        if (!confirm(`Remove ${agent.name} and its workspace?`)) return;
        await remove(`/api/agents/${encodeURIComponent(agent.name)}`);
        await update();
      }) }, "Remove"));
  };
  const update = async () => {
    const agents = await get("/api/agents");
    fill(list, agents.length ? agents.map(row) : make("li", { class: "soft" }, "There are no agents yet."));
  };
  await update();
  return { update };
}
