// Controls of an experiment: sliders with number fields, parameters in the address, and the shell command. The server
// defines ranges and defaults; the page defines the sliders' steps.

import { experimentRunner } from "./api.js";
import { copyButton, count, duration, make, setText } from "./dom.js";
import { tag } from "./playground-draw.js";

/** Number formats, by the unit at the end of a field name. A number field shows the value divided by `scale`. */
const UNITS = {
  permille: { scale: 10, suffix: ", in %", format: (value) => `${value / 10} %` },
  milli: { scale: 1000, suffix: "", format: (value) => `${value / 1000} ×` },
  ms: { scale: 1, suffix: ", in ms", format: duration },
};
const PLAIN = { scale: 1, suffix: "", format: count };

function slider({ field, min, max }, [label, from, to, step], value, onChange) {
  const { scale, suffix, format } = UNITS[field.split("_")[1]] ?? PLAIN;
  const id = `knob-${field}`;
  const range = make("input", { type: "range", id, min: Math.max(min, from), max: Math.min(max, to), step });
  const exact = make("input", { type: "number", min: min / scale, max: max / scale, step: 1 / scale, "aria-label": `${label}, exact value${suffix}` });
  const shown = make("output", { htmlFor: id });
  const show = (now, source) => {
    range.value = now;
    if (source !== exact) exact.value = now / scale;
    range.setAttribute("aria-valuetext", format(now));
    setText(shown, format(now));
  };
  const markInvalid = (isBad) => (isBad ? exact.setAttribute("aria-invalid", "true") : exact.removeAttribute("aria-invalid"));
  for (const input of [range, exact]) {
    input.addEventListener("input", () => {
      const isBad = input.value === "" || !input.validity.valid;
      markInvalid(isBad);
      if (isBad) return;
      const now = Math.round(Number(input.value) * (input === exact ? scale : 1));
      show(now, input);
      onChange(field, now);
    });
  }
  show(value);
  return { markInvalid, node: tag("div.knob", make("label", { htmlFor: id }, tag("span", label), shown), range, exact) };
}

function scenarioSelect(scenarios, value, onChange) {
  const select = make("select", {}, scenarios.map(({ name, about }) => make("option", { value: name }, `${name}: ${about}`)));
  select.value = value;
  select.addEventListener("change", () => onChange("scenario", select.value));
  return { markInvalid() {}, node: tag("label", "Scenario", select) };
}

/** Fills a form. Returns the current `values`, `changed()` for those that differ from the defaults, and `markInvalid(field)`. */
export function sliders(form, { knobs, seed, scenarios }, { controls }, start, onUpdate) {
  const defaults = Object.fromEntries(knobs.map((knob) => [knob.field, knob.default]));
  if (scenarios) defaults.scenario = scenarios[0].name;
  if (seed !== undefined) defaults.seed = seed;
  const values = { ...defaults };
  for (const [field, text] of start) {
    const isKnown = field === "scenario" ? scenarios?.some(({ name }) => name === text) : Object.hasOwn(defaults, field) && /^\d{1,15}$/.test(text);
    if (isKnown) values[field] = field === "scenario" ? text : Number(text);
  }
  const onChange = (field, value) => {
    values[field] = value;
    onUpdate();
  };
  const all = {};
  if (scenarios) all.scenario = scenarioSelect(scenarios, values.scenario, onChange);
  for (const knob of knobs) all[knob.field] = slider(knob, controls[knob.field], values[knob.field], onChange);
  form.append(...Object.values(all).map(({ node }) => node));
  if (seed !== undefined) {
    const again = make("button", { type: "button", className: "plain" }, "New random seed");
    again.addEventListener("click", () => onChange("seed", values.seed + 1));
    form.append(again);
  }
  return {
    values,
    changed: () => new URLSearchParams(Object.entries(values).filter(([field, value]) => value !== defaults[field])),
    markInvalid: (field) => Object.entries(all).forEach(([name, one]) => one.markInvalid(name === field)),
  };
}

/** Parameters live in the address, so that a setting can be shared as a link. */
export const addressParams = () => new URLSearchParams(location.hash.split("?")[1] ?? "");

export function saveParams(name, params) {
  // Some browsers throw when a dragged slider changes the address too often.
  try { history.replaceState(null, "", `#/playground/${name}${params.size ? `?${params}` : ""}`); } catch { /* the next change saves it */ }
}

/** A form beside its result. `run(input, draw)` computes a report and draws it, or shows the error. */
export function resultPanel(root, name, form, placeholder) {
  const runner = experimentRunner(name);
  const summary = make("p", { className: "summary", "aria-live": "polite" }, placeholder);
  const alert = make("p", { className: "error", role: "alert", hidden: true });
  const result = make("section", { className: "card result", "aria-label": "Result" }, summary, alert);
  root.append(tag("div.experiment", form, result));
  return {
    result,
    summary,
    stop: runner.stop,
    async run(input, draw, markInvalid = () => {}) {
      try {
        const report = await runner.run(input);
        if (!report) return;
        alert.hidden = true;
        markInvalid(null);
        setText(summary, draw(report));
      } catch (error) {
        alert.hidden = false;
        setText(alert, error.message);
        markInvalid(error.field);
      }
    },
  };
}

/** A shell command with a copy button. */
export function commandLine(command) {
  const code = tag("code");
  const update = () => setText(code, command());
  update();
  return { update, node: tag("div.line", make("pre", { tabIndex: 0, "aria-label": "Command" }, code), copyButton(command)) };
}
