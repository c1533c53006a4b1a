// Lines on a canvas: axes with round steps, gaps, and a mark at the pointer. Colours are custom properties of the style
// sheet, read at each drawing, so that a change of theme is a redraw.

import { clock, figure } from "./dom.js";

/** Room for the labels around the lines. */
const [LEFT, RIGHT, TOP, BOTTOM] = [56, 18, 8, 26];
/** How far apart labels are at least, along and up. */
const [ALONG, UP] = [60, 30];
/** Charts over time reach back so far, also where little is known yet: they do not jump while they fill. */
export const SECONDS = 300;

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Multiples of the least step that people count in of which no more than `most` fit. */
function steps(low, high, most, isTime) {
  const least = (high - low) / Math.max(1, most);
  const ten = 10 ** Math.floor(Math.log10(least));
  const step = (isTime ? [60, 120, 300] : [ten, 2 * ten, 5 * ten]).find((one) => one >= least) ?? 10 * ten;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, at) => (first + at) * step);
}

/** One line for each run of known values: `{ line, area }`, where `left` and `top` put a value, down to `floor`. */
export function runs(values, left, top, floor) {
  const all = [];
  let run = null;
  values.forEach((value, at) => {
    if (value === null || value === undefined) { run = null; return; }
    const [x, y] = [left(at), top(value)];
    if (!run) {
      run = { line: new Path2D(), from: x };
      all.push(run);
      run.line.moveTo(x, y);
    }
    run.line.lineTo(x, y);
    run.to = x;
  });
  return all.map(({ line, from, to }) => {
    const area = new Path2D(line);
    area.lineTo(to, floor);
    area.lineTo(from, floor);
    return { line, area };
  });
}

/**
 * Draws `data`, an array of x and one of values for each of `looks`, as wide as the canvas is. `pointed` hears which
 * value the pointer is at, or the last. Answers `{ update(data), destroy() }`.
 */
export function plot(canvas, { looks, unit, time, fill, max, height }, pointed) {
  const pen = canvas.getContext("2d");
  let [data, width, pointer] = [[[]], 0, null];
  canvas.style.height = `${height}px`;

  function sized() {
    const dense = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * dense), Math.round(height * dense)];
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, width, height);
  }

  function draw() {
    const [x, ...series] = data;
    const last = x.length - 1;
    if (!width || last < 0) return pointed(last);
    sized();
    const high = x[last];
    const low = time ? high - SECONDS : Math.min(x[0], high - 1e-9);
    const peak = Math.max(0, ...series.flat().map((value) => value ?? 0));
    const most = max ?? (peak ? peak * 1.08 : 1);
    const [right, floor] = [width - RIGHT, height - BOTTOM];
    const left = (value) => LEFT + (value - low) / (high - low) * (right - LEFT);
    const top = (value) => floor - value / most * (floor - TOP);

    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.lineWidth = 1;
    pen.strokeStyle = css("--grid");
    pen.fillStyle = css("--soft");
    for (const value of steps(0, most, (floor - TOP) / UP)) {
      const y = Math.round(top(value)) + 0.5;
      pen.fillText(figure(value, unit), LEFT - 8, y);
      pen.beginPath();
      pen.moveTo(LEFT, y);
      pen.lineTo(right, y);
      pen.stroke();
    }
    pen.textAlign = "center";
    for (const value of steps(low, high, (right - LEFT) / ALONG, time)) pen.fillText(time ? clock(value * 1000).slice(0, 5) : figure(value), left(value), height - 10);

    const at = pointer === null ? last : nearest(x, low + (pointer - LEFT) / (right - LEFT) * (high - low));
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, right - LEFT + 2, height);
    pen.clip();
    pen.lineWidth = 1.75;
    pen.lineJoin = pen.lineCap = "round";
    looks.forEach(({ colour }, index) => {
      pen.strokeStyle = pen.fillStyle = css(colour);
      for (const { line, area } of runs(series[index], (one) => left(x[one]), top, floor)) {
        pen.globalAlpha = 0.14;
        if (fill) pen.fill(area);
        pen.globalAlpha = 1;
        pen.stroke(line);
      }
      const value = series[index][at];
      if (pointer === null || value === null || value === undefined) return;
      pen.beginPath();
      pen.arc(left(x[at]), top(value), 3.5, 0, 7);
      pen.fill();
    });
    if (pointer !== null) {
      pen.strokeStyle = css("--soft");
      pen.lineWidth = 1;
      pen.setLineDash([4, 3]);
      pen.beginPath();
      pen.moveTo(left(x[at]), TOP);
      pen.lineTo(left(x[at]), floor);
      pen.stroke();
    }
    pen.restore();
    pointed(at);
  }

  const resized = new ResizeObserver(([{ contentRect }]) => { width = contentRect.width; draw(); });
  const point = (to) => { pointer = to; draw(); };
  resized.observe(canvas);
  canvas.addEventListener("pointermove", (event) => point(event.offsetX));
  canvas.addEventListener("pointerleave", () => point(null));
  document.addEventListener("themechange", draw);
  return {
    update(next) { data = next; draw(); },
    destroy() {
      resized.disconnect();
      document.removeEventListener("themechange", draw);
    },
  };
}

function nearest(x, wanted) {
  let found = 0;
  for (let at = 1; at < x.length; at += 1) if (Math.abs(x[at] - wanted) < Math.abs(x[found] - wanted)) found = at;
  return found;
}
