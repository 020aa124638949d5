// A conversation on the page: what was said, what was done, what is asked; each event is taken once.

import { post } from "./api.js";
import { attempt } from "./app.js";
import { diff } from "./diff.js";
import { facts, fill, focusOn, make, moment, tag, visible } from "./dom.js";
import { fields } from "./form.js";
import { graph } from "./graph.js";
import { code, markdown } from "./markdown.js";

/** Letters of a tool's output, names and places in what it was given that are shown; what is left out is told. And letters
 * that are a line. */
const OUTPUT_MAX = 20000, SHOWN_MAX = 60, LINE_MAX = 200;

/** Painting takes at most one part in so many of the time, however long a text has become. */
const PAINT_SHARE = 6;

/** Letters that may be painted again and again; a longer paragraph is cut at a line. */
const TAIL_MAX = 8000;

/** Lines that may belong to the block before, though a line between them is empty: items, code of an item, quotes, rows. */
const GOES_ON = /^[\s\-*+>|\d]/;

/** Where a growing text is settled: at its last block, if nothing that comes can change what is before it. */
export function settled(text) {
  let [fence, isBlank, at, sure, likely] = [null, false, 0, 0, 0];
  for (const line of text.split("\n")) {
    const mark = /^\s*(`{3,}|~{3,})(.*)$/.exec(line);
    if (fence) {
      if (mark && mark[1].startsWith(fence) && !mark[2].trim()) fence = null;
    } else {
      if (isBlank && line.trim()) {
        likely = at;
        if (!GOES_ON.test(line)) sure = at;
      }
      if (mark && !mark[2].includes("`")) fence = mark[1];
    }
    isBlank = !line.trim();
    at += line.length + 1;
  }
  if (sure || fence || text.length <= TAIL_MAX) return sure;
  return likely || text.lastIndexOf("\n") + 1;
}

/** The transcript of a session. `workflows` are those whose steps are drawn when a turn runs one; an agent that is a workflow
 * runs that one, whatever it is told. */
export function transcript(session, workflows, own, onBusy) {
  const element = make("div", { class: "transcript", role: "log", "aria-label": "Transcript" });
  const tools = new Map();
  const asks = new Map();
  let last = 0, open = null, turn = null, painted = false;

  /** The same in view, whoever answers: what an ask is about may have been told with the call before it. */
  const whole = (asked) => (asked.tool ? { ...asked, tool: { ...tools.get(asked.tool.id)?.state, ...asked.tool } } : asked);

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
      turn = { number: event.turn, prompt: event.prompt, spent: null };
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
    ask: (event) => asks.set(event.id, { asked: event, box: add(make("article", { class: `said ask ${event.destructive ? "destructive" : ""}` }, make("p", { class: "who" }, "The agent asks"), question(session, whole(event)))) }),
    "ask-settled": ({ ask, answer, by }) => {
      const words = { option: "Answered", text: "Answered", declined: "Declined" }[answer.answer] ?? "Over";
      const said = answered(asks.get(ask)?.asked, answer);
      settle(ask, `${words}${by ? ` by ${by}` : ""}${said ? `: ${said}` : ""}.`);
    },
    "turn-ended": (event) => {
      const { reason, message } = event.stop;
      if (reason === "cancelled" && event.turn !== turn?.number) {
        // It never began, and another one may be running.
        add(make("p", { class: "notice" }, "A prompt that waited was taken back."));
        return onBusy(null);
      }
      turn?.graph?.finish(reason === "end-turn", reason === "cancelled");
      // Nobody waits for an answer any more: the node may have died before it could say so.
      for (const id of [...asks.keys()]) settle(id, "The turn ended before it was answered.");
      // And nothing runs any more, though nobody was there to say how it ended.
      for (const [id, { state }] of tools) if (["pending", "in-progress", undefined].includes(state.status)) tool({ id, status: "interrupted" });
      const spent = turn?.spent ? ` · ${turn.spent.inputTokens ?? 0} tokens in, ${turn.spent.outputTokens ?? 0} out` : "";
      const words = reason === "end-turn" ? `The turn is over${spent}` : `The turn ended: ${message ?? reason}${spent}`;
      add(make("p", { class: `notice end ${reason === "failed" ? "bad" : ""}` }, words));
      onBusy(false);
    },
  };

  /** What was asked waits no longer. */
  function settle(id, words) {
    const box = asks.get(id)?.box;
    if (!box) return;
    asks.delete(id);
    const isHere = box.contains(document.activeElement);
    box.classList.add("settled");
    box.querySelector(".answers")?.replaceWith(make("p", { class: "soft" }, words));
    if (isHere) focusOn(box);
  }

  function tool(event) {
    const key = event.id;
    let known = tools.get(key);
    if (!known) {
      known = { box: add(make("article", { class: "said tool" })), state: {} };
      tools.set(key, known);
    }
    for (const [name, value] of Object.entries(event)) if (value != null) known.state[name] = value;
    const { title, status, content = [], kind, input, output, locations } = known.state;
    const isOpen = known.box.querySelector("details")?.open;
    known.box.dataset.status = status;
    fill(known.box, make("p", { class: "line" }, make("span", { class: "kind" }, kind ?? "tool"), make("strong", { class: "grow" }, visible(title ?? key)),
      tag(status === "in-progress" ? "running" : status ?? "pending")), content.map((part) => shown(part)),
    input || output || locations?.length ? make("details", { class: "more", open: isOpen }, make("summary", {}, "Input and output"),
      given({ input, locations }), output ? [make("p", { class: "who" }, "Output"), json(output)] : null) : null);
    // Steps of a run are calls, named after the run and their path in it.
    if (status === "failed" && turn) {
      const step = key.slice(key.indexOf(":") + 1);
      (turn.failed ??= new Set()).add(step);
      turn.graph?.fail(step);
      if (turn.entries) steps();
    }
    paint();
  }

  function plan(event) {
    turn ??= {};
    const name = own ?? /^\s*\/(\S+)/.exec(turn.prompt ?? "")?.[1];
    const workflow = workflows.find((known) => known.name === name);
    if (!turn.planned) {
      turn.planned = add(make("article", { class: "said plan" }));
      turn.graph = workflow && workflow.steps.length ? graph(workflow) : null;
      fill(turn.planned, make("p", { class: "who" }, turn.graph ? `Workflow ${name}` : "Plan"), turn.graph?.element);
    }
    if (turn.graph) {
      for (const entry of event.entries) {
        const step = workflow.steps.find(({ name: known }) => entry.text === known || entry.text.startsWith(`${known}: `));
        if (step) turn.graph.colour(step.name, entry.status);
      }
    } else {
      turn.entries = event.entries;
      steps();
    }
    paint();
  }

  /** The plan as a list. An agent's plan has no word for a step that failed; the call of the step has. */
  function steps() {
    const signs = { pending: "○", "in-progress": "●", completed: "✓", failed: "✕" };
    const how = ({ text, status }) => ([...turn.failed ?? []].some((step) => text === step || text.startsWith(`${step}: `)) ? "failed" : status);
    fill(turn.planned, make("p", { class: "who" }, "Plan"), make("ul", { class: "steps" }, turn.entries.map((entry) =>
      make("li", { class: how(entry) }, make("span", { class: "sign", "aria-hidden": "true" }, signs[how(entry)]), entry.text, make("span", { class: "hidden" }, ` (${how(entry)})`)))));
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
      try {
        kinds[event.type]?.(event);
      } catch (error) {
        // What comes after it is shown all the same.
        element.append(make("p", { class: "notice bad" }, `Something here cannot be shown: ${error.message}`));
      }
    },
  };
}

const bounded = (text) => visible((text.length > OUTPUT_MAX ? `${text.slice(0, OUTPUT_MAX)}\n… ${text.length - OUTPUT_MAX} more letters` : text).replaceAll("\r\n", "\n"));

function shown(content, isWhole = false) {
  if (content.type === "diff") return diff(content, isWhole);
  if (content.type !== "text") return null;
  return code(bounded(content.text));
}

/** A long text is one that a keyboard can scroll. */
const long = (text) => (text.length > LINE_MAX || text.includes("\n") ? code(text) : text);

/** JSON text: an object as names and values, anything else as it is written. */
function json(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return code(bounded(text));
  }
  if (typeof value === "string") return code(bounded(value));
  if (!value || typeof value !== "object" || Array.isArray(value)) return code(bounded(JSON.stringify(value, null, 2)));
  const pairs = Object.entries(value);
  const written = (part) => bounded(typeof part === "string" ? part || "\"\"" : JSON.stringify(part, null, 2));
  const rows = pairs.slice(0, SHOWN_MAX).map(([name, part]) => [visible(name.slice(0, LINE_MAX)), long(written(part))]);
  return [facts(rows), pairs.length > SHOWN_MAX ? make("p", { class: "soft" }, `… ${pairs.length - SHOWN_MAX} more`) : null];
}

/** What a tool is given, and where it acts. */
function given({ input, locations = [] }) {
  return [
    locations.length ? make("ul", { class: "chips", "aria-label": "Where" }, locations.slice(0, SHOWN_MAX).map(({ path, line }) =>
      make("li", {}, bounded(path) + (line ? `:${line}` : ""))), locations.length > SHOWN_MAX ? make("li", {}, `… ${locations.length - SHOWN_MAX} more`) : null) : null,
    input ? make("div", { class: "given", role: "group", "aria-label": "What it is given" }, json(input)) : null,
  ];
}

/** What an approval of a workflow is called; every one is a person's to give. */
const GATE = "workflow approval";

/** Whether what is asked about cannot be undone. */
const isFinal = (ask) => ask.destructive && ask.tool.name !== GATE;

/** The fields of a question that wants more than a line; nothing for the others. */
function formOf(schema) {
  try {
    const wanted = JSON.parse(schema ?? "null");
    return wanted?.properties ? fields(wanted) : null;
  } catch {
    return null;
  }
}

/** What was answered, in the words that were read: of an option its name, of a form its fields. */
function answered(asked, { id, text }) {
  const cut = (words) => visible(words.length > LINE_MAX ? `${words.slice(0, LINE_MAX)}…` : words);
  if (id !== undefined) return cut(asked?.options?.find((option) => option.id === id)?.name ?? id);
  if (text === undefined) return "";
  try {
    const filled = Object.entries(JSON.parse(text)).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`);
    return asked?.schema ? cut(filled.join(", ")) : cut(text);
  } catch {
    return cut(text);
  }
}

/** What is asked, with all that it is about and a way to answer it. */
export function question(session, ask, { after = () => {} } = {}) {
  const path = `/api/sessions/${encodeURIComponent(session)}/asks/${encodeURIComponent(ask.id)}`;
  const reply = (answer) => attempt(async () => {
    await post(path, answer());
    await after();
  });
  if (ask.ask === "permission") {
    const looks = { "allow-once": isFinal(ask) ? "danger" : "main", "allow-always": isFinal(ask) ? "danger" : "" };
    const { tool } = ask;
    return [
      make("p", { class: "line" }, make("span", { class: "kind" }, tool.kind), make("strong", { class: "grow" }, visible(tool.title)),
        tool.name && tool.name !== tool.title && !tool.name.startsWith(GATE) ? make("code", {}, visible(tool.name)) : null,
        isFinal(ask) ? make("span", { class: "tag bad destructive" }, "cannot be undone") : null),
      given(tool),
      (tool.content ?? []).map((part) => shown(part, true)),
      make("div", { class: "answers" }, ask.options.map((option) =>
        make("button", { class: looks[option.kind] ?? "", onclick: reply(() => ({ answer: "option", id: option.id })) }, visible(option.name))),
        // Somebody has to be able to say no, whatever is offered.
        ask.options.length ? null : make("button", { type: "button", onclick: reply(() => ({ answer: "declined" })) }, "Decline")),
    ];
  }
  const decline = make("button", { type: "button", onclick: reply(() => ({ answer: "declined" })) }, "Decline");
  const words = make("div", {}, markdown(visible(ask.text.replaceAll("\r\n", "\n"))));
  const wanted = formOf(ask.schema);
  // There is nothing to fill in: it is agreed to, or not.
  if (wanted && !wanted.labels.length) {
    return [words, make("div", { class: "answers" }, make("button", { type: "button", class: "main", onclick: reply(() => ({ answer: "text", text: "{}" })) }, "Accept"), decline)];
  }
  const input = wanted ? null : make("input", { name: "answer", autocomplete: "off" });
  const said = () => (wanted ? JSON.stringify(wanted.read(form)) : input.value);
  const form = make("form", { class: wanted ? "answers fields" : "inline answers", onsubmit: reply(() => ({ answer: "text", text: said() })) },
    wanted ? wanted.labels : make("label", {}, "Answer", input),
    make("div", { class: "acts" }, make("button", { class: "main" }, "Answer"), decline));
  return [words, form];
}
