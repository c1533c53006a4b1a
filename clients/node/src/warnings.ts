// Reports a limiter that does not limit as meant: it must not go unnoticed.

import type { TidegateError } from './error.js';

type OnTrouble = (error: TidegateError) => void;

const WARNING_INTERVAL_MS = 10_000;

/** Emits a process warning, at most one per interval. */
export function processWarnings(now: () => number = () => performance.now()): OnTrouble {
  let silentUntil = -Infinity;
  return (error) => {
    if (now() >= silentUntil) {
      silentUntil = now() + WARNING_INTERVAL_MS;
      processWarning(`answered without the server: ${error.message}`);
    }
  };
}

/** Catches what the hook throws: it must not change a decision. */
export function guarded(hook: OnTrouble): OnTrouble {
  return (error) => {
    try {
      hook(error);
    } catch (thrown) {
      processWarning(`onTrouble threw: ${String(thrown)}`);
    }
  };
}

export function processWarning(message: string): void {
  process.emitWarning(message, 'TidegateWarning');
}

interface Log {
  /** Undefined if the app has no logger. */
  readonly level?: string;
  warn(message: string): void;
  error(message: string): void;
}

/** Writes to the app's log, or emits a process warning if it has none. */
export function logTo(log: Log, level: 'warn' | 'error'): (message: string) => void {
  return (message) => (log.level === undefined ? processWarning(message) : log[level](`tidegate: ${message}`));
}
