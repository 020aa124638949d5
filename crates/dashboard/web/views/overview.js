// The node at a glance.

import { get } from "../api.js";
import { fill, make } from "../dom.js";

const card = (count, what, href) =>
  make("li", {}, make("a", { class: "card", href, style: null }, make("strong", {}, String(count)), what));

export async function show(place) {
  const update = async () => {
    const node = await get("/api/overview");
    fill(place,
      make("h1", {}, "Overview"),
      make("ul", { class: "cards" },
        card(node.running, `of ${node.agents} agents run`, "#agents"),
        card(node.busy, `of ${node.sessions} sessions are busy`, "#sessions"),
        card(node.asks, node.asks === 1 ? "ask waits for you" : "asks wait for you", "#asks")),
      make("p", { class: "soft" }, `AgentCraft ${node.version}`));
  };
  await update();
  return { update };
}
