// Counts in this process while the server is away, with this process's share of each limit.

import { PermitLedger } from './ledger.js';
import { meterOf, Places, Queue, type Meter, type Reading, type Usage } from './meters.js';
import type { Check, Key, LimitNumbers, Permit, PolicyNumbers } from './types.js';

/** Keys that each limit counts by themselves; further ones share one usage until others are free again. */
export const KEYS_MAX = 10_000;

/** One limit of a policy and its keys, the least recently used first. */
interface Table {
  readonly kind: string;
  meter: Meter;
  readonly usages: Map<string, Usage>;
  readonly others: Usage;
}

interface Part {
  readonly name: string;
  readonly meter: Meter;
  readonly usage: Usage;
  /** What the check takes of this limit. */
  readonly units: number;
  readonly reading: Reading;
}

export interface LocalReading extends Reading {
  readonly binding: string;
}

export interface LocalCheck extends Check {
  readonly numbers: PolicyNumbers;
}

export class LocalLimiter {
  readonly #processes: number;
  readonly #now: () => number;
  readonly #tables = new Map<string, Table>();
  readonly ledger: PermitLedger;

  constructor(processes: number, now: () => number = () => performance.now()) {
    this.#processes = processes;
    this.#now = now;
    this.ledger = new PermitLedger(now);
  }

  /** What a check would answer; charges nothing. */
  peek(check: LocalCheck): LocalReading {
    return combined(check, this.#parts(check, this.#now()));
  }

  /** With `atomic`, all are charged or none. */
  check(checks: readonly LocalCheck[], atomic: boolean): LocalReading[] {
    const taken = checks.map((check) => this.#take(check));
    if (atomic && taken.some(({ reading }) => !reading.allowed)) {
      taken.reverse().forEach(({ undo }) => undo());
      taken.reverse();
    }
    return taken.map(({ reading }) => reading);
  }

  reserve(check: LocalCheck): LocalReading & { readonly delayMs: number } {
    const parts = this.#parts(check, this.#now());
    const delays = parts.map(({ meter, usage }) => (meter instanceof Queue ? meter.delayMs(usage, this.#now()) : 0));
    const { reading } = this.#take(check);
    return { ...reading, delayMs: reading.allowed ? Math.ceil(Math.max(0, ...delays)) : 0 };
  }

  acquire(check: LocalCheck): LocalReading & Pick<Permit, 'permit' | 'ttlMs'> {
    const hasRoom = this.ledger.hasRoom();
    const { reading, hasPlace } = hasRoom ? this.#take(check) : { reading: this.peek(check), hasPlace: false };
    const granted = hasPlace ? this.ledger.grant(check, check.numbers) : { permit: null };
    return { ...reading, allowed: hasRoom && reading.allowed, ...granted };
  }

  /** Whether a permit that the server has granted, and that is held, fits beside those that it may not know. */
  fits(check: LocalCheck): boolean {
    const { policy, key, numbers } = check;
    const places = numbers.members.filter((limit) => meterOf(limit, this.#processes) instanceof Places);
    return !places.some((limit) => this.ledger.hasUnsure(policy, countsLike(key, limit)))
      || this.peek({ ...check, cost: 0 }).allowed;
  }

  /**
   * `undo` is for at once, before anything else is charged, and in reverse order. `hasPlace` says whether a concurrency
   * limit is among those that are charged.
   */
  #take(check: LocalCheck): { reading: LocalReading; hasPlace: boolean; undo: () => void } {
    const now = this.#now();
    const parts = this.#parts(check, now);
    const reading = combined(check, parts);
    // In shadow mode and in `any`, those are charged that admit.
    const charged = reading.allowed ? parts.filter((part) => part.reading.allowed) : [];
    const before = charged.map(({ usage }) => ({ ...usage }));
    charged.forEach(({ meter, usage, units }) => meter.charge(usage, now, units));
    const hasPlace = charged.some(({ meter }) => meter instanceof Places);
    return { reading, hasPlace, undo: () => charged.forEach(({ usage }, index) => Object.assign(usage, before[index])) };
  }

  #parts({ policy, key, cost = 1, numbers }: LocalCheck, now: number): Part[] {
    return numbers.members.map((limit, index) => {
      // A shared limit is one, by whichever policy it is asked.
      const of = limit.key === 'global' ? numbers.of : undefined;
      const table = of === undefined ? this.#table(policy, index, limit) : this.#table(of, 0, limit);
      const { meter } = table;
      const each = limit.cost ?? 1;
      const usage = meter instanceof Places
        ? meter.fresh(each * this.ledger.units(policy, countsLike(key, limit)))
        : usageOf(table, identifier(key, limit), now);
      const units = cost * each;
      return { name: limit.name ?? policy, meter, usage, units, reading: meter.read(usage, now, units) };
    });
  }

  /** Usages survive new numbers, unless these count in another way. */
  #table(policy: string, index: number, limit: LimitNumbers): Table {
    const id = JSON.stringify([policy, index]);
    const kind = `${limit.algorithm} ${limit.periodMs}`;
    const meter = meterOf(limit, this.#processes);
    const known = this.#tables.get(id);
    if (known?.kind === kind) {
      known.meter = meter;
      return known;
    }
    const table = { kind, meter, usages: new Map(), others: meter.fresh() };
    this.#tables.set(id, table);
    return table;
  }
}

/** The value that a limit counts by. */
function identifier(key: Key, { key: name }: LimitNumbers): string {
  if (name === 'global') {
    return '';
  }
  return typeof key === 'string' ? key : (name === undefined ? undefined : key[name]) ?? JSON.stringify(key);
}

/** Whether a limit counts another key as this one. */
function countsLike(key: Key, limit: LimitNumbers): (other: Key) => boolean {
  const id = identifier(key, limit);
  return (other) => identifier(other, limit) === id;
}

function usageOf({ meter, usages, others }: Table, key: string, now: number): Usage {
  const known = usages.get(key);
  if (known !== undefined) {
    usages.delete(key);
    usages.set(key, known);
    return known;
  }
  const [oldest, usage] = usages.entries().next().value ?? [];
  if (usages.size >= KEYS_MAX && oldest !== undefined) {
    if (usage !== undefined && usage.freeAt > now) {
      // To forget it would give it a second share.
      return others;
    }
    usages.delete(oldest);
  }
  const fresh = meter.fresh();
  usages.set(key, fresh);
  return fresh;
}

/** One answer of all limits, and the limit that it is about. */
function combined({ policy, numbers: { mode, shadow } }: LocalCheck, parts: readonly Part[]): LocalReading {
  const admitting = parts.filter(({ reading }) => reading.allowed);
  const isAny = mode === 'any';
  const allowed = shadow || (isAny ? admitting.length > 0 : admitting.length === parts.length);
  const waitMs = ({ reading }: Part): number => reading.retryAfterMs ?? Infinity;
  const about = allowed && admitting.length > 0
    ? admitting.toSorted((a, b) => (a.reading.remaining - b.reading.remaining) * (isAny ? -1 : 1))[0]
    : parts.toSorted((a, b) => (waitMs(a) > waitMs(b) ? -1 : 1) * (isAny ? -1 : 1))[0];
  const reading = about?.reading ?? { limit: 0, remaining: 0, retryAfterMs: 0, resetAfterMs: 0 };
  return { ...reading, allowed, retryAfterMs: allowed ? 0 : reading.retryAfterMs, binding: about?.name ?? policy };
}
