// Charts. Each has a text alternative: a sentence for screen readers, and a table.

import { formatValue, make, setText, timeOfDay } from "./dom.js";
import { css, plot, SECONDS } from "./plot.js";

const SERIES = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];
const TABLE_ROWS_MAX = 30;
const HEIGHT = 190;

/**
 * A line chart.
 *
 * `x` is an array of numbers: Unix seconds unless `time` is false. A null value is a gap. `colour` is the name of a custom
 * property. The legend shows the values under the pointer. Without one, it shows those of now: the mean of the last
 * `averaged` points, or the last one; nothing if x is no time. Returns `{ update({ x, series: [{ values }] }), destroy() }`.
 */
export function lines(element, { title, isTitled = true, series, x, unit = "", time = true, height = HEIGHT, fill = true, max, isStacked = false, averaged = 1 }) {
  const styles = series.map(({ label, colour }, index) => ({ label, colour: colour ?? SERIES[index % SERIES.length] }));
  const values = styles.map(() => make("b"));
  const canvas = make("div", { className: "canvas", role: "img" });
  const table = make("table", { className: "figures" });
  const details = make("details", {}, make("summary", { textContent: "Show as table" }), make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `${title}: table` }, table));
  const legend = make("ul", { className: "legend" }, styles.map(({ label, colour }, index) => {
    const dot = make("i");
    dot.style.background = `var(${colour})`;
    return make("li", {}, dot, make("span", { textContent: label }), values[index]);
  }));
  const pointed = make("li", { className: "pointed" });
  legend.append(pointed);
  const node = make("figure", { className: "chart" }, make("figcaption", {}, isTitled ? make("h3", { textContent: title }) : null, legend), canvas, details);
  element.append(node);

  let data = [];
  const place = (at) => (time ? timeOfDay(data[0][at] * 1000) : formatValue(data[0][at]));
  const now = (values) => {
    const known = values.slice(-averaged).filter((value) => value !== null && value !== undefined);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : values.findLast((value) => value !== null);
  };
  const drawing = plot(canvas, { styles, unit, time, fill, max, height, isStacked }, (at) => {
    setText(pointed, at === null ? "" : `at ${place(at)}`);
    styles.forEach((_, index) => {
      const value = at === null ? now(data[index + 1]) : data[index + 1][at];
      setText(values[index], at === null && !time ? "" : formatValue(value, unit));
    });
  });

  function describe() {
    const last = data[0].length - 1;
    const parts = styles.map(({ label }, index) => {
      const known = data[index + 1].filter((value) => value !== null && value !== undefined);
      const peak = known.length ? Math.max(...known) : null;
      return `${label} ${time ? `${formatValue(now(data[index + 1]), unit)}, ` : ""}peak ${formatValue(peak, unit)}`;
    });
    canvas.setAttribute("aria-label", last < 0 ? `${title}: no data yet` : `${title}: ${parts.join("; ")}`);
  }

  function fillTable() {
    if (!details.open) return;
    const step = Math.max(1, Math.ceil(data[0].length / TABLE_ROWS_MAX));
    const rows = [];
    for (let at = data[0].length - 1; at >= 0; at -= step) {
      const cells = styles.map((_, index) => make("td", { textContent: formatValue(data[index + 1][at], unit) }));
      rows.push(make("tr", {}, make("th", { scope: "row", textContent: place(at) }), cells));
    }
    const head = make("tr", {}, make("th", { scope: "col", textContent: time ? "Time" : "" }), styles.map(({ label }) => make("th", { scope: "col", textContent: label })));
    table.replaceChildren(make("thead", {}, head), make("tbody", {}, rows));
  }

  function update(next) {
    data = [next.x, ...next.series.map((one) => one.values)];
    drawing.update(data);
    describe();
    fillTable();
  }
  details.addEventListener("toggle", fillTable);
  update({ x, series });

  return {
    update,
    destroy() {
      drawing.destroy();
      node.remove();
    },
  };
}

/**
 * A bar chart, as a list that screen readers can read.
 *
 * `items` are `{ label, value, colour?, note? }`. The longest bar is `max`, or the largest value. Returns
 * `{ update({ items }), destroy() }`.
 */
export function bars(element, { title, items, unit = "", max, empty = "No data yet." }) {
  const list = make("ol", { className: "bars" });
  const node = make("figure", { className: "chart" }, title ? make("figcaption", {}, make("h3", { textContent: title })) : null, list);
  const emptyRow = make("li", { className: "muted none", textContent: empty });
  const rows = [];
  element.append(node);
  function row() {
    const [label, value, bar, note] = [make("span", { className: "label" }), make("b"), make("i"), make("small", { className: "muted" })];
    return { label, value, bar, note, node: make("li", {}, label, note, value, make("span", { className: "track", "aria-hidden": "true" }, bar)) };
  }
  // Updates rows in place, so that a selected key stays selected.
  function update({ items: next }) {
    const longest = max ?? Math.max(...next.map((item) => item.value), 1e-9);
    while (rows.length < next.length) rows.push(row());
    next.forEach((item, at) => {
      const { label, value, bar, note } = rows[at];
      setText(label, item.label);
      label.title = item.label;
      setText(value, formatValue(item.value, unit));
      bar.style.width = `${Math.min(1, item.value / longest) * 100}%`;
      bar.style.background = `var(${item.colour ?? "--series-1"})`;
      setText(note, item.note ?? "");
    });
    const shown = next.length ? rows.slice(0, next.length).map((one) => one.node) : [emptyRow];
    if (list.childElementCount !== shown.length || list.firstChild !== shown[0]) list.replaceChildren(...shown);
  }
  update({ items });
  return { update, destroy: () => node.remove() };
}

/** A row of tiles, each a large value with a note. Returns a function `(value, note)` for each name, with its `tile`. */
export function tiles(element, label, names) {
  const parts = names.map((name) => [make("dt", { textContent: name }), make("dd"), make("dd")]);
  const all = parts.map((tile) => make("div", { className: "tile" }, tile));
  element.append(make("dl", { className: "tiles", "aria-label": label }, all));
  return parts.map(([, value, note], at) => Object.assign((text, more) => { setText(value, text); setText(note, more); }, { tile: all[at] }));
}

/** Seconds per point of a sparkline: smooths single checks. */
const GROUP = 5;

function groupMeans(values) {
  const means = [];
  for (let end = values.length; end > 0; end -= GROUP) {
    const known = values.slice(Math.max(0, end - GROUP), end).filter((value) => value !== null);
    means.unshift(known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null);
  }
  return means;
}

/** A sparkline for a table row. */
export function spark(element, { colours = ["--allowed", "--denied"], width = 120, height = 28 } = {}) {
  const canvas = make("canvas", { "aria-hidden": "true", className: "spark" });
  const pixelRatio = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = width * pixelRatio;
  canvas.height = height * pixelRatio;
  element.append(canvas);
  let last = colours.map(() => []);
  function draw() {
    const pen = canvas.getContext("2d");
    const [most, points] = [Math.max(1, ...last.flat().map((value) => value ?? 0)), SECONDS / GROUP];
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.lineWidth = 1.5 * pixelRatio;
    pen.lineJoin = pen.lineCap = "round";
    last.forEach((values, index) => {
      const isFlat = values.every((value) => !value);
      if (isFlat && index > 0) return;
      pen.strokeStyle = css(isFlat ? "--line" : colours[index]);
      const left = (at) => (points - values.length + at + 1) / points * canvas.width;
      const top = (value) => canvas.height - 2 - value / most * (canvas.height - 4);
      let isDrawing = false;
      pen.beginPath();
      values.forEach((value, at) => {
        if (value !== null) pen[isDrawing ? "lineTo" : "moveTo"](left(at), top(value));
        isDrawing = value !== null;
      });
      pen.stroke();
    });
  }
  document.addEventListener("themechange", draw);
  return {
    update(series) { last = series.map(groupMeans); draw(); },
    destroy() { document.removeEventListener("themechange", draw); canvas.remove(); },
  };
}
