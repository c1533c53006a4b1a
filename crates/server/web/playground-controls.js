// What is chosen: sliders with a number beside each, the address that remembers them, and the same for a shell. Ranges
// and usual values are the server's, steps are for the hand.

import { copyButton, count, make, say, span } from "./dom.js";
import { t } from "./playground-draw.js";
import { asker } from "./playground-server.js";

/** How a number is shown, by the unit at the end of its name: how many of it are one, and in words. */
const UNITS = {
  permille: { scale: 10, sign: ", in %", told: (value) => `${value / 10} %` },
  milli: { scale: 1000, sign: "", told: (value) => `${value / 1000} ×` },
  ms: { scale: 1, sign: ", in ms", told: span },
};
const PLAIN = { scale: 1, sign: "", told: count };

function slider({ field, min, max }, [label, from, to, step], value, changed) {
  const { scale, sign, told } = UNITS[field.split("_")[1]] ?? PLAIN;
  const id = `knob-${field}`;
  const range = make("input", { type: "range", id, min: Math.max(min, from), max: Math.min(max, to), step });
  const exact = make("input", { type: "number", min: min / scale, max: max / scale, step: 1 / scale, "aria-label": `${label}, exactly${sign}` });
  const shown = make("output", { htmlFor: id });
  const show = (now, by) => {
    range.value = now;
    if (by !== exact) exact.value = now / scale;
    range.setAttribute("aria-valuetext", told(now));
    say(shown, told(now));
  };
  const blame = (isBad) => (isBad ? exact.setAttribute("aria-invalid", "true") : exact.removeAttribute("aria-invalid"));
  for (const input of [range, exact]) {
    input.addEventListener("input", () => {
      const isBad = input.value === "" || !input.validity.valid;
      blame(isBad);
      if (isBad) return;
      const now = Math.round(Number(input.value) * (input === exact ? scale : 1));
      show(now, input);
      changed(field, now);
    });
  }
  show(value);
  return { blame, node: t("div.knob", make("label", { htmlFor: id }, t("span", label), shown), range, exact) };
}

function choice(scenarios, value, changed) {
  const select = make("select", {}, scenarios.map(({ name, about }) => make("option", { value: name }, `${name}: ${about}`)));
  select.value = value;
  select.addEventListener("change", () => changed("scenario", select.value));
  return { blame() {}, node: t("label", "What happens", select) };
}

/** Fills a form: `values` are chosen, `changed()` those that are not usual, `blame(field)` marks what is wrong. */
export function sliders(form, { knobs, seed, scenarios }, { looks }, start, told) {
  const usual = Object.fromEntries(knobs.map((knob) => [knob.field, knob.default]));
  if (scenarios) usual.scenario = scenarios[0].name;
  if (seed !== undefined) usual.seed = seed;
  const values = { ...usual };
  for (const [field, text] of start) {
    const isKnown = field === "scenario" ? scenarios?.some(({ name }) => name === text) : Object.hasOwn(usual, field) && /^\d{1,15}$/.test(text);
    if (isKnown) values[field] = field === "scenario" ? text : Number(text);
  }
  const changed = (field, value) => {
    values[field] = value;
    told();
  };
  const all = {};
  if (scenarios) all.scenario = choice(scenarios, values.scenario, changed);
  for (const knob of knobs) all[knob.field] = slider(knob, looks[knob.field], values[knob.field], changed);
  form.append(...Object.values(all).map(({ node }) => node));
  if (seed !== undefined) {
    const again = make("button", { type: "button", className: "plain" }, "Other luck");
    again.addEventListener("click", () => changed("seed", values.seed + 1));
    form.append(again);
  }
  return {
    values,
    changed: () => new URLSearchParams(Object.entries(values).filter(([field, value]) => value !== usual[field])),
    blame: (field) => Object.entries(all).forEach(([name, one]) => one.blame(name === field)),
  };
}

/** What was chosen stands in the address, so that it can be shared. */
export const chosen = () => new URLSearchParams(location.hash.split("?")[1] ?? "");

export function remember(name, params) {
  // Some browsers take only so many addresses a second from a slider that is dragged.
  try { history.replaceState(null, "", `#/playground/${name}${params.size ? `?${params}` : ""}`); } catch { /* then not this one */ }
}

/** A form beside what comes of it: `show` draws an answer, and trouble is told in its place. */
export function bench(root, name, form, first) {
  const asking = asker(name);
  const summary = make("p", { className: "summary", "aria-live": "polite" }, first);
  const trouble = make("p", { className: "trouble", role: "alert", hidden: true });
  const result = make("section", { className: "card result", "aria-label": "Result" }, summary, trouble);
  root.append(t("div.bench", form, result));
  return {
    result,
    summary,
    stop: asking.stop,
    async ask(input, show, blame = () => {}) {
      try {
        const report = await asking.ask(input);
        if (!report) return;
        trouble.hidden = true;
        blame(null);
        say(summary, show(report));
      } catch (problem) {
        trouble.hidden = false;
        say(trouble, problem.message);
        blame(problem.field);
      }
    },
  };
}

/** A line to type, and a button that copies it. */
export function commandLine(command) {
  const shown = t("code");
  const update = () => say(shown, command());
  update();
  return { update, node: t("div.line", make("pre", { tabIndex: 0 }, shown), copyButton(command)) };
}
