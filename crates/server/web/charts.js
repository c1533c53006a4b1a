// Charts for everybody: uPlot for the eyes, a sentence and a table for the ears. Colours are custom properties of the
// style sheet, read at each drawing, so that a change of theme is a redraw.

import { clock, figure, make, say } from "./dom.js";

const SERIES = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];
/** More rows than that nobody reads. */
const ROWS_MAX = 30;
const HEIGHT = 190;
/** Charts over time reach back so far, also where little is known yet: they do not jump while they fill. */
const SECONDS = 300;

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function faded(name, alpha) {
  return `color-mix(in srgb, ${css(name)} ${alpha * 100}%, transparent)`;
}

/** Steps that people count in, for numbers and for seconds. */
function axes(unit, time) {
  const axis = {
    stroke: () => css("--soft"),
    grid: { stroke: () => css("--grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  const along = (_, splits) => splits.map((value) => (time ? clock(value * 1000).slice(0, 5) : figure(value)));
  return [
    { ...axis, grid: { show: false }, values: along, space: 60, size: 26, gap: 6, ...(time ? { incrs: [60, 120, 300] } : {}) },
    { ...axis, values: (_, splits) => splits.map((value) => figure(value, unit)), size: 56, space: 36 },
  ];
}

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

  let data = [x, ...series.map((one) => one.values)];
  const plot = new uPlot({
    width: canvas.clientWidth || 300,
    height,
    legend: { show: false },
    padding: [8, 18, 0, 0],
    scales: {
      x: { time: false, range: (_, low, high) => (time ? [high - SECONDS, high] : [low, high]) },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), max ?? (high ? high * 1.08 : 1)] },
    },
    axes: axes(unit, time),
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    series: [{}, ...looks.map(({ label, colour }) => ({
      label,
      stroke: () => css(colour),
      fill: fill ? () => faded(colour, 0.14) : undefined,
      width: 1.75,
      points: { show: false },
      spanGaps: false,
    }))],
    hooks: { setCursor: [() => legends()] },
  }, data, canvas);

  // What the cursor is at, or what was last.
  function legends() {
    const at = plot.cursor.idx ?? data[0].length - 1;
    looks.forEach((_, index) => say(values[index], figure(data[index + 1][at], unit)));
  }

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

  function shown() {
    legends();
    described();
    tabulate();
  }
  const resized = new ResizeObserver(() => plot.setSize({ width: canvas.clientWidth, height }));
  const redrawn = () => plot.redraw(false, true);
  resized.observe(canvas);
  document.addEventListener("themechange", redrawn);
  details.addEventListener("toggle", tabulate);
  shown();

  return {
    update(next) {
      data = [next.x, ...next.series.map((one) => one.values)];
      plot.setData(data);
      shown();
    },
    destroy() {
      resized.disconnect();
      document.removeEventListener("themechange", redrawn);
      plot.destroy();
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
  element.append(node);
  function update({ items: next }) {
    const longest = max ?? Math.max(...next.map((item) => item.value), 1e-9);
    if (!next.length) {
      list.replaceChildren(make("li", { className: "soft none", textContent: empty }));
      return;
    }
    list.replaceChildren(...next.map(({ label, value, colour = "--series-1", note = "" }) => {
      const bar = make("i");
      bar.style.width = `${Math.min(1, value / longest) * 100}%`;
      bar.style.background = `var(${colour})`;
      return make("li", {},
        make("span", { className: "label", textContent: label, title: label }),
        make("b", { textContent: figure(value, unit) }),
        make("span", { className: "track", ariaHidden: "true" }, bar),
        note ? make("small", { className: "soft", textContent: note }) : null);
    }));
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
  const canvas = make("canvas", { ariaHidden: "true", className: "spark" });
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
    pen.lineJoin = "round";
    last.forEach((values, index) => {
      const isFlat = values.every((value) => !value);
      if (isFlat && index > 0) return;
      pen.strokeStyle = css(isFlat ? "--line" : colours[index]);
      pen.beginPath();
      let isDown = false;
      values.forEach((value, at) => {
        if (value === null) { isDown = false; return; }
        const [left, top] = [(points - values.length + at + 1) / points * canvas.width, canvas.height - 2 - value / most * (canvas.height - 4)];
        if (isDown) pen.lineTo(left, top); else pen.moveTo(left, top);
        isDown = true;
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
