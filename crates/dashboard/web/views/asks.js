// Everything that waits for a human, wherever it was asked.

import { get } from "../api.js";
import { fill, keep, make, top } from "../dom.js";
import { question } from "../transcript.js";

/** An ask with its agent and the answers; `after` an answer something may be looked at anew. */
export const row = ({ session, agent, ask }, after) => make("li", { class: `card ask ${ask.destructive ? "destructive" : ""}` },
  make("p", { class: "who" }, make("a", { href: `#/sessions/${encodeURIComponent(session)}` }, agent), " asks"),
  question(session, ask, { after }));

export async function show(place) {
  const list = make("ul", { class: "rows" });
  fill(place, top("Asks", "What waits for an answer. The first answer counts."), list);
  const update = async () => keep(list, await get("/api/asks"), ({ session, ask }) => `${session} ${ask.id}`, (item) => row(item, () => update()), "Nothing waits for you. Permissions and questions of sessions that were opened here, and of callers who wait, come here.");
  await update();
  return { update };
}
