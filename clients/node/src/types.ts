// What is asked, and what is answered.

import type { TidegateError } from './error.js';

/** Who is asking: one identifier, or several by name for a policy that counts by several. */
export type Key = string | Readonly<Record<string, string>>;

/** What to answer when the server cannot be asked: go ahead, do not, or an error. */
export type OnError = 'allow' | 'deny' | 'throw';

/**
 * Who decided: the server's store, or what stood in for it (see docs/redis.md of the project); `fail-closed`,
 * a server whose store fails; `fallback`, this client, because the server could not be asked.
 */
export type Source =
  | 'store' | 'lease' | 'deny-cache' | 'local' | 'fail-open' | 'fail-closed' | 'fallback'
  | (string & {});

/** The answer to a check. Of a `fallback` all numbers but `retryAfterMs` are 0: nobody knows them. */
export interface Decision {
  /** Whether to go ahead. */
  readonly allowed: boolean;
  /** The ceiling: the burst, or the limit. */
  readonly limit: number;
  /** Whole units left. */
  readonly remaining: number;
  /** 0 if allowed; null if this cost will never be allowed. */
  readonly retryAfterMs: number | null;
  /** Until everything is available again. */
  readonly resetAfterMs: number;
  readonly policy: string;
  /** Which limit of the policy the answer speaks of. */
  readonly binding: string;
  readonly source: Source;
  /** The rate limit headers to pass on, by lower-case name, if they were asked for with `headers: true`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Why it is a `fallback` or `fail-closed`. */
  readonly error?: TidegateError;
}

/** A place in a queue, or none. */
export interface Reservation {
  readonly accepted: boolean;
  /** Wait so long, then go ahead. */
  readonly delayMs: number;
  /** 0 if accepted; null if this cost will never be accepted. */
  readonly retryAfterMs: number | null;
  readonly source: 'server' | 'fail-closed' | 'fallback';
  /** Why it is a `fallback` or `fail-closed`. */
  readonly error?: TidegateError;
}

/** A place of a limit on concurrency: give `permit` back with `release`. */
export interface Permit extends Decision {
  /** null if refused, and for a `fallback`, which has nothing to give back. */
  readonly permit: string | null;
}

/** What `withPermit` answers: what the work returned, or that there was no place for it. */
export type Permitted<T> =
  | { readonly allowed: true; readonly value: T; readonly decision: Permit }
  | { readonly allowed: false; readonly decision: Permit };

/** How one call differs from what the client was made with. */
export interface CallOptions {
  /** Rejects with the signal's reason. What was sent already may still be charged. */
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** The same for calls that ask for permission. */
export interface AskOptions extends CallOptions {
  /** A whole number from 0 to 2⁵³ − 1; 1 unless given. */
  readonly cost?: number | undefined;
  readonly onError?: OnError | undefined;
}

export interface CheckOptions extends AskOptions {
  /** Ask for the rate limit headers as well. */
  readonly headers?: boolean | undefined;
}

/** One check of several. */
export interface Check {
  readonly policy: string;
  readonly key: Key;
  readonly cost?: number | undefined;
}

export interface CheckManyOptions extends CallOptions {
  readonly onError?: OnError | undefined;
  /** Charge all or none, in one step. */
  readonly atomic?: boolean | undefined;
}

/** How a service did. */
export interface Observation {
  readonly latencyMs?: number | undefined;
  /** Whether it answered; true unless given. */
  readonly ok?: boolean | undefined;
  /** How long the request waited there. */
  readonly queueMs?: number | undefined;
  /** How full its pool is, from 0 to 1. */
  readonly saturation?: number | undefined;
  /** What was asked for: a normalised path without its query. */
  readonly url?: string | undefined;
}
