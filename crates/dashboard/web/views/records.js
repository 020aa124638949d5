// Runs, peers, offices and delegations: documents of the other parts, one row each.

import { get, post } from "../api.js";
import { attempt } from "../app.js";
import { fill, keep, make, moment, tag, top } from "../dom.js";

async function list(place, title, words, parts, empty) {
  const rows = make("ul", { class: "rows" });
  fill(place, top(title, words), rows);
  const update = async () => {
    const found = await Promise.all(parts.map(async ([kind, row, wanted = () => true]) =>
      (await get(`/api/records/${kind}`)).filter(wanted).map((record) => ({ kind, ...record }))));
    const shown = found.flat().sort((left, right) => right.at - left.at);
    const render = Object.fromEntries(parts.map(([kind, row]) => [kind, row]));
    keep(rows, shown, ({ kind, id }) => `${kind} ${id}`, (record) => render[record.kind](record), empty);
  };
  await update();
  return { update };
}

const line = (what, facts, state, at, ...more) => make("li", { class: "row" },
  make("span", { class: "grow" }, what, make("small", {}, facts.filter(Boolean).join(" · "), facts.some(Boolean) ? " · " : "", moment(at))),
  state ? tag(state) : null, more);
const strong = (words) => make("strong", {}, words);
const talk = (record, id) => (record.session ? make("a", { href: `#sessions/${encodeURIComponent(record.session)}` }, record.agent ?? id) : strong(record.agent ?? id));
/** States of tasks on the wire have a prefix. */
const plain = (state) => state?.replace(/^TASK_STATE_/, "").toLowerCase().replaceAll("_", "-");

export const runs = (place) => list(place, "Runs", "What was asked through the network.", [
  ["run", ({ id, at, record }) => line(talk(record, id), [record.caller, (record.prompt ?? "").slice(0, 80)], plain(record.state), at)],
  ["a2a-task", ({ id, at, record }) => line(talk(record, id), ["A2A", record.caller], plain(record.state), at)],
], "Nobody has asked through the network yet.");

export const peers = (place) => list(place, "Peers", "Other nodes that this one knows.", [
  ["peer", ({ id, at, record }) => line(strong(record.name ?? id), [record.url, (record.agents ?? []).join(", ")], record.state, at)],
], "No other node is known. See: agentcraft peer --help");

const isOffice = (right) => right.startsWith("office");
export const offices = (place) => list(place, "Offices", "Tokens that let computers and agents into offices.", [
  ["token", ({ at, record }) => line(strong(record.name), record.rights.filter(isOffice), null, at),
    ({ record }) => (record.rights ?? []).some(isOffice)],
], "No token lets anybody into an office. See: agentcraft token --help");

const ENDED = ["ended", "completed", "error", "cancelled", "expired"];
export const delegations = (place) => list(place, "Delegations", "Workspaces that are lent to other nodes.", [
  ["delegation", ({ id, at, record }) => line(strong(record.task ?? id), [record.peer, record.dir], record.state, at,
    ENDED.includes(record.state) ? null : make("button", { class: "danger", "aria-label": `Cancel ${record.task ?? id}`, onclick: attempt(() => post(`/delegations/${encodeURIComponent(id)}/cancel`)) }, "Cancel"))],
], "No workspace is lent. See: agentcraft delegate --help");
