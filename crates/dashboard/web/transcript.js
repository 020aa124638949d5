// A conversation on the page: what was said, what was done, what is asked; each event is taken once.

import { post } from "./api.js";
import { attempt } from "./app.js";
import { diff } from "./diff.js";
import { fill, make, moment, tag } from "./dom.js";
import { graph } from "./graph.js";
import { code, markdown } from "./markdown.js";

/** Letters of a tool's output that are shown at once. */
const OUTPUT_MAX = 20000;

/** Painting takes at most one part in so many of the time, however long a text has become. */
const PAINT_SHARE = 6;

/** Letters that may be painted again and again; a longer paragraph is cut at a line. */
const TAIL_MAX = 8000;

/** Where a growing text is settled: after its last block that is over. Nothing that comes can change what is before. */
export function settled(text) {
  const blank = text.lastIndexOf("\n\n");
  const end = blank < 0 && text.length > TAIL_MAX ? text.lastIndexOf("\n") : blank;
  if (end < 0) return 0;
  const fences = text.slice(0, end).match(/^\s*(```|~~~)/gm)?.length ?? 0;
  return fences % 2 ? 0 : end + (end === blank ? 2 : 1);
}

/** The transcript of a session. `workflows` are those whose steps are drawn when a turn runs one. */
export function transcript(session, workflows, onBusy) {
  const element = make("div", { class: "transcript", role: "log", "aria-label": "Transcript" });
  const tools = new Map();
  const asks = new Map();
  let last = 0, open = null, turn = null, painted = false;

  // What came in one frame is painted once, and a long text less often.
  let restUntil = 0;
  const paint = () => {
    if (painted) return;
    painted = true;
    const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 160;
    const begin = () => requestAnimationFrame(() => {
      painted = false;
      const start = performance.now();
      show();
      if (atEnd) scrollTo(0, document.documentElement.scrollHeight);
      restUntil = performance.now() + (performance.now() - start) * PAINT_SHARE;
    });
    const rest = restUntil - performance.now();
    if (rest > 0) setTimeout(begin, rest);
    else begin();
  };
  const show = () => {
    if (!open?.changed) return;
    open.changed = false;
    const whole = settled(open.text);
    if (whole) {
      open.tail.before(...markdown(open.text.slice(0, whole)));
      open.text = open.text.slice(whole);
    }
    fill(open.tail, markdown(open.text));
  };
  const close = () => {
    show();
    open = null;
  };
  const add = (child) => {
    close();
    paint();
    element.append(child);
    return child;
  };
  const grow = (kind, name, text) => {
    if (open?.kind !== kind) {
      const tail = make("div", { class: "tail" });
      add(make("article", { class: `said ${kind}` }, make("p", { class: "who" }, name), make("div", { class: "body" }, tail)));
      open = { kind, text: "", tail };
    }
    open.text += text;
    open.changed = true;
    paint();
  };

  const kinds = {
    "turn-started": (event) => {
      turn = { prompt: event.prompt, spent: null };
      add(make("article", { class: "said me" }, make("p", { class: "who" }, "Prompt ", moment(event.at)), make("div", { class: "body" }, markdown(event.prompt))));
      onBusy(true);
    },
    text: (event) => grow("agent", "Agent", event.text),
    thought: (event) => grow("thought", "Thinking", event.text),
    notice: (event) => add(make("p", { class: "notice" }, event.text)),
    artifact: (event) => add(make("p", { class: "notice" }, `${event.change[0].toUpperCase()}${event.change.slice(1)} `, make("code", {}, event.path))),
    usage: (event) => { if (turn) turn.spent = event; },
    "tool-call": (event) => tool(event),
    "tool-update": (event) => tool(event),
    plan: (event) => plan(event),
    ask: (event) => asks.set(event.id, add(make("article", { class: "said ask" }, make("p", { class: "who" }, "The agent asks"), question(session, event, { isShown: tools.has(event.tool?.id) })))),
    "ask-settled": (event) => {
      const box = asks.get(event.ask);
      if (!box) return;
      const words = { option: "Answered", text: "Answered", declined: "Declined" }[event.answer.answer] ?? "Over";
      box.classList.add("settled");
      box.querySelector(".answers")?.replaceWith(make("p", { class: "soft" }, `${words}${event.by ? ` by ${event.by}` : ""}${event.answer.id ? `: ${event.answer.id}` : ""}.`));
    },
    "turn-ended": (event) => {
      const { reason, message } = event.stop;
      turn?.graph?.finish(reason === "end-turn");
      const spent = turn?.spent ? ` · ${turn.spent.inputTokens ?? 0} tokens in, ${turn.spent.outputTokens ?? 0} out` : "";
      const words = reason === "end-turn" ? `The turn is over${spent}` : `The turn ended: ${message ?? reason}${spent}`;
      add(make("p", { class: `notice end ${reason === "failed" ? "bad" : ""}` }, words));
      onBusy(false);
    },
  };

  function tool(event) {
    const key = event.id;
    let known = tools.get(key);
    if (!known) {
      known = { box: add(make("article", { class: "said tool" })), state: {} };
      tools.set(key, known);
    }
    for (const [name, value] of Object.entries(event)) if (value != null) known.state[name] = value;
    const { title, status, content = [], kind } = known.state;
    known.box.dataset.status = status;
    fill(known.box, make("p", { class: "line" }, make("span", { class: "kind" }, kind ?? "tool"), make("strong", { class: "grow" }, title ?? key),
      tag(status === "in-progress" ? "running" : status ?? "pending")), content.map(shown));
    if (status === "failed") turn?.graph?.colour(key.replace(/#\d+$/, ""), "failed");
    paint();
  }

  function plan(event) {
    turn ??= {};
    const name = /^\s*\/(\S+)/.exec(turn.prompt ?? "")?.[1];
    const workflow = workflows.find((known) => known.name === name);
    if (!turn.planned) {
      turn.planned = add(make("article", { class: "said plan" }));
      turn.graph = workflow && workflow.steps.length ? graph(workflow) : null;
      fill(turn.planned, make("p", { class: "who" }, workflow ? `Workflow ${name}` : "Plan"), turn.graph?.element);
    }
    if (turn.graph) {
      for (const entry of event.entries) {
        const step = workflow.steps.find(({ name: known }) => entry.text === known || entry.text.startsWith(`${known}: `));
        if (step) turn.graph.colour(step.name, entry.status);
      }
    } else {
      const signs = { pending: "○", "in-progress": "●", completed: "✓" };
      fill(turn.planned, make("p", { class: "who" }, "Plan"), make("ul", { class: "steps" }, event.entries.map((entry) =>
        make("li", { class: entry.status }, make("span", { class: "sign", "aria-hidden": "true" }, signs[entry.status]), entry.text, make("span", { class: "hidden" }, ` (${entry.status})`)))));
    }
    paint();
  }

  return {
    element,
    next: () => last + 1,
    /** Everything will come once more. */
    anew() {
      tools.clear();
      asks.clear();
      [last, open, turn] = [0, null, null];
      fill(element);
      onBusy(false);
    },
    take(event) {
      if (event.seq <= last) return;
      last = event.seq;
      kinds[event.type]?.(event);
    },
  };
}

function shown(content) {
  if (content.type === "diff") return diff(content);
  if (content.type !== "text") return null;
  const { text } = content;
  return code(text.length > OUTPUT_MAX ? `${text.slice(0, OUTPUT_MAX)}\n… ${text.length - OUTPUT_MAX} more letters` : text);
}

/** What is asked, with a way to answer it. `isShown` says that what it is about is in view already. */
export function question(session, ask, { isShown = false, after = () => {} } = {}) {
  const path = `/api/sessions/${encodeURIComponent(session)}/asks/${encodeURIComponent(ask.id)}`;
  const reply = (answer) => attempt(async () => {
    await post(path, answer());
    await after();
  });
  if (ask.ask === "permission") {
    const looks = { "allow-once": ask.destructive ? "danger" : "main", "allow-always": ask.destructive ? "danger" : "" };
    return [
      make("p", { class: "line" }, make("span", { class: "kind" }, ask.tool.kind), make("strong", { class: "grow" }, ask.tool.title),
        ask.destructive ? make("span", { class: "tag bad destructive" }, "cannot be undone") : null),
      isShown ? null : (ask.tool.content ?? []).map(shown),
      make("div", { class: "answers" }, ask.options.map((option) =>
        make("button", { class: looks[option.kind] ?? "", onclick: reply(() => ({ answer: "option", id: option.id })) }, option.name))),
    ];
  }
  const input = make("input", { name: "answer", autocomplete: "off" });
  return [
    make("div", {}, markdown(ask.text)),
    make("form", { class: "inline answers", onsubmit: reply(() => ({ answer: "text", text: input.value })) },
      make("label", {}, "Answer", input), make("button", { class: "main" }, "Answer"),
      make("button", { type: "button", onclick: reply(() => ({ answer: "declined" })) }, "Decline")),
  ];
}
