// What the playground draws with, beside the charts of the shell.

import { count, make } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element of a class with what is in it. */
export const t = (tag, className, ...children) => make(tag, { className }, ...children);

/** Text in which `this` is code. */
export const prose = (text) => text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));

/** Rows of `[is it bad, its name, …cells]`, numbers or text. */
export function table(title, head, rows) {
  return make("div", { className: "scroll-x", tabIndex: 0, role: "region", "aria-label": title }, t("table", "rows",
    make("thead", {}, make("tr", {}, head.map((name, at) => make("th", { scope: "col", className: at ? "number" : "" }, name)))),
    make("tbody", {}, rows.map(([isBad, name, ...cells]) => t("tr", isBad ? "bad" : "", make("th", { scope: "row" }, name),
      cells.map((cell, at) => make("td", { className: "number", "data-label": head[at + 1] }, typeof cell === "number" ? count(cell) : cell)))))));
}

/** Columns side by side, each series on top of the one before, as wide as there is room. */
export function columns(label, most, series) {
  const svg = document.createElementNS(SVG, "svg");
  const length = series[0].values.length;
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${length} 100`, preserveAspectRatio: "none", class: "columns-of", role: "img", "aria-label": label })) svg.setAttribute(name, value);
  const tops = new Array(length).fill(100);
  for (const { values, colour } of series) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", values.map((value, at) => {
      const high = value / most * 100;
      tops[at] -= high;
      return high ? `M${at + 0.08} ${tops[at].toFixed(2)}h.84v${high.toFixed(2)}h-.84z` : "";
    }).join(""));
    path.style.fill = `var(${colour})`;
    svg.append(path);
  }
  return svg;
}

/** Names in colours. */
export function legend(...items) {
  return t("ul", "legend", items.map(([name, colour]) => {
    const dot = make("i");
    dot.style.background = `var(${colour})`;
    return make("li", {}, dot, name);
  }));
}
