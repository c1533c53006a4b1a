// Renews a permit while the work that holds it goes on.

import { TIMER_MS_MAX } from './arguments.js';
import type { Renewal } from './types.js';

/** A third of its time has passed: two more attempts have time if this one fails. */
const PART = 1 / 3;
const RETRY_PART = 1 / 9;
const PAUSE_MS_MIN = 10;
/** Of a permit whose server does not tell its time: the first renewal does, so it is early. */
const TTL_MS_UNTOLD = 1000;

export interface Renewing {
  /** Rejects if the server did not answer. */
  renew(): Promise<Renewal>;
  /** Whether another attempt is in vain after this error; it has been reported then. */
  isFinal(error: unknown): boolean;
  /** The permit was not held any more. */
  lost(): void;
}

/** Renews until the result is called, or until it is in vain. One attempt at a time. */
export function keepRenewing(ttlMs: number | undefined, { renew, isFinal, lost }: Renewing): () => void {
  let timer: NodeJS.Timeout | undefined;
  let [isOver, heldMs] = [false, ttlMs ?? TTL_MS_UNTOLD];
  const schedule = (part: number): void => {
    if (!isOver) {
      timer = setTimeout(() => void attempt(), Math.min(Math.max(heldMs * part, PAUSE_MS_MIN), TIMER_MS_MAX)).unref();
    }
  };
  const attempt = async (): Promise<void> => {
    try {
      const { renewed, ttlMs } = await renew();
      if (renewed) {
        heldMs = ttlMs;
        schedule(PART);
      } else if (!isOver) {
        lost();
      }
    } catch (error) {
      if (!isOver && !isFinal(error)) {
        schedule(RETRY_PART);
      }
    }
  };
  schedule(PART);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
