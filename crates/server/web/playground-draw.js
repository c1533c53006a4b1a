// What the playground draws with, beside the charts of the shell.

import { count, make } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element with what is in it: `t("p.soft", "text")`. */
export function t(name, ...children) {
  const [tag, ...classes] = name.split(".");
  return make(tag, { className: classes.join(" ") }, ...children);
}

/** Text in which `this` is code. */
export const prose = (text) => text.split("`").map((part, at) => (at % 2 ? t("code", part) : part));

/** Rows of `[is it bad, its name, …cells]`, numbers or text. */
export function table(title, head, rows) {
  return make("div", { className: "scroll-x", tabIndex: 0, role: "region", "aria-label": title }, t("table.rows",
    t("thead", t("tr", head.map((name, at) => make("th", { scope: "col", className: at ? "number" : "" }, name)))),
    t("tbody", rows.map(([isBad, name, ...cells]) => t(isBad ? "tr.bad" : "tr", make("th", { scope: "row" }, name),
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
  return t("ul.legend", items.map(([name, colour]) => {
    const dot = t("i");
    dot.style.background = `var(${colour})`;
    return t("li", dot, name);
  }));
}
