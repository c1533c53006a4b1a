// Reports that a call was answered without the server: a limiter that does not limit must not go unnoticed.

import type { TidegateError } from './error.js';

type OnTrouble = (error: TidegateError) => void;

const WARNING_INTERVAL_MS = 10_000;

/** Emits a process warning, at most one per interval. */
export function processWarnings(now: () => number = () => performance.now()): OnTrouble {
  let silentUntil = -Infinity;
  return (error) => {
    if (now() >= silentUntil) {
      silentUntil = now() + WARNING_INTERVAL_MS;
      process.emitWarning(`answered without the server: ${error.message}`, 'TidegateWarning');
    }
  };
}

/** Catches what the hook throws: it must not change a decision. */
export function guarded(hook: OnTrouble): OnTrouble {
  return (error) => {
    try {
      hook(error);
    } catch (thrown) {
      process.emitWarning(`onTrouble threw: ${String(thrown)}`, 'TidegateWarning');
    }
  };
}
