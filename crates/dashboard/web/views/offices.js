// Offices of this node: who is in each, the tools of its computers, and a console to try one.

import { get, post } from "../api.js";
import { attempt } from "../app.js";
import { fill, hint, keep, make, plural, tag, top } from "../dom.js";
import { fields } from "../form.js";
import { code } from "../markdown.js";

export async function show(place, [office, computer]) {
  return office && computer ? desk(place, office, computer) : all(place);
}

async function all(place) {
  const rows = make("ul", { class: "rows" });
  fill(place, top("Offices", "Rooms in which computers lend their tools to an agent."), rows);
  const row = ({ name, agent, computers }) => make("li", { class: "card" }, make("h2", {}, name),
    make("p", { class: "soft" }, agent ? `${agent} is its agent` : "No agent is in it", ` · ${plural(computers.length, "computer")}`),
    computers.length ? make("ul", { class: "rows" }, computers.map((computer) => make("li", { class: "row" },
      make("a", { class: "grow", href: `#/offices/${encodeURIComponent(name)}/${encodeURIComponent(computer)}` }, computer), tag("online")))) : null);
  const update = async () => keep(rows, await get("/api/offices"), ({ name }) => name, row,
    hint("Nobody is in an office. Lend the tools of a machine to one:", "agentcraft computer join URL OFFICE --config servers.json"));
  await update();
  return { update, beat: update };
}

/** A tool may work for a while. */
const CALL_MS = 600000;

function shown(result) {
  const parts = (result.content ?? []).map((part) => (part.type === "text" ? code(part.text) : code(JSON.stringify(part, null, 2), "JSON")));
  return [make("p", { class: "line" }, tag(result.isError ? "failed" : "completed")), parts.length ? parts : code(JSON.stringify(result, null, 2), "JSON")];
}

async function desk(place, office, computer) {
  const path = `/api/offices/${encodeURIComponent(office)}/${encodeURIComponent(computer)}`;
  const tools = await get(`${path}/tools`);
  let working = null; // The tool that is called: an office has one agent, and one call from here is that agent.
  const row = (tool) => {
    const asked = fields(tool.params_schema ?? tool.inputSchema);
    const answer = make("div", { role: "status" });
    const form = make("form", { class: "panel", "aria-label": `Call ${tool.name}`, onsubmit: attempt(async () => {
      fill(answer);
      if (working) throw new Error(`${working} is still at work: one tool at a time is called from here.`);
      const wanted = asked.read(form);
      fill(answer, make("p", { class: "soft" }, "Working…"));
      working = tool.name;
      try {
        fill(answer, shown(await post(`${path}/call`, { tool: tool.name, arguments: wanted }, CALL_MS)));
      } catch (error) {
        fill(answer, make("p", { class: "trouble" }, error.message));
      } finally {
        working = null;
      }
    }) }, asked.labels.length ? asked.labels : make("p", { class: "soft told" }, "It takes no arguments."), make("button", { class: "main" }, "Call"), answer);
    return make("li", {}, make("details", {}, make("summary", {}, make("strong", {}, tool.name), make("span", { class: "soft grow" }, tool.description ?? "")), form));
  };
  const list = make("ul", { class: "rows lines", "aria-label": "Tools" });
  const left = make("p", { class: "trouble", role: "status", hidden: true }, "This computer has left the office. Its tools can be called when it is back.");
  fill(place, top(computer, `A computer in ${office} with ${plural(tools.length, "tool")}. A call from here is a call of the office's agent.`,
    make("a", { href: "#/offices" }, "All offices")), left, list);
  keep(list, tools, ({ name }) => name, row, "It lends no tool.");
  const look = async () => {
    const here = (await get("/api/offices")).find(({ name }) => name === office);
    left.hidden = Boolean(here?.computers.includes(computer));
  };
  return { update: look, beat: look };
}
