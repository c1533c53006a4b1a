// Validates arguments before anything is sent. An error names the argument and what was expected.

import { badInput } from './error.js';
import type { Check, Key, Observation, OnError } from './types.js';

/** The longest time of a Node timer: a longer one fires at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;
const KEYS_MAX = 32;
const CHECK_BYTES_MAX = 64 * 1024;

/** The JSON body of a call on one policy. */
export function checkBody(check: Check, more: Record<string, unknown> = {}, at = ''): string {
  const { policy, key, cost } = check;
  text(`${at}policy`, policy);
  const body = { policy, ...keyFields(`${at}key`, key), ...(cost === undefined ? {} : { cost }), ...more };
  if (cost !== undefined && !(Number.isSafeInteger(cost) && cost >= 0)) {
    throw badInput(`${at}cost`, 'a whole number from 0 to 9007199254740991', cost);
  }
  return checkSize(`${at}key`, JSON.stringify(body));
}

/** The policy and the names of the keys: all that the server can reject in a well-formed check. */
export function shape(policy: string, key: Key): string {
  return typeof key === 'string' ? policy : JSON.stringify([policy, ...Object.keys(key).sort()]);
}

/** The JSON body of an observation. */
export function observationBody(target: string, observation: Observation): string {
  text('target', target);
  object('observation', observation, ['latencyMs', 'ok', 'queueMs', 'saturation', 'url']);
  const { latencyMs, ok, queueMs, saturation, url } = observation;
  optionalNumber('latencyMs', latencyMs, Number.MAX_VALUE, 'a number of milliseconds');
  optionalNumber('queueMs', queueMs, Number.MAX_VALUE, 'a number of milliseconds');
  optionalNumber('saturation', saturation, 1, 'a number from 0 to 1');
  if (ok !== undefined && typeof ok !== 'boolean') {
    throw badInput('ok', 'true or false', ok);
  }
  if (url !== undefined) {
    text('url', url);
  }
  const body = { target, latency_ms: latencyMs, ok, queue_ms: queueMs, saturation, url };
  return checkSize('url', JSON.stringify(body));
}

export function text(field: string, value: unknown): asserts value is string {
  if (typeof value !== 'string' || value === '') {
    throw badInput(field, 'a non-empty string', value);
  }
  if (!value.isWellFormed()) {
    throw badInput(field, 'well-formed Unicode', value);
  }
}

/** Rejects unknown names: they are usually typos. */
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

export function onErrorValue(value: unknown): asserts value is OnError {
  if (!['allow', 'deny', 'local', 'throw'].includes(value as string)) {
    throw badInput('onError', "'allow', 'deny', 'local' or 'throw'", value);
  }
}

function keyFields(field: string, key: Key): { key: string } | { keys: Record<string, string> } {
  if (typeof key === 'string') {
    text(field, key);
    return { key };
  }
  if (typeof key !== 'object' || key === null || Array.isArray(key)) {
    throw badInput(field, "a string, or an object like { ip: '192.0.2.7' }", key);
  }
  const names = Object.entries(key);
  if (names.length === 0 || names.length > KEYS_MAX) {
    throw badInput(field, `1 to ${KEYS_MAX} keys`, `${names.length} keys`);
  }
  for (const [name, value] of names) {
    text(`${field}.${name}`, value);
  }
  return { keys: { ...key } };
}

function optionalNumber(field: string, value: unknown, max: number, expected: string): void {
  if (value !== undefined && !(Number.isFinite(value) && (value as number) >= 0 && (value as number) <= max)) {
    throw badInput(field, expected, value);
  }
}

function checkSize(field: string, body: string): string {
  const bytes = Buffer.byteLength(body);
  if (bytes > CHECK_BYTES_MAX) {
    throw badInput(field, `a request of at most ${CHECK_BYTES_MAX} bytes`, `${bytes} bytes`);
  }
  return body;
}
