// Elements and number formats. Data is inserted as text, never as markup: anybody can choose a key or a name.

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

/** Sets the text of an element if it differs: screen readers announce every change. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const phone = matchMedia("(max-width: 46rem)");

/** A part of a page under its title, folded on phones, where the page would be long otherwise. */
export function fold(title, { className = "card" } = {}, ...content) {
  return make("details", { className: `fold ${className}`, open: !phone.matches }, make("summary", {}, make("h2", { textContent: title })), ...content);
}

// Not with Intl: its tables take as long to load as the rest of the page.
const withCommas = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");

/** 12, 3.4, 12,345, 1.23M. */
export function count(value) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < 10 && !Number.isInteger(value)) return String(Number(value.toFixed(1)));
  if (Math.abs(value) < 100_000) return withCommas(Math.round(value));
  const [unit, sign] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([one]) => Math.abs(value) >= 0.9995 * one);
  return `${withCommas(Number((value / unit).toPrecision(3)))}${sign}`;
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1 %";
  return `${(share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0)} %`;
}

/** 250 µs, 3.4 ms, 12 s, 3 min 20 s. */
export function duration(ms) {
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

export function timeOfDay(ms) {
  return new Date(ms).toTimeString().slice(0, 8);
}

/** A value with its unit: "s" and "ms" are durations, "ratio" is between 0 and 1. */
export function formatValue(value, unit = "") {
  if (value === null || value === undefined) return "–";
  if (unit === "ms") return duration(value);
  if (unit === "s") return duration(value * 1000);
  if (unit === "ratio") return value.toFixed(2);
  return unit ? `${count(value)} ${unit}` : count(value);
}

export function shellQuote(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function copyButton(text) {
  const button = make("button", { type: "button", className: "plain", textContent: "Copy" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copying failed: select the text";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}
