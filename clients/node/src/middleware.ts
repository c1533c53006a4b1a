// What the Fastify plugin and the Express middleware have in common: from a request to what is answered.

import { object, onErrorWord, timeout } from './arguments.js';
import { Tidegate } from './client.js';
import { badInput, type TidegateError } from './error.js';
import { ipKey } from './ip.js';
import type { TidegateOptions } from './options.js';
import type { Decision, Key, OnError } from './types.js';

type Awaitable<T> = T | Promise<T>;

/** How requests are limited. */
export interface Rule<Req, Res> {
  readonly policy: string | ((request: Req) => Awaitable<string>);
  /** Whose request it is. If that is nothing, or not given, `request.user?.id`, else the address, see `ipKey`. */
  readonly key?: ((request: Req) => Awaitable<Key | undefined>) | undefined;
  readonly cost?: number | ((request: Req) => Awaitable<number>) | undefined;
  /** Requests that are not limited. */
  readonly skip?: ((request: Req) => Awaitable<boolean>) | undefined;
  /**
   * Answers a refused request. Status and headers are set already. What it returns is the body; if that is
   * undefined and nothing was sent, the usual body is.
   */
  readonly onDenied?: ((request: Req, response: Res, decision: Decision) => unknown) | undefined;
  /** What to do if the server cannot be asked; as the client says unless given. */
  readonly onError?: OnError | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Whom to ask: a client, which you close, or how to make one. */
export type Client = Tidegate | TidegateOptions;

/** What to tell the framework. */
export interface Verdict {
  readonly headers: Readonly<Record<string, string>>;
  /** What to answer instead of going on. */
  readonly refusal?: { readonly status: 429 | 503; readonly body: RefusalBody; readonly decision: Decision };
}

export interface RefusalBody {
  readonly error: string;
  readonly message: string;
  readonly retryAfter: number | null;
}

interface Asker {
  readonly ip?: string | undefined;
}

export const RULE_NAMES = ['policy', 'key', 'cost', 'skip', 'onDenied', 'onError', 'timeoutMs'];

/** Only what is wrong in itself: policies and keys are the server's to judge. */
export function checkRule(field: string, rule: object): void {
  object(field, rule, RULE_NAMES);
  const { policy, key, cost, skip, onDenied, onError, timeoutMs } = rule as Partial<Rule<unknown, unknown>>;
  if (policy !== undefined && !(typeof policy === 'string' && policy !== '') && typeof policy !== 'function') {
    throw badInput(`${field}.policy`, 'the name of a policy, or a function', policy);
  }
  if (cost !== undefined && !(Number.isSafeInteger(cost) && Number(cost) >= 0) && typeof cost !== 'function') {
    throw badInput(`${field}.cost`, 'a whole number, or a function', cost);
  }
  for (const [name, value] of Object.entries({ key, skip, onDenied })) {
    if (value !== undefined && typeof value !== 'function') {
      throw badInput(`${field}.${name}`, 'a function', value);
    }
  }
  if (onError !== undefined) {
    onErrorWord(onError);
  }
  if (timeoutMs !== undefined) {
    timeout(timeoutMs);
  }
}

/** A client, and whether it is ours to close. Not by `instanceof`: it may be of the other build, ESM or CJS. */
export function clientOf(given: Client | undefined): { client: Tidegate; ours: boolean } {
  if (given !== undefined && (typeof given !== 'object' || given === null)) {
    throw badInput('options.client', "a Tidegate, or options like { url: 'http://127.0.0.1:8080' }", given);
  }
  return given !== undefined && 'check' in given
    ? { client: given, ours: false }
    : { client: new Tidegate(given), ours: true };
}

export async function judge<Req extends object, Res>(
  client: Tidegate, rule: Rule<Req, Res>, request: Req & Asker,
): Promise<Verdict> {
  if (await rule.skip?.(request)) {
    return { headers: {} };
  }
  const policy = typeof rule.policy === 'function' ? await rule.policy(request) : rule.policy;
  const cost = typeof rule.cost === 'function' ? await rule.cost(request) : rule.cost;
  const key = await rule.key?.(request);
  const { onError, timeoutMs } = rule;
  try {
    // Visitors leave headers out or empty: that is not a mistake of the app's.
    const who = key || defaultKey(request);
    return verdict(await client.check(policy, who, { cost, onError, timeoutMs, headers: true }));
  } catch (error) {
    throw asServerError(error as TidegateError);
  }
}

function defaultKey(request: object & Asker): Key {
  const { user } = request as { user?: { id?: unknown } | null };
  const id = user?.id;
  if (typeof id === 'number' || typeof id === 'bigint' || (typeof id === 'string' && id !== '')) {
    return String(id);
  }
  if (!request.ip) {
    throw badInput('key', 'a user or an address; over a Unix socket, trust the proxy or give `key`', request.ip);
  }
  return ipKey(request.ip);
}

function verdict(decision: Decision): Verdict {
  const headers = decision.headers ?? {};
  if (decision.allowed) {
    return { headers };
  }
  const failed = decision.source === 'fallback' || decision.source === 'fail-closed';
  const retryAfter = retryAfterSeconds(decision);
  const body = failed
    ? { error: 'Service Unavailable', message: `Rate limiter unavailable. ${when(retryAfter)}`, retryAfter }
    : { error: 'Too Many Requests', message: `Rate limit exceeded. ${when(retryAfter)}`, retryAfter };
  return {
    headers: retryAfter === null ? headers : { ...headers, 'retry-after': String(retryAfter) },
    refusal: { status: failed ? 503 : 429, body, decision },
  };
}

/** As the server's header says it: whole seconds, and a bit more by chance, so that not all come back at once. */
function retryAfterSeconds({ headers, retryAfterMs }: Decision): number | null {
  const told = Number(headers?.['retry-after']);
  if (told > 0) {
    return told;
  }
  return retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000));
}

function when(retryAfter: number | null): string {
  return retryAfter === null ? 'No wait will change that.' : `Retry after ${retryAfter} seconds.`;
}

/**
 * What error handlers of frameworks are given. They answer with an error's own status and message: neither the
 * server's status, meant for us, nor where it listens is a visitor's business.
 */
function asServerError(cause: TidegateError): Error {
  const statusCode = cause.transient ? 503 : 500;
  const message = cause.transient ? 'Rate limiter unavailable' : 'Rate limiter misused';
  return Object.assign(new Error(message, { cause }), { statusCode, status: statusCode });
}
