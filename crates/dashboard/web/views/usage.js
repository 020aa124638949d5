// What agents have used, day by day.

import { get } from "../api.js";
import { draw, fill, keep, make, plural, top } from "../dom.js";
import { titleOf } from "./agents.js";

const DAYS = 14, BAR = 24, HEIGHT = 84, HEAD = 16, DAY = 86400000;

function chart(title, days, values) {
  const most = Math.max(1, ...values);
  const total = values.reduce((sum, value) => sum + value, 0);
  const width = DAYS * BAR;
  return make("figure", { class: "chart" }, make("figcaption", {}, title),
    draw("svg", { class: "bars", viewBox: `0 0 ${width} ${HEAD + HEIGHT + 18}`, role: "img", "aria-label": `${title}: ${total} in ${DAYS} days` },
      draw("line", { x1: 0, x2: width, y1: HEAD + HEIGHT + 0.5, y2: HEAD + HEIGHT + 0.5 }),
      values.map((value, index) => {
        const high = value ? Math.max(2, (value / most) * HEIGHT) : 0;
        const middle = index * BAR + BAR / 2;
        return draw("g", {}, draw("title", {}, `${new Date(days[index]).toLocaleDateString(undefined, { timeZone: "UTC" })}: ${value}`),
          draw("rect", { x: index * BAR + 4, y: HEAD + HEIGHT - high, width: BAR - 8, height: high, rx: 3 }),
          value ? draw("text", { class: "count", x: middle, y: HEAD + HEIGHT - high - 4 }, value > 9999 ? `${Math.round(value / 1000)}k` : String(value)) : null,
          draw("text", { x: middle, y: HEAD + HEIGHT + 14 }, String(new Date(days[index]).getUTCDate())));
      })));
}

function agent([name, days, title]) {
  const today = Math.floor(Date.now() / DAY) * DAY;
  const shown = Array.from({ length: DAYS }, (_, index) => today - (DAYS - 1 - index) * DAY);
  const of = (key) => shown.map((day) => days[day]?.[key] ?? 0);
  const sum = (key) => of(key).reduce((total, value) => total + value, 0);
  const tokens = of("inputTokens").map((value, index) => value + of("outputTokens")[index]);
  return make("li", { class: "card" }, make("h2", {}, title),
    make("p", { class: "soft" }, `${plural(sum("turns"), "turn")} · ${sum("inputTokens") + sum("outputTokens") ? `${sum("inputTokens")} tokens in · ${sum("outputTokens")} out` : "it tells no tokens"}`),
    make("div", { class: "charts" }, chart("Turns", shown, of("turns")), tokens.some(Boolean) ? chart("Tokens", shown, tokens) : null));
}

export async function show(place) {
  const list = make("ul", { class: "rows" });
  fill(place, top("Usage", `Turns and tokens of the last ${DAYS} days, as far as agents tell.`), list);
  const rows = async () => {
    const [usage, agents] = await Promise.all([get("/api/usage"), get("/api/agents")]);
    const names = new Map(agents.map((known) => [known.name, titleOf(known)]));
    return Object.entries(usage).map(([name, days]) => [name, days, names.get(name) ?? name]);
  };
  const update = async () => keep(list, await rows(), ([name]) => name, agent, "No turn has ended yet.");
  await update();
  return { update };
}
