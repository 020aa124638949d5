// Runs, peers, offices and delegations: documents of the other parts, one row each.

import { get, post } from "../api.js";
import { attempt } from "../app.js";
import { fill, make, moment, tag } from "../dom.js";

async function list(place, title, parts, empty) {
  const update = async () => {
    const rows = [];
    for (const [kind, row] of parts) {
      const records = await get(`/api/records/${kind}`);
      rows.push(...records.map((record) => [record.at, row(record)]));
    }
    rows.sort(([left], [right]) => right - left);
    fill(place, make("h1", {}, title),
      make("ul", { class: "rows" }, rows.length ? rows.map(([, row]) => row) : make("li", { class: "soft" }, empty)));
  };
  await update();
  return { update };
}

const text = (value) => (value == null ? "" : typeof value === "string" ? value : JSON.stringify(value));
const line = (what, words, state, at, ...more) => make("li", { class: "row" },
  make("span", { class: "grow" }, make("strong", {}, text(what)), " ", make("small", {}, text(words), " · ", moment(at))),
  state ? tag(text(state)) : null, ...more);

export const runs = (place) => list(place, "Runs", [
  ["run", ({ id, at, record }) => line(record.agent ?? record.agent_name ?? id, id, record.status ?? record.state, at)],
  ["a2a-task", ({ id, at, record }) => line(record.agent ?? id, id, record.state ?? record.status, at)],
], "Nobody has asked through the network yet.");

export const peers = (place) => list(place, "Peers", [
  ["peer", ({ id, at, record }) => line(record.name ?? id, record.url, record.status ?? (record.online ? "online" : "offline"), at)],
], "No other node is known. See: agentcraft peer --help");

export const offices = (place) => list(place, "Offices", [
  ["token", ({ id, at, record }) => (record.rights ?? []).some((right) => right.startsWith("office"))
    ? line(record.name, (record.rights ?? []).join(", "), null, at) : null],
], "No computer has joined. See: agentcraft office --help");

export const delegations = (place) => list(place, "Delegations", [
  ["delegation", ({ id, at, record }) => line(record.task ?? id, record.dir ?? record.peer, record.state ?? record.phase, at,
    make("button", { class: "danger", onclick: attempt(() => post(`/delegations/${encodeURIComponent(id)}/cancel`)) }, "Cancel"))],
], "No workspace is lent. See: agentcraft delegate --help");
