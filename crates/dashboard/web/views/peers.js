// Other nodes: a picture of who is connected, and what each of them can do.

import { ask, get, post, remove } from "../api.js";
import { attempt } from "../app.js";
import { draw, fill, hint, keep, make, moment, plural, tag, top } from "../dom.js";

const WIDE = 480, REACH_X = 170, REACH_Y = 95, NODE = 30, LETTERS = 16;
/** Nodes whose names have room around us; more are in two columns. */
const AROUND_MAX = 6, ROW = 92, SIDE = 80;
/** Nodes in the picture; the list has them all. */
const DRAWN_MAX = 16;

const short = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

/** Us in the middle, the others around. */
function picture(node, peers) {
  const shown = peers.slice(0, DRAWN_MAX);
  // One or two are beside us, a few around us, many in a column on each side.
  const isMany = shown.length > AROUND_MAX;
  const high = isMany ? Math.ceil(shown.length / 2) * ROW : shown.length > 2 ? 290 : 120;
  const places = shown.map((peer, index) => {
    if (isMany) return { peer, x: index % 2 ? WIDE - SIDE : SIDE, y: Math.floor(index / 2) * ROW + NODE + 6 };
    // One alone is beside us, and both are in the middle together.
    if (shown.length === 1) return { peer, x: WIDE / 2 + REACH_X / 2, y: high / 2 };
    const angle = (2 * Math.PI * index) / shown.length - (shown.length > 2 ? Math.PI / 2 : 0);
    return { peer, x: WIDE / 2 + REACH_X * Math.cos(angle), y: high / 2 + REACH_Y * Math.sin(angle) };
  });
  const here = shown.length === 1 ? WIDE / 2 - REACH_X / 2 : WIDE / 2;
  const disc = (x, y, name, classes, note) => draw("g", { class: classes }, draw("title", {}, note),
    draw("circle", { cx: x, cy: y, r: NODE }), draw("text", { class: "letter", x, y: y + 7 }, [...name][0]?.toUpperCase() ?? "?"),
    draw("text", { x, y: y + NODE + 20 }, short(name)));
  const words = shown.map(({ alias, status, paired }) => `${alias} ${status}${paired ? "" : ", not paired"}`).join("; ");
  return draw("svg", { class: "network", viewBox: `0 0 ${WIDE} ${high}`, role: "img", "aria-label": `${node} knows ${words}` },
    places.map(({ peer, x, y }) => draw("line", { class: `${peer.status} ${peer.paired ? "paired" : "strange"}`, x1: here, y1: high / 2, x2: x, y2: y })),
    places.map(({ peer, x, y }) => disc(x, y, peer.alias, peer.status, `${peer.alias}: ${peer.status}`)),
    disc(here, high / 2, node, "ourselves", `${node}: this node`));
}

export async function show(place) {
  const [map, rows] = [make("div", { class: "panel map", hidden: true }), make("ul", { class: "rows" })];
  const row = (peer) => {
    const path = `/peers/${encodeURIComponent(peer.id)}`;
    return make("li", { class: "row" },
      make("span", { class: "grow" }, make("strong", {}, peer.alias), peer.description ? make("span", { class: "quote" }, peer.description) : null,
        make("small", {}, `${peer.url} · ${peer.origin}${peer.version ? ` · ${peer.version}` : ""}${peer.lastSeen ? " · seen " : ""}`, peer.lastSeen ? moment(peer.lastSeen) : null),
        peer.trouble ? make("small", { class: "trouble" }, peer.trouble) : null,
        peer.capabilities.length ? make("ul", { class: "chips", "aria-label": `What ${peer.alias} can do` }, peer.capabilities.map(({ id, description }) => make("li", { title: description }, id))) : null),
      tag(peer.status), peer.paired ? null : tag("not paired"),
      make("span", { class: "acts" },
        make("button", { id: `ping-${peer.id}`, "aria-label": `Ping ${peer.alias}`, onclick: attempt(async () => {
          await post(`${path}/ping`);
          await update();
        }) }, "Ping"),
        make("button", { id: `forget-${peer.id}`, class: "danger", "aria-label": `Forget ${peer.alias}`, onclick: attempt(async () => {
          if (!confirm(`Forget ${peer.alias}? What was exchanged with it ends.`)) return;
          await remove(path);
          await update();
        }) }, "Forget")));
  };
  const add = make("form", { class: "panel inline", onsubmit: attempt(async () => {
    const given = new FormData(add);
    await ask("POST", "/peers", { url: given.get("url"), token: given.get("token") || null });
    add.reset();
    await update();
  }) },
    make("label", {}, "Address", make("input", { name: "url", type: "url", required: true, placeholder: "http://build-box:7420", autocomplete: "off" })),
    make("label", {}, make("span", {}, "Its token ", make("span", { class: "soft" }, "optional")), make("input", { name: "token", type: "password", autocomplete: "off" })),
    make("button", { class: "main" }, "Add"));
  fill(place, top("Peers", "Other nodes that this one knows, found on the network or added."), map, rows, make("h2", {}, "Add a node"), add);
  const update = async () => {
    const [node, { peers }] = await Promise.all([get("/api/overview"), get("/peers")]);
    keep(rows, peers, ({ id }) => id, row, hint("No other node is known yet. Add one below, or let this node be found:", "http.listen = \"0.0.0.0:7420\" in config.toml"));
    map.hidden = !peers.length;
    const drawn = JSON.stringify([node.name, peers.map(({ alias, status, paired }) => [alias, status, paired])]);
    if (map.dataset.drawn === drawn) return;
    map.dataset.drawn = drawn;
    fill(map, picture(node.name, peers), peers.length > DRAWN_MAX ? make("p", { class: "soft" }, `and ${plural(peers.length - DRAWN_MAX, "more node", "more nodes")}`) : null);
  };
  await update();
  return { update };
}
