// Making elements: text is always text, never markup, so nothing an agent says can run here.

/** An element with attributes, listeners (`on…`) and children: elements, texts, or nothing. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  apply(element, attributes);
  element.append(...children.flat(3).filter((child) => child != null && child !== false));
  return element;
}

/** The same for drawings. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(element, attributes);
  element.append(...children.flat(3).filter((child) => child != null && child !== false));
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
  element.replaceChildren(...children.flat(3).filter((child) => child != null && child !== false));
}

/** A moment, as people read it. */
export function moment(at) {
  const date = typeof at === "number" ? new Date(at) : new Date(Date.parse(at));
  return make("time", { datetime: date.toISOString(), title: date.toISOString() }, date.toLocaleString());
}

/** A state in a word, coloured and readable without colour. */
export function tag(word) {
  const good = ["running", "active", "completed", "succeeded", "online", "started"];
  const bad = ["crashed", "failed", "error", "expired", "offline", "interrupted"];
  const warn = ["awaiting", "waiting", "starting", "stopping", "in-progress", "input-required", "idle"];
  const tone = good.includes(word) ? "good" : bad.includes(word) ? "bad" : warn.includes(word) ? "warn" : "";
  return make("span", { class: `tag ${tone}` }, word);
}

/** A little Markdown: paragraphs, code and blocks of code. Everything else stays as it was written. */
export function markdown(text) {
  const parts = text.split(/```[^\n]*\n?/);
  return parts.flatMap((part, index) => {
    if (index % 2) return make("pre", { tabindex: "0" }, part);
    return part.split(/\n{2,}/).filter((paragraph) => paragraph.trim()).map((paragraph) =>
      make("p", {}, paragraph.split(/(`[^`\n]+`)/).map((piece) =>
        piece.startsWith("`") && piece.length > 2 ? make("code", {}, piece.slice(1, -1)) : piece)));
  });
}
