// The steps of a workflow as a drawing, coloured as they run.

import { draw, make, visible } from "./dom.js";

const WIDTH = 168, HEIGHT = 46, ACROSS = 24, DOWN = 36, EDGE = 34, LETTERS = 19;
/** A drawing of this width may shrink to a narrow window and still be read. */
const FITS = 440;
const SIGNS = { pending: "", "in-progress": "●", completed: "✓", failed: "✗" };
let drawings = 0;

/** Where a step leads: to what is inside it, where it goes when it succeeds, and where it goes when it fails. */
const ways = ({ next, failure, inner = [], when = {} }) => {
  const kinds = new Map([...inner.map((name) => [name, "inner"]), ...(failure ? [[failure, "failure"]] : []), ...next.map((name) => [name, "next"])]);
  return [...kinds].map(([name, kind]) => ({ name, kind, when: kind === "next" ? when[name] : null }));
};
const following = (step) => [...new Set([...step.next, ...(step.failure ? [step.failure] : []), ...(step.inner ?? [])])];

/** How far down each step is: one below the last that leads to it, and below everything inside that. Ways back do not count. */
function layers(steps) {
  const known = new Map(steps.map((step) => [step.name, step]));
  const depth = new Map();
  const back = new Set();
  const tall = (name, left = steps.length) => {
    const inner = (known.get(name)?.inner ?? []).filter((part) => known.has(part));
    return inner.length && left ? 1 + Math.max(...inner.map((part) => tall(part, left - 1))) : 0;
  };
  const walk = (name, path, level) => {
    const step = known.get(name);
    for (const next of following(step)) {
      if (!known.has(next)) continue;
      const below = level + 1 + (step.inner?.includes(next) ? 0 : tall(name));
      if (path.has(next)) {
        back.add(`${name}\n${next}`);
      } else if ((depth.get(next) ?? -1) < below) {
        depth.set(next, below);
        walk(next, new Set([...path, next]), below);
      }
    }
  };
  for (const { name } of steps) {
    if (depth.has(name)) continue;
    depth.set(name, 0);
    walk(name, new Set([name]), 0);
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

/** Where ways of each kind run beside each other: in the gap between rows, and in the lane to the right of all steps. */
const SHIFT = { next: [0, 10], failure: [6, 20], inner: [-6, 0] };

/** A way leads from below a step to above the next one, and past the steps in between, never through one. */
function way(from, to, kind, isBack, lane) {
  const middle = (at) => at.y + HEIGHT / 2;
  if (isBack) {
    const out = Math.max(4, from.x - 26);
    return `M ${from.x} ${middle(from)} C ${out} ${middle(from)}, ${out} ${middle(to)}, ${to.x - 3} ${middle(to)}`;
  }
  const [gap, aside] = SHIFT[kind];
  const start = from.x + WIDTH / 2 + gap * 2;
  const center = to.x + WIDTH / 2 + gap * 2;
  const [leaves, arrives] = [from.y + HEIGHT + DOWN / 2 + gap, to.y - DOWN / 2 + gap];
  if (to.row - from.row === 1) return start === center ? `M ${start} ${from.y + HEIGHT} V ${to.y - 3}` : `M ${start} ${from.y + HEIGHT} V ${arrives} H ${center} V ${to.y - 3}`;
  return `M ${start} ${from.y + HEIGHT} V ${leaves} H ${lane + aside} V ${arrives} H ${center} V ${to.y - 3}`;
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
  const lane = Math.max(...[...place.values()].map(({ x }) => x)) + WIDTH + ACROSS / 2;
  const lines = drawn.map(({ step, name, kind }) => draw("path", { class: `way ${kind}`,
    d: way(place.get(step.name), place.get(name), kind, back.has(`${step.name}\n${name}`), lane), "marker-end": kind === "inner" ? null : `url(#${arrow}-${kind})` }));
  // A condition is as long as it likes, so the way has its number, and the words are below.
  const conditions = drawn.filter(({ when }) => when);
  const arrived = new Map();
  const numbers = conditions.map(({ step, name, when }, index) => {
    const { x, y } = place.get(name);
    const beside = (arrived.get(name) ?? 0) * 20;
    arrived.set(name, (arrived.get(name) ?? 0) + 1);
    const at = { x: x + WIDTH / 2 - 14 - beside, y: y - 12 };
    return draw("g", { class: "condition" }, draw("title", {}, `${step.name} to ${name} when ${when}`),
      draw("circle", { cx: at.x, cy: at.y, r: 8 }), draw("text", { x: at.x, y: at.y + 4 }, String(index + 1)));
  });
  const legend = [["failure", "dashed: when it fails"], ["inner", "dotted: steps inside"]].filter(([kind]) => drawn.some((to) => to.kind === kind));
  const far = [...place.values()];
  const isPast = drawn.some(({ step, name }) => place.get(name).row - place.get(step.name).row > 1);
  // Ways past other steps run to the right of them.
  const width = lane + (isPast ? 24 : 4 - ACROSS / 2);
  const height = Math.max(...far.map(({ y }) => y)) + HEIGHT + 6;
  const svg = draw("svg", { class: width <= FITS ? "fits" : null, width, height, viewBox: `0 0 ${width} ${height}`, role: "img" },
    draw("defs", {}, ["next", "failure"].map((kind) => draw("marker", { id: `${arrow}-${kind}`, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      draw("path", { class: `tip ${kind}`, d: "M 0 0 L 8 4 L 0 8 z" })))), lines, [...boxes.values()].map(({ box }) => box), numbers);
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
  /** The step that a path names, such as `checks/lint` or `each[1]/paint#2`; nothing for one of a workflow inside this one. */
  const at = (path) => {
    let step = null;
    for (const part of path.split("/").map((words) => words.replace(/(\[\d+\])?(#\d+)?$/, ""))) {
      if (step && !step.inner?.includes(part)) return null;
      step = steps.find(({ name }) => name === part);
      if (!step) return null;
    }
    return step;
  };
  return {
    element: make("div", {}, make("div", { class: "graph", tabindex: "0", role: "group", "aria-label": `Steps of ${workflow.name}` }, svg),
      legend.length ? make("p", { class: "legend" }, legend.map(([, words]) => words).join(" · ")) : null,
      conditions.length ? make("ol", { class: "legend conditions", "aria-label": "Conditions" }, conditions.map(({ step, name, when }) =>
        make("li", {}, make("strong", {}, step.name), " to ", make("strong", {}, name), " when ", make("code", {}, visible(when))))) : null),
    colour: paint,
    /** A step of the run failed, at the end of its path. */
    fail(path) {
      const step = at(path);
      if (step) paint(step.name, "failed");
    },
    /** The run is over, well or not: the end that it came to is coloured, where it can be no other. One that was cancelled came to none. */
    finish(isGood, isCancelled = false) {
      const step = latest ? outermost(latest) : null;
      if (!step) return;
      const wanted = isGood ? "success" : "failure";
      const ends = (names) => [...new Set(names)].filter((name) => steps.some((known) => known.name === name && known.outcome === wanted));
      const likely = ends(states.get(step.name) === "failed" ? [step.failure] : step.next);
      const found = isCancelled ? [] : likely.length ? likely : ends([...step.next, step.failure]);
      if (found.length === 1) paint(found[0], isGood ? "completed" : "failed");
      if (!isGood && states.get(latest) === "in-progress") paint(latest, "failed");
    },
  };
}
