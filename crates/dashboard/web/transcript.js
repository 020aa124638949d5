// A conversation on the page: what was said, what was done, what is asked; each event is taken once.

import { post } from "./api.js";
import { attempt } from "./app.js";
import { fill, make, markdown, tag } from "./dom.js";

export function transcript(session) {
  const element = make("div", { class: "transcript", role: "log", "aria-label": "Transcript" });
  const tools = new Map();
  const asks = new Map();
  let last = 0;
  let open = null;

  const add = (child) => {
    const atEnd = innerHeight + scrollY >= document.body.scrollHeight - 120;
    element.append(child);
    if (atEnd) scrollTo(0, document.body.scrollHeight);
    return child;
  };
  const grow = (kind, text) => {
    if (open?.kind !== kind) open = { kind, text: "", box: add(make("div", { class: `said ${kind}` })) };
    open.text += text;
    fill(open.box, markdown(open.text));
  };
  const plain = (kind, ...children) => {
    open = null;
    return add(make("div", { class: `said ${kind}` }, ...children));
  };

  const kinds = {
    "turn-started": (event) => plain("me", markdown(event.prompt)),
    text: (event) => grow("agent", event.text),
    thought: (event) => grow("thought", event.text),
    notice: (event) => plain("notice", event.text),
    "tool-call": (event) => tool(event),
    "tool-update": (event) => tool(event),
    plan: (event) => plan(event),
    ask: (event) => ask(event),
    "ask-settled": (event) => {
      const box = asks.get(event.ask);
      if (box) fill(box, make("p", {}, `Answered${event.by ? ` by ${event.by}` : ""}.`));
    },
    "turn-ended": (event) => {
      const words = event.stop.message ?? event.stop.reason;
      plain("notice", event.stop.reason === "end-turn" ? "The turn is over." : `The turn ended: ${words}`);
    },
  };

  function tool(event) {
    open = null;
    let known = tools.get(event.id);
    if (!known) {
      known = { box: add(make("div", { class: "said" })), state: {} };
      tools.set(event.id, known);
    }
    for (const [key, value] of Object.entries(event)) if (value != null) known.state[key] = value;
    const { title, status, content = [], kind } = known.state;
    fill(known.box,
      make("p", {}, make("strong", {}, title ?? event.id), " ", make("small", { class: "soft" }, kind ?? ""), " ",
        tag(status === "in-progress" ? "running" : status ?? "pending")),
      content.map(shown));
  }

  let planned = null;
  function plan(event) {
    open = null;
    planned ??= add(make("div", { class: "said" }));
    fill(planned, make("ol", {}, event.entries.map((entry) => make("li", {}, entry.text, " ", tag(entry.status)))));
  }

  function ask(event) {
    const box = plain("ask", question(session, event));
    asks.set(event.id, box);
  }

  return {
    element,
    take(event) {
      if (event.seq <= last) return;
      last = event.seq;
      kinds[event.type]?.(event);
    },
  };
}

function shown(content) {
  if (content.type === "text") return make("pre", { tabindex: "0" }, content.text);
  if (content.type === "diff") {
    const minus = (content.old ?? "").split("\n");
    const plus = content.new.split("\n");
    const gone = minus.filter((row) => !plus.includes(row));
    const come = plus.filter((row) => !minus.includes(row));
    return make("pre", { class: "diff", tabindex: "0" }, `${content.path}\n`,
      gone.map((row) => make("span", { class: "minus" }, `- ${row}\n`)),
      come.map((row) => make("span", { class: "plus" }, `+ ${row}\n`)));
  }
  return null;
}

/** What is asked, with a way to answer it. */
export function question(session, ask, after = () => {}) {
  const path = `/api/sessions/${encodeURIComponent(session)}/asks/${encodeURIComponent(ask.id)}`;
  const reply = (answer) => attempt(async () => {
    await post(path, answer);
    await after();
  });
  if (ask.ask === "permission") {
    return [
      make("p", {}, make("strong", {}, ask.tool.title), " ",
        ask.destructive ? make("span", { class: "tag bad" }, "cannot be undone") : null),
      (ask.tool.content ?? []).map(shown),
      make("p", { class: "row" }, ask.options.map((option) =>
        make("button", { class: option.kind === "allow-once" ? "main" : "", onclick: reply({ answer: "option", id: option.id }) }, option.name))),
    ];
  }
  const input = make("input", { name: "answer", "aria-label": "Answer", autocomplete: "off" });
  return [
    make("p", {}, ask.text),
    make("form", { class: "inline", onsubmit: (event) => reply({ answer: "text", text: input.value })(event) },
      make("label", {}, "Answer", input), make("button", { class: "main" }, "Answer"),
      make("button", { type: "button", onclick: reply({ answer: "declined" }) }, "Decline")),
  ];
}
