// Everything that waits for a human, wherever it was asked.

import { get } from "../api.js";
import { fill, keep, make, top } from "../dom.js";
import { question } from "../transcript.js";

export async function show(place) {
  const list = make("ul", { class: "rows" });
  const row = ({ session, agent, ask }) => make("li", { class: `card ask ${ask.destructive ? "destructive" : ""}` },
    make("p", { class: "who" }, make("a", { href: `#/sessions/${encodeURIComponent(session)}` }, agent), " asks"),
    question(session, ask, { after: () => update() }));
  fill(place, top("Asks", "What waits for an answer. The first answer counts."), list);
  const update = async () => keep(list, await get("/api/asks"), ({ session, ask }) => `${session} ${ask.id}`, row, "Nothing waits for you. Permissions and questions of sessions that were opened here, and of callers who wait, come here.");
  await update();
  return { update };
}
