// The permits that this process holds: the server's, and those that it has granted itself while the server was away.

import type { Check, Key, PolicyNumbers } from './types.js';

/** Permits held at once, in all. */
const PERMITS_MAX = 10_000;
/** The lifetime of a permit if the server did not tell. */
const TTL_MS = 60_000;
/** How our permits begin; the server's begin with p or l, and a digit. */
const OURS = 'local.';

interface Held {
  readonly check: Check;
  ttlMs: number;
  until: number;
}

export class PermitLedger {
  readonly #now: () => number;
  /** By permit, in order of acquisition. */
  readonly #held = new Map<string, Held>();
  /** Those that the server may not know: ours, and all from before an outage. */
  readonly #unsure = new Set<string>();
  #lastOwn = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  has(permit: string): boolean {
    return this.#held.has(permit);
  }

  /** Whether its time has not passed, so that the server should know it. */
  isCurrent(permit: string): boolean {
    return (this.#held.get(permit)?.until ?? -Infinity) > this.#now();
  }

  hasRoom(): boolean {
    if (this.#held.size >= PERMITS_MAX) {
      this.#dropExpired();
    }
    return this.#held.size < PERMITS_MAX;
  }

  /** A new permit of ours. */
  grant(check: Check, numbers: PolicyNumbers): { readonly permit: string; readonly ttlMs: number } {
    const permit = `${OURS}${this.#lastOwn += 1}`;
    const ttlMs = this.add(permit, check, numbers);
    this.#unsure.add(permit);
    return { permit, ttlMs };
  }

  /** Returns how long it is held: as the server says with the permit, or else with the policy. */
  add(permit: string, { policy, key, cost }: Check, numbers: PolicyNumbers | undefined, told?: number): number {
    const ttls = (numbers?.members ?? []).flatMap(({ ttlMs = [] }) => ttlMs);
    const ttlMs = told ?? (ttls.length > 0 ? Math.min(...ttls) : TTL_MS);
    this.#held.set(permit, { check: { policy, key, cost }, ttlMs, until: this.#now() + ttlMs });
    return ttlMs;
  }

  /** How long one of ours is held from now on, 0 if it is not; undefined if it is the server's. */
  renew(permit: string): number | undefined {
    const [held, now] = [this.#held.get(permit), this.#now()];
    const isHeld = held !== undefined && held.until > now;
    if (isHeld) {
      held.until = now + held.ttlMs;
    }
    return permit.startsWith(OURS) ? (isHeld ? held.ttlMs : 0) : undefined;
  }

  /** Whether it was one of ours, and held; undefined if it is the server's. */
  release(permit: string): boolean | undefined {
    this.#unsure.delete(permit);
    const wasHeld = this.#held.delete(permit);
    return permit.startsWith(OURS) ? wasHeld : undefined;
  }

  /** The server knows a permit, and holds it for this long from now on. */
  confirm(permit: string, ttlMs: number): void {
    this.#unsure.delete(permit);
    const held = this.#held.get(permit);
    if (held !== undefined) {
      Object.assign(held, { ttlMs, until: this.#now() + ttlMs });
    }
  }

  /** The server was away or has lost a permit, and may have forgotten what it knew. */
  doubtAll(): void {
    [...this.#held.keys()].forEach((permit) => this.#unsure.add(permit));
  }

  /** The units that are held of a policy, with the keys that count as one. */
  units(policy: string, isSame: (key: Key) => boolean): number {
    return this.#of(policy, isSame).reduce((sum, [, { check: { cost = 1 } }]) => sum + cost, 0);
  }

  /** Whether some of them are held by permits that the server may not know. */
  hasUnsure(policy: string, isSame: (key: Key) => boolean): boolean {
    return this.#unsure.size > 0 && this.#of(policy, isSame).some(([permit]) => this.#unsure.has(permit));
  }

  #of(policy: string, isSame: (key: Key) => boolean): [string, Held][] {
    const now = this.#now();
    const held = [...this.#held].filter(([, { check, until }]) => check.policy === policy && until > now);
    return held.filter(([, { check }]) => isSame(check.key));
  }

  #dropExpired(): void {
    const now = this.#now();
    for (const [permit, { until }] of this.#held) {
      if (until <= now) {
        this.#held.delete(permit);
        this.#unsure.delete(permit);
      }
    }
  }
}
