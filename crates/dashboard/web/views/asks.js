// Everything that waits for a human, wherever it was asked.

import { get } from "../api.js";
import { fill, make } from "../dom.js";
import { question } from "../transcript.js";

export async function show(place) {
  const update = async () => {
    const asks = await get("/api/asks");
    fill(place, make("h1", {}, "Asks"),
      make("ul", { class: "rows" }, asks.length ? asks.map(({ session, agent, ask }) =>
        make("li", { class: "card" },
          make("p", {}, make("a", { href: `#sessions/${encodeURIComponent(session)}` }, agent), " asks"),
          question(session, ask, update)))
        : make("li", { class: "soft" }, "Nothing waits for you.")));
  };
  await update();
  return { update };
}
