// Decisions made by this client when the server did not answer.

import { PAUSE_MS } from './circuit.js';
import type { TidegateError } from './error.js';
import type { Decision, OnError, Permit, Reservation } from './types.js';

/** The outcome without an answer, and its source. */
export interface Fallback {
  readonly allowed: boolean;
  readonly source: 'fail-closed' | 'fallback';
  readonly retryAfterMs: number;
  readonly error: TidegateError;
}

/** Throws the error if `onError` says so. */
export function fallback(error: TidegateError, onError: OnError): Fallback {
  const { retryAfterMs = PAUSE_MS } = error;
  if (error.code === 'store-unavailable') {
    // The server answered, and its policy denies when the store fails.
    return { allowed: false, source: 'fail-closed', retryAfterMs, error };
  }
  if (onError === 'throw') {
    throw error;
  }
  // For `local`, without the numbers to count with.
  const allowed = onError === 'allow' || onError === 'local';
  return { allowed, source: 'fallback', retryAfterMs: allowed ? 0 : retryAfterMs, error };
}

export function decision(policy: string, { allowed, source, retryAfterMs, error }: Fallback): Decision {
  const numbers = { limit: 0, remaining: 0, retryAfterMs, resetAfterMs: 0 };
  return { allowed, ...numbers, policy, binding: policy, source, error };
}

export function permit(policy: string, outcome: Fallback): Permit {
  return { ...decision(policy, outcome), permit: null };
}

export function reservation({ allowed, source, retryAfterMs, error }: Fallback): Reservation {
  return { accepted: allowed, delayMs: 0, retryAfterMs, source, error };
}
