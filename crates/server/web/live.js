// What happens here, now and in the last five minutes.

import { curl, rehearse, SOMEBODY } from "./ask.js";
import { bars, lines, spark } from "./charts.js";
import { copyButton, count, make, percent, say, span } from "./dom.js";
import { feed } from "./feed.js";
import { health } from "./health.js";
import { summary } from "./rules.js";

/** Over how many seconds a figure is averaged that people read. */
const RECENT = 5;
/** How often the page is summed up aloud. */
const SPOKEN_MS = 30_000;
const CHARTED_MAX = 6;
const TOP_MAX = 8;
/** More policies than that are for a machine to read. */
const ROWS_MAX = 40;
/** Checks that are of no policy. */
const NAMELESS = { "(request)": "limits that come with the request", "(unknown)": "names that no policy has" };

const sum = (tick, of) => Object.values(tick.policies).reduce((all, policy) => all + (policy[of] ?? 0), 0);
const rate = (value, tick) => (tick.ms ? (value * 1000) / tick.ms : 0);

export const allowed = (tick) => rate(sum(tick, "allowed") + sum(tick, "shadow_denied"), tick);
export const denied = (tick) => rate(sum(tick, "denied"), tick);

/** The mean of the last few seconds. */
function recent(of) {
  const ticks = feed.ticks.slice(-RECENT).filter((tick) => !tick.gap);
  return ticks.length ? ticks.reduce((all, tick) => all + of(tick), 0) / ticks.length : 0;
}

function tile(name) {
  const [value, note] = [make("dd"), make("dd")];
  return { node: make("div", { className: "tile" }, make("dt", { textContent: name }), value, note), set(text, more) { say(value, text); say(note, more); } };
}

export function mount(root) {
  const parts = [head(root), welcome(root), tiles(root), charts(root), policies(root), load(root), health(root)];
  let spokenAt = 0;
  const stop = feed.watch((now) => {
    if (!now.state) return;
    for (const part of parts) part.update(now);
    if (Date.now() - spokenAt > SPOKEN_MS) {
      spokenAt = Date.now();
      say(document.getElementById("spoken"), `${count(recent(allowed))} checks a second allowed, ${count(recent(denied))} denied.`);
    }
  });
  return () => {
    stop();
    for (const part of parts) part.destroy?.();
  };
}

function head(root) {
  const note = make("p", { className: "soft" });
  root.append(make("div", { className: "heading" }, make("h1", { textContent: "Live" }), note));
  return {
    update({ state, ticks }) {
      const minutes = Math.floor(Math.max(0, (ticks.at(-1)?.t ?? 0) - state.started_ms) / 60_000);
      say(note, minutes ? `up for ${minutes < 60 ? `${minutes} min` : span(minutes * 60_000)}` : "just started");
    },
  };
}

/** For whoever has just started it. */
function welcome(root) {
  const [line, title] = [make("code"), make("h2")];
  const [start, told] = [make("button", { type: "button", textContent: "Send some checks" }), make("span", { className: "soft", role: "status" })];
  const card = make("section", { className: "card welcome", "aria-label": "Try it", hidden: true },
    title,
    make("p", { className: "soft", textContent: "Ask from a shell, or let this page ask for a few seconds, and watch." }),
    make("div", { className: "line" }, make("pre", { tabIndex: 0, "aria-label": "Command" }, line), copyButton(() => line.textContent)),
    make("div", { className: "buttons" }, start, told));
  let stop = null;
  start.addEventListener("click", () => {
    start.disabled = true;
    stop = rehearse(feed.policies ?? {}, (sent, isOver) => {
      say(told, isOver ? `${sent} checks sent` : `sending… ${sent}`);
      start.disabled = !isOver;
    });
  });
  root.append(card);
  return {
    update({ state, policies }) {
      const [first] = Object.entries(policies);
      if (first && !line.textContent) line.textContent = curl(...first, SOMEBODY);
      const isUnasked = Object.keys(state.policies).length === 0;
      say(title, isUnasked ? "Nobody has asked yet" : "Try it");
      // Stays while its own checks run, so that nobody loses the button under the finger.
      if (first && isUnasked) card.hidden = false;
      else if (!start.disabled && !isUnasked && Object.values(state.policies).reduce((all, it) => all + it.allowed + it.denied, 0) > 1000) card.hidden = true;
    },
    destroy: () => stop?.(),
  };
}

function tiles(root) {
  const all = { rate: tile("Decisions a second"), denied: tile("Denied"), latency: tile("Latency p99"), store: tile("Keys in the store"), load: tile("Pressure") };
  root.append(make("dl", { className: "tiles", "aria-label": "Now" }, Object.values(all).map(({ node }) => node)));
  return {
    update({ state, ticks }) {
      const [good, bad] = [recent(allowed), recent(denied)];
      const most = Math.max(0, ...ticks.filter((tick) => !tick.gap).map((tick) => allowed(tick) + denied(tick)));
      all.rate.set(count(good + bad), `peak ${count(most)}`);
      all.denied.set(good + bad > 0 ? percent(bad / (good + bad)) : "0 %", `${count(bad)} a second`);
      const last = [...ticks].reverse().find((tick) => tick.all?.count);
      all.latency.set(last ? span(last.all.p99_us / 1000) : "–", last ? `p50 ${span(last.all.p50_us / 1000)}` : "no answers yet");
      const { store } = state;
      all.store.set(store.keys === undefined ? store.kind : count(store.keys), store.keys === undefined ? store.condition : `in ${store.kind}`);
      const pressures = Object.entries(ticks.at(-1)?.pressure ?? {});
      const worst = pressures.reduce((one, other) => (other[1] > one[1] ? other : one), ["", 0]);
      all.load.set(pressures.length ? percent(worst[1]) : "–", pressures.length ? worst[0] || pressures[0][0] : "no limit follows a load");
    },
  };
}

function charts(root) {
  const [left, right] = [make("section", { className: "card" }), make("section", { className: "card" })];
  root.append(make("div", { className: "columns" }, left, right));
  const of = [
    lines(left, { title: "Decisions a second", series: [{ label: "allowed", values: [], colour: "--allowed" }, { label: "denied", values: [], colour: "--denied" }], x: [], }),
    lines(right, { title: "Latency", series: [{ label: "p50", values: [], colour: "--series-3" }, { label: "p99", values: [], colour: "--series-5" }], x: [], unit: "ms" }),
  ];
  return {
    update(now) {
      of[0].update(now.series(allowed, denied));
      of[1].update(now.series((tick) => tick.all.p50_us && tick.all.p50_us / 1000, (tick) => tick.all.p99_us && tick.all.p99_us / 1000));
    },
    destroy: () => of.forEach((chart) => chart.destroy()),
  };
}

function policies(root) {
  const body = make("tbody");
  const column = (textContent, className) => make("th", { scope: "col", textContent, className });
  const table = make("table", { className: "rows" }, make("thead", {}, make("tr", {}, column("Policy"), column("Allowed / s", "number"), column("Denied / s", "number"), column("Latency", "number"), column("Denied of all", "number"), column("Five minutes"))), body);
  const none = make("p", { className: "empty", hidden: true, textContent: "No policies are configured. tidegate config example shows how to write some." });
  const more = make("p", { className: "soft", hidden: true });
  const keys = make("section", { className: "card" }, make("h2", { textContent: "Refused most" }));
  const hint = make("p", { className: "soft" });
  const top = bars(keys, { items: [], empty: "Nobody was refused in the last minutes." });
  keys.append(hint);
  root.append(make("div", { className: "columns wide-first" }, make("section", { className: "card" }, make("h2", { textContent: "Policies" }), table, none, more), keys));
  const rows = new Map();

  function row(name) {
    const cells = { allowed: make("td", { className: "number", "data-label": "allowed / s" }), denied: make("td", { className: "number", "data-label": "denied / s" }), latency: make("td", { className: "number", "data-label": "latency" }), share: make("td", { className: "number", "data-label": "denied" }), spark: make("td", { className: "whole" }) };
    const rules = make("div", { className: "soft rule" });
    const link = make("a", { href: `#/policies/${encodeURIComponent(name)}`, textContent: name });
    const node = make("tr", {}, make("th", { scope: "row" }, make("div", {}, link, rules)), Object.values(cells));
    return { node, cells, rules, line: spark(cells.spark) };
  }

  return {
    update(now) {
      const names = [...new Set([...Object.keys(now.policies), ...Object.keys(now.state.policies)])];
      const asked = (name) => now.state.policies[name]?.allowed ?? 0;
      const most = new Set(names.toSorted((one, other) => asked(other) - asked(one)).slice(0, ROWS_MAX));
      const shown = names.filter((name) => most.has(name));
      for (const [name, { node, line }] of rows) if (!most.has(name)) { line.destroy(); node.remove(); rows.delete(name); }
      for (const name of shown) {
        if (!rows.has(name)) rows.set(name, row(name));
        const { cells, rules, line } = rows.get(name);
        const of = (what) => (tick) => rate(tick.policies[name]?.[what] ?? 0, tick);
        const passed = (tick) => of("allowed")(tick) + of("shadow_denied")(tick);
        say(rules, now.policies[name] ? summary(now.policies[name]) : NAMELESS[name] ?? "");
        say(cells.allowed, count(recent(passed)));
        say(cells.denied, count(recent(of("denied"))));
        const timed = [...now.ticks].reverse().find((tick) => tick.policies?.[name]?.p99_us !== undefined);
        say(cells.latency, timed ? span(timed.policies[name].p99_us / 1000) : "–");
        const since = now.state.policies[name];
        const total = since ? since.allowed + since.denied + since.shadow_denied + since.error : 0;
        say(cells.share, total ? percent((since.denied + since.shadow_denied) / total) : "–");
        const { series } = now.series(passed, of("denied"));
        line.update(series.map(({ values }) => values));
      }
      const nodes = shown.map((name) => rows.get(name).node);
      if (nodes.some((node, at) => node !== body.children[at])) body.replaceChildren(...nodes);
      none.hidden = names.length > 0;
      more.hidden = names.length <= ROWS_MAX;
      say(more, `${names.length - ROWS_MAX} more, asked less: /v1/policies has them all.`);
      const all = Object.entries(now.state.policies).flatMap(([policy, { top: keys }]) => keys.map(({ key, count: value }) => ({ label: key, value, note: policy, colour: "--denied" })));
      top.update({ items: all.sort((one, other) => other.value - one.value).slice(0, TOP_MAX) });
      say(hint, !all.length ? "" : now.state.keys === "hashed" ? "Keys are hashes, the same as in the log. dashboard.keys: shown in the configuration tells them." : "Refusals of the last five to ten minutes.");
    },
    destroy() {
      top.destroy();
      for (const { line } of rows.values()) line.destroy();
    },
  };
}

/** What limits follow, where any do. */
function load(root) {
  const [left, right] = [make("section", { className: "card" }), make("section", { className: "card" })];
  const node = make("div", { className: "columns", hidden: true }, left, right);
  root.append(node);
  let [names, of] = ["", []];
  return {
    update(now) {
      const last = now.ticks.findLast((tick) => !tick.gap);
      const [limits, targets] = [Object.keys(last?.limits ?? {}).slice(0, CHARTED_MAX), Object.keys(last?.pressure ?? {}).slice(0, CHARTED_MAX)];
      node.hidden = !limits.length && !targets.length;
      const wanted = JSON.stringify([limits, targets]);
      if (wanted !== names) {
        names = wanted;
        of.forEach((chart) => chart.destroy());
        const series = (all) => all.map((label) => ({ label, values: [] }));
        of = [
          lines(left, { title: "Pressure", series: series(targets), x: [], unit: "%", max: 1.05 }),
          lines(right, { title: "Limits in force", series: series(limits), x: [], fill: false }),
        ];
      }
      of[0]?.update(now.series(...targets.map((name) => (tick) => tick.pressure[name])));
      of[1]?.update(now.series(...limits.map((name) => (tick) => tick.limits[name])));
    },
    destroy: () => of.forEach((chart) => chart.destroy()),
  };
}
