// A change of a file, line by line, with a little of what is around it.

import { make, visible } from "./dom.js";

/** Pairs of lines that are compared; beyond it everything old goes and everything new comes. */
const PAIRS_MAX = 1000000;
const AROUND = 3;

const linesOf = (text) => {
  const lines = text.split("\n");
  // What is behind the last end of a line is no line.
  if (lines.at(-1) === "") lines.pop();
  return lines;
};

/** Lines with a sign before each: same, gone or new. */
export function compare(before, after) {
  const [old, now] = [linesOf(before), linesOf(after)];
  // Where it begins and ends alike nothing is to be found out, however long it is.
  let [start, end] = [0, 0];
  const least = Math.min(old.length, now.length);
  while (start < least && old[start] === now[start]) start += 1;
  while (end < least - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const same = (lines) => lines.map((line) => [" ", line]);
  const lines = [...same(old.slice(0, start)), ...changed(old.slice(start, old.length - end), now.slice(start, now.length - end)), ...same(old.slice(old.length - end))];
  // Only the end of the last line is another one.
  if (before !== after && lines.length && lines.every(([sign]) => sign === " ")) lines.push([before.endsWith("\n") ? "-" : "+", "(the end of the last line)"]);
  return lines;
}

function changed(old, now) {
  if (old.length * now.length > PAIRS_MAX) return [...old.map((line) => ["-", line]), ...now.map((line) => ["+", line])];
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = old[i] === now[j] ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push([" ", old[i]]);
      [i, j] = [i + 1, j + 1];
    } else if (j >= now.length || (i < old.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      lines.push(["-", old[i]]);
      i += 1;
    } else {
      lines.push(["+", now[j]]);
      j += 1;
    }
  }
  return lines;
}

/** The end of a path: what is above the workspace tells nobody anything. */
const short = (path) => path.split("/").filter(Boolean).slice(-2).join("/");

/** The change as an element. Whoever decides about it sees the whole path. */
export function diff({ path, old, new: now }, isWhole = false) {
  const lines = compare(old ?? "", now ?? "");
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(([sign]) => sign !== " "));
  const kinds = { "+": "plus", "-": "minus", " ": "same" };
  const count = (wanted) => lines.filter(([sign]) => sign === wanted).length;
  return make("figure", { class: "diff" },
    make("figcaption", {}, make("code", { title: visible(path) }, visible(isWhole ? path : short(path))), " ",
      make("span", { class: "plus" }, `+${count("+")}`), " ", make("span", { class: "minus" }, `−${count("-")}`)),
    make("pre", { tabindex: "0", role: "group", "aria-label": `Changes of ${visible(path)}` }, lines.map(([sign, line], index) => {
      if (!near[index]) return index === 0 || near[index - 1] ? make("span", { class: "same" }, "⋯\n") : null;
      return make("span", { class: kinds[sign] }, `${sign} ${visible(line)}\n`);
    })));
}

/** A change of many files as git writes it, coloured. */
export function patch(text, label) {
  const files = text.split(/^(?=diff --git )/m).filter((part) => part.trim());
  return files.map((part) => {
    const lines = part.replace(/\n$/, "").split("\n");
    const start = lines.findIndex((line) => line.startsWith("@@"));
    const body = start < 0 ? lines.slice(1) : lines.slice(start);
    const path = / b\/(.*)$/.exec(lines[0])?.[1] ?? label;
    const count = (sign) => (start < 0 ? 0 : body.filter((line) => line.startsWith(sign)).length);
    const kind = (line) => ({ "+": "plus", "-": "minus", "@": "hunk" }[line[0]] ?? "same");
    return make("figure", { class: "diff" },
      make("figcaption", {}, make("code", {}, visible(path)), " ",
        make("span", { class: "plus" }, `+${count("+")}`), " ", make("span", { class: "minus" }, `−${count("-")}`)),
      make("pre", { tabindex: "0", role: "group", "aria-label": `Changes of ${visible(path)}` },
        body.map((line) => make("span", { class: kind(line) }, `${visible(line)}\n`))));
  });
}
