// Workflows: the graph of each, a form made from its inputs, and the run in a session of its own.

import { get, post } from "../api.js";
import { attempt } from "../app.js";
import { draw, fill, make, moment, tag } from "../dom.js";

const WIDTH = 180, HEIGHT = 36, GAP = 24;

/** Steps from top to bottom, with a line for each way on. */
function graph(workflow) {
  const place = new Map(workflow.steps.map((step, index) => [step.name, index]));
  const top = (index) => 8 + index * (HEIGHT + GAP);
  const lines = workflow.steps.flatMap((step, index) => step.next.filter((name) => place.has(name)).map((name) => {
    const to = place.get(name);
    const bend = to === index + 1 ? 0 : 30 + 10 * Math.abs(to - index);
    const from = `${8 + WIDTH / 2 + (bend ? WIDTH / 2 : 0)} ${top(index) + (bend ? HEIGHT / 2 : HEIGHT)}`;
    const end = `${8 + WIDTH / 2 + (bend ? WIDTH / 2 : 0)} ${top(to) + (bend ? HEIGHT / 2 : 0)}`;
    const middle = bend ? `C ${8 + WIDTH + bend} ${top(index) + HEIGHT / 2}, ${8 + WIDTH + bend} ${top(to) + HEIGHT / 2}, ` : "L ";
    return draw("path", { d: `M ${from} ${middle}${end}` });
  }));
  const boxes = workflow.steps.map((step, index) => draw("g", {},
    draw("rect", { x: 8, y: top(index), width: WIDTH, height: HEIGHT, rx: 6 }),
    draw("text", { x: 18, y: top(index) + 23 }, `${step.name} (${step.kind})`.slice(0, 24))));
  const height = top(workflow.steps.length);
  return make("div", { class: "graph", tabindex: "0", role: "group", "aria-label": `Steps of ${workflow.name}` },
    draw("svg", { width: 380, height, role: "img", "aria-label": workflow.steps.map((step) => step.name).join(", then ") }, lines, boxes));
}

export async function show(place, [name]) {
  const workflows = await get("/api/workflows");
  if (!name) {
    const runs = await get("/api/records/workflow-run");
    fill(place, make("h1", {}, "Workflows"),
      make("ul", { class: "rows" }, workflows.length ? workflows.map((workflow) => make("li", { class: "row" },
        make("span", { class: "grow" }, make("a", { href: `#workflows/${encodeURIComponent(workflow.name)}` }, workflow.name), " ",
          make("small", {}, workflow.description)))) : make("li", { class: "soft" }, "There are no workflows yet.")),
      make("h2", {}, "Runs"),
      make("ul", { class: "rows" }, runs.map(({ id, at, record }) => make("li", { class: "row" },
        make("span", { class: "grow" }, record.workflow, " ", make("small", {}, id.slice(0, 8), " · ", moment(at))), tag(record.state)))));
    return {};
  }
  const workflow = workflows.find((known) => known.name === name);
  if (!workflow) throw new Error(`There is no workflow called ${name}.`);
  const form = make("form", { onsubmit: attempt(async (event) => {
    const given = new FormData(event.target);
    const inputs = workflow.inputs.map((input) => [input.name, given.get(input.name)]).filter(([, value]) => value);
    const words = inputs.map(([key, value]) => `${key}='${String(value).replaceAll("'", "'\\''")}'`);
    const session = await post("/api/sessions", { agent: workflow.agent });
    await post(`/api/sessions/${encodeURIComponent(session.sessionId)}/prompt`, { text: `/${workflow.name} ${words.join(" ")}` });
    location.hash = `sessions/${encodeURIComponent(session.sessionId)}`;
  }) },
    workflow.inputs.map((input) => make("label", {}, `${input.name}${input.required ? "" : " (optional)"}`,
      make("input", { name: input.name, required: input.required, value: input.default ?? "", autocomplete: "off" }),
      input.description ? make("small", { class: "soft" }, input.description) : null)),
    make("button", { class: "main", disabled: !workflow.agent }, "Run"));
  fill(place, make("h1", {}, workflow.name), make("p", {}, workflow.description), graph(workflow), make("h2", {}, "Run it"), form);
  return {};
}
