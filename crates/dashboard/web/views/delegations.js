// Workspaces that are lent or taken: how long the lease lasts, what was changed, and a way to end or undo it.

import { get, post } from "../api.js";
import { attempt } from "../app.js";
import { patch } from "../diff.js";
import { bytes, facts, fill, hint, keep, make, moment, plural, span, tag, top } from "../dom.js";

const ENDED = ["completed", "error", "cancelled", "expired"];

export async function show(place, [id]) {
  return id ? one(place, id) : all(place);
}

/** How much of the lease is left; it counts by itself. */
export function countdown(delegation) {
  if (!delegation.expiresAt || ENDED.includes(delegation.state)) return null;
  return make("span", { class: "countdown", "data-until": delegation.expiresAt }, "");
}

export function tick(place) {
  for (const shown of place.querySelectorAll(".countdown")) {
    const left = (Date.parse(shown.dataset.until) - Date.now()) / 1000;
    const words = left > 0 ? `${span(left)} left` : "the lease is over";
    if (shown.textContent !== words) shown.textContent = words;
    shown.classList.toggle("short", left < 60);
  }
}

const cancel = (delegation, after) => make("button", { id: `cancel-${delegation.id}`, class: "danger", "aria-label": `Cancel ${delegation.task}`, onclick: attempt(async () => {
  await post(`/delegations/${encodeURIComponent(delegation.id)}/cancel`);
  await after();
}) }, "Cancel");

const where = ({ side, peerUrl, dir }) => (side === "host" ? `${dir} lent to ${peerUrl}` : `${dir}, lent to us`);

async function all(place) {
  const rows = make("ul", { class: "rows" });
  fill(place, top("Delegations", "Workspaces that are lent to other nodes, and those that others lend to this one."), rows);
  const row = (delegation) => make("li", { class: "row" },
    make("span", { class: "grow" }, make("a", { href: `#/delegations/${encodeURIComponent(delegation.id)}` }, delegation.task),
      make("small", {}, `${where(delegation)} · `, moment(delegation.createdAt))),
    countdown(delegation), tag(delegation.state), ENDED.includes(delegation.state) ? null : cancel(delegation, () => update()));
  const update = async () => {
    const { delegations } = await get("/delegations");
    keep(rows, delegations, ({ id }) => id, row, hint("No workspace is lent. Lend one to another node:", "agentcraft delegate URL TASK --dir DIR"));
    tick(place);
  };
  await update();
  return { update, beat: () => tick(place) };
}

/** How it ended, in words. */
function ending({ ending: how }) {
  if (!how) return null;
  const [[name, told]] = Object.entries(how);
  const words = told?.summary ?? told?.message ?? told?.failure?.message ?? name;
  return make("section", { "aria-label": "How it ended" }, make("h2", {}, "How it ended"), make("div", { class: `panel ${name === "completed" ? "" : "trouble"}` },
    make("p", { class: "told" }, words), told?.hint ? make("p", { class: "soft told" }, told.hint) : null));
}

async function one(place, id) {
  const path = `/delegations/${encodeURIComponent(id)}`;
  const [head, body, log, changes] = [make("div", {}), make("div", {}), make("section", { "aria-label": "Log" }), make("section", { "aria-label": "Changes" })];
  fill(place, head, body, changes, log);
  let before = "", isUndone = false;
  const audit = async (delegation) => {
    if (delegation.side !== "host") return;
    if (!ENDED.includes(delegation.state)) return fill(changes, make("h2", {}, "Changes"), make("p", { class: "empty" }, "What was changed is shown when the work is done."));
    let found;
    try {
      found = await get(`${path}/audit`);
    } catch (error) {
      return fill(changes, make("h2", {}, "Changes"), make("p", { class: "empty" }, delegation.state === "completed" ? error.message : "Nothing came home."));
    }
    const act = (name, words, sure, look = "") => make("button", { class: look, onclick: attempt(async () => {
      if (sure && !confirm(sure)) return;
      await post(`${path}/${name}`);
      isUndone = name === "undo";
      before = "";
      await update();
    }) }, words);
    const kept = delegation.snapshot?.status;
    const acts = make("span", { class: "acts" }, kept === "pending" ? [act("apply", "Apply the changes", null, "main"), act("discard", "Discard them", "Throw away what came home?", "danger")]
      : kept === "discarded" ? null : act("undo", "Undo the changes", "Put the folder back as it was before it was lent?"));
    const note = { pending: "These changes came home and wait: nothing was applied to the folder yet.", discarded: "These changes were thrown away." }[kept];
    fill(changes, make("h2", {}, "Changes"), found.changes.length ? [
      make("div", { class: "line" }, make("ul", { class: "chips grow", "aria-label": "Files" }, found.changes.map(({ change, path: file }) => make("li", { class: change }, `${change} ${file}`))), acts),
      note ? make("p", { class: "soft" }, note) : null,
      patch(found.diff, "a file"), found.truncated ? make("p", { class: "soft" }, "There is more: agentcraft delegation diff shows all of it.") : null,
    ] : make("p", { class: "empty" }, isUndone ? "The changes were undone: the folder is as it was before." : "Nothing was changed."));
  };
  const update = async () => {
    const delegation = await get(path);
    const now = JSON.stringify(delegation);
    if (now !== before) {
      before = now;
      const { agreement, size } = delegation;
      fill(head, top(delegation.task, where(delegation), make("div", { class: "acts" }, countdown(delegation), make("span", { role: "status" }, tag(delegation.state)),
        ENDED.includes(delegation.state) ? null : cancel(delegation, update))));
      fill(body, facts([["Access", { rw: "read and write", ro: "read only" }[agreement?.access]], ["Transport", agreement?.transport],
        ["Lent", size ? `${plural(size.files, "file")}, ${bytes(size.bytes)}` : null], ["Began", moment(delegation.createdAt)], ["Id", delegation.id, "wide"]]),
        ending(delegation));
      fill(log, make("h2", {}, "Log"), make("ol", { class: "panel log" }, delegation.log.map(({ at, text }) => make("li", {}, moment(at), " ", text))));
      await audit(delegation);
    }
    tick(place);
  };
  await update();
  return { update, beat: () => tick(place) };
}
