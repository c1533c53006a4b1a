// Shared by the Fastify plugin and the Express middleware: from a request to a response.

import type { ServerResponse } from 'node:http';
import { object, onErrorValue, timeout } from './arguments.js';
import { FOR_APPS } from './caller.js';
import { Tidegate } from './client.js';
import { badInput, type TidegateError } from './error.js';
import { checkHabits } from './habits.js';
import { measure } from './observer.js';
import type { TidegateOptions } from './options.js';
import { heldUntil, responseEnded } from './permit.js';
import type { CheckOptions, Decision, Key, OnError } from './types.js';
import { addressKey, userKey, type HasIp } from './user.js';

type Awaitable<T> = T | Promise<T>;

export interface Rule<Req, Res> {
  readonly policy: string | ((request: Req) => Awaitable<string>);
  /** The key of a request. Without one, `request.user`'s `id` or `sub` is used, then the IP address (see `ipKey`). */
  readonly key?: ((request: Req) => Awaitable<Key | undefined>) | undefined;
  readonly cost?: number | ((request: Req) => Awaitable<number>) | undefined;
  /** Returns true for requests that are not limited. */
  readonly skip?: ((request: Req) => Awaitable<boolean>) | undefined;
  /**
   * Answers a denied request. Status and headers are already set. It returns the body; if it returns undefined and
   * sends nothing, the default body is sent.
   */
  readonly onDenied?: ((request: Req, response: Res, decision: Decision) => unknown) | undefined;
  /** The decision if the server does not answer; default: the client's. */
  readonly onError?: OnError | undefined;
  readonly timeoutMs?: number | undefined;
  /** The target to which the time and success of each response count, for limits that follow it. */
  readonly observe?: string | undefined;
  /** For a policy that limits concurrency: each request holds its place until its response has ended. */
  readonly permit?: boolean | undefined;
}

/** A client, which the caller closes, or options for a new one. */
export type Client = Tidegate | TidegateOptions;

export interface Verdict {
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the limit does not apply: a preflight, or a request that `skip` exempts. */
  readonly isExempt?: boolean;
  /** Whether the key was the IP address, for want of a user. */
  readonly isByAddress?: boolean;
  /** The response to a request that is not admitted. The body is JSON, the same bytes in every framework. */
  readonly refusal?: Refusal;
}

export interface Refusal {
  readonly status: 429 | 500 | 503;
  readonly body: string;
  /** Absent if the server rejected the question. */
  readonly decision?: Decision;
}

interface HasMethod {
  readonly method?: string | undefined;
  readonly headers?: Readonly<Record<string, unknown>> | undefined;
}

/** ASCII is a byte per character, of which the server takes 100. */
const TARGET = /^[\x20-\x7e]{1,100}$/;

export const RULE_NAMES = ['policy', 'key', 'cost', 'skip', 'onDenied', 'onError', 'timeoutMs', 'observe', 'permit'];

/** Checks types only: the server validates policies and keys. */
export function checkRule(field: string, rule: object): void {
  checkHabits(field, rule);
  object(field, rule, RULE_NAMES);
  const { policy, key, cost, skip, onDenied } = rule as Partial<Rule<unknown, unknown>>;
  const { onError, timeoutMs, observe, permit } = rule as Partial<Rule<unknown, unknown>>;
  if (policy !== undefined && !(typeof policy === 'string' && policy !== '') && typeof policy !== 'function') {
    throw badInput(`${field}.policy`, 'a policy name or a function', policy);
  }
  if (cost !== undefined && !(Number.isSafeInteger(cost) && Number(cost) >= 0) && typeof cost !== 'function') {
    throw badInput(`${field}.cost`, 'a whole number or a function', cost);
  }
  for (const [name, value] of Object.entries({ key, skip, onDenied })) {
    if (value !== undefined && typeof value !== 'function') {
      throw badInput(`${field}.${name}`, 'a function', value);
    }
  }
  if (onError !== undefined) {
    onErrorValue(onError);
  }
  if (timeoutMs !== undefined) {
    timeout(timeoutMs);
  }
  if (observe !== undefined && !(typeof observe === 'string' && TARGET.test(observe))) {
    throw badInput(`${field}.observe`, 'the name of a target, of 1 to 100 ASCII characters', observe);
  }
  if (permit !== undefined && typeof permit !== 'boolean') {
    throw badInput(`${field}.permit`, 'true or false', permit);
  }
}

/** Reports an admitted request to the target `observe`, if there is one, when it is answered. */
export function observeResponse(client: Tidegate, observe: string | undefined, response: ServerResponse): void {
  if (observe !== undefined) {
    measure(response, (latencyMs, ok) => client[FOR_APPS]?.observed(observe, latencyMs, ok));
  }
}

/** Not by `instanceof`: the client may come from the other build, ESM or CJS. */
export function clientOf(given: Client | undefined): { client: Tidegate; isOwned: boolean } {
  if (given !== undefined && (typeof given !== 'object' || given === null)) {
    throw badInput('options.client', "a Tidegate or options like { url: 'http://127.0.0.1:8080' }", given);
  }
  return given !== undefined && 'check' in given
    ? { client: given, isOwned: false }
    : { client: new Tidegate(given), isOwned: true };
}

export async function decide<Req extends object, Res>(
  client: Tidegate, rule: Rule<Req, Res>, request: Req & HasIp & HasMethod, response: ServerResponse,
): Promise<Verdict> {
  if (isPreflight(request) || await rule.skip?.(request)) {
    return { headers: {}, isExempt: true };
  }
  const policy = typeof rule.policy === 'function' ? await rule.policy(request) : rule.policy;
  const cost = typeof rule.cost === 'function' ? await rule.cost(request) : rule.cost;
  // A visitor may omit the header that the key comes from: that is not an error.
  const key = await rule.key?.(request) || userKey(request);
  const { onError, timeoutMs, permit = false } = rule;
  const ask = (asked: Key, options: CheckOptions): Promise<Decision> => permit
    ? heldUntil(responseEnded(response), client, policy, asked, options)
    : client.check(policy, asked, options);
  try {
    const decision = await ask(key ?? addressKey(request), { cost, onError, timeoutMs, headers: true });
    return { ...verdict(decision), isByAddress: !key };
  } catch (error) {
    if (isRejected(error)) {
      client[FOR_APPS]?.rejected(policy, error);
      return { headers: {}, refusal: { status: 500, body: MISUSED } };
    }
    throw asServerError(error as TidegateError);
  }
}

/** The log says why. Through the app's error handler, every request would log a stack. */
const MISUSED = JSON.stringify({ error: 'Internal Server Error', message: 'Rate limiter misused' });

/** Whether the server is up and does not accept what the app asks, such as an unknown policy. */
function isRejected(error: unknown): error is TidegateError {
  // Not by `instanceof`: see `clientOf`.
  const { name, status, transient } = error as TidegateError;
  return name === 'TidegateError' && status !== undefined && !transient;
}

/**
 * A browser's question before a cross-origin request. It carries no credentials, and a page cannot read why it was
 * refused.
 */
function isPreflight({ method, headers }: HasMethod): boolean {
  return method === 'OPTIONS' && headers?.origin !== undefined
    && headers['access-control-request-method'] !== undefined;
}

function verdict(decision: Decision): Verdict {
  const headers = decision.headers ?? {};
  if (decision.allowed) {
    return { headers };
  }
  const failed = decision.source === 'fallback' || decision.source === 'fail-closed';
  const retryAfter = retryAfterSeconds(decision);
  const body = failed
    ? { error: 'Service Unavailable', message: `Rate limiter unavailable. ${retryHint(retryAfter)}`, retryAfter }
    : { error: 'Too Many Requests', message: `Rate limit exceeded. ${retryHint(retryAfter)}`, retryAfter };
  return {
    headers: retryAfter === null ? headers : { ...headers, 'retry-after': String(retryAfter) },
    refusal: { status: failed ? 503 : 429, body: JSON.stringify(body), decision },
  };
}

/** The server's header, in whole seconds; it includes jitter so that clients do not retry at once. */
function retryAfterSeconds({ headers, retryAfterMs, source }: Decision): number | null {
  const seconds = Number(headers?.['retry-after']);
  if (seconds > 0) {
    return seconds;
  }
  if (retryAfterMs === null) {
    return null;
  }
  const known = Math.max(1, Math.ceil(retryAfterMs / 1000));
  // A server that fails closed has sent it as a header, too.
  return source === 'fail-closed' ? known : jittered(known);
}

/** Up to a fifth more, as the server adds it. A fifth of less than 5 s is less than 1 s: there, some get a whole one. */
function jittered(seconds: number): number {
  return seconds + (seconds < 5
    ? Number(Math.random() * 10 < seconds)
    : Math.floor(Math.random() * (Math.floor(seconds / 5) + 1)));
}

function retryHint(retryAfter: number | null): string {
  return retryAfter === null ? 'Retrying will not help.' : `Retry after ${retryAfter} seconds.`;
}

/**
 * The error for the framework's error handler, which sends its status and message to the visitor. It must not reveal
 * the limiter's status or address.
 */
function asServerError(cause: TidegateError): Error {
  const statusCode = cause.transient ? 503 : 500;
  const message = cause.transient ? 'Rate limiter unavailable' : 'Rate limiter misused';
  return Object.assign(new Error(message, { cause }), { statusCode, status: statusCode });
}
