// A circuit breaker: while the server does not answer, callers do not wait for the timeout.

/** The circuit opens after as many failures in a row. */
const FAILURES_MAX = 5;
/** The longest pause between probes. */
export const PAUSE_MS = 1000;
/** The pause is this multiple of the time that the failure took: a refused connection is cheap to probe again soon. */
const PAUSE_FACTOR = 10;

export class Circuit {
  readonly #now: () => number;
  #failures = 0;
  #pausedUntil = 0;
  #probing = false;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Whether a call now would be rejected. */
  get open(): boolean {
    return this.#failures >= FAILURES_MAX && (this.#probing || this.#now() < this.#pausedUntil);
  }

  /** Whether to call the server now. If true, the caller must report the outcome. */
  enter(): boolean {
    if (this.open) {
      return false;
    }
    this.#probing = this.#failures >= FAILURES_MAX;
    return true;
  }

  succeeded(): void {
    this.#failures = 0;
    this.#probing = false;
  }

  /** The outcome says nothing about the server: the next call is the probe. */
  undecided(): void {
    this.#probing = false;
  }

  failed(tookMs: number): void {
    this.#failures += 1;
    this.#pausedUntil = this.#now() + Math.min(PAUSE_MS, PAUSE_FACTOR * tookMs);
    this.#probing = false;
  }
}
