// Markdown as agents write it, made of elements. What is not understood stays as it was written.

import { make } from "./dom.js";

/** Blocks in blocks, and words in words, that are made; what is deeper stays as it was written. */
const DEPTH_MAX = 24;

/** What is inside words, the earliest first. A name such as snake_case_name has no emphasis in it. Each has a length that it may
 * have: a sign that is never closed is looked for no further. */
const INLINE = new RegExp([
  String.raw`\\(?<escaped>[\\\x60*_{}\[\]()#+\-.!|<>~\n])`,
  String.raw`(?<tick>\x60+)(?!\x60)(?<code>.{0,2000}?[^\x60])\k<tick>(?!\x60)`,
  String.raw`\*\*\*(?<both>\S|\S.{0,1000}?\S)\*\*\*`,
  String.raw`\*\*(?<strong>\S|\S.{0,1000}?\S)\*\*`,
  String.raw`(?<!\w)__(?<bold>\S|\S.{0,1000}?\S)__(?!\w)`,
  String.raw`(?<![\w*])\*(?<soft>[^*\s](?:[^*]{0,1000}[^*\s])?)\*(?![\w*])`,
  String.raw`(?<!\w)_(?<em>[^_\s](?:[^_]{0,1000}[^_\s])?)_(?!\w)`,
  String.raw`~~(?<gone>\S|\S.{0,1000}?\S)~~`,
  String.raw`(?<image>!?)\[(?<words>[^\]\n]{0,1000})\]\((?<target>[^\s()]{1,2000}(?:\([^\s()]{0,200}\)[^\s()]{0,200}){0,4})(?:\s+"[^"\n]*")?\)`,
  String.raw`(?<bare>https?:\/\/[^\s<>)\]]*[^\s<>)\].,;:!?'"])`,
].join("|"));

/** A way out of the page is a link; what is only on the agent's machine is named. An image is not loaded from anywhere. */
function link({ image, words, target }, depth) {
  const name = words || target;
  const shown = image ? ["image: ", inline(name, depth)] : inline(name, depth);
  return /^(https?:|mailto:)/i.test(target) ? make("a", { href: target, target: "_blank", rel: "noopener noreferrer" }, shown)
    : [shown, name === target ? null : [" ", make("code", {}, target)]];
}

/** Words with code, emphasis and links in them. */
export function inline(text, depth = 0) {
  if (depth > DEPTH_MAX) return [text];
  const parts = [];
  const deeper = (words) => inline(words, depth + 1);
  let rest = text;
  for (let found = INLINE.exec(rest); found; found = INLINE.exec(rest)) {
    const { escaped, code: written, both, strong, bold, soft, em, gone, target, bare } = found.groups;
    parts.push(rest.slice(0, found.index));
    if (escaped !== undefined) parts.push(escaped);
    else if (written !== undefined) parts.push(make("code", {}, written.replace(/^ (.*\S.*) $/, "$1")));
    else if (both !== undefined) parts.push(make("strong", {}, make("em", {}, deeper(both))));
    else if ((strong ?? bold) !== undefined) parts.push(make("strong", {}, deeper(strong ?? bold)));
    else if ((soft ?? em) !== undefined) parts.push(make("em", {}, deeper(soft ?? em)));
    else if (gone !== undefined) parts.push(make("del", {}, deeper(gone)));
    else if (target !== undefined) parts.push(link(found.groups, depth + 1));
    else parts.push(make("a", { href: bare, target: "_blank", rel: "noopener noreferrer" }, bare));
    rest = rest.slice(found.index + found[0].length);
  }
  parts.push(rest);
  return parts;
}

const cells = (row) => row.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

/** Blocks that begin with a line, and how many lines they take. */
const BLOCKS = [
  (lines) => {
    const fence = /^(\s*)(`{3,}|~{3,})\s*([^\s`]*)([^`]*)$/.exec(lines[0]);
    if (!fence) return null;
    const [, indent, mark, language] = fence;
    // Only a fence that is as long ends it, so that a fence can be shown in one.
    const ends = (line) => line.trim().startsWith(mark) && !line.trim().replaceAll(mark[0], "");
    const end = lines.findIndex((line, index) => index > 0 && ends(line));
    const body = lines.slice(1, end < 0 ? undefined : end).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
    return [code(body.join("\n"), language), end < 0 ? lines.length : end + 1];
  },
  (lines) => {
    const heading = /^(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/.exec(lines[0]);
    // Not a heading of the page: its order is not for an agent to decide.
    return heading && [make("p", { class: `heading h${heading[1].length}` }, make("strong", {}, inline(heading[2]))), 1];
  },
  (lines) => (/^=+\s*$/.test(lines[1] ?? "") ? [make("p", { class: "heading h1" }, make("strong", {}, inline(lines[0]))), 2] : null),
  (lines) => (/^\s*([-*_])(\s*\1){2,}\s*$/.test(lines[0]) ? [make("hr"), 1] : null),
  (lines, depth) => {
    const end = lines.findIndex((line) => !/^\s*>/.test(line));
    const rows = end < 0 ? lines : lines.slice(0, end);
    return rows.length ? [make("blockquote", {}, markdown(rows.map((row) => row.replace(/^\s*>\s?/, "")).join("\n"), depth + 1)), rows.length] : null;
  },
  (lines, depth) => list(lines, depth),
  (lines) => {
    if (!/\|/.test(lines[0]) || !/^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[1] ?? "") || !lines[1].includes("|")) return null;
    let end = 2;
    while (end < lines.length && lines[end].includes("|")) end += 1;
    const row = (line, name) => make("tr", {}, cells(line).map((cell) => make(name, name === "th" ? { scope: "col" } : {}, inline(cell))));
    return [make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table" }, make("table", {},
      make("thead", {}, row(lines[0], "th")), make("tbody", {}, lines.slice(2, end).map((line) => row(line, "td"))))), end];
  },
];

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:(\s+)(.*)|)$/;
const indentOf = (line) => /^\s*/.exec(line)[0].length;

/** A list: its items go on over empty lines as long as what follows is indented or is the next item. */
function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  if (!first) return null;
  const [, indent, mark] = first;
  const isOrdered = /\d/.test(mark);
  const items = [];
  let [taken, inside, isLoose] = [0, 0, false];
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index];
    if (!line.trim()) continue;
    const item = ITEM.exec(line);
    const isNext = item && item[1].length < (inside || indent.length + 1) && item[1].length >= indent.length && item[2].at(-1) === mark.at(-1);
    const gap = index > taken;
    if (isNext) {
      inside = item[1].length + item[2].length + Math.min(item[3]?.length ?? 1, 4);
      isLoose ||= gap;
      items.push([item[4] ?? ""]);
    } else if (indentOf(line) >= Math.min(inside, indent.length + 2)) {
      if (gap) items.at(-1).push("");
      items.at(-1).push(line.slice(Math.min(indentOf(line), inside)));
    } else {
      break;
    }
    taken = index + 1;
  }
  const start = Number.parseInt(mark, 10);
  return [make(isOrdered ? "ol" : "ul", { start: isOrdered && start !== 1 ? start : null }, items.map((rows) => entry(rows, isLoose, depth + 1))), taken];
}

const BOXES = { " ": ["☐", "open"], x: ["☑", "done"], X: ["☑", "done"] };

/** An item: blocks of its own. Words that are alone in it, or in a list without empty lines, are no paragraph. */
function entry([first, ...more], isLoose, depth) {
  const task = /^\[([ xX])\]\s+(.*)$/.exec(first);
  const blocks = markdown([task ? task[2] : first, ...more].join("\n"), depth);
  const parts = isLoose || blocks.filter(({ tagName }) => tagName === "P").length > 1 ? blocks : blocks.flatMap((block) => (block.className === "" && block.tagName === "P" ? [...block.childNodes] : [block]));
  if (!task) return make("li", {}, parts);
  const [sign, word] = BOXES[task[1]];
  return make("li", { class: "task" }, make("span", { role: "img", "aria-label": word }, sign), " ", parts);
}

/** A block of code, which a keyboard can scroll. */
export function code(text, language = "") {
  return make("pre", { tabindex: "0", role: "group", "aria-label": language ? `Code in ${language}` : "Code" }, text);
}

/** Elements for a text. What cannot be made of it stays as it was written: a conversation goes on after it. */
export function markdown(text, depth = 0) {
  if (depth > DEPTH_MAX) return [make("p", {}, text)];
  if (depth > 0) return blocksOf(text, depth);
  try {
    return blocksOf(text, depth);
  } catch {
    return [make("p", {}, text)];
  }
}

function blocksOf(text, depth) {
  const made = [];
  let lines = text.replaceAll("\r\n", "\n").split("\n");
  let words = [];
  const flush = () => {
    if (words.length) made.push(make("p", {}, inline(words.join("\n"))));
    words = [];
  };
  while (lines.length) {
    if (!lines[0].trim()) {
      flush();
      lines = lines.slice(1);
      continue;
    }
    const rest = lines;
    const block = BLOCKS.reduce((found, begin) => found ?? begin(rest, depth), null);
    if (block) {
      flush();
      made.push(block[0]);
      lines = lines.slice(block[1]);
    } else {
      words.push(lines[0]);
      lines = lines.slice(1);
    }
  }
  flush();
  return made;
}
