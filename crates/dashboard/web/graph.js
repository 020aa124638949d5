// The steps of a workflow as a drawing, coloured as they run.

import { draw, make } from "./dom.js";

const WIDTH = 168, HEIGHT = 46, ACROSS = 40, DOWN = 30, EDGE = 34, LETTERS = 19;
/** A drawing of this width may shrink to a narrow window and still be read. */
const FITS = 440;
const SIGNS = { pending: "", "in-progress": "●", completed: "✓", failed: "✗" };
let drawings = 0;

/** Where a step leads: to what is inside it, where it goes when it succeeds, and where it goes when it fails. */
const ways = ({ next, failure, inner = [] }) => {
  const kinds = new Map([...inner.map((name) => [name, "inner"]), ...(failure ? [[failure, "failure"]] : []), ...next.map((name) => [name, "next"])]);
  return [...kinds].map(([name, kind]) => ({ name, kind }));
};
const following = (step) => [...new Set([...step.next, ...(step.failure ? [step.failure] : []), ...(step.inner ?? [])])];

/** How far down each step is: one below the last that leads to it. Ways back do not count. */
function layers(steps) {
  const known = new Map(steps.map((step) => [step.name, step]));
  const depth = new Map();
  const back = new Set();
  const walk = (name, path) => {
    for (const next of following(known.get(name))) {
      if (!known.has(next)) continue;
      if (path.has(next)) {
        back.add(`${name}\n${next}`);
      } else if ((depth.get(next) ?? -1) < path.size) {
        depth.set(next, path.size);
        walk(next, new Set([...path, next]));
      }
    }
  };
  for (const { name } of steps) {
    if (depth.has(name)) continue;
    depth.set(name, 0);
    walk(name, new Set([name]));
  }
  return { depth, back };
}

function places(steps, depth, edge) {
  const rows = [];
  for (const step of steps) (rows[depth.get(step.name)] ??= []).push(step.name);
  const place = new Map();
  let row = 0;
  for (const names of rows.filter(Boolean)) {
    names.forEach((name, column) => place.set(name, { row, column, x: edge + column * (WIDTH + ACROSS), y: 4 + row * (HEIGHT + DOWN) }));
    row += 1;
  }
  return place;
}

function way(from, to, isBack) {
  const middle = (at) => at.y + HEIGHT / 2;
  if (isBack) {
    const out = Math.max(4, from.x - 26);
    return `M ${from.x} ${middle(from)} C ${out} ${middle(from)}, ${out} ${middle(to)}, ${to.x - 3} ${middle(to)}`;
  }
  const center = to.x + WIDTH / 2;
  if (to.column > from.column) return `M ${from.x + WIDTH} ${middle(from)} H ${center - 10} Q ${center} ${middle(from)} ${center} ${middle(from) + 10} V ${to.y - 3}`;
  if (to.row - from.row > 1 && to.column === from.column) {
    const out = from.x + WIDTH + ACROSS / 2;
    return `M ${from.x + WIDTH} ${middle(from)} C ${out + 8} ${middle(from)}, ${out + 8} ${middle(to)}, ${to.x + WIDTH + 3} ${middle(to)}`;
  }
  const start = from.x + WIDTH / 2;
  return `M ${start} ${from.y + HEIGHT} C ${start} ${from.y + HEIGHT + DOWN / 2}, ${center} ${to.y - DOWN / 2}, ${center} ${to.y - 3}`;
}

const short = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

/** The drawing, and a way to say how far a step is. */
export function graph(workflow) {
  const { steps } = workflow;
  const { depth, back } = layers(steps);
  const place = places(steps, depth, back.size ? EDGE : 2);
  const states = new Map(steps.map((step) => [step.name, "pending"]));
  const arrow = `arrow-${drawings += 1}`;
  const boxes = new Map(steps.map((step) => {
    const { x, y } = place.get(step.name);
    const sign = draw("text", { class: "sign", x: x + WIDTH - 22, y: y + 28 });
    return [step.name, { sign, box: draw("g", { class: `step pending ${step.kind}` }, draw("title", {}, `${step.name} (${step.kind})`),
      draw("rect", { x, y, width: WIDTH, height: HEIGHT, rx: step.kind === "terminal" ? HEIGHT / 2 : 9 }),
      draw("text", { x: x + 14, y: y + 20 }, short(step.name)),
      draw("text", { class: "kind", x: x + 14, y: y + 36 }, step.kind), sign) }];
  }));
  const drawn = steps.flatMap((step) => ways(step).filter(({ name }) => place.has(name)).map((to) => ({ step, ...to })));
  const lines = drawn.map(({ step, name, kind }) => draw("path", { class: `way ${kind}`,
    d: way(place.get(step.name), place.get(name), back.has(`${step.name}\n${name}`)), "marker-end": kind === "inner" ? null : `url(#${arrow}-${kind})` }));
  const legend = [["failure", "dashed: when it fails"], ["inner", "dotted: steps inside"]].filter(([kind]) => drawn.some((to) => to.kind === kind));
  const far = [...place.values()];
  // Ways past other steps bend to the right of them.
  const width = Math.max(...far.map(({ x }) => x)) + WIDTH + ACROSS / 2;
  const height = Math.max(...far.map(({ y }) => y)) + HEIGHT + 6;
  const svg = draw("svg", { class: width <= FITS ? "fits" : null, width, height, viewBox: `0 0 ${width} ${height}`, role: "img" },
    draw("defs", {}, ["next", "failure"].map((kind) => draw("marker", { id: `${arrow}-${kind}`, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      draw("path", { class: `tip ${kind}`, d: "M 0 0 L 8 4 L 0 8 z" })))), lines, [...boxes.values()].map(({ box }) => box));
  const tell = () => svg.setAttribute("aria-label",
    `Steps of ${workflow.name}: ${[...states].map(([name, state]) => `${name} ${state}`).join(", ")}`);
  tell();
  let latest = null;
  const paint = (name, state) => {
    const known = boxes.get(name);
    // What has failed has not been completed, whatever the plan says.
    if (!known || (states.get(name) === "failed" && state === "completed")) return;
    if (state !== "pending" && states.get(name) !== state) latest = name;
    states.set(name, state);
    known.box.classList.remove("pending", "in-progress", "completed", "failed");
    known.box.classList.add(state);
    known.sign.textContent = SIGNS[state] ?? "";
    tell();
  };
  /** The step at the top in which a step is. */
  const outermost = (name) => {
    let [at, left] = [name, steps.length];
    for (let outer = name; outer && left; left -= 1) {
      at = outer;
      outer = steps.find(({ inner = [] }) => inner.includes(at))?.name;
    }
    return steps.find((step) => step.name === at);
  };
  const isEnd = (name) => steps.some((step) => step.name === name && step.kind === "terminal");
  return {
    element: make("div", {}, make("div", { class: "graph", tabindex: "0", role: "group", "aria-label": `Steps of ${workflow.name}` }, svg),
      legend.length ? make("p", { class: "legend" }, legend.map(([, words]) => words).join(" · ")) : null),
    colour: paint,
    /** The run is over: an end that follows from the last step is coloured, where it can be no other. */
    finish(isGood) {
      const step = latest ? outermost(latest) : null;
      if (!step) return;
      const ends = states.get(step.name) === "failed" ? [step.failure].filter(isEnd) : [...new Set(step.next)].filter(isEnd);
      if (ends.length === 1) paint(ends[0], isGood ? "completed" : "failed");
      else if (!isGood && states.get(latest) === "in-progress") paint(latest, "failed");
    },
  };
}
