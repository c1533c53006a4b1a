// What to write instead of options that other rate limiters have, and where those of the client belong.

import { TidegateError } from './error.js';
import { CLIENT_NAMES } from './options.js';

const LIMIT = 'limits have names here, and the server\'s file has their numbers';
const INSTEAD: Readonly<Record<string, string>> = {
  keyGenerator: 'write `key: (request) => …`',
  allowList: 'write `skip: (request) => …`, which returns true for requests that are not limited',
  errorResponseBuilder: 'write `onDenied: (request, response, decision) => …`, which returns the body',
  handler: 'write `onDenied: (request, response, decision) => …`, which returns the body',
  message: 'write `onDenied: () => …`, which returns the body',
  onExceeded: 'write `onDenied: (request, response, decision) => …`; it may return nothing',
  skipOnError: 'write `onError: \'allow\'`, which is the default',
  passOnStoreError: 'write `onError: \'allow\'`, which is the default',
  redis: 'write `store: redis://…` in the server\'s file',
  store: 'write `store: redis://…` in the server\'s file',
  global: 'leave it out. To limit some routes only, write `policy` in those routes, and not in the registration',
};
/** A rule may have its own. */
const IN_RULES = ['onError', 'timeoutMs'];
const IN_CLIENT = CLIENT_NAMES.filter((name) => !IN_RULES.includes(name));
const LIMITS = ['max', 'limit', 'timeWindow', 'windowMs'];
const UNITS: Readonly<Record<string, string>> = {
  ms: 'ms', s: 's', second: 's', m: 'min', minute: 'min', h: 'h', hour: 'h', d: 'day', day: 'day',
};

/** Throws an error that says what to write, if the value has an option of @fastify/rate-limit or express-rate-limit, or of the client. */
export function checkHabits(field: string, value: unknown): void {
  if (value === true) {
    throw misunderstood(field, 'true', 'write `{ policy: \'NAME\' }`. A route without it has the registration\'s');
  }
  if (typeof value !== 'object' || value === null) {
    return;
  }
  const found = LIMITS.filter((name) => name in value);
  if (found.length > 0) {
    const rate = rateOf(value as Readonly<Record<string, unknown>>);
    const there = `\`policies: { NAME: { algorithm: fixed-window, limit: ${rate} } }\``;
    throw misunderstood(field, found.join('` and no `'), `${LIMIT}. Write ${there} there, and \`policy: 'NAME'\` here`);
  }
  const [name, instead] = Object.entries(INSTEAD).find(([name]) => name in value) ?? [];
  if (name !== undefined) {
    throw misunderstood(field, name, `${instead}`);
  }
  const misplaced = IN_CLIENT.find((name) => name in value);
  if (misplaced !== undefined) {
    throw misunderstood(field, misplaced, `it belongs in \`client: { ${misplaced}: … }\``);
  }
}

/** The limit in the grammar of the server's file, as far as it can be told. */
function rateOf({ max, limit = max, timeWindow, windowMs = timeWindow }: Readonly<Record<string, unknown>>): string {
  const units = Number.isInteger(limit) ? limit : 100;
  if (Number.isInteger(windowMs)) {
    const seconds = Number(windowMs) / 1000;
    return `${units}/${seconds === 60 ? 'min' : Number.isInteger(seconds) ? `${seconds}s` : `${windowMs}ms`}`;
  }
  const [, count, name = ''] = /^\s*(\d+)\s*([a-z]+)\s*$/.exec(String(windowMs).toLowerCase()) ?? [];
  const unit = UNITS[name] ?? UNITS[name.replace(/s$/, '')];
  return unit === undefined ? `${units}/min` : `${units}/${count === '1' ? '' : count}${unit}`;
}

function misunderstood(field: string, name: string, instead: string): TidegateError {
  return new TidegateError('bad-input', `\`${field}\` has no \`${name}\`: ${instead}`, { field });
}
