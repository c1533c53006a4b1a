// Elements and figures. Whatever came from the server goes in as text, never as markup: keys and names are chosen by
// anybody.

export function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets the text of an element, unless it says so already: screen readers hear every change. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Not by Intl: its tables take as long to load as the rest of the page.
const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");

/** 12, 3.4, 12,345, 1.23M: as many digits as can be read at a glance. */
export function count(value) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < 10 && !Number.isInteger(value)) return String(Number(value.toFixed(1)));
  if (Math.abs(value) < 100_000) return grouped(Math.round(value));
  const [unit, sign] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([one]) => Math.abs(value) >= 0.9995 * one);
  return `${grouped(Number((value / unit).toPrecision(3)))}${sign}`;
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1 %";
  return `${(share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0)} %`;
}

/** A duration in the unit that people would say it in. */
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
  const s = Math.ceil(ms / 100) / 10;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 && unit ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function clock(ms) {
  return new Date(ms).toTimeString().slice(0, 8);
}

/** A figure of a `unit`: "s" and "ms" as durations, "%" as a share, others as they are. */
export function figure(value, unit = "") {
  if (value === null || value === undefined) return "–";
  if (unit === "ms") return span(value);
  if (unit === "s") return span(value * 1000);
  if (unit === "%") return percent(value);
  return unit ? `${count(value)} ${unit}` : count(value);
}

/** A word as a shell takes it. */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A button that copies a text, and says so. */
export function copyButton(text) {
  const button = make("button", { type: "button", className: "plain", textContent: "Copy" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it by hand";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}
