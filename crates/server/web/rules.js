// Limits and answers, in words.

import { count, span } from "./dom.js";

/** What there is to a limit beside its rate: `gcra`, `burst 20`. */
export function details(limit) {
  const parts = [limit.algorithm];
  if (limit.burst !== undefined && limit.burst !== limit.limit) parts.push(`burst ${count(limit.burst)}`);
  if (limit.capacity !== undefined) parts.push(`capacity ${count(limit.capacity)}`);
  if (limit.max_wait_us !== undefined) parts.push(`waits up to ${span(limit.max_wait_us / 1000)}`);
  if (limit.key !== undefined) parts.push(`by ${limit.key}`);
  return parts;
}

/** `gcra 100/min, burst 20`. */
export function rule(limit) {
  const [algorithm, ...others] = details(limit);
  return [`${algorithm} ${limit.rate}`, ...others].join(", ");
}

export function membersOf(policy) {
  return policy?.members ?? (policy ? [policy] : []);
}

/** A policy on one line. */
export function summary(policy) {
  return membersOf(policy).map(rule).join(policy?.mode === "any" ? " or " : " and ");
}

function wait(ms, never) {
  return ms === null ? never : `come back in ${span(ms)}`;
}

/** What an answer of the API means: `{ good, verdict, rest, share }`. */
export function meaning(name, answer, policy) {
  if (answer.accepted !== undefined) {
    const rest = answer.accepted ? `wait ${span(answer.delay_ms)}, then go` : wait(answer.retry_after_ms, "this cost will never be accepted");
    const share = answer.accepted ? 1 - (answer.delay_ms * 1000) / (policy.max_wait_us || 1) : 0;
    return { good: answer.accepted, verdict: answer.accepted ? "Accepted" : "Refused", rest, share };
  }
  const of = answer.binding === name ? "" : ` in ${answer.binding}`;
  const left = `${count(answer.remaining)} of ${count(answer.limit)} left${of}`;
  const later = answer.allowed ? `all of it in ${span(answer.reset_after_ms)}` : wait(answer.retry_after_ms, "this cost will never be allowed");
  return { good: answer.allowed, verdict: answer.allowed ? "Allowed" : "Denied", rest: `${left}, ${later}`, share: answer.remaining / answer.limit };
}
