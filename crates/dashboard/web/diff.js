// A change of a file, line by line, with a little of what is around it.

import { make } from "./dom.js";

/** Pairs of lines that are compared; beyond it everything old goes and everything new comes. */
const PAIRS_MAX = 1000000;
const AROUND = 3;

/** Lines with a sign before each: same, gone or new. */
export function compare(before, after) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  if (before === "") old.length = 0;
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

/** The change as an element. */
export function diff({ path, old, new: now }) {
  const lines = compare(old ?? "", now ?? "");
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(([sign]) => sign !== " "));
  const kinds = { "+": "plus", "-": "minus", " ": "same" };
  const count = (wanted) => lines.filter(([sign]) => sign === wanted).length;
  return make("figure", { class: "diff" },
    make("figcaption", {}, make("code", { title: path }, short(path)), " ",
      make("span", { class: "plus" }, `+${count("+")}`), " ", make("span", { class: "minus" }, `−${count("-")}`)),
    make("pre", { tabindex: "0", role: "group", "aria-label": `Changes of ${path}` }, lines.map(([sign, line], index) => {
      if (!near[index]) return index === 0 || near[index - 1] ? make("span", { class: "same" }, "⋯\n") : null;
      return make("span", { class: kinds[sign] }, `${sign} ${line}\n`);
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
      make("figcaption", {}, make("code", {}, path), " ",
        make("span", { class: "plus" }, `+${count("+")}`), " ", make("span", { class: "minus" }, `−${count("-")}`)),
      make("pre", { tabindex: "0", role: "group", "aria-label": `Changes of ${path}` },
        body.map((line) => make("span", { class: kind(line) }, `${line}\n`))));
  });
}
