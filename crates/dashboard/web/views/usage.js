// What agents have used, day by day.

import { get } from "../api.js";
import { draw, fill, make } from "../dom.js";

const DAYS = 14, BAR = 22, HEIGHT = 90, DAY = 86400000;

function bars(agent, days) {
  const today = Math.floor(Date.now() / DAY) * DAY;
  const shown = Array.from({ length: DAYS }, (_, index) => today - (DAYS - 1 - index) * DAY);
  const turns = shown.map((day) => days[day]?.turns ?? 0);
  const most = Math.max(1, ...turns);
  const total = turns.reduce((sum, count) => sum + count, 0);
  return draw("svg", { class: "bars", width: DAYS * BAR, height: HEIGHT + 18, role: "img", "aria-label": `${agent}: ${total} turns in ${DAYS} days` },
    turns.map((count, index) => [
      draw("rect", { x: index * BAR + 3, y: HEIGHT - (count / most) * HEIGHT, width: BAR - 6, height: (count / most) * HEIGHT, rx: 3 }),
      draw("text", { x: index * BAR + 5, y: HEIGHT + 14 }, String(new Date(shown[index]).getDate())),
    ]));
}

export async function show(place) {
  const update = async () => {
    const agents = Object.entries(await get("/api/usage"));
    fill(place, make("h1", {}, "Usage"), agents.length ? agents.map(([agent, days]) => {
      const sum = (key) => Object.values(days).reduce((total, day) => total + (day[key] ?? 0), 0);
      return [make("h2", {}, agent), make("p", { class: "soft" },
        `${sum("turns")} turns, ${sum("inputTokens")} tokens in, ${sum("outputTokens")} out`), bars(agent, days)];
    }) : make("p", { class: "soft" }, "No turn has ended yet."));
  };
  await update();
  return { update };
}
