// Asking the real API: one check by hand, or a few seconds of them.

import { quoted } from "./dom.js";

/** Who asks when nobody is given. */
export const SOMEBODY = "user-42";
const SECONDS = 8;
const EVERY_MS = 125;
/** Whoever asks for it asks for little: at most this many checks, all in all. */
const CHECKS_MAX = 600;

export async function post(path, body) {
  const answer = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  const json = await answer.json().catch(() => ({ detail: `status ${answer.status}` }));
  if (!answer.ok) throw new Error(json.detail ?? `status ${answer.status}`);
  return json;
}

/** A leaky bucket is reserved in and a limit on concurrency acquired; all others are checked. */
export function pathOf(policy) {
  if (policy.algorithm === "leaky-bucket") return "/v1/reserve";
  return policy.algorithm === "concurrency" ? "/v1/acquire" : "/v1/check";
}

/** Policies that count by several identifiers get the same one for each, which is enough to try them. */
export function question(name, policy, key, cost = 1) {
  const named = (policy.members ?? []).filter((member) => member.key).map((member) => [member.key, key]);
  const who = named.length ? { keys: Object.fromEntries(named) } : { key };
  return { policy: name, ...who, cost };
}

/** As it would be asked from a shell. */
export function curl(name, policy, key = SOMEBODY) {
  const { cost, ...body } = question(name, policy, key);
  return `curl -s ${location.origin}${pathOf(policy)} -d ${quoted(JSON.stringify(body))}`;
}

/** A few callers, some keener than others, for a few seconds. `told` hears how many were sent; answers how to stop. */
export function rehearse(policies, told) {
  const names = Object.keys(policies).filter((name) => policies[name].algorithm !== "concurrency").slice(0, 6);
  let [sent, round, isOver] = [0, 0, false];
  const timer = setInterval(step, EVERY_MS);
  async function step() {
    round += 1;
    if (round * EVERY_MS > SECONDS * 1000 || sent >= CHECKS_MAX || isOver) return finish();
    const checks = names.flatMap((name, index) => {
      const key = `visitor-${(round * (index + 1)) % 5}`;
      // One of them will not take no for an answer.
      const keen = index === 0 ? Array(6).fill("mallory") : [];
      return [key, ...keen].map((one) => post(pathOf(policies[name]), question(name, policies[name], one)));
    });
    sent += checks.length;
    told(sent, false);
    const ended = await Promise.allSettled(checks);
    if (ended.every(({ status }) => status === "rejected")) finish();
  }
  function finish() {
    clearInterval(timer);
    if (!isOver) told(sent, true);
    isOver = true;
  }
  return finish;
}
