// Charts for everybody: a picture for the eyes, a sentence and a table for the ears.

import { clock, figure, make, say } from "./dom.js";
import { css, plot, SECONDS } from "./plot.js";

const SERIES = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];
/** More rows than that nobody reads. */
const ROWS_MAX = 30;
const HEIGHT = 190;

/**
 * Lines over time, or over any x.
 *
 * `x` is an array of numbers: seconds since 1970 unless `time` is false. A value of null is a gap. `colour` is the name of
 * a custom property. Answers `{ update({ x, series: [{ values }] }), destroy() }`.
 */
export function lines(element, { title, series, x, unit = "", time = true, height = HEIGHT, fill = true, max }) {
  const looks = series.map(({ label, colour }, index) => ({ label, colour: colour ?? SERIES[index % SERIES.length] }));
  const values = looks.map(() => make("b"));
  const canvas = make("div", { className: "canvas", role: "img" });
  const table = make("table", { className: "figures" });
  const details = make("details", {}, make("summary", { textContent: "As a table" }), make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `${title}, as a table` }, table));
  const legend = make("ul", { className: "legend" }, looks.map(({ label, colour }, index) => {
    const dot = make("i");
    dot.style.background = `var(${colour})`;
    return make("li", {}, dot, make("span", { textContent: label }), values[index]);
  }));
  const figureNode = make("figure", { className: "chart" }, make("figcaption", {}, make("h3", { textContent: title }), legend), canvas, details);
  element.append(figureNode);

  let data = [];
  const drawing = plot(canvas, { looks, unit, time, fill, max, height }, (at) => {
    looks.forEach((_, index) => say(values[index], figure(data[index + 1][at], unit)));
  });

  function described() {
    const last = data[0].length - 1;
    const parts = looks.map(({ label }, index) => {
      const known = data[index + 1].filter((value) => value !== null && value !== undefined);
      const most = known.length ? Math.max(...known) : null;
      return `${label} ${figure(data[index + 1][last], unit)}, at most ${figure(most, unit)}`;
    });
    canvas.setAttribute("aria-label", last < 0 ? `${title}: nothing yet` : `${title}: ${parts.join("; ")}`);
  }

  function tabulate() {
    if (!details.open) return;
    const step = Math.max(1, Math.ceil(data[0].length / ROWS_MAX));
    const rows = [];
    for (let at = data[0].length - 1; at >= 0; at -= step) {
      const cells = looks.map((_, index) => make("td", { textContent: figure(data[index + 1][at], unit) }));
      const name = time ? clock(data[0][at] * 1000) : figure(data[0][at]);
      rows.push(make("tr", {}, make("th", { scope: "row", textContent: name }), cells));
    }
    const head = make("tr", {}, make("th", { scope: "col", textContent: time ? "Time" : "" }), looks.map(({ label }) => make("th", { scope: "col", textContent: label })));
    table.replaceChildren(make("thead", {}, head), make("tbody", {}, rows));
  }

  function update(next) {
    data = [next.x, ...next.series.map((one) => one.values)];
    drawing.update(data);
    described();
    tabulate();
  }
  details.addEventListener("toggle", tabulate);
  update({ x, series });

  return {
    update,
    destroy() {
      drawing.destroy();
      figureNode.remove();
    },
  };
}

/**
 * Bars beside each other, as a list that reads well without seeing it.
 *
 * `items` are `{ label, value, colour?, note? }`. The longest bar is `max`, or the largest value. Answers
 * `{ update({ items }), destroy() }`.
 */
export function bars(element, { title, items, unit = "", max, empty = "Nothing yet" }) {
  const list = make("ol", { className: "bars" });
  const node = make("figure", { className: "chart" }, title ? make("figcaption", {}, make("h3", { textContent: title })) : null, list);
  const nobody = make("li", { className: "soft none", textContent: empty });
  const rows = [];
  element.append(node);
  function row() {
    const [label, value, bar, note] = [make("span", { className: "label" }), make("b"), make("i"), make("small", { className: "soft" })];
    return { label, value, bar, note, node: make("li", {}, label, value, make("span", { className: "track", "aria-hidden": "true" }, bar), note) };
  }
  // Rows stay and are said anew, so that a key can be selected and copied.
  function update({ items: next }) {
    const longest = max ?? Math.max(...next.map((item) => item.value), 1e-9);
    while (rows.length < next.length) rows.push(row());
    next.forEach((item, at) => {
      const { label, value, bar, note } = rows[at];
      say(label, item.label);
      label.title = item.label;
      say(value, figure(item.value, unit));
      bar.style.width = `${Math.min(1, item.value / longest) * 100}%`;
      bar.style.background = `var(${item.colour ?? "--series-1"})`;
      say(note, item.note ?? "");
    });
    const shown = next.length ? rows.slice(0, next.length).map((one) => one.node) : [nobody];
    if (list.childElementCount !== shown.length || list.firstChild !== shown[0]) list.replaceChildren(...shown);
  }
  update({ items });
  return { update, destroy: () => node.remove() };
}

/** How many seconds make one point of a small line: single checks would make a comb of it. */
const GROUP = 5;

function grouped(values) {
  const means = [];
  for (let end = values.length; end > 0; end -= GROUP) {
    const known = values.slice(Math.max(0, end - GROUP), end).filter((value) => value !== null);
    means.unshift(known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null);
  }
  return means;
}

/** A small line without axes, for a row of a table. */
export function spark(element, { colours = ["--allowed", "--denied"], width = 120, height = 28 } = {}) {
  const canvas = make("canvas", { "aria-hidden": "true", className: "spark" });
  const dense = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = width * dense;
  canvas.height = height * dense;
  element.append(canvas);
  let last = colours.map(() => []);
  function draw() {
    const pen = canvas.getContext("2d");
    const [most, points] = [Math.max(1, ...last.flat().map((value) => value ?? 0)), SECONDS / GROUP];
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.lineWidth = 1.5 * dense;
    pen.lineJoin = pen.lineCap = "round";
    last.forEach((values, index) => {
      const isFlat = values.every((value) => !value);
      if (isFlat && index > 0) return;
      pen.strokeStyle = css(isFlat ? "--line" : colours[index]);
      const left = (at) => (points - values.length + at + 1) / points * canvas.width;
      const top = (value) => canvas.height - 2 - value / most * (canvas.height - 4);
      let isDown = false;
      pen.beginPath();
      values.forEach((value, at) => {
        if (value !== null) pen[isDown ? "lineTo" : "moveTo"](left(at), top(value));
        isDown = value !== null;
      });
      pen.stroke();
    });
  }
  document.addEventListener("themechange", draw);
  return {
    update(series) { last = series.map(grouped); draw(); },
    destroy() { document.removeEventListener("themechange", draw); canvas.remove(); },
  };
}
