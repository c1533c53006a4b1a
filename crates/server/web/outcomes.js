// What became of checks: one meaning of "allowed" and "denied" for tiles, tables and charts.

import { lines } from "./charts.js";
import { AVERAGED_TICKS, feed, perSecond } from "./feed.js";

/** Let through, because the limit allows it or in shadow mode. */
export const passed = (counts) => (counts?.allowed ?? 0) + (counts?.shadow_denied ?? 0);
/** Of those: let through without counting, because the store fails (`on_store_error: allow`). */
export const failedOpen = (counts) => counts?.fail_open ?? 0;
/** Turned away because the store fails (`on_store_error: deny`). */
export const failedClosed = (counts) => counts?.fail_closed ?? 0;
/** All that was turned away. */
export const turnedAway = (counts) => (counts?.denied ?? 0) + failedClosed(counts);

const LAYERS = [
  { label: "allowed", colour: "--allowed", read: (it) => Math.max(0, (it.allowed ?? 0) - failedOpen(it)), isAlways: true },
  { label: "allowed in shadow mode", colour: "--shadow", read: (it) => it.shadow_denied ?? 0 },
  { label: "allowed without the store", colour: "--series-3", read: failedOpen },
  { label: "denied", colour: "--denied", read: (it) => it.denied ?? 0, isAlways: true },
  { label: "turned away: the store fails", colour: "--series-5", read: failedClosed },
];

/** The sum of `read` over some counts of a tick, per second. */
export const rateOf = (countsOf, read) => (tick) => perSecond(countsOf(tick).reduce((sum, counts) => sum + read(counts), 0), tick);

/** Decisions per second, stacked. A layer that is not always there appears with its first check. */
export function decisionsChart(card, countsOf) {
  let [chart, drawn] = [null, []];
  return {
    update() {
      const ticks = feed.ticks.filter((tick) => !tick.gap);
      const layers = LAYERS.filter(({ read, isAlways }) => isAlways || ticks.some((tick) => countsOf(tick).some((counts) => read(counts))));
      if (layers.length !== drawn.length || layers.some((layer, at) => layer !== drawn[at])) {
        drawn = layers;
        chart?.destroy();
        chart = lines(card, { title: "Decisions per second", series: drawn.map(({ label, colour }) => ({ label, colour, values: [] })), x: [], isStacked: true, averaged: AVERAGED_TICKS });
      }
      chart.update(feed.series(...drawn.map(({ read }) => rateOf(countsOf, read))));
    },
    destroy: () => chart?.destroy(),
  };
}
