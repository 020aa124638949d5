// What was asked through the network: runs and tasks, the newest first, each with its transcript.

import { get, post } from "../api.js";
import { attempt } from "../app.js";
import { fill, hint, keep, make, moment, tag, top } from "../dom.js";

const WORDS_MAX = 100;
const OPEN = ["created", "in-progress", "awaiting", "cancelling"];

/** States of tasks on the wire have a prefix. */
export const plain = (state) => state?.replace(/^TASK_STATE_/, "").toLowerCase().replaceAll("_", "-");

function row({ kind, id, at, record }) {
  const state = plain(record.state);
  const name = record.agent ?? id;
  const prompt = record.prompt ?? "";
  return make("li", { class: "row" },
    make("span", { class: "grow" },
      record.session ? make("a", { href: `#/sessions/${encodeURIComponent(record.session)}` }, name) : make("strong", {}, name),
      prompt ? make("span", { class: "quote" }, prompt.length > WORDS_MAX ? `${prompt.slice(0, WORDS_MAX)}…` : prompt) : null,
      make("small", {}, `${kind === "run" ? "run" : "A2A task"}${record.caller ? ` of ${record.caller}` : ""} · `, moment(at))),
    state ? tag(state) : null,
    kind === "run" && OPEN.includes(state)
      ? make("button", { class: "danger", "aria-label": `Cancel the run of ${name}`, onclick: attempt(() => post(`/runs/${encodeURIComponent(id)}/cancel`)) }, "Cancel") : null);
}

export async function show(place) {
  const rows = make("ul", { class: "rows" });
  fill(place, top("Runs", "What was asked through the network, over the runs API and A2A."), rows);
  const update = async () => {
    const found = await Promise.all(["run", "a2a-task"].map(async (kind) => (await get(`/api/records/${kind}`)).map((record) => ({ kind, ...record }))));
    keep(rows, found.flat().sort((left, right) => right.at - left.at), ({ kind, id }) => `${kind} ${id}`, row,
      hint("Nobody has asked through the network yet. Another program needs a token for it:", "agentcraft token create NAME --right runs"));
  };
  await update();
  return { update };
}
