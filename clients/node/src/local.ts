// Decisions of this process alone, for `onError: 'local'`.

import type { Catalog } from './catalog.js';
import { TidegateError } from './error.js';
import * as fallback from './fallback.js';
import { LocalLimiter, type LocalCheck, type LocalReading } from './shares.js';
import type { Check, Decision, Permit, Renewal, Reservation } from './types.js';

const RECOVERING = new TidegateError('recovering', 'permits from before or during an outage are still held');

/** Policies whose numbers the server has never told are allowed: see `knows`. */
export class LocalDecisions {
  readonly #catalog: Catalog;
  readonly #limiter: LocalLimiter;

  constructor(catalog: Catalog, processes: number) {
    this.#catalog = catalog;
    this.#limiter = new LocalLimiter(processes);
  }

  knows(checks: readonly Check[]): boolean {
    return checks.every(({ policy }) => this.#catalog.numbers(policy) !== undefined);
  }

  check(checks: readonly Check[], atomic: boolean, error: TidegateError): Decision[] {
    const known = checks.map((check) => this.#known(check));
    const readings = this.#limiter.check(known.filter((check) => check !== undefined), atomic).values();
    return checks.map(({ policy }, index) => decision(policy, known[index] && readings.next().value, error));
  }

  peek(check: Check, error: TidegateError): Decision {
    const known = this.#known(check);
    return decision(check.policy, known && this.#limiter.peek(known), error);
  }

  reserve(check: Check, error: TidegateError): Reservation {
    const known = this.#known(check);
    if (known === undefined) {
      return fallback.reservation(fallback.fallback(error, 'allow'));
    }
    const { allowed: accepted, delayMs, retryAfterMs } = this.#limiter.reserve(known);
    return { accepted, delayMs, retryAfterMs, source: 'local', error };
  }

  acquire(check: Check, error: TidegateError): Permit {
    const known = this.#known(check);
    const reading = known && this.#limiter.acquire(known);
    return { ...decision(check.policy, reading, error), permit: reading?.permit ?? null, ttlMs: reading?.ttlMs };
  }

  /** Counts a permit that the server has granted. The refusal, if the server has forgotten others that are still held. */
  granted(check: Check, { permit, ttlMs }: Permit): Permit | undefined {
    const { ledger } = this.#limiter;
    if (permit === null || ledger.has(permit) || !ledger.hasRoom()) {
      return undefined;
    }
    const known = this.#known(check);
    ledger.add(permit, check, known?.numbers, ttlMs);
    if (known === undefined || this.#limiter.fits(known)) {
      return undefined;
    }
    ledger.release(permit);
    return { ...decision(check.policy, this.#limiter.peek(known), RECOVERING), allowed: false, permit: null };
  }

  /** The server may have been started again: a call had no answer, or it does not know a permit. */
  doubtPermits(): void {
    this.#limiter.ledger.doubtAll();
  }

  /** The renewal of a permit of this process; undefined if it is the server's. */
  renew(permit: string): Renewal | undefined {
    const ttlMs = this.#limiter.ledger.renew(permit);
    return ttlMs === undefined ? undefined : { renewed: ttlMs > 0, ttlMs };
  }

  /** The server has renewed a permit, or does not know it. */
  renewed(permit: string, { renewed, ttlMs }: Renewal): void {
    const { ledger } = this.#limiter;
    if (renewed) {
      ledger.confirm(permit, ttlMs);
    } else if (ledger.isCurrent(permit)) {
      ledger.doubtAll();
    }
  }

  /** Whether the server should know a permit. */
  isCurrent(permit: string): boolean {
    return this.#limiter.ledger.isCurrent(permit);
  }

  /** Whether a permit of this process was held; undefined if it is the server's. */
  release(permit: string): boolean | undefined {
    return this.#limiter.ledger.release(permit);
  }

  #known(check: Check): LocalCheck | undefined {
    const numbers = this.#catalog.numbers(check.policy);
    return numbers && { ...check, numbers };
  }
}

function decision(policy: string, reading: LocalReading | undefined, error: TidegateError): Decision {
  if (reading === undefined) {
    return fallback.decision(policy, fallback.fallback(error, 'allow'));
  }
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs, binding } = reading;
  return { allowed, limit, remaining, retryAfterMs, resetAfterMs, policy, binding, source: 'local', error };
}
