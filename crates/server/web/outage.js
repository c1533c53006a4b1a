// The banner while the store does not serve: why, since when, and what each policy does meanwhile.

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
  return `Meanwhile: ${parts.join("; ")}.`;
}

/** Returns `update(feed)`, which shows or hides the banner. */
export function outageBanner(banner) {
  const [since, lasting, error, policies] = [make("b"), make("span", { "aria-hidden": "true" }), make("code"), make("span")];
  banner.append(make("p", {}, since, " ", lasting), make("p", {}, error), make("p", {}, policies));
  return ({ state, ticks, link }) => {
    const outage = state?.store.outage;
    banner.hidden = !outage || link === "reconnecting";
    if (banner.hidden) return;
    setText(since, `The store (${state.store.kind}) does not serve since ${timeOfDay(outage.since_ms)}.`);
    // Changes every second, so it is not announced.
    setText(lasting, `For ${duration(Math.max(0, (ticks.at(-1)?.t ?? 0) - outage.since_ms))}.`);
    setText(error, outage.error);
    setText(policies, meanwhile(outage.policies));
  };
}
