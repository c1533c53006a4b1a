// Decodes replies. Only this file knows the names on the wire.

import type { IncomingHttpHeaders } from 'node:http';
import { TidegateError } from './error.js';
import type { Reply } from './transport.js';
import type { Decision, LimitNumbers, Permit, PolicyNumbers, Renewal, Reservation } from './types.js';

type Fields = Record<string, unknown>;

const PROBLEM_TYPE = 'urn:tidegate:';
const VISIBLE = /^[\x20-\x7e]+$/;
const LIMIT_HEADER = /^(ratelimit|(x-)?ratelimit-[a-z]+|retry-after)$/;

/** The methods of this client for the routes that an error of the server names. */
const METHODS: readonly (readonly [route: string, method: string])[] = [
  ['use POST /v1/acquire', 'use `client.withPermit(…)`'],
  ['use POST /v1/check', 'use `client.check(…)`'],
  ['use POST /v1/reserve', 'use `client.schedule(…)`'],
];

/** The JSON of a reply; undefined for a 204. Throws if the reply is an error or not from tidegate. */
export function body(reply: Reply): unknown {
  if (reply.status === 204) {
    return undefined;
  }
  const json = parsed(reply);
  if (reply.status === 200) {
    return json;
  }
  throw isFields(json) && typeof json.type === 'string' && json.type.startsWith(PROBLEM_TYPE)
    ? problem(reply, json, json.type.slice(PROBLEM_TYPE.length))
    : badAnswer(`status ${reply.status}, not from tidegate`, reply.status);
}

export function decision(json: unknown): Decision {
  const fields = object(json, 'a decision');
  return {
    allowed: flag(fields, 'allowed'),
    limit: number(fields, 'limit'),
    remaining: number(fields, 'remaining'),
    retryAfterMs: numberOrNull(fields, 'retry_after_ms'),
    resetAfterMs: number(fields, 'reset_after_ms'),
    policy: string(fields, 'policy'),
    binding: string(fields, 'binding'),
    source: string(fields, 'source'),
  };
}

export function permit(json: unknown): Permit {
  const fields = object(json, 'a decision');
  const { permit: id } = fields;
  if (id !== null && typeof id !== 'string') {
    throw badAnswer('`permit` is not a string');
  }
  return { ...decision(json), permit: id, ttlMs: fields.ttl_ms === undefined ? undefined : number(fields, 'ttl_ms') };
}

export function reservation(json: unknown): Reservation {
  const fields = object(json, 'a reservation');
  return {
    accepted: flag(fields, 'accepted'),
    delayMs: number(fields, 'delay_ms'),
    retryAfterMs: numberOrNull(fields, 'retry_after_ms'),
    source: 'server',
  };
}

export function released(json: unknown): boolean {
  return flag(object(json, 'an object'), 'released');
}

export function renewal(json: unknown): Renewal {
  const fields = object(json, 'an object');
  const renewed = flag(fields, 'renewed');
  return { renewed, ttlMs: renewed ? number(fields, 'ttl_ms') : 0 };
}

/** The policies by name. One that cannot be read has no numbers. */
export function policies(json: unknown): Map<string, PolicyNumbers | undefined> {
  return new Map(Object.entries(object(json, 'policies by name')).map(([name, policy]) => {
    try {
      return [name, policyNumbers(policy)];
    } catch {
      return [name, undefined];
    }
  }));
}

function policyNumbers(json: unknown): PolicyNumbers {
  const fields = object(json, 'a policy');
  const { members = [fields], mode, shadow, enforce = '100%' } = fields;
  if (!Array.isArray(members) || members.length === 0) {
    throw badAnswer('`members` is not a list of limits');
  }
  const isShadow = shadow === true || enforce !== '100%';
  const of = isFields(fields.share) && typeof fields.share.of === 'string' ? fields.share.of : undefined;
  return { mode: mode === 'any' ? 'any' : 'all', members: members.map(limitNumbers), of, shadow: isShadow };
}

function limitNumbers(json: unknown): LimitNumbers {
  const fields = object(json, 'a limit');
  const optional = (name: string): number | undefined => (fields[name] === undefined ? undefined : number(fields, name));
  const ms = (name: string): number | undefined => (fields[name] === undefined ? undefined : number(fields, name) / 1000);
  const limit = number(fields, 'limit');
  const [periodMs, cost] = [ms('period_us'), optional('cost')];
  if (limit === 0 || cost === 0 || (periodMs === undefined && fields.algorithm !== 'concurrency')) {
    throw badAnswer('a limit without numbers');
  }
  return {
    name: fields.name === undefined ? undefined : string(fields, 'name'),
    key: fields.key === undefined ? undefined : string(fields, 'key'),
    algorithm: string(fields, 'algorithm'),
    limit,
    effective: fields.adaptive === 'enforce' ? Math.max(1, optional('effective') ?? limit) : undefined,
    periodMs: periodMs ?? 0,
    burst: optional('burst') ?? optional('capacity'),
    maxWaitMs: ms('max_wait_us'),
    ttlMs: ms('ttl_us'),
    cost,
    targets: Array.isArray(fields.targets) ? fields.targets.map(String) : [],
  };
}

/** The decisions of a batch as JSON, one per check. */
export function decisions(json: unknown, count: number): unknown[] {
  const { decisions } = object(json, 'an object');
  if (!Array.isArray(decisions) || decisions.length !== count) {
    throw badAnswer(`expected ${count} decisions`);
  }
  return decisions;
}

/** The headers inside a decision of a batch. */
export function batchedHeaders(json: unknown): Fields {
  return object(object(json, 'a decision').headers, 'headers in a decision');
}

/** The rate limit headers that are safe to pass on. */
export function limitHeaders(headers: IncomingHttpHeaders | Fields): Record<string, string> {
  const all = Object.entries(headers).map(([name, value]) => [name, String(value)] as const);
  return Object.fromEntries(all.filter(([name, value]) => LIMIT_HEADER.test(name) && VISIBLE.test(value)));
}

export function badAnswer(detail: string, status?: number): TidegateError {
  return new TidegateError('bad-answer', detail, { status, transient: true });
}

function parsed({ status, body }: Reply): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw badAnswer(`status ${status}, body is not JSON`, status);
  }
}

function problem({ status, headers }: Reply, fields: Fields, code: string): TidegateError {
  const { detail, title, field } = fields;
  const seconds = Number(headers['retry-after']);
  const told = String(detail ?? title ?? `status ${status}`);
  return new TidegateError(code, METHODS.reduce((text, [route, method]) => text.replace(route, method), told), {
    status,
    field: typeof field === 'string' ? field : undefined,
    retryAfterMs: seconds > 0 ? seconds * 1000 : undefined,
    transient: status >= 500 || status === 408,
  });
}

function isFields(json: unknown): json is Fields {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

function object(json: unknown, expected: string): Fields {
  if (!isFields(json)) {
    throw badAnswer(`expected ${expected}`);
  }
  return json;
}

function flag(fields: Fields, name: string): boolean {
  const value = fields[name];
  if (typeof value !== 'boolean') {
    throw badAnswer(`\`${name}\` is not true or false`);
  }
  return value;
}

function string(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== 'string') {
    throw badAnswer(`\`${name}\` is not a string`);
  }
  return value;
}

function number(fields: Fields, name: string): number {
  const value = fields[name];
  if (typeof value !== 'number' || !(value >= 0 && value < Infinity)) {
    throw badAnswer(`\`${name}\` is not a number`);
  }
  return value;
}

function numberOrNull(fields: Fields, name: string): number | null {
  return fields[name] === null ? null : number(fields, name);
}
