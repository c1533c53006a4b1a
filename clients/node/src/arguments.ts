// Arguments are checked before anything is sent: which one is wrong, and what was expected.

import { badInput } from './error.js';
import type { Check, Key, Observation, OnError } from './types.js';

/** The longest time that a timer of Node can wait; above it fires at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;
/** The most identifiers of one check. */
const KEYS_MAX = 32;
/** The most bytes of one question. */
const QUESTION_BYTES_MAX = 64 * 1024;

/** The body of a question on one policy, as JSON. */
export function question(check: Check, more: Record<string, unknown> = {}, at = ''): string {
  if (typeof check !== 'object' || check === null) {
    throw badInput(at === '' ? 'check' : at.slice(0, -1), 'an object like { policy, key }', check);
  }
  const { policy, key, cost } = check;
  text(`${at}policy`, policy);
  const body = { policy, ...identifiers(`${at}key`, key), ...(cost === undefined ? {} : { cost }), ...more };
  if (cost !== undefined && !(Number.isSafeInteger(cost) && cost >= 0)) {
    throw badInput(`${at}cost`, 'a whole number from 0 to 9007199254740991', cost);
  }
  return within(`${at}key`, JSON.stringify(body));
}

/** All that a server may dislike about a well-formed question: the policy, and which identifiers are given. */
export function shape(policy: string, key: Key): string {
  return typeof key === 'string' ? policy : JSON.stringify([policy, ...Object.keys(key).sort()]);
}

/** The body that tells how a service did, as JSON. */
export function observation(target: string, seen: Observation): string {
  text('target', target);
  object('observation', seen, ['latencyMs', 'ok', 'queueMs', 'saturation', 'url']);
  const { latencyMs, ok, queueMs, saturation, url } = seen;
  amount('latencyMs', latencyMs, Number.MAX_VALUE, 'a number of milliseconds');
  amount('queueMs', queueMs, Number.MAX_VALUE, 'a number of milliseconds');
  amount('saturation', saturation, 1, 'a number from 0 to 1');
  if (ok !== undefined && typeof ok !== 'boolean') {
    throw badInput('ok', 'true or false', ok);
  }
  if (url !== undefined) {
    text('url', url);
  }
  const body = { target, latency_ms: latencyMs, ok, queue_ms: queueMs, saturation, url };
  return within('url', JSON.stringify(body));
}

export function text(field: string, value: unknown): asserts value is string {
  if (typeof value !== 'string' || value === '') {
    throw badInput(field, 'a string that is not empty', value);
  }
  if (!value.isWellFormed()) {
    throw badInput(field, 'well-formed Unicode', value);
  }
}

/** Only known names, so that a misspelt one is noticed. */
export function object(field: string, value: unknown, names: readonly string[]): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badInput(field, 'an object', value);
  }
  const unknown = Object.keys(value).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw badInput(field, `only ${names.join(', ')}`, unknown);
  }
}

export function wholeNumber(field: string, value: unknown, min: number, max: number): void {
  if (!Number.isInteger(value) || (value as number) < min || (value as number) > max) {
    throw badInput(field, `a whole number from ${min} to ${max}`, value);
  }
}

export function timeout(value: unknown): void {
  wholeNumber('timeoutMs', value, 1, TIMER_MS_MAX);
}

export function onErrorWord(value: unknown): asserts value is OnError {
  if (value !== 'allow' && value !== 'deny' && value !== 'throw') {
    throw badInput('onError', "'allow', 'deny' or 'throw'", value);
  }
}

function identifiers(field: string, key: Key): { key: string } | { keys: Record<string, string> } {
  if (typeof key === 'string') {
    text(field, key);
    return { key };
  }
  if (typeof key !== 'object' || key === null || Array.isArray(key)) {
    throw badInput(field, "a string, or an object like { ip: '192.0.2.7' }", key);
  }
  const names = Object.entries(key);
  if (names.length === 0 || names.length > KEYS_MAX) {
    throw badInput(field, `1 to ${KEYS_MAX} identifiers`, `${names.length} of them`);
  }
  for (const [name, value] of names) {
    text(`${field}.${name}`, value);
  }
  return { keys: { ...key } };
}

function amount(field: string, value: unknown, max: number, expected: string): void {
  if (value !== undefined && !(Number.isFinite(value) && (value as number) >= 0 && (value as number) <= max)) {
    throw badInput(field, expected, value);
  }
}

function within(field: string, body: string): string {
  const bytes = Buffer.byteLength(body);
  if (bytes > QUESTION_BYTES_MAX) {
    throw badInput(field, `a question of at most ${QUESTION_BYTES_MAX} bytes`, `${bytes} bytes`);
  }
  return body;
}
