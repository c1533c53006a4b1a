// Reports a limiter that does not limit as meant: it must not go unnoticed, and must not flood a log.

import { badInput, type TidegateError } from './error.js';

/** A logger such as `console`, pino or winston. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

const REPEAT_MS_MIN = 60_000;
const SUBJECTS_MAX = 100;

/** Lets one message per subject and minute through, for at most 100 subjects. */
export class Repeats {
  readonly #now: () => number;
  readonly #quietUntil = new Map<string, number>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  isDue(subject: string): boolean {
    const now = this.#now();
    for (const [other, until] of this.#quietUntil) {
      // In order of time: the map is sorted.
      if (until > now) {
        break;
      }
      this.#quietUntil.delete(other);
    }
    if (this.#quietUntil.has(subject) || this.#quietUntil.size >= SUBJECTS_MAX) {
      return false;
    }
    this.#quietUntil.set(subject, now + REPEAT_MS_MIN);
    return true;
  }
}

/** Catches what the hook throws: it must not change a decision. */
export function guarded(hook: (error: TidegateError) => void): (error: TidegateError) => void {
  return (error) => {
    try {
      hook(error);
    } catch (thrown) {
      processWarning(`onTrouble threw: ${String(thrown)}`);
    }
  };
}

export const processLogger: Logger = { info: processWarning, warn: processWarning, error: processWarning };

function processWarning(message: string): void {
  process.emitWarning(message, 'TidegateWarning');
}

/** Names this package in an app's log. */
export function prefixed(log: Logger): Logger {
  return {
    info: (message) => log.info(`tidegate: ${message}`),
    warn: (message) => log.warn(`tidegate: ${message}`),
    error: (message) => log.error(`tidegate: ${message}`),
  };
}

export function checkLogger(field: string, value: unknown): asserts value is Logger {
  const has = (name: string): boolean => typeof (value as Record<string, unknown> | null)?.[name] === 'function';
  if (typeof value !== 'object' || !['info', 'warn', 'error'].every(has)) {
    throw badInput(field, 'a logger with `info`, `warn` and `error`, such as `console`', value);
  }
}
