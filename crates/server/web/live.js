// The start view: all policies, now and over the last five minutes.

import { curl, sendSamples } from "./api.js";
import { bars, lines, spark, tiles } from "./charts.js";
import { policySummary } from "./describe.js";
import { copyButton, count, duration, fold, formatValue, make, percent, setText } from "./dom.js";
import { feed } from "./feed.js";
import { health, storeState } from "./health.js";
import { decisionsChart, failedClosed, failedOpen, passed, rateOf, turnedAway } from "./outcomes.js";

const ANNOUNCE_INTERVAL_MS = 30_000;
const CHART_LINES_MAX = 6;
const TOP_KEYS_MAX = 8;
const POLICY_ROWS_MAX = 40;
/** After this many checks, the introduction disappears. */
const INTRODUCTION_CHECKS_MAX = 1000;
/** Rows for checks that belong to no policy. */
const PSEUDO_POLICIES = { "(request)": "limits sent with the request", "(unknown)": "unknown policy names" };

const all = (tick) => Object.values(tick.policies);
const allowed = rateOf(all, passed);
const denied = rateOf(all, turnedAway);
const recent = (read) => feed.recent(read);

export function mount(root) {
  const parts = [heading(root), introduction(root), totals(root), charts(root), policies(root), adaptive(root), health(root)];
  let announcedAt = 0;
  const unwatch = feed.watch(() => {
    if (!feed.state) return;
    for (const part of parts) part.update(feed);
    if (Date.now() - announcedAt > ANNOUNCE_INTERVAL_MS) {
      announcedAt = Date.now();
      setText(document.getElementById("spoken"), `${count(recent(allowed))} checks per second allowed, ${count(recent(denied))} denied.`);
    }
  });
  return () => {
    unwatch();
    for (const part of parts) part.destroy?.();
  };
}

function heading(root) {
  const uptime = make("p", { className: "muted" });
  root.append(make("div", { className: "heading" }, make("h1", { textContent: "Live" }), uptime));
  return {
    update({ state, ticks }) {
      const minutes = Math.floor(Math.max(0, (ticks.at(-1)?.t ?? 0) - state.started_ms) / 60_000);
      setText(uptime, `Uptime: ${minutes < 1 ? "under 1 min" : minutes < 60 ? `${minutes} min` : duration(minutes * 60_000)}`);
    },
  };
}

/** How to send a first check. */
function introduction(root) {
  const [command, title] = [make("code"), make("h2")];
  const [start, progress] = [make("button", { type: "button", textContent: "Send sample checks" }), make("span", { className: "muted", role: "status" })];
  const card = make("section", { className: "card welcome", "aria-label": "Try it", hidden: true },
    title,
    make("p", { className: "muted", textContent: "Run this command, or send sample checks for 8 seconds. The charts below show the result." }),
    make("div", { className: "line" }, make("pre", { tabIndex: 0, "aria-label": "Command" }, command), copyButton(() => command.textContent)),
    make("div", { className: "buttons" }, start, progress));
  let stop = null;
  start.addEventListener("click", () => {
    start.disabled = true;
    stop = sendSamples(feed.policies ?? {}, (sent, isDone) => {
      setText(progress, isDone ? `${sent} checks sent` : `Sending: ${sent} checks`);
      start.disabled = !isDone;
    });
  });
  root.append(card);
  return {
    update({ state, policies }) {
      const [first] = Object.entries(policies);
      if (first && !command.textContent) command.textContent = curl(...first);
      const isUnused = Object.keys(state.policies).length === 0;
      setText(title, isUnused ? "No checks yet" : "Try it");
      // The card stays while its own checks run: the button must not vanish under the pointer.
      if (first && isUnused) card.hidden = false;
      else if (!start.disabled && !isUnused && Object.values(state.policies).reduce((all, it) => all + it.allowed + it.denied, 0) > INTRODUCTION_CHECKS_MAX) card.hidden = true;
    },
    destroy: () => stop?.(),
  };
}

function totals(root) {
  const [decisions, deniedShare, latency, storeTile, pressure] = tiles(root, "Now", ["Decisions/s", "Denied", "Latency p99", "Store", "Load pressure"]);
  return {
    update({ state: { store }, ticks }) {
      const [good, bad] = [recent(allowed), recent(denied)];
      const peak = Math.max(0, ...ticks.filter((tick) => !tick.gap).map((tick) => allowed(tick) + denied(tick)));
      const [open, closed] = [recent(rateOf(all, failedOpen)), recent(rateOf(all, failedClosed))];
      decisions(count(good + bad), open ? `${count(open)}/s uncounted` : `peak ${count(peak)}`);
      deniedShare(good + bad > 0 ? percent(bad / (good + bad)) : "0 %", closed ? `${count(closed)}/s: store fails` : `${count(bad)} per second`);
      const timed = feed.lastTick((tick) => tick.all?.count)?.all;
      latency(timed ? duration(timed.p99_us / 1000) : "–", timed ? `p50 ${duration(timed.p50_us / 1000)}` : "no checks yet");
      const { servers } = store;
      if (store.outages.length) storeTile("failing", store.outages.map((outage) => `${outage.store === "quorum" ? "quorum" : store.kind}: ${outage.kind}`).join(", "));
      else if (servers && servers.recovering + servers.away) storeTile(`${servers.serving} of ${servers.serving + servers.recovering + servers.away}`, "servers of the quorum serve");
      else if (store.keys === undefined) storeTile(store.kind, storeState(store.condition)[1]);
      else storeTile(count(store.keys), `keys in ${store.kind}`);
      const targets = Object.entries(ticks.at(-1)?.pressure ?? {});
      const highest = targets.reduce((one, other) => (other[1] > one[1] ? other : one), targets[0]);
      pressure.tile.hidden = !highest;
      pressure(highest ? formatValue(highest[1], "ratio") : "–", highest?.[0] ?? "");
    },
  };
}

function charts(root) {
  const left = make("section", { className: "card" });
  const right = fold("Latency");
  root.append(make("div", { className: "columns" }, left, right));
  const decisions = decisionsChart(left, all);
  const latency = lines(right, { title: "Latency", isTitled: false, series: [{ label: "p50", values: [], colour: "--series-3" }, { label: "p99", values: [], colour: "--series-5" }], x: [], unit: "ms", fill: false });
  return {
    update() {
      decisions.update();
      latency.update(feed.series((tick) => tick.all.p50_us && tick.all.p50_us / 1000, (tick) => tick.all.p99_us && tick.all.p99_us / 1000));
    },
    destroy() { decisions.destroy(); latency.destroy(); },
  };
}

const COLUMNS = { allowed: "Allowed/s", denied: "Denied/s", latency: "Latency p99", share: "Denied share" };

function policies(root) {
  const body = make("tbody");
  const column = (textContent, className) => make("th", { scope: "col", textContent, className });
  const table = make("table", { className: "rows compact" }, make("thead", {}, make("tr", {}, column("Policy"), Object.values(COLUMNS).map((name) => column(name, "number")), column("Last 5 minutes"))), body);
  const none = make("p", { className: "empty", hidden: true, textContent: "No policies are configured. Print a sample with “tidegate config example”, save it to a file, and start the server with “-c FILE”." });
  const more = make("p", { className: "muted", hidden: true });
  const keys = fold("Most denied keys");
  const hint = make("p", { className: "muted" });
  const top = bars(keys, { items: [], empty: "No denials in the last 5 minutes." });
  keys.append(hint);
  root.append(make("div", { className: "columns wide-first" }, make("section", { className: "card" }, make("h2", { textContent: "Policies" }), table, none, more), keys));
  const rows = new Map();

  function row(name) {
    const cells = Object.fromEntries(Object.entries(COLUMNS).map(([field, label]) => [field, make("td", { className: "number", "data-label": label })]));
    const chart = make("td", { className: "whole" });
    const [summary, note] = [make("div", { className: "muted rule" }), make("div", { className: "rule failing" })];
    const link = make("a", { href: `#/policies/${encodeURIComponent(name)}`, textContent: name });
    const node = make("tr", {}, make("th", { scope: "row" }, make("div", {}, link, summary, note)), Object.values(cells), chart);
    return { node, cells, summary, note, line: spark(chart) };
  }

  return {
    update({ state, policies }) {
      const names = [...new Set([...Object.keys(policies), ...Object.keys(state.policies)])];
      const checks = (name) => state.policies[name]?.allowed ?? 0;
      const busiest = new Set(names.toSorted((one, other) => checks(other) - checks(one)).slice(0, POLICY_ROWS_MAX));
      const shown = names.filter((name) => busiest.has(name));
      for (const [name, { node, line }] of rows) if (!busiest.has(name)) { line.destroy(); node.remove(); rows.delete(name); }
      for (const name of shown) {
        if (!rows.has(name)) rows.set(name, row(name));
        const { cells, summary, note, line } = rows.get(name);
        const rate = (read) => rateOf((tick) => [tick.policies[name]], read);
        setText(summary, policies[name] ? policySummary(policies[name]) : PSEUDO_POLICIES[name] ?? "");
        setText(note, recent(rate(failedClosed)) ? "turned away: the store fails" : recent(rate(failedOpen)) ? "allowed without the store" : "");
        setText(cells.allowed, count(recent(rate(passed))));
        setText(cells.denied, count(recent(rate(turnedAway))));
        const timed = feed.lastTick((tick) => tick.policies[name]?.p99_us !== undefined);
        setText(cells.latency, timed ? duration(timed.policies[name].p99_us / 1000) : "–");
        const totals = state.policies[name];
        const checks = totals ? totals.allowed + totals.denied + totals.shadow_denied + totals.error : 0;
        setText(cells.share, checks ? percent((turnedAway(totals) + totals.shadow_denied) / checks) : "–");
        line.update(feed.series(rate(passed), rate(turnedAway)).series.map(({ values }) => values));
      }
      const nodes = shown.map((name) => rows.get(name).node);
      if (nodes.some((node, at) => node !== body.children[at])) body.replaceChildren(...nodes);
      none.hidden = names.length > 0;
      more.hidden = names.length <= POLICY_ROWS_MAX;
      setText(more, `${names.length - POLICY_ROWS_MAX} policies with fewer checks are not shown. /v1/policies lists all.`);
      const denials = Object.entries(state.policies).flatMap(([policy, { top: keys }]) => keys.map(({ key, count: value }) => ({ label: key, value, note: `in ${policy}`, colour: "--denied" })));
      top.update({ items: denials.sort((one, other) => other.value - one.value).slice(0, TOP_KEYS_MAX) });
      setText(hint, !denials.length ? "" : state.keys === "hashed" ? "Keys are hashed, as in the log. To show them, set “dashboard.keys: shown” in the configuration." : "Denials of the last 5 to 10 minutes.");
    },
    destroy() {
      top.destroy();
      for (const { line } of rows.values()) line.destroy();
    },
  };
}

/** Load pressure and effective limits, if any limit is adaptive. */
function adaptive(root) {
  const [left, right] = [fold("Load pressure"), fold("Effective limits")];
  const node = make("div", { className: "columns", hidden: true }, left, right);
  root.append(node);
  let [drawn, both] = ["", []];
  return {
    update() {
      const last = feed.lastTick();
      const [limits, targets] = [Object.keys(last?.limits ?? {}).slice(0, CHART_LINES_MAX), Object.keys(last?.pressure ?? {}).slice(0, CHART_LINES_MAX)];
      node.hidden = !limits.length && !targets.length;
      const wanted = JSON.stringify([limits, targets]);
      if (wanted !== drawn) {
        drawn = wanted;
        both.forEach((chart) => chart.destroy());
        const series = (names) => names.map((label) => ({ label, values: [] }));
        both = [
          lines(left, { title: "Load pressure: 0 healthy, 1 overloaded", isTitled: false, series: series(targets), x: [], unit: "ratio", max: 1.05 }),
          lines(right, { title: "Effective limits", isTitled: false, series: series(limits), x: [], fill: false }),
        ];
      }
      both[0]?.update(feed.series(...targets.map((name) => (tick) => tick.pressure[name])));
      both[1]?.update(feed.series(...limits.map((name) => (tick) => tick.limits[name])));
    },
    destroy: () => both.forEach((chart) => chart.destroy()),
  };
}
