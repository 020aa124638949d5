// What agents have used, day by day: all of them in one chart, each of them in a row.

import { get } from "../api.js";
import { COLOURS, columns, short, spark, table } from "../chart.js";
import { fill, keep, make, plural, top } from "../dom.js";
import { titleOf } from "./agents.js";

const DAY = 86400000, SPANS = [14, 30, 90], FIRST = 30;
const MEASURES = {
  turns: ["Turns", ({ turns }) => turns],
  input: ["Tokens in", ({ inputTokens }) => inputTokens],
  output: ["Tokens out", ({ outputTokens }) => outputTokens],
  cost: ["Cost in USD", ({ costUsd }) => costUsd],
};

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** Values of each agent for each day, the one with most first; beyond those with a colour they are one. */
function series(agents, days, of) {
  const all = agents.map(({ name, title, used }) => ({ id: name, name: title, values: days.map((day) => (used[day] ? of(used[day]) : 0)) }))
    .filter(({ values }) => values.some(Boolean)).sort((left, right) => sum(right.values) - sum(left.values));
  if (all.length <= COLOURS + 1) return all;
  const rest = all.slice(COLOURS);
  return [...all.slice(0, COLOURS), { name: `${rest.length} others`, values: days.map((_, index) => sum(rest.map(({ values }) => values[index]))) }];
}

function row({ name, title, days, turns, input, output, cost, isKnown }) {
  const told = [plural(sum(turns), "turn"), input || output ? `${short(input)} tokens in, ${short(output)} out` : "it tells no tokens", cost ? `${short(cost)} USD` : null];
  return make("li", { class: "row" }, make("span", { class: "grow" },
    isKnown ? make("a", { href: `#/agents/${encodeURIComponent(name)}` }, title) : make("strong", {}, title), make("small", {}, told.filter(Boolean).join(" · "))), spark(days, turns));
}

export async function show(place) {
  const choose = (name, title, options, first) => make("label", {}, title, make("select", { name, onchange: () => paint() },
    options.map(([value, words]) => make("option", { value, selected: value === first }, words))));
  const form = make("form", { class: "inline pick" }, choose("measure", "Show", Object.entries(MEASURES).map(([key, [words]]) => [key, words]), "turns"),
    choose("days", "Of the last", SPANS.map((days) => [String(days), `${days} days`]), String(FIRST)));
  const [chart, numbers, list] = [make("div", {}), make("div", {}), make("ul", { class: "rows" })];
  const panel = make("div", { class: "panel" }, chart, make("details", { class: "more" }, make("summary", {}, "As a table"), numbers));
  const none = make("p", { class: "empty" }, "No turn has ended yet. What agents do is counted here, day by day.");
  const heading = make("h2", {}, "By agent");
  fill(place, top("Usage", "What agents did, and what they tell of tokens and cost.", form), none, panel, heading, list);
  let agents = [], before = "";
  const paint = () => {
    const asked = new FormData(form);
    const [title, of] = MEASURES[asked.get("measure")];
    const today = Math.floor(Date.now() / DAY) * DAY, span = Number(asked.get("days"));
    const days = Array.from({ length: span }, (_, index) => today - (span - 1 - index) * DAY);
    const found = series(agents, days, of);
    const now = JSON.stringify([title, days, found]);
    for (const part of [panel, heading, form]) part.hidden = !agents.length;
    none.hidden = agents.length > 0;
    if (agents.length && now !== before) {
      fill(chart, found.length ? columns(title, days, found, title !== MEASURES.cost[0]) : make("p", { class: "empty" }, `Nothing to show: no agent told of this in the last ${span} days.`));
      fill(numbers, table(title, days, found));
    }
    before = now;
    const each = (used, key) => days.map((day) => used[day]?.[key] ?? 0);
    const rows = agents.map(({ name, title: words, used, isKnown }) => ({ name, title: words, days, isKnown, turns: each(used, "turns"),
      input: sum(each(used, "inputTokens")), output: sum(each(used, "outputTokens")), cost: sum(each(used, "costUsd")) }))
      .filter(({ turns }) => turns.some(Boolean)).sort((left, right) => sum(right.turns) - sum(left.turns));
    keep(list, rows, ({ name }) => name, row, "No agent did anything in these days.");
    list.hidden = !agents.length;
  };
  const update = async () => {
    const [usage, known] = await Promise.all([get("/api/usage"), get("/api/agents")]);
    const names = new Map(known.map((agent) => [agent.name, titleOf(agent)]));
    agents = Object.entries(usage).map(([name, used]) => ({ name, title: names.get(name) ?? name, used, isKnown: names.has(name) }));
    paint();
  };
  await update();
  return { update };
}
