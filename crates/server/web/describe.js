// Limits and API answers in words.

import { count, duration } from "./dom.js";

/** A limit without its rate: `gcra`, `burst 20`. */
export function limitDetails(limit) {
  const parts = [limit.algorithm];
  if (limit.burst !== undefined && limit.burst !== limit.limit) parts.push(`burst ${count(limit.burst)}`);
  if (limit.capacity !== undefined) parts.push(`capacity ${count(limit.capacity)}`);
  if (limit.max_wait_us !== undefined) parts.push(`max wait ${duration(limit.max_wait_us / 1000)}`);
  if (limit.ttl_us !== undefined) parts.push(`ttl ${duration(limit.ttl_us / 1000)}`);
  if (limit.time_zone !== undefined) parts.push(`from midnight in ${limit.time_zone}`);
  if (limit.key !== undefined) parts.push(`per ${limit.key}`);
  if (limit.cost !== undefined) parts.push(`a check costs ${count(limit.cost)}`);
  return parts;
}

/** `gcra 100/min, burst 20`. */
function limitSummary(limit) {
  const [algorithm, ...others] = limitDetails(limit);
  return [`${algorithm} ${limit.rate}`, ...others].join(", ");
}

export function limitsOf(policy) {
  return policy?.members ?? (policy ? [policy] : []);
}

/** A policy on one line. */
export function policySummary(policy) {
  const limits = limitsOf(policy).map(limitSummary).join(policy?.mode === "any" ? " or " : " and ");
  return [limits, enforcement(policy)].filter(Boolean).join("; ");
}

/** For whom a policy is enforced, if not for all. */
export function enforcement(policy) {
  if (policy?.shadow) return "in shadow mode";
  return policy?.enforce ? `enforced for ${policy.enforce} of the callers, in shadow for the others` : "";
}

const retry = (ms) => (ms === null ? "retrying cannot help: the cost is too high" : `retry in ${duration(ms)}`);

/** An API answer as `{ isGood, verdict, detail, share }`; `share` is the part of the limit that is left. */
export function describeAnswer(name, answer, policy) {
  if (answer.accepted !== undefined) {
    const detail = answer.accepted ? `wait ${duration(answer.delay_ms)} before you start` : retry(answer.retry_after_ms);
    const share = answer.accepted ? 1 - (answer.delay_ms * 1000) / (policy.max_wait_us || 1) : 0;
    return { isGood: answer.accepted, verdict: answer.accepted ? "Accepted" : "Rejected", detail, share };
  }
  const limit = answer.binding === name ? "" : ` in limit ${answer.binding}`;
  const left = `${count(answer.remaining)} of ${count(answer.limit)} left${limit}`;
  const later = answer.allowed ? `full again in ${duration(answer.reset_after_ms)}` : retry(answer.retry_after_ms);
  return { isGood: answer.allowed, verdict: answer.allowed ? "Allowed" : "Denied", detail: `${left}, ${later}`, share: answer.remaining / answer.limit };
}
