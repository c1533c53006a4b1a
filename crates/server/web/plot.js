// Line charts with uPlot. Colours are read from the style sheet at every drawing, so a theme change only needs a redraw.

import { formatValue, timeOfDay } from "./dom.js";

/** The x axis always spans this long, so charts do not jump while they fill. */
export const SECONDS = 300;

let library = null;

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Loads uPlot, half of the page's bytes, after everything else. The tables work without it. */
function loadLibrary() {
  library ??= new Promise((resolve, reject) => {
    const load = () => {
      const script = document.createElement("script");
      script.src = new URL("./uPlot.iife.min.js", import.meta.url).href;
      script.addEventListener("load", () => resolve(globalThis.uPlot));
      script.addEventListener("error", () => { library = null; reject(); });
      document.head.append(script);
    };
    if (document.readyState === "complete") load(); else addEventListener("load", () => setTimeout(load), { once: true });
  });
  return library;
}

function axes(unit, time) {
  const axis = {
    stroke: () => css("--muted"),
    grid: { stroke: () => css("--grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  const xLabels = (_, splits) => splits.map((value) => (time ? timeOfDay(value * 1000).slice(0, 5) : formatValue(value)));
  return [
    { ...axis, grid: { show: false }, values: xLabels, space: 60, size: 26, gap: 6, ...(time ? { incrs: [60, 120, 300] } : {}) },
    { ...axis, values: (_, splits) => splits.map((value) => formatValue(value, unit)), size: 56, space: 30 },
  ];
}

/** Each array of values on top of those before it. */
function stack([x, ...all]) {
  const sums = x.map(() => 0);
  return [x, ...all.map((values) => values.map((value, at) => (value === null ? null : (sums[at] += value))))];
}

/**
 * Draws `data`, an array of x and one of values for each of `styles`, as wide as `parent`; stacked, each area begins where
 * the one before it ends. Calls `onCursor` with the index under the pointer, or null. Returns `{ update(data), destroy() }`.
 */
export function plot(parent, { styles, unit, time, fill, max, height, isStacked }, onCursor) {
  let [data, chart, isDestroyed] = [[[]], null, false];
  parent.style.height = `${height}px`;
  const reportCursor = () => onCursor(chart?.cursor.idx ?? null);
  const drawn = () => (isStacked ? stack(data) : data);
  const redraw = () => chart?.redraw(false, true);
  const resizeObserver = new ResizeObserver(() => chart?.setSize({ width: parent.clientWidth, height }));
  resizeObserver.observe(parent);
  document.addEventListener("themechange", redraw);

  loadLibrary().then((uPlot) => {
    if (isDestroyed) return;
    chart = new uPlot({
      width: parent.clientWidth || 300,
      height,
      legend: { show: false },
      padding: [8, 18, 0, 0],
      scales: {
        x: { time: false, range: (_, low, high) => (time ? [high - SECONDS, high] : [low, high]) },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0), max ?? (high ? high * 1.08 : 1)] },
      },
      axes: axes(unit, time),
      cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
      series: [{}, ...styles.map(({ label, colour }) => ({
        label,
        stroke: () => css(colour),
        fill: fill ? () => `color-mix(in srgb, ${css(colour)} ${isStacked ? 30 : 14}%, transparent)` : undefined,
        width: 1.75,
        points: { show: false },
        spanGaps: false,
      }))],
      // An area ends at the one below it.
      bands: isStacked ? styles.slice(1).map((_, at) => ({ series: [at + 2, at + 1] })) : [],
      hooks: { setCursor: [() => chart && reportCursor()] },
    }, drawn(), parent);
  }, () => {});

  return {
    update(next) {
      data = next;
      chart?.setData(drawn());
      reportCursor();
    },
    destroy() {
      isDestroyed = true;
      resizeObserver.disconnect();
      document.removeEventListener("themechange", redraw);
      chart?.destroy();
    },
  };
}
