// Markdown as agents write it, made of elements. What is not understood stays as it was written.

import { make } from "./dom.js";

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|(?<![\w*])\*([^*\s](?:[^*]*[^*\s])?)\*(?![\w*])|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>)\]]+)/;

/** Words with code, emphasis and links in them. */
export function inline(text) {
  const parts = [];
  let rest = text;
  for (let found = INLINE.exec(rest); found; found = INLINE.exec(rest)) {
    const [whole, , code, strong, soft, words, target, bare] = found;
    parts.push(rest.slice(0, found.index));
    if (code !== undefined) parts.push(make("code", {}, code));
    else if (strong !== undefined) parts.push(make("strong", {}, inline(strong)));
    else if (soft !== undefined) parts.push(make("em", {}, inline(soft)));
    else parts.push(make("a", { href: target ?? bare, target: "_blank", rel: "noopener noreferrer" }, words ?? bare));
    rest = rest.slice(found.index + whole.length);
  }
  parts.push(rest);
  return parts;
}

const cells = (row) => row.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

/** Blocks that begin with a line, and how many lines they take. */
const BLOCKS = [
  (lines) => {
    const fence = /^\s*(```+|~~~+)\s*(\S*)/.exec(lines[0]);
    if (!fence) return null;
    const end = lines.findIndex((line, index) => index > 0 && line.trim().startsWith(fence[1]));
    const body = lines.slice(1, end < 0 ? undefined : end);
    return [code(body.join("\n"), fence[2]), end < 0 ? lines.length : end + 1];
  },
  (lines) => {
    const heading = /^(#{1,6})\s+(.*)/.exec(lines[0]);
    // Not a heading of the page: its order is not for an agent to decide.
    return heading && [make("p", { class: `heading h${heading[1].length}` }, make("strong", {}, inline(heading[2]))), 1];
  },
  (lines) => (/^\s*([-*_])(\s*\1){2,}\s*$/.test(lines[0]) ? [make("hr"), 1] : null),
  (lines) => many(lines, /^\s*>\s?(.*)/, (rows) => make("blockquote", {}, markdown(rows.join("\n")))),
  (lines) => many(lines, /^\s*[-*+]\s+(.*)/, (rows) => make("ul", {}, rows.map((row) => make("li", {}, inline(row))))),
  (lines) => many(lines, /^\s*\d+[.)]\s+(.*)/, (rows) => make("ol", {}, rows.map((row) => make("li", {}, inline(row))))),
  (lines) => {
    if (!/\|/.test(lines[0]) || !/^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[1] ?? "") || !lines[1].includes("|")) return null;
    let end = 2;
    while (end < lines.length && lines[end].includes("|")) end += 1;
    const row = (line, name) => make("tr", {}, cells(line).map((cell) => make(name, name === "th" ? { scope: "col" } : {}, inline(cell))));
    return [make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table" }, make("table", {},
      make("thead", {}, row(lines[0], "th")), make("tbody", {}, lines.slice(2, end).map((line) => row(line, "td"))))), end];
  },
];

function many(lines, pattern, build) {
  const rows = [];
  for (const line of lines) {
    const found = pattern.exec(line);
    if (found) rows.push(found[1]);
    else if (rows.length && /^\s{2,}\S/.test(line)) rows[rows.length - 1] += `\n${line.trim()}`;
    else break;
  }
  if (!rows.length) return null;
  const taken = rows.reduce((sum, row) => sum + row.split("\n").length, 0);
  return [build(rows), taken];
}

/** A block of code, which a keyboard can scroll. */
export function code(text, language = "") {
  return make("pre", { tabindex: "0", role: "group", "aria-label": language ? `Code in ${language}` : "Code" }, text);
}

/** Elements for a text. */
export function markdown(text) {
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
    const block = BLOCKS.reduce((found, begin) => found ?? begin(rest), null);
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
