// Columns over days, one colour for each name, with an axis that is read and a table that says the same.

import { draw, make } from "./dom.js";

/** On a telephone a drawing of its own width, so that letters stay letters. */
const WIDE = 960, NARROW = 400, NARROW_BELOW = 700;
const HEIGHT = 220, LEFT = 52, BOTTOM = 24, TOP = 10, TICKS = 4, LABEL_WIDE = 90;
/** Names with a colour of their own; the others share one. */
export const COLOURS = 5;

const date = (day, options) => new Date(day).toLocaleDateString(undefined, { timeZone: "UTC", ...options });
/** A number that fits beside an axis. */
export const short = (value) => (value >= 1e6 ? `${+(value / 1e6).toPrecision(3)}M` : value >= 1e4 ? `${+(value / 1e3).toPrecision(3)}k` : String(+value.toFixed(2)));

/** The steps of an axis: round numbers, whole ones where things are counted. */
function axis(most, isWhole) {
  const rough = most / TICKS;
  const size = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((factor) => factor * size).find((candidate) => candidate >= rough);
  if (isWhole) step = Math.max(1, Math.round(step));
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}

/** `series` is a list of names with a value for each of `days`. */
export function columns(title, days, series, isWhole = true) {
  const totals = days.map((_, index) => series.reduce((sum, { values }) => sum + values[index], 0));
  const ticks = axis(Math.max(...totals, isWhole ? 1 : 0.01), isWhole);
  const most = ticks.at(-1);
  const width = innerWidth < NARROW_BELOW ? NARROW : WIDE;
  const wide = (width - LEFT) / days.length;
  const high = (value) => (value / most) * HEIGHT;
  const every = Math.ceil(LABEL_WIDE / wide);
  const bars = days.map((day, index) => {
    let base = TOP + HEIGHT;
    const parts = series.map(({ values }, at) => {
      if (!values[index]) return null;
      const height = Math.max(1.5, high(values[index]));
      base -= height;
      return draw("rect", { class: `c${at + 1}`, x: LEFT + index * wide + wide * 0.14, y: base, width: wide * 0.72, height, rx: Math.min(3, height / 2) });
    });
    const told = series.filter(({ values }) => values[index]).map(({ name, values }) => `${name} ${short(values[index])}`).join(", ");
    return draw("g", {}, draw("title", {}, `${date(day)}: ${told || "nothing"}`),
      // The whole height answers to the pointer.
      draw("rect", { class: "hit", x: LEFT + index * wide, y: TOP, width: wide, height: HEIGHT }), parts,
      (days.length - 1 - index) % every ? null : draw("text", { class: index === days.length - 1 ? "last" : null, x: index === days.length - 1 ? width : LEFT + (index + 0.5) * wide, y: TOP + HEIGHT + 17 }, date(day, { day: "numeric", month: "short" })));
  });
  const lines = ticks.map((value) => draw("g", {}, draw("line", { class: value ? null : "zero", x1: LEFT, x2: width, y1: TOP + HEIGHT - high(value), y2: TOP + HEIGHT - high(value) }),
    draw("text", { class: "tick", x: LEFT - 8, y: TOP + HEIGHT - high(value) + 4 }, short(value))));
  const sum = totals.reduce((total, value) => total + value, 0);
  return make("figure", { class: "chart" },
    draw("svg", { class: "columns", viewBox: `0 0 ${width} ${TOP + HEIGHT + BOTTOM}`, role: "img", "aria-label": `${title}: ${short(sum)} in ${days.length} days. The table below says the same.` }, lines, bars),
    make("figcaption", {}, make("ul", { class: "keys" }, series.map(({ name }, at) => make("li", {}, make("span", { class: `key c${at + 1}` }), name)))));
}

/** The same in numbers, the newest day first; days without anything are left out. */
export function table(title, days, series) {
  const rows = days.map((day, index) => ({ day, values: series.map(({ values }) => values[index]) })).filter(({ values }) => values.some(Boolean)).reverse();
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `${title} as a table` }, make("table", {},
    make("caption", { class: "hidden" }, title),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Day"), series.map(({ name }) => make("th", { scope: "col", class: "number" }, name)))),
    make("tbody", {}, rows.map(({ day, values }) => make("tr", {}, make("th", { scope: "row" }, date(day)), values.map((value) => make("td", { class: "number" }, value ? short(value) : "–")))))));
}

/** One line of small columns, for a row of a list. */
export function spark(days, values) {
  const most = Math.max(1, ...values);
  return draw("svg", { class: "spark", viewBox: `0 0 ${days.length * 4} 24`, preserveAspectRatio: "none", "aria-hidden": "true" },
    values.map((value, index) => (value ? draw("rect", { x: index * 4 + 0.5, width: 3, y: 24 - Math.max(2, (value / most) * 24), height: Math.max(2, (value / most) * 24) }) : null)));
}
