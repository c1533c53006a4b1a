// How one process counts one limit while the server is away: its share of the numbers, and the state of a key.

import type { LimitNumbers } from './types.js';

export interface Reading {
  readonly allowed: boolean;
  readonly limit: number;
  /** Whole units left, after this cost if it is allowed. */
  readonly remaining: number;
  /** 0 if allowed; null if this cost never fits. */
  readonly retryAfterMs: number | null;
  readonly resetAfterMs: number;
}

/** The usage of one key. Times are in milliseconds. */
export interface Usage {
  /** From then on the key is as if it had never been used. */
  readonly freeAt: number;
}

/** A limit that counts keys by themselves. `read` changes nothing; `charge` changes fields of the usage only. */
export interface Meter<U extends Usage = Usage> {
  fresh(): U;
  read(usage: U, now: number, cost: number): Reading;
  charge(usage: U, now: number, cost: number): void;
}

/** The windows of a process are stricter than the server's: a unit counts for up to a tenth longer than the period. */
const SLICES = 10;
/** A month has up to 31 days, and a day up to 25 hours; `/v1/policies` says 30 and 24. */
const QUOTA_STRETCH = 1.05;

/**
 * The meter for one of `processes` equal parts of a limit. An algorithm that is not known is counted as a window. A check of
 * cost 1 fits into every part: a smaller one would refuse for as long as the server is away.
 */
export function meterOf(numbers: LimitNumbers, processes: number): Meter {
  const { algorithm, limit, effective = limit, periodMs, burst = limit, cost = 1 } = numbers;
  // An adaptive limit stays where it was when the server was last heard.
  const units = Math.min(limit, effective);
  switch (algorithm) {
    case 'gcra':
    case 'token-bucket':
      return new Bucket(periodMs * processes / units, Math.max(cost, Math.floor(burst * units / limit / processes)));
    case 'quota':
      return window(units / processes, cost, periodMs * QUOTA_STRETCH);
    case 'leaky-bucket':
      return new Queue(periodMs * processes / units, numbers.maxWaitMs ?? 0);
    case 'concurrency':
      return new Places(Math.max(cost, Math.floor(units / processes)));
    default:
      return window(units / processes, cost, periodMs);
  }
}

/** Less than `least` per period is `least` in a longer time. */
function window(share: number, least: number, periodMs: number): Meter {
  return share < least ? new Window(least, periodMs * least / share) : new Window(Math.floor(share), periodMs);
}

/** GCRA, as on the server: `burst` at once, then one per interval. */
class Bucket implements Meter<{ freeAt: number }> {
  constructor(readonly intervalMs: number, readonly burst: number) {}

  fresh(): { freeAt: number } {
    return { freeAt: -Infinity };
  }

  read({ freeAt }: Usage, now: number, cost: number): Reading {
    const [busyMs, depthMs] = [Math.max(0, freeAt - now), this.burst * this.intervalMs];
    const lateMs = busyMs + cost * this.intervalMs - depthMs;
    const allowed = lateMs <= 1e-6;
    const usedMs = busyMs + (allowed ? cost * this.intervalMs : 0);
    return {
      allowed,
      limit: this.burst,
      remaining: Math.max(0, Math.floor((depthMs - usedMs) / this.intervalMs + 1e-6)),
      retryAfterMs: allowed ? 0 : cost > this.burst ? null : Math.ceil(lateMs),
      resetAfterMs: Math.ceil(usedMs),
    };
  }

  charge(usage: { freeAt: number }, now: number, cost: number): void {
    usage.freeAt = Math.max(usage.freeAt, now) + cost * this.intervalMs;
  }
}

interface Slices {
  freeAt: number;
  /** The number of the newest slice since the beginning of time, and the units of each. */
  newest: number;
  units: number[];
}

/** Never more than the limit in any period, wherever it begins: units of a slice count until its end and a period more. */
class Window implements Meter<Slices> {
  readonly #sliceMs: number;

  constructor(readonly limit: number, readonly periodMs: number) {
    this.#sliceMs = periodMs / SLICES;
  }

  fresh(): Slices {
    return { freeAt: -Infinity, newest: -Infinity, units: [] };
  }

  read(usage: Slices, now: number, cost: number): Reading {
    const [slice, counted] = [Math.floor(now / this.#sliceMs), this.#counted(usage, now)];
    const used = counted.reduce((sum, [, units]) => sum + units, 0);
    const allowed = used + cost <= this.limit;
    return {
      allowed,
      limit: this.limit,
      remaining: Math.max(0, this.limit - used - (allowed ? cost : 0)),
      retryAfterMs: allowed ? 0 : this.#retryAfter(counted, used, now, cost),
      resetAfterMs: Math.ceil(Math.max(0, (allowed && cost > 0 ? this.#endOf(slice) : usage.freeAt) - now)),
    };
  }

  charge(usage: Slices, now: number, cost: number): void {
    const slice = Math.floor(now / this.#sliceMs);
    const kept = this.#counted(usage, now);
    const units = new Array<number>(SLICES + 1).fill(0);
    kept.forEach(([other, count]) => {
      units[slice - other] = count;
    });
    units[0] = (units[0] ?? 0) + cost;
    Object.assign(usage, { newest: slice, units, freeAt: this.#endOf(slice) });
  }

  /** The slices that still count and their units, the oldest first. */
  #counted({ newest, units }: Slices, now: number): [number, number][] {
    const oldest = Math.floor(now / this.#sliceMs) - SLICES;
    const all = units.map((count, age): [number, number] => [newest - age, count]);
    return all.filter(([slice, count]) => slice >= oldest && count > 0).reverse();
  }

  #endOf(slice: number): number {
    return (slice + SLICES + 1) * this.#sliceMs;
  }

  #retryAfter(counted: [number, number][], used: number, now: number, cost: number): number | null {
    let left = used;
    for (const [slice, units] of counted) {
      left -= units;
      if (left + cost <= this.limit) {
        return Math.max(1, Math.ceil(this.#endOf(slice) - now));
      }
    }
    return null;
  }
}

/** A leaky bucket: a place is the time of its turn. */
export class Queue implements Meter<{ freeAt: number }> {
  constructor(readonly intervalMs: number, readonly maxWaitMs: number) {}

  fresh(): { freeAt: number } {
    return { freeAt: -Infinity };
  }

  /** How long a place taken now waits. */
  delayMs({ freeAt }: Usage, now: number): number {
    return Math.max(0, freeAt - now);
  }

  read(usage: Usage, now: number): Reading {
    const delayMs = this.delayMs(usage, now);
    const allowed = delayMs <= this.maxWaitMs;
    const retryAfterMs = allowed ? 0 : Math.ceil(delayMs - this.maxWaitMs);
    return { allowed, limit: 1, remaining: 0, retryAfterMs, resetAfterMs: Math.ceil(delayMs) };
  }

  charge(usage: { freeAt: number }, now: number, cost: number): void {
    usage.freeAt = Math.max(usage.freeAt, now) + cost * this.intervalMs;
  }
}

interface Held {
  readonly freeAt: number;
  held: number;
}

/** Concurrency: whoever knows the permits says how many units they hold. */
export class Places implements Meter<Held> {
  constructor(readonly places: number) {}

  fresh(held = 0): Held {
    return { held, freeAt: -Infinity };
  }

  read({ held }: Held, _now: number, cost: number): Reading {
    const allowed = held + cost <= this.places;
    const retryAfterMs = allowed ? 0 : cost > this.places ? null : 1000;
    const remaining = Math.max(0, this.places - held - (allowed ? cost : 0));
    return { allowed, limit: this.places, remaining, retryAfterMs, resetAfterMs: 0 };
  }

  charge(usage: Held, _now: number, cost: number): void {
    usage.held += cost;
  }
}
