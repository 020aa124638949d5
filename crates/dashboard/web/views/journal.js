// The history: search it, and see new lines as they come.

import { get } from "../api.js";
import { attempt } from "../app.js";
import { fill, make, moment } from "../dom.js";

export async function show(place) {
  const body = make("tbody", {});
  const form = make("form", { class: "inline", role: "search", onsubmit: attempt(() => update()) },
    ["agent", "kind", "text"].map((name) => make("label", {}, name[0].toUpperCase() + name.slice(1),
      make("input", { name, autocomplete: "off" }))),
    make("button", { class: "main" }, "Search"));
  fill(place, make("h1", {}, "Journal"), form,
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Lines" }, make("table", {},
      make("thead", {}, make("tr", {}, ["When", "What", "Agent", "Details"].map((name) => make("th", { scope: "col" }, name)))), body)));
  const update = async () => {
    const query = new URLSearchParams(new FormData(form));
    const rows = await get(`/api/journal?${query}`);
    fill(body, rows.map((row) => make("tr", {}, make("td", {}, moment(row.at)), make("td", {}, row.kind),
      make("td", {}, row.agent ?? ""), make("td", {}, make("code", {}, JSON.stringify(row.body).slice(0, 240))))));
  };
  await update();
  return { update };
}
