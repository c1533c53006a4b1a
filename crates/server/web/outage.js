// The banner while a store does not serve: which one, why, since when, and what the policies that it touches do meanwhile.

import { duration, make, setText, timeOfDay } from "./dom.js";

const NAMES_MAX = 6;
const MEANWHILE = {
  deny: ["turns every check away", "turn every check away"],
  allow: ["lets everything through, uncounted", "let everything through, uncounted"],
  local: ["enforces this node's share of its limits", "enforce this node's share of their limits"],
};

/** `login`, `a and b`, `a, b and 7 more`. */
function listed({ count, names }) {
  const shown = names.slice(0, count > NAMES_MAX ? NAMES_MAX - 1 : NAMES_MAX);
  const rest = count - shown.length;
  const parts = rest ? [...shown, `${rest} more`] : shown;
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

export function meanwhile(policies) {
  const parts = Object.entries(MEANWHILE).filter(([how]) => policies[how].count).map(([how, [one, many]]) => `${listed(policies[how])} ${policies[how].count === 1 ? one : many}`);
  return parts.length ? `Meanwhile: ${parts.join("; ")}.` : "No policy is counted there.";
}

/** One paragraph each: since when, why, and what policies do. Returns `show(outage, kind, now)`, without an outage to hide it. */
function outageBlock(banner) {
  const [since, lasting, error, policies] = [make("b"), make("span", { "aria-hidden": "true" }), make("code"), make("span")];
  const block = make("div", { hidden: true }, make("p", {}, since, " ", lasting), make("p", {}, error), make("p", {}, policies));
  banner.append(block);
  return (outage, kind, now) => {
    block.hidden = !outage;
    if (!outage) return;
    const sinceMs = Date.parse(outage.since);
    setText(since, `The ${outage.store === "quorum" ? "quorum" : `store (${kind})`} does not serve since ${timeOfDay(sinceMs)}.`);
    // Changes every second, so it is not announced.
    setText(lasting, `For ${duration(Math.max(0, now - sinceMs))}.`);
    setText(error, outage.error);
    setText(policies, meanwhile(outage.policies));
  };
}

/** Returns `update(feed)`, which shows or hides the banner. */
export function outageBanner(banner) {
  const blocks = { store: outageBlock(banner), quorum: outageBlock(banner) };
  return ({ state, ticks, link }) => {
    const outages = state?.store.outages ?? [];
    banner.hidden = !outages.length || link === "reconnecting";
    if (banner.hidden) return;
    const now = ticks.at(-1)?.t ?? 0;
    for (const [store, show] of Object.entries(blocks)) show(outages.find((outage) => outage.store === store), state.store.kind, now);
  };
}
