// What stands in for an answer that the server did not give.

import { PAUSE_MS } from './circuit.js';
import { TidegateError } from './error.js';
import type { Decision, OnError, Permit, Reservation } from './types.js';

/** Whether to go ahead without the server's answer, and on whose word. */
export interface StandIn {
  readonly allowed: boolean;
  readonly source: 'fail-closed' | 'fallback';
  readonly retryAfterMs: number;
  readonly error: TidegateError;
}

/** Throws what cannot be answered otherwise: a question that makes no sense now makes none later. */
export function standIn(error: unknown, onError: OnError, onTrouble: (error: TidegateError) => void): StandIn {
  if (!(error instanceof TidegateError) || !error.transient) {
    throw error;
  }
  const { retryAfterMs = PAUSE_MS } = error;
  if (error.code === 'store-unavailable') {
    // The server has decided that nobody is admitted: we do not know better.
    return { allowed: false, source: 'fail-closed', retryAfterMs, error };
  }
  onTrouble(error);
  if (onError === 'throw') {
    throw error;
  }
  const allowed = onError === 'allow';
  return { allowed, source: 'fallback', retryAfterMs: allowed ? 0 : retryAfterMs, error };
}

export function decision(policy: string, { allowed, source, retryAfterMs, error }: StandIn): Decision {
  const numbers = { limit: 0, remaining: 0, retryAfterMs, resetAfterMs: 0 };
  return { allowed, ...numbers, policy, binding: policy, source, error };
}

export function permit(policy: string, instead: StandIn): Permit {
  return { ...decision(policy, instead), permit: null };
}

export function reservation({ allowed, source, retryAfterMs, error }: StandIn): Reservation {
  return { accepted: allowed, delayMs: 0, retryAfterMs, source, error };
}
