// The experiments: problem, fix, and how to draw a report. A control is [label, from, to, step] within the server's range.
// `draw` may return a function that removes the drawing; `red` says what red means there, if anything is red.

import { bars, lines } from "./charts.js";
import { bytes, count, duration, make } from "./dom.js";
import { columnChart, tag } from "./playground-draw.js";

const NODES = ["Nodes", 2, 20, 1];
const LIMIT = ["Limit per window", 1, 200, 1];
const WINDOW = ["Window", 100, 10_000, 100];
const WINDOWS = ["Duration, in windows", 1, 20, 1];
const times = (value) => `${Number(value.toFixed(2))} ×`;
const find = (rows, name) => rows.find((row) => row.algorithm === name || row.controller === name);

/** Above this many times the limit, the boundary attack works. A full bucket and its refill stay below it. */
const ATTACK_TIMES_MIN = 1.5;

/** Two windows and the requests that an algorithm admits before and after their boundary: at once, or after the gap. */
function timeline({ limit, position_permille: position }, row) {
  const burst = (side, left, admitted, inGap) => {
    const bar = tag(`i.burst.${side}`, tag("i.later"), tag("i"));
    bar.style.left = `${left}%`;
    bar.firstChild.style.height = `${admitted / limit * 100}%`;
    bar.lastChild.style.height = `${inGap / limit * 100}%`;
    return bar;
  };
  const track = make("span", { className: "windows", "aria-hidden": "true" }, tag("i.boundary"),
    burst("before", position / 20, row.first, row.first_in_gap), burst("after", 50, row.second, row.second_in_gap));
  const figure = tag("b", count(row.in_gap), row.delayed ? tag("small.muted", ` + ${count(row.delayed)} wait`) : null);
  return tag(row.times_limit > ATTACK_TIMES_MIN ? "li.bad" : "li", tag("span.label", row.algorithm), track, figure);
}

const boundary = {
  nav: "Boundary attack",
  title: "Twice the limit at a window boundary",
  problem: "A client sends a full limit of requests just before a fixed window ends, and again when the next one begins. The counter resets at the boundary, so both bursts pass.",
  fix: "use `gcra` (the default), `sliding-window` or `sliding-log`: they have no boundary.",
  controls: { limit: LIMIT, window_ms: WINDOW, position_permille: ["Attack position in the window", 0, 990, 10] },
  sentence({ algorithms, gap_us: gap, limit, window_ms: window }) {
    const [fixed, gcra] = [find(algorithms, "fixed-window"), find(algorithms, "gcra")];
    return `${count(fixed.in_gap)} requests pass a fixed window within ${duration(gap / 1000)}: ${times(fixed.times_limit)} the limit of ${count(limit)} per ${window === 1000 ? "second" : duration(window)}. GCRA admits ${count(gcra.in_gap)}.`;
  },
  draw(element, report) {
    element.append(
      tag("p.axis.muted", tag("span", "window 1"), tag("span", "boundary"), tag("span", "window 2")),
      tag("ol.timelines", report.algorithms.map((row) => timeline(report, row))),
      tag("p.muted.small", "Each bar is a burst as large as the limit. The filled part starts within the gap, and so does the number on the right. The striped part is admitted too, but waits: a leaky bucket lets requests through one by one."));
  },
  red: `more than ${ATTACK_TIMES_MIN} × the limit within the gap`,
  head: ["Algorithm", "Admitted before", "Admitted after", "Start within the gap", "Wait longer", "Times the limit"],
  rows: ({ algorithms }) => algorithms.map((row) => [row.times_limit > ATTACK_TIMES_MIN, row.algorithm, row.first, row.second, row.in_gap, row.delayed, times(row.times_limit)]),
};

const WAYS = { naive: "Naive caching", atomic: "tidegate, one store", leases: "tidegate, leases" };

const syncLag = {
  nav: "Sync lag",
  title: "Nodes that synchronise too late",
  problem: "Each node counts locally and sends its count to the others at intervals. Until the counts arrive, the nodes together admit more than the limit.",
  fix: "decide in one shared store, or lease units from it with `lease: true`. Neither exceeds the limit.",
  controls: { nodes: ["Nodes", 1, 20, 1], limit: LIMIT, window_ms: WINDOW, interval_ms: ["Sync interval", 0, 2000, 50] },
  sentence: ({ limit, ways: [naive, atomic, leases] }) => `Naive caching admits ${count(naive.admitted)} where ${count(limit)} are allowed (+${Math.round(naive.over_limit_percent)} %); tidegate admits ${count(atomic.admitted)}, and ${count(leases.admitted)} with leases.`,
  draw(element, { limit, ways, curve }) {
    const items = ways.map((way) => ({ label: WAYS[way.way], value: way.admitted, colour: way.over_limit ? "--denied" : "--allowed" }));
    bars(element, { title: "Admitted in one window", items: [{ label: "Limit", value: limit, colour: "--series-6" }, ...items] });
    return lines(element, {
      title: "Admitted, by sync interval in seconds", time: false, fill: false,
      x: curve.map((point) => point.interval_ms / 1000),
      series: [
        { label: WAYS.naive, colour: "--denied", values: curve.map((point) => point.naive) },
        { label: "tidegate", colour: "--allowed", values: curve.map(() => ways[1].admitted) },
      ],
    }).destroy;
  },
  red: "more than the limit",
  head: ["Method", "Admitted", "Over the limit", "Store calls"],
  rows: ({ ways }) => ways.map((way) => [way.over_limit > 0, WAYS[way.way], way.admitted, way.over_limit, way.calls ?? "none"]),
};

const algorithms = {
  nav: "Algorithms",
  title: "The same traffic through every algorithm",
  problem: "Each algorithm has a cost: some admit bursts above the limit, `sliding-log` stores every request time, `leaky-bucket` delays requests.",
  fix: "choose by need: `gcra` for most limits, `sliding-log` for an exact limit, `leaky-bucket` for an even rate.",
  controls: { limit: LIMIT, window_ms: WINDOW, windows: WINDOWS, demand_milli: ["Demand, as a multiple of the limit", 100, 5000, 100], clump: ["Requests per burst", 1, 50, 1] },
  sentence({ algorithms: all, offered, limit }) {
    const most = all.reduce((a, b) => (b.most_in_a_window > a.most_in_a_window ? b : a));
    return `Of ${count(offered)} requests, ${most.algorithm} admits up to ${count(most.most_in_a_window)} in one window, sliding-log ${count(find(all, "sliding-log").most_in_a_window)}. The limit is ${count(limit)}.`;
  },
  draw(element, { algorithms: all }) {
    const admitted = all.map(({ timeline }) => timeline.slice(1).map((value, at) => value - timeline[at]));
    const max = Math.max(1, ...admitted.flat());
    element.append(tag("ul.multiples", all.map((row, at) => tag("li", tag("h3", row.algorithm),
      columnChart(`${row.algorithm}: requests admitted over time`, max, [{ values: admitted[at], colour: "--main" }]),
      tag("p.muted.small", `at most ${count(row.most_in_a_window)} in a window`)))));
  },
  head: ["Algorithm", "Admitted", "Denied", "Most per window", "Most per 1/10 window", "Longest wait", "Memory per key"],
  rows: ({ algorithms: all }) => all.map((row) => [false, row.algorithm, row.admitted, row.denied, row.most_in_a_window, row.largest_burst, row.longest_wait_us ? duration(Math.ceil(row.longest_wait_us / 1000)) : "none", bytes(row.state_bytes)]),
};

const ADAPTIVE_DEFAULT = "default + cap 32";
/** Controllers in the chart; these are drawn at first. */
const drawn = new Set(["none", "static 360", "AIMD", ADAPTIVE_DEFAULT]);
const COLOURS = { none: "--denied", [ADAPTIVE_DEFAULT]: "--allowed" };

const overload = {
  nav: "Overload",
  title: "A server with more requests than it can handle",
  problem: "A server handles 400 requests per second. Clients time out after one second, and many retry. Once the queue is longer than the timeout, every response is too late.",
  fix: "use an `adaptive` limit. It follows the waiting time of requests: see the last three rows.",
  controls: { limit: ["Declared limit per second", 100, 2000, 20], seeds: ["Runs to average", 1, 3, 1] },
  sentence({ possible, controllers }) {
    const [none, ours] = [find(controllers, "none"), find(controllers, ADAPTIVE_DEFAULT)];
    return `Timely responses per second: ${count(none.goodput)} without control, ${count(ours.goodput)} with the adaptive default (p99 ${duration(ours.p99_ms)}), of ${count(possible)} possible.`;
  },
  draw(element, { controllers }) {
    const parent = tag("div");
    let chart;
    const redraw = () => {
      chart?.destroy();
      chart = lines(parent, {
        title: "Timely responses per second", unit: "/s", time: false, fill: false, height: 240,
        x: controllers[0].course.map((_, second) => second),
        series: controllers.filter(({ controller }) => drawn.has(controller))
          .map(({ controller, course }, at) => ({ label: controller, values: course, colour: COLOURS[controller] ?? `--series-${3 + at % 4}` })),
      });
    };
    const boxes = controllers.map(({ controller }) => {
      const box = make("input", { type: "checkbox", checked: drawn.has(controller) });
      box.addEventListener("change", () => { drawn[box.checked ? "add" : "delete"](controller); redraw(); });
      return tag("label", box, controller);
    });
    element.append(tag("fieldset.chips", tag("legend.visually-hidden", "Controllers in the chart"), boxes), parent);
    redraw();
    return () => chart.destroy();
  },
  red: "less than half of the timely responses that are possible",
  head: ["Controller", "Timely responses", "Of possible", "p99", "Settling time", "Rejected"],
  rows: ({ controllers, possible }) => controllers.map((row) => [row.goodput < possible / 2, row.controller, `${count(row.goodput)} /s`, `${Math.round(row.goodput / possible * 100)} %`, duration(row.p99_ms), row.settling_s === null ? "never" : `${row.settling_s} s`, row.refused]),
};

const race = {
  nav: "Race",
  title: "Read, then write: a race",
  problem: "Each node reads a counter, decides, and writes it back. Other nodes read the old value in between, so each of them can admit one request too many.",
  fix: "decide and write in one atomic step, as tidegate's stores do.",
  controls: { nodes: NODES, limit: ["Limit", 1, 200, 1], runs: ["Runs", 10, 1000, 10] },
  sentence: ({ runs, limit, ways: [naive, atomic] }) => `In ${count(runs)} runs, up to ${count(naive.over_limit_worst)} requests exceeded the limit of ${count(limit)} (${naive.over_limit_mean.toFixed(2)} on average). With one atomic step: ${count(atomic.over_limit_worst)}.`,
  draw(element, { runs, limit, ways }) {
    for (const { way, runs_by_over_limit: by } of ways) {
      const items = by.map((value, over) => ({ value, label: `${limit} + ${over}`, colour: over ? "--denied" : "--allowed" })).filter(({ value }, over) => value || over < 3);
      bars(element, { title: `Runs by admitted requests: ${way}`, max: runs, items });
    }
  },
  red: "runs that admitted more than the limit",
  head: ["Method", "Over the limit, worst", "Over the limit, mean", "Runs over the limit"],
  rows: ({ runs, ways }) => ways.map((way) => [way.over_limit_worst > 0, way.way, way.over_limit_worst, way.over_limit_mean.toFixed(3), runs - way.runs_by_over_limit[0]]),
};

const clockSkew = {
  nav: "Clock skew",
  title: "Nodes with different clocks",
  problem: "Nodes share a state, but each uses its own clock. A fast clock sees windows end and buckets refill too early; a slow clock sees timestamps from the future.",
  fix: "use the store's clock for all decisions, as tidegate does. Then no algorithm admits more than its limit allows, and every node gets its part.",
  controls: { nodes: NODES, limit: LIMIT, window_ms: WINDOW, skew_ms: ["Largest clock error", 0, 5000, 50], windows: WINDOWS },
  sentence({ algorithms: all }) {
    const [fixed, gcra] = [find(all, "fixed-window"), find(all, "gcra")];
    const told = (clock) => `fixed-window admits ${count(fixed[clock].admitted)} where ${count(fixed.allowed)} are allowed, and gcra ${count(gcra[clock].admitted)} where ${count(gcra.allowed)} are`;
    return `By the nodes' clocks, ${told("own_clocks")}. By the store's clock, ${count(fixed.store_clock.admitted)} and ${count(gcra.store_clock.admitted)}.`;
  },
  draw(element, { algorithms: all }) {
    const bar = (label, { admitted: value }, allowed) => ({ label, value, colour: value > allowed ? "--denied" : "--allowed", note: `of ${count(allowed)}` });
    bars(element, { title: "Admitted, of what is allowed", items: all.flatMap((row) => [
      bar(`${row.algorithm}, node clocks`, row.own_clocks, row.allowed),
      bar(`${row.algorithm}, store clock`, row.store_clock, row.allowed),
    ]) });
    element.append(tag("p.muted.small", "A bucket starts full, and a queue empty: gcra, token-bucket and leaky-bucket allow one limit more than the windows alone."));
  },
  red: "more than the limit allows in all windows together",
  head: ["Algorithm", "Allowed", "Node clocks", "Fewest–most by node", "Store clock", "Fewest–most by node"],
  rows: ({ algorithms: all }) => all.map((row) => [false, row.algorithm, row.allowed, ...[row.own_clocks, row.store_clock].flatMap((by) => [
    by.admitted > row.allowed ? tag("span.bad", count(by.admitted)) : by.admitted, `${by.least_by_node}–${by.most_by_node}`])]),
};

export const EXPERIMENTS = { boundary, "sync-lag": syncLag, algorithms, overload, race, "clock-skew": clockSkew };
