// The experiments: what one sees, what to do instead, and how a report is told and drawn. A slider is [name, from, to,
// step], within what the server allows. What `draw` returns wipes what it drew.

import { bars, lines } from "./charts.js";
import { bytes, count, make, span } from "./dom.js";
import { columns, t } from "./playground-draw.js";

const NODES = ["Nodes", 2, 20, 1];
const LIMIT = ["Limit per window", 1, 200, 1];
const WINDOW = ["Window", 100, 10_000, 100];
const WINDOWS = ["How long, in windows", 1, 20, 1];
const times = (value) => `${Number(value.toFixed(2))} ×`;
const find = (rows, name) => rows.find((row) => row.algorithm === name || row.controller === name);

/** Two windows, the edge between them, and what an algorithm lets in before and after it. */
function lane({ limit, position_permille: position }, row) {
  const burst = (side, left, admitted) => {
    const bar = t(`i.burst.${side}`, t("i"));
    bar.style.left = `${left}%`;
    bar.firstChild.style.height = `${admitted / limit * 100}%`;
    return bar;
  };
  const track = make("span", { className: "road", "aria-hidden": "true" }, t("i.edge"), burst("before", position / 20, row.first), burst("after", 50, row.second));
  return t(row.times_limit > 1.5 ? "li.bad" : "li", t("span.label", row.algorithm), track, t("b", count(row.in_gap)));
}

const boundary = {
  nav: "Boundary attack",
  title: "Twice the limit at the edge of a window",
  see: "Somebody sends a whole limit just before a fixed window ends, and another as the next begins. The counter starts anew at the edge: both pass.",
  instead: "use `gcra` (the default), `sliding-window` or `sliding-log`: they have no edge.",
  looks: { limit: LIMIT, window_ms: WINDOW, position_permille: ["Attack position in the window", 0, 990, 10] },
  sentence({ algorithms, gap_us: gap, limit, window_ms: window }) {
    const [fixed, gcra] = [find(algorithms, "fixed-window"), find(algorithms, "gcra")];
    return `${count(fixed.in_gap)} requests pass a fixed window within ${span(gap / 1000)}: ${times(fixed.times_limit)} the limit of ${count(limit)} per ${window === 1000 ? "second" : span(window)}. GCRA lets ${count(gcra.in_gap)} pass.`;
  },
  draw(element, report) {
    element.append(
      t("p.axis.soft", t("span", "one window"), t("span", "edge"), t("span", "the next")),
      t("ol.lanes", report.algorithms.map((row) => lane(report, row))),
      t("p.soft.small", "A bar is a burst of the whole limit, filled as far as it was let in."));
  },
  head: ["Algorithm", "Before the edge", "After it", "Went ahead", "Of the limit", "Per second"],
  rows: ({ algorithms }) => algorithms.map((row) => [row.times_limit > 1.5, row.algorithm, row.first, row.second, row.in_gap, times(row.times_limit), row.per_second]),
};

const WAYS = { naive: "Naive caching", atomic: "tidegate, one store", leases: "tidegate, leases" };

const syncLag = {
  nav: "Sync lag",
  title: "Nodes that hear of each other late",
  see: "Each node counts by itself and tells the others now and then. Until they hear of it, they admit what is long gone.",
  instead: "let one store decide, or take units ahead from it with `lease: true`. Neither passes the limit.",
  looks: { nodes: ["Nodes", 1, 20, 1], limit: LIMIT, window_ms: WINDOW, interval_ms: ["They hear of it after", 0, 2000, 50] },
  sentence: ({ limit, ways: [naive, atomic, leases] }) => `Naive caching admits ${count(naive.admitted)} where ${count(limit)} are allowed (+${Math.round(naive.over_limit_percent)} %); tidegate admits ${count(atomic.admitted)}, and ${count(leases.admitted)} with leases.`,
  draw(element, { limit, ways, curve }) {
    const items = ways.map((way) => ({ label: WAYS[way.way], value: way.admitted, colour: way.over_limit ? "--denied" : "--allowed" }));
    bars(element, { title: "Admitted in one window", items: [{ label: "The limit", value: limit, colour: "--series-6" }, ...items] });
    return lines(element, {
      title: "The later they hear of each other (s), the more", time: false, fill: false,
      x: curve.map((point) => point.interval_ms / 1000),
      series: [
        { label: WAYS.naive, colour: "--denied", values: curve.map((point) => point.naive) },
        { label: "tidegate", colour: "--allowed", values: curve.map(() => ways[1].admitted) },
      ],
    }).destroy;
  },
  head: ["Who decides", "Admitted", "Over the limit", "Calls to the store"],
  rows: ({ ways }) => ways.map((way) => [way.over_limit > 0, WAYS[way.way], way.admitted, way.over_limit, way.calls ?? "none"]),
};

const algorithms = {
  nav: "Algorithms",
  title: "One trace through every algorithm",
  see: "The same requests go through all algorithms. Some let bursts through, one remembers every instant and pays in memory, one makes people wait.",
  instead: "of guessing, pick by need: `gcra` for most things, `sliding-log` where a limit is a promise, `leaky-bucket` for an even flow.",
  looks: { limit: LIMIT, window_ms: WINDOW, windows: WINDOWS, demand_milli: ["Demand, times the limit", 100, 5000, 100], clump: ["Requests at once", 1, 50, 1] },
  sentence({ algorithms: all, offered, limit }) {
    const most = all.reduce((a, b) => (b.most_in_a_window > a.most_in_a_window ? b : a));
    return `Of ${count(offered)} requests ${most.algorithm} lets up to ${count(most.most_in_a_window)} into one window, a sliding log ${count(find(all, "sliding-log").most_in_a_window)}; the limit is ${count(limit)}.`;
  },
  draw(element, { algorithms: all }) {
    const went = all.map(({ timeline }) => timeline.slice(1).map((value, at) => value - timeline[at]));
    const most = Math.max(1, ...went.flat());
    element.append(t("ul.multiples", all.map((row, at) => t("li", t("h3", row.algorithm),
      columns(`${row.algorithm}: what went ahead over time`, most, [{ values: went[at], colour: "--main" }]),
      t("p.soft.small", `up to ${count(row.most_in_a_window)} in a window`)))));
  },
  head: ["Algorithm", "Admitted", "Denied", "Most in a window", "In a tenth of one", "Longest wait", "Memory"],
  rows: ({ algorithms: all }) => all.map((row) => [false, row.algorithm, row.admitted, row.denied, row.most_in_a_window, row.largest_burst, row.longest_wait_us ? span(Math.ceil(row.longest_wait_us / 1000)) : "none", bytes(row.state_bytes)]),
};

const OURS = "default + cap 32";
/** What is drawn at first. */
const drawn = new Set(["none", "static 360", "AIMD", OURS]);
const COLOURS = { none: "--denied", [OURS]: "--allowed" };

const overload = {
  nav: "Overload",
  title: "A server that is asked for more than it can do",
  see: "A server can do 400 a second; clients give up after one, and many try again. Once the queue outlasts their patience, all work is for nobody.",
  instead: "let the limit follow how long requests wait: `adaptive`, the last three rows.",
  looks: { limit: ["Declared limit per second", 100, 2000, 20], seeds: ["Runs to take the mean of", 1, 3, 1] },
  sentence({ possible, controllers }) {
    const [none, ours] = [find(controllers, "none"), find(controllers, OURS)];
    return `At best ${count(possible)} a second can be served. Without control ${count(none.goodput)} are, with the adaptive default ${count(ours.goodput)}, 99 of 100 within ${span(ours.p99_ms)}.`;
  },
  draw(element, { controllers }) {
    const place = t("div");
    let chart;
    const redraw = () => {
      chart?.destroy();
      chart = lines(place, {
        title: "Served in time, each second", unit: "/s", time: false, fill: false, height: 240,
        x: controllers[0].course.map((_, second) => second),
        series: controllers.filter(({ controller }) => drawn.has(controller))
          .map(({ controller, course }, at) => ({ label: controller, values: course, colour: COLOURS[controller] ?? `--series-${3 + at % 4}` })),
      });
    };
    const boxes = controllers.map(({ controller }) => {
      const box = make("input", { type: "checkbox", checked: drawn.has(controller) });
      box.addEventListener("change", () => { drawn[box.checked ? "add" : "delete"](controller); redraw(); });
      return t("label", box, controller);
    });
    element.append(t("fieldset.chips", t("legend.unseen", "Controllers in the picture"), boxes), place);
    redraw();
    return () => chart.destroy();
  },
  head: ["Controller", "Served in time", "Of the best", "99 % within", "Settled after", "Refused"],
  rows: ({ controllers, possible }) => controllers.map((row) => [row.goodput < possible / 2, row.controller, `${count(row.goodput)} /s`, `${Math.round(row.goodput / possible * 100)} %`, span(row.p99_ms), row.settling_s === null ? "never" : `${row.settling_s} s`, row.refused]),
};

const race = {
  nav: "Race",
  title: "Read, then write",
  see: "Nodes read a counter, decide, and write it back. In between the others read it too: one more for each of them can slip through.",
  instead: "decide and write in one atomic step, as tidegate's stores do.",
  looks: { nodes: NODES, limit: ["What the counter allows", 1, 200, 1], runs: ["Runs", 10, 1000, 10] },
  sentence: ({ runs, limit, ways: [naive, atomic] }) => `In ${count(runs)} runs up to ${count(naive.over_limit_worst)} slipped past a limit of ${count(limit)}, ${naive.over_limit_mean.toFixed(2)} on average; in one atomic step ${count(atomic.over_limit_worst)}.`,
  draw(element, { runs, limit, ways }) {
    for (const { way, runs_by_over_limit: by } of ways) {
      const items = by.map((value, over) => ({ value, label: `${limit} + ${over}`, colour: over ? "--denied" : "--allowed" })).filter(({ value }, over) => value || over < 3);
      bars(element, { title: `In how many runs so many passed: ${way}`, max: runs, items });
    }
  },
  head: ["How", "Over the limit at worst", "On average", "In how many runs"],
  rows: ({ runs, ways }) => ways.map((way) => [way.over_limit_worst > 0, way.way, way.over_limit_worst, way.over_limit_mean.toFixed(3), runs - way.runs_by_over_limit[0]]),
};

const clockSkew = {
  nav: "Clock skew",
  title: "Whose clock decides",
  see: "Nodes share a state, and each decides by its own clock. One that is ahead finds windows over and buckets full; one behind finds a state from the future.",
  instead: "let the store's clock decide, as tidegate does.",
  looks: { nodes: NODES, limit: LIMIT, window_ms: WINDOW, skew_ms: ["Clocks are off by up to", 0, 5000, 50], windows: WINDOWS },
  sentence: ({ limit, algorithms: [fixed] }) => `By their own clocks the nodes let ${count(fixed.own_clocks.most_in_a_window)} through in one window where ${count(limit)} are allowed; by the store's clock ${count(fixed.store_clock.most_in_a_window)}.`,
  draw(element, { algorithms: all }) {
    bars(element, { title: "Admitted in all", items: all.flatMap((row) => [
      { label: `${row.algorithm}, by their own clocks`, value: row.own_clocks.admitted, colour: "--denied" },
      { label: "by the store's clock", value: row.store_clock.admitted, colour: "--allowed" },
    ]) });
  },
  head: ["Algorithm", "Own clocks", "In a window", "Each node", "Store's clock", "In a window", "Each node"],
  rows: ({ algorithms: all }) => all.map((row) => [false, row.algorithm, ...[row.own_clocks, row.store_clock].flatMap((by) => [by.admitted, by.most_in_a_window, `${by.least_by_node}–${by.most_by_node}`])]),
};

export const EXPERIMENTS = { boundary, "sync-lag": syncLag, algorithms, overload, race, "clock-skew": clockSkew };
