// Leaves a server alone that does not answer, so that not every caller waits for the timeout.

/** So many failures in a row are no accident. */
const FAILURES_MAX = 5;
/** So long nobody asks at most; then one does, and the others go by what it finds. */
export const PAUSE_MS = 1000;
/** So many times as long as it took to fail: to be refused at once costs little, and the server may be back soon. */
const PAUSE_FACTOR = 10;

export class Circuit {
  readonly #now: () => number;
  #failures = 0;
  #pausedUntil = 0;
  #probing = false;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Whether whoever comes now would not be let through. */
  get open(): boolean {
    return this.#failures >= FAILURES_MAX && (this.#probing || this.#now() < this.#pausedUntil);
  }

  /** Whether to ask the server now. Whoever is let through says afterwards how it went. */
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

  /** It went some way that tells nothing: the next one finds out. */
  undecided(): void {
    this.#probing = false;
  }

  failed(tookMs: number): void {
    this.#failures += 1;
    this.#pausedUntil = this.#now() + Math.min(PAUSE_MS, PAUSE_FACTOR * tookMs);
    this.#probing = false;
  }
}
