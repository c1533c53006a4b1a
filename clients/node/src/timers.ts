// Timeouts of calls, and waits longer than one of Node's timers.

import { TIMER_MS_MAX } from './arguments.js';
import { TidegateError } from './error.js';

/**
 * Calls `expire` after `ms` unless cancelled. If the event loop was blocked for longer, replies may be waiting in socket
 * buffers: `expire` runs after they are read.
 */
export class Timer {
  readonly #timeout: NodeJS.Timeout;
  #expiry: NodeJS.Immediate | undefined;

  constructor(ms: number, expire: () => void) {
    this.#timeout = setTimeout(() => {
      this.#expiry = setImmediate(expire);
    }, ms);
  }

  cancel(): void {
    clearTimeout(this.#timeout);
    clearImmediate(this.#expiry);
  }
}

export function timedOut(timeoutMs: number): TidegateError {
  return new TidegateError('timeout', `no answer within ${timeoutMs} ms`, { transient: true });
}

/** Waits in steps: Node fires a timer of more than 2³¹ − 1 ms (25 days) at once. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  for (let left = ms; left > 0; left -= TIMER_MS_MAX) {
    await step(Math.min(left, TIMER_MS_MAX), signal);
  }
}

function step(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
}
