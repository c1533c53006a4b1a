// Drawing helpers of the playground.

import { count, make } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element with classes and children: `tag("p.muted", "text")`. */
export function tag(selector, ...children) {
  const [name, ...classes] = selector.split(".");
  return make(name, { className: classes.join(" ") }, ...children);
}

/** Text with `code` between backticks. */
export const prose = (text) => text.split("`").map((part, at) => (at % 2 ? tag("code", part) : part));

/** Rows are `[isBad, name, …cells]`; cells are numbers or text. */
export function table(title, head, rows) {
  return make("div", { className: "scroll-x", tabIndex: 0, role: "region", "aria-label": title }, tag("table.rows",
    tag("thead", tag("tr", head.map((name, at) => make("th", { scope: "col", className: at ? "number" : "" }, name)))),
    tag("tbody", rows.map(([isBad, name, ...cells]) => tag(isBad ? "tr.bad" : "tr", make("th", { scope: "row" }, name),
      cells.map((cell, at) => make("td", { className: "number", "data-label": head[at + 1] }, typeof cell === "number" ? count(cell) : cell)))))));
}

/** A stacked column chart, as wide as its parent. */
export function columnChart(label, max, series) {
  const svg = document.createElementNS(SVG, "svg");
  const length = series[0].values.length;
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${length} 100`, preserveAspectRatio: "none", class: "column-chart", role: "img", "aria-label": label })) svg.setAttribute(name, value);
  const tops = new Array(length).fill(100);
  for (const { values, colour } of series) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", values.map((value, at) => {
      const height = value / max * 100;
      tops[at] -= height;
      return height ? `M${at + 0.08} ${tops[at].toFixed(2)}h.84v${height.toFixed(2)}h-.84z` : "";
    }).join(""));
    path.style.fill = `var(${colour})`;
    svg.append(path);
  }
  return svg;
}

export function legend(...items) {
  return tag("ul.legend", items.map(([name, colour]) => {
    const dot = tag("i");
    dot.style.background = `var(${colour})`;
    return tag("li", dot, name);
  }));
}
