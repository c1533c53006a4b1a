// Waits that may be longer than a timer of Node can be set to.

import { TIMER_MS_MAX } from './arguments.js';

/** Waits in pieces: a timer above 2³¹ − 1 ms, some 25 days, would fire at once. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  for (let left = ms; left > 0; left -= TIMER_MS_MAX) {
    await piece(Math.min(left, TIMER_MS_MAX), signal);
  }
}

function piece(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', leave);
      resolve();
    }, ms);
    const leave = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', leave, { once: true });
  });
}
