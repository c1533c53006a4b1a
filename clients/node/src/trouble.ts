// Who is told that a limiter does not limit: a server that is gone must not go unnoticed.

import type { TidegateError } from './error.js';

type OnTrouble = (error: TidegateError) => void;

/** Trouble comes in thousands. */
const BETWEEN_WARNINGS_MS = 10_000;

/** A warning of the process, now and then. */
export function warner(now: () => number = () => performance.now()): OnTrouble {
  let quietUntil = -Infinity;
  return (error) => {
    if (now() >= quietUntil) {
      quietUntil = now() + BETWEEN_WARNINGS_MS;
      process.emitWarning(`answered without the server: ${error.message}`, 'TidegateWarning');
    }
  };
}

/** A hook that throws changes no answer. */
export function harmless(hook: OnTrouble): OnTrouble {
  return (error) => {
    try {
      hook(error);
    } catch (thrown) {
      process.emitWarning(`onTrouble has thrown: ${String(thrown)}`, 'TidegateWarning');
    }
  };
}
