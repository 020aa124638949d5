// The history: search it, and see new lines as they come.

import { get } from "../api.js";
import { attempt } from "../app.js";
import { fill, keep, make, moment, plural, top } from "../dom.js";

const WORDS_MAX = 140;
/** Lines that are shown first, and at most. */
const LINES = 200, LINES_MAX = 1000;

/** What says most about a line, in this order; the rest is behind it. */
const TELLING = ["prompt", "title", "text", "message", "summary", "task", "reason", "state", "stop", "answer"];
/** Facts that the line shows elsewhere, or that nobody reads. */
const QUIET = ["type", "id", "turn", "seq", "agent", "session", "ask", "trace", "schema", "input", "output", "cut"];
/** Facts that hold or do not. */
const WORDS = { destructive: "cannot be undone" };

/** Facts that say what they are without their name. */
const NAMELESS = ["kind", "status", "name", "by"];

/** An answer, an ending and the like in a word; nothing of what only a program reads. */
const plainly = (value) => (value && typeof value === "object" ? value.message ?? value.reason ?? value.state ?? value.text ?? value.id ?? value.answer ?? null : value);
const isDump = (value) => typeof value === "string" && /^\s*[[{]/.test(value);

/** What a turn used, in words. */
const used = ({ inputTokens, outputTokens } = {}) => (inputTokens || outputTokens ? `${inputTokens ?? 0} tokens in, ${outputTokens ?? 0} out` : null);

/** The facts of a line in a few words. */
function words(body) {
  if (body == null || typeof body !== "object") return String(body ?? "");
  const telling = TELLING.map((key) => plainly(body[key] ?? body.tool?.[key])).filter((value) => value != null && value !== "" && !isDump(value));
  const rest = Object.entries(body).filter(([key, value]) => value != null && value !== "" && value !== false && typeof value !== "object" && !isDump(value) && !TELLING.includes(key) && !QUIET.includes(key))
    .map(([key, value]) => (value === true ? WORDS[key] ?? key : NAMELESS.includes(key) ? value : `${key} ${value}`));
  const text = [...telling, ...rest, used(body.usage)].filter(Boolean).join(" · ");
  return text.length > WORDS_MAX ? `${text.slice(0, WORDS_MAX)}…` : text;
}

/** A line of the journal, which opens to everything it has. */
export const row = (line) => make("li", {}, make("details", {},
  make("summary", {}, make("span", { class: "when" }, moment(line.at)), make("code", {}, line.kind), line.agent ? make("strong", {}, line.agent) : null,
    make("span", { class: "soft grow" }, words(line.body))),
  line.session ? make("p", {}, make("a", { href: `#/sessions/${encodeURIComponent(line.session)}` }, `Session ${line.session}`)) : null,
  make("pre", { tabindex: "0", role: "group", "aria-label": "Everything it has" }, JSON.stringify(line.body, null, 2))));

export async function show(place) {
  const list = make("ul", { class: "rows lines", "aria-label": "Lines" });
  const form = make("form", { class: "panel inline", role: "search", onsubmit: attempt(() => update()) },
    [["text", "Text"], ["agent", "Agent"], ["kind", "Kind begins with"]].map(([name, title]) =>
      make("label", {}, title, make("input", { name, type: "search", autocomplete: "off" }))),
    make("label", { class: "check" }, make("input", { name: "audit", type: "checkbox", onchange: attempt(() => update()) }), "Also who asked for what"),
    make("button", { class: "main" }, "Search"));
  const found = make("p", { class: "soft", role: "status" });
  fill(place, top("Journal", "Everything that happened, newest first."), form, found, list);
  let limit = LINES;
  const more = make("button", { onclick: attempt(async () => {
    limit = Math.min(limit * 2, LINES_MAX);
    await update();
  }) }, "Older lines");
  place.append(more);
  const update = async () => {
    const { audit, ...asked } = Object.fromEntries(new FormData(form));
    // Each act on this page is a line of the audit; whoever looks for those says so.
    const news = !audit && !asked.kind;
    const rows = await get(`/api/journal?${new URLSearchParams({ ...asked, news, limit })}`);
    const isCut = rows.length >= limit;
    fill(found, isCut ? `the newest ${rows.length} lines` : plural(rows.length, "line"));
    more.hidden = !isCut || limit >= LINES_MAX;
    keep(list, rows, ({ seq }) => seq, row, "Nothing was found.");
  };
  await update();
  return { update };
}
