// Lines by uPlot. Colours are custom properties of the style sheet, read at each drawing, so that a change of theme is a
// redraw.

import { clock, figure } from "./dom.js";

/** Charts over time reach back so far, also where little is known yet: they do not jump while they fill. */
export const SECONDS = 300;

let library = null;

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** uPlot, which is half of the page: it comes after the figures, and whoever does not get it still has the tables. */
function drawn() {
  library ??= new Promise((here, gone) => {
    const ask = () => {
      const script = document.createElement("script");
      script.src = new URL("./uPlot.iife.min.js", import.meta.url).href;
      script.addEventListener("load", () => here(globalThis.uPlot));
      script.addEventListener("error", () => { library = null; gone(); });
      document.head.append(script);
    };
    if (document.readyState === "complete") ask(); else addEventListener("load", () => setTimeout(ask), { once: true });
  });
  return library;
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
    { ...axis, values: (_, splits) => splits.map((value) => figure(value, unit)), size: 56, space: 30 },
  ];
}

/**
 * Draws `data`, an array of x and one of values for each of `looks`, as wide as the place is. `pointed` hears which value
 * the pointer is at, or the last. Answers `{ update(data), destroy() }`.
 */
export function plot(place, { looks, unit, time, fill, max, height }, pointed) {
  let [data, chart, isGone] = [[[]], null, false];
  place.style.height = `${height}px`;
  const tell = () => pointed(chart?.cursor.idx ?? data[0].length - 1);
  const sized = () => chart?.setSize({ width: place.clientWidth, height });
  const redrawn = () => chart?.redraw(false, true);
  const resized = new ResizeObserver(sized);
  resized.observe(place);
  document.addEventListener("themechange", redrawn);

  drawn().then((uPlot) => {
    if (isGone) return;
    chart = new uPlot({
      width: place.clientWidth || 300,
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
        fill: fill ? () => `color-mix(in srgb, ${css(colour)} 14%, transparent)` : undefined,
        width: 1.75,
        points: { show: false },
        spanGaps: false,
      }))],
      hooks: { setCursor: [() => chart && tell()] },
    }, data, place);
  }, () => {});

  return {
    update(next) {
      data = next;
      chart?.setData(data);
      tell();
    },
    destroy() {
      isGone = true;
      resized.disconnect();
      document.removeEventListener("themechange", redrawn);
      chart?.destroy();
    },
  };
}
