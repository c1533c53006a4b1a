// The types of calls and results.

import type { TidegateError } from './error.js';

/** The key to count by: a string, or several by name for a policy with several keys. */
export type Key = string | Readonly<Record<string, string>>;

/** The outcome when the server does not answer; `local`: this process counts by itself, with its share of the limits. */
export type OnError = 'allow' | 'deny' | 'local' | 'throw';

/**
 * Where the decision was made: by the server (see the project's docs/redis.md); `fail-closed`: denied by a server whose
 * store fails; `fallback`: by this client, because the server did not answer; `local` with an `error`: likewise, and
 * this client has counted.
 */
export type Source =
  | 'store' | 'lease' | 'deny-cache' | 'local' | 'fail-open' | 'fail-closed' | 'fallback'
  | (string & {});

/** The result of a check. In a `fallback`, all numbers but `retryAfterMs` are unknown and 0. */
export interface Decision {
  readonly allowed: boolean;
  /** The burst, or the limit if there is none. */
  readonly limit: number;
  /** Whole units left. */
  readonly remaining: number;
  /** 0 if allowed; null if this cost can never be allowed. */
  readonly retryAfterMs: number | null;
  /** Time until the limit is fully available again. */
  readonly resetAfterMs: number;
  readonly policy: string;
  /** The limit of the policy that the numbers belong to. */
  readonly binding: string;
  readonly source: Source;
  /** With `headers: true`: the rate limit headers to pass on, by lower-case name. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The reason for a `fallback`, a `fail-closed` or a count of this client. */
  readonly error?: TidegateError;
}

export interface Reservation {
  readonly accepted: boolean;
  /** Wait this long, then start. */
  readonly delayMs: number;
  /** 0 if accepted; null if this cost can never be accepted. */
  readonly retryAfterMs: number | null;
  readonly source: 'server' | 'fail-closed' | 'fallback' | 'local';
  /** The reason for a `fallback` or `fail-closed`. */
  readonly error?: TidegateError;
}

/** A permit of a concurrency limit. Release it with `release`. */
export interface Permit extends Decision {
  /** null if denied, and in a `fallback`, which has nothing to release. */
  readonly permit: string | null;
  /** How long it is held unless it is renewed; undefined without a permit, or if the server does not tell. */
  readonly ttlMs?: number | undefined;
}

/** The result of `renew`. */
export interface Renewal {
  /** False if the permit was not held any more: its place may be another's. */
  readonly renewed: boolean;
  /** How long it is held from now on; 0 if not renewed. */
  readonly ttlMs: number;
}

/** The result of `withPermit`: the value of the work, or a denial. */
export type Permitted<T> =
  | { readonly allowed: true; readonly value: T; readonly decision: Permit }
  | { readonly allowed: false; readonly decision: Permit };

/** Options of one call; they override the client's. */
export interface CallOptions {
  /** Rejects with the signal's reason. A call that was already sent may still be charged. */
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Options of calls that ask for permission. */
export interface AskOptions extends CallOptions {
  /** A whole number from 0 to 2⁵³ − 1; default 1. */
  readonly cost?: number | undefined;
  readonly onError?: OnError | undefined;
}

export interface CheckOptions extends AskOptions {
  /** Whether to return the rate limit headers. */
  readonly headers?: boolean | undefined;
}

export interface Check {
  readonly policy: string;
  readonly key: Key;
  readonly cost?: number | undefined;
}

export interface CheckManyOptions extends CallOptions {
  readonly onError?: OnError | undefined;
  /** Charge all or none, atomically. */
  readonly atomic?: boolean | undefined;
}

/** One observation of a service. */
export interface Observation {
  readonly latencyMs?: number | undefined;
  /** Whether the request succeeded; default true. */
  readonly ok?: boolean | undefined;
  /** How long the request waited in the service's queue. */
  readonly queueMs?: number | undefined;
  /** How full the service's pool is, from 0 to 1. */
  readonly saturation?: number | undefined;
  /** The normalised path of the request, without its query. */
  readonly url?: string | undefined;
}

/** One limit of a policy, as the server has it. */
export interface LimitNumbers {
  readonly name?: string | undefined;
  /** The name of the identifier that it counts by; `global` for one budget of all. */
  readonly key?: string | undefined;
  readonly algorithm: string;
  readonly limit: number;
  /** The value of an adaptive limit. */
  readonly effective?: number | undefined;
  readonly periodMs: number;
  /** Of a GCRA, or the capacity of a token bucket. */
  readonly burst?: number | undefined;
  readonly maxWaitMs?: number | undefined;
  readonly ttlMs?: number | undefined;
  /** What each unit of a check's cost takes of this limit, 1 by default. */
  readonly cost?: number | undefined;
  /** What an adaptive limit follows of `observe`; `all` stands for every target. */
  readonly targets: readonly string[];
}

export interface PolicyNumbers {
  readonly mode: 'all' | 'any';
  readonly members: readonly LimitNumbers[];
  /** The policy whose limit tenants share, where it is one of a share: its `global` limit is that one. */
  readonly of?: string | undefined;
  /** Whether it refuses nothing while the server is away: in shadow mode, or enforced for less than 100 % of the callers. */
  readonly shadow: boolean;
}
