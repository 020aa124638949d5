// Making elements: text is always text, never markup, so nothing an agent says can run here.

/** Puts children in one by one: a text of an agent may be more parts than a call takes arguments. */
function put(element, children) {
  for (const child of children.flat(Infinity)) if (child != null && child !== false) element.append(child);
}

/** Letters that change how others look, or are not seen at all, are named: what is approved is what is read. Pictures that are
 * made of several letters stay whole. */
export const visible = (text) => String(text).replace(/(\p{Extended_Pictographic}\ufe0f?(?:\u200d(?=\p{Extended_Pictographic}))?)|[\p{Cf}\p{Default_Ignorable_Code_Point}\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]/gu,
  (letter, picture) => picture ?? `[U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

/** An element with attributes, listeners (`on…`) and children: elements, texts, or nothing. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  apply(element, attributes);
  put(element, children);
  return element;
}

/** The same for drawings. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(element, attributes);
  put(element, children);
  return element;
}

function apply(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** Puts new children into an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  put(element, children);
}

/** Shows a list that changes. An item that is as before keeps its element, and with it focus and what was typed. */
export function keep(element, items, keyOf, render, empty) {
  const before = element.kept ?? new Map();
  const now = new Map();
  for (const item of items) {
    const [key, text] = [keyOf(item), JSON.stringify(item)];
    const known = before.get(key);
    now.set(key, known?.text === text ? known : { text, shown: render(item) });
  }
  element.kept = now;
  const wanted = now.size ? [...now.values()].map(({ shown }) => shown) : [make("li", { class: "empty" }, typeof empty === "function" ? empty() : empty)];
  const same = wanted.length === element.children.length && wanted.every((shown, index) => shown === element.children[index]);
  if (same) return;
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const place = [...element.children].findIndex((child) => child.contains(focused));
  element.replaceChildren(...wanted);
  if (!focused) return;
  const again = focused.isConnected ? focused : focused.id && document.getElementById(focused.id);
  if (again) again.focus();
  // What had the focus is gone: whoever goes by keys goes on from where it was.
  else focusOn(wanted[Math.min(Math.max(place, 0), wanted.length - 1)]);
}

/** Puts the focus on something that is no control. */
export function focusOn(element) {
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
}

/** A moment, as people read it. */
export function moment(at) {
  const date = typeof at === "number" ? new Date(at) : new Date(Date.parse(at));
  if (Number.isNaN(date.getTime())) return "";
  const today = date.toDateString() === new Date().toDateString();
  const words = today ? date.toLocaleTimeString() : date.toLocaleString();
  return make("time", { datetime: date.toISOString(), title: date.toISOString() }, words);
}

const TONES = {
  good: ["running", "active", "completed", "succeeded", "online", "started", "ready", "connected", "working"],
  bad: ["crashed", "failed", "error", "expired", "offline", "interrupted", "rejected", "ended badly"],
  warn: ["awaiting", "waiting", "starting", "stopping", "in-progress", "input-required", "auth-required", "busy", "invited", "accepted"],
};

/** How a conversation is, in the same word wherever it is shown. */
export const stateOf = ({ busy, state }) => (busy ? "busy" : { active: "ready", idle: "ready" }[state] ?? state);

/** A state in a word, coloured and readable without colour. */
export function tag(word) {
  const tone = Object.keys(TONES).find((name) => TONES[name].includes(word)) ?? "";
  return make("span", { class: `tag ${tone}` }, word);
}

/** The top of a part: its title, a word on it, and what can be done. */
export function top(title, words, ...acts) {
  return make("div", { class: "top" },
    make("div", { class: "grow" }, make("h1", {}, title), words ? make("p", { class: "soft" }, words) : null), acts);
}

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** Nothing to show yet, and what to do about it. */
export const nothing = (words, ...more) => make("div", { class: "empty" }, make("p", {}, words), more);

/** What a list says while it is empty; a command is shown as one. */
export const hint = (words, command) => [words, command ? [" ", make("code", {}, command)] : null];

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** How long, in its two largest units. */
export function span(seconds) {
  let rest = Math.max(0, Math.floor(seconds));
  const words = [];
  for (const [size, unit] of UNITS) {
    const count = Math.floor(rest / size);
    if (count || (size === 1 && !words.length)) words.push(`${count} ${unit}`);
    rest -= count * size;
    if (words.length === 2) break;
  }
  return words.join(" ");
}

export const bytes = (count) => {
  if (count == null) return null;
  if (count < 1024) return `${count} B`;
  const units = ["KiB", "MiB", "GiB"];
  let [value, unit] = [count / 1024, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value.toFixed(1)} ${units[unit]}`;
};

/** Names and values in columns, long ones (`wide`) over the whole width; what has no value is left out. */
export const facts = (pairs) => make("dl", { class: "facts" }, pairs.filter(([, value]) => value != null && value !== "").map(([name, value, look]) =>
  make("div", { class: look }, make("dt", {}, name), make("dd", {}, value))));
