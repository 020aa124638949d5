// Workflows: the graph of each, a form made from its inputs, and the run in a session of its own.

import { get, post } from "../api.js";
import { attempt } from "../app.js";
import { fill, hint, keep, make, moment, plural, tag, top } from "../dom.js";
import { graph } from "../graph.js";

const WORDS_MAX = 200;
/** Runs that are not over. */
const OPEN = ["running", "waiting"];

export async function show(place, [name]) {
  return name ? one(place, name) : all(place);
}

async function all(place) {
  const [list, past] = [make("ul", { class: "rows" }), make("ul", { class: "rows" })];
  fill(place, top("Workflows", "Steps that are run in order, drawn as they go."), list, make("h2", {}, "Runs"), past);
  const update = async () => {
    const [workflows, runs] = await Promise.all([get("/api/workflows"), get("/api/records/workflow-run")]);
    keep(list, workflows, (workflow) => workflow.name, (workflow) => make("li", { class: "row" },
      make("span", { class: "grow" }, make("a", { href: `#/workflows/${encodeURIComponent(workflow.name)}` }, workflow.name), make("small", {}, workflow.description)),
      make("small", { class: "soft" }, plural(workflow.steps.length, "step"))), hint("There are no workflows yet. They are files in the folder workflows of the configs:", "agentcraft workflow --help"));
    keep(past, runs, ({ id }) => id, ({ id, at, record }) => make("li", { class: "row" },
      make("span", { class: "grow" }, record.session ? make("a", { href: `#/sessions/${encodeURIComponent(record.session)}`, "aria-label": `${record.workflow}, run ${id.slice(0, 8)}` }, record.workflow) : make("strong", {}, record.workflow),
        record.message ? make("span", { class: "quote" }, record.message.length > WORDS_MAX ? `${record.message.slice(0, WORDS_MAX)}…` : record.message) : null,
        make("small", {}, `run ${id.slice(0, 8)} · `, moment(at), !record.talk && OPEN.includes(record.state) ? " · begun on the command line or by a program, and answered there" : null)), tag(record.state)), "Nothing has been run yet.");
  };
  await update();
  return { update };
}

/** Parts of names whose values are secret. */
const SECRET_NAMES = ["SECRET_", "API_KEY", "PASSWORD", "TOKEN"];

/** Whether a name says that its value is secret, as workflows read it. */
function isSecret(name) {
  const upper = name.toUpperCase();
  return SECRET_NAMES.some((part) => {
    const core = part.replaceAll(/^_+|_+$/g, "");
    return upper.startsWith(part) || upper.endsWith(core) || `_${upper}_`.includes(`_${core}_`);
  });
}

/** The field of an input: what it may be decides what it looks like. */
function field(input) {
  const { name, required, description, validation = {} } = input;
  const fixed = { name, required, autocomplete: "off" };
  const given = input.default ?? "";
  let entry;
  if (input.kind === "boolean") {
    entry = make("select", fixed, ["", "true", "false"].filter((word) => word || !required).map((word) => make("option", { value: word, selected: String(given) === word }, word || "not given")));
  } else if (validation.choices?.length) {
    entry = make("select", fixed, (required ? [] : [""]).concat(validation.choices).map((word) => make("option", { value: word, selected: String(given) === word }, word || "not given")));
  } else if (input.kind === "integer") {
    entry = make("input", { ...fixed, type: "number", step: "1", min: validation.min, max: validation.max, value: given });
  } else {
    // A pattern of a workflow may match anywhere, one of a browser must match the whole.
    const hidden = isSecret(name) ? { type: "password", autocomplete: "new-password" } : {};
    entry = make("input", { ...fixed, ...hidden, value: given, pattern: validation.pattern ? `.*(?:${validation.pattern}).*` : null, title: validation.pattern ? `as ${validation.pattern} says` : null });
  }
  const label = make("label", {}, make("span", {}, name, required ? null : make("span", { class: "soft" }, " optional")), entry);
  if (!description) return label;
  const id = `words-${name}`;
  entry.setAttribute("aria-describedby", id);
  return make("div", {}, label, make("small", { class: "soft", id }, description));
}

const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;

async function one(place, name) {
  const workflow = (await get("/api/workflows")).find((known) => known.name === name);
  if (!workflow) throw new Error(`There is no workflow called ${name}.`);
  const form = make("form", { class: "panel", onsubmit: attempt(async () => {
    const given = new FormData(form);
    // A default that was taken out of its field is said to be empty, or it would come back.
    const isSaid = (input) => given.get(input.name) || (input.default ?? "") !== "";
    const words = workflow.inputs.filter(isSaid).map((input) => `${input.name}=${quoted(given.get(input.name))}`);
    const session = await post("/api/sessions", { agent: `workflow:${workflow.name}` });
    const path = `/api/sessions/${encodeURIComponent(session.sessionId)}`;
    await post(`${path}/prompt`, { text: [`/${workflow.name}`, ...words].join(" ") });
    location.hash = `/sessions/${encodeURIComponent(session.sessionId)}`;
  }) },
    workflow.inputs.length ? workflow.inputs.map(field) : make("p", { class: "soft" }, "It takes no inputs."),
    make("button", { class: "main" }, "Run"));
  fill(place, top(workflow.name, workflow.description),
    make("section", { "aria-label": "Steps" }, make("h2", {}, "Steps"), make("div", { class: "panel" }, graph(workflow).element)),
    make("section", { "aria-label": "Run" }, make("h2", {}, "Run it"), form));
  return {};
}
