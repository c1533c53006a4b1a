// How long a call may take.

import { TidegateError } from './error.js';

/**
 * Runs out after `ms`, unless it is cancelled. Where the process was busy for longer than that, answers may lie
 * ready that nobody has read yet: they are looked at first.
 */
export class Timer {
  readonly #timeout: NodeJS.Timeout;
  #lastChance: NodeJS.Immediate | undefined;

  constructor(ms: number, expire: () => void) {
    this.#timeout = setTimeout(() => {
      this.#lastChance = setImmediate(expire);
    }, ms);
  }

  cancel(): void {
    clearTimeout(this.#timeout);
    clearImmediate(this.#lastChance);
  }
}

export function timedOut(timeoutMs: number): TidegateError {
  return new TidegateError('timeout', `no answer within ${timeoutMs} ms`, { transient: true });
}
