// The client: one method per call of the server's API.

import { checkBody, object, observationBody, onErrorValue, shape, text, timeout } from './arguments.js';
import { parts, renumbered, type Part } from './batch.js';
import { Caller, FOR_APPS, type ForApps } from './caller.js';
import type { Call } from './dispatcher.js';
import { badInput, type TidegateError } from './error.js';
import * as fallback from './fallback.js';
import type { LocalDecisions } from './local.js';
import { settings, type TidegateOptions } from './options.js';
import { sleep } from './timers.js';
import type {
  AskOptions, CallOptions, Check, CheckManyOptions, CheckOptions, Decision, Key, Observation, Permit, Permitted,
  Renewal, Reservation,
} from './types.js';
import * as wire from './wire.js';

/** The options of every call, and of calls that ask for permission. */
const CALL = ['signal', 'timeoutMs'];
const ASK = [...CALL, 'cost', 'onError'];

/**
 * A client of a tidegate server.
 *
 * If the server does not answer, calls that ask for permission (`check`, `checkMany`, `peek`, `reserve`, `schedule`,
 * `acquire`, `withPermit`) follow `onError`; all others throw. Invalid arguments always throw.
 */
export class Tidegate {
  readonly #caller: Caller;
  readonly #local: LocalDecisions;

  constructor(options: TidegateOptions = {}) {
    this.#caller = new Caller(settings(options));
    this.#local = this.#caller.local;
  }

  /** @internal */
  get [FOR_APPS](): ForApps {
    return this.#caller;
  }

  /** Checks a key against a policy, and charges the cost if allowed. */
  async check(policy: string, key: Key, options: CheckOptions = {}): Promise<Decision> {
    checkOptions(options, [...ASK, 'headers']);
    const { headers = false, cost } = options;
    const call: Call<Decision> = {
      path: '/v1/check',
      body: checkBody({ policy, key, cost }),
      decode: (json, reply) => {
        const decision = wire.decision(json);
        if (!headers) {
          return decision;
        }
        // A single check has real headers; in a batch they are part of the JSON.
        return { ...decision, headers: wire.limitHeaders(reply?.headers ?? wire.batchedHeaders(json)) };
      },
      shape: shape(policy, key),
      headers,
      repeatable: true,
    };
    return this.#caller.ask({
      call,
      checks: [{ policy, key, cost }],
      fallback: (outcome) => fallback.decision(policy, outcome),
      local: (error) => this.#local.check([{ policy, key, cost }], false, error)[0] as Decision,
    }, options);
  }

  /**
   * Many checks, with decisions in the same order. With `atomic`, all are charged or none. More than 1000 checks are
   * sent as several calls: if the server rejects one call, the others may be charged.
   */
  async checkMany(checks: readonly Check[], options: CheckManyOptions = {}): Promise<Decision[]> {
    checkOptions(options, [...CALL, 'onError', 'atomic']);
    const send = async (part: Part): Promise<Decision[]> => {
      try {
        return await this.#caller.ask({
          call: part.call,
          checks: part.checks,
          fallback: (outcome) => part.checks.map(({ policy }) => fallback.decision(policy, outcome)),
          local: (error) => this.#local.check(part.checks, options.atomic ?? false, error),
        }, options);
      } catch (error) {
        if (!options.atomic && this.#caller.hasDropped(error, part.checks)) {
          // Nothing was charged. Each alone, so that only those fall back whose policy is gone.
          const { atomic: _, ...others } = options;
          return Promise.all(part.checks.map(({ policy, key, cost }) => this.check(policy, key, { ...others, cost })));
        }
        throw renumbered(error, part);
      }
    };
    const decisions = await Promise.all(parts(checks, options.atomic ?? false).map(send));
    return decisions.flat();
  }

  /** Returns what a check would, and charges nothing. With `cost: 0` it returns what is left. */
  async peek(policy: string, key: Key, options: AskOptions = {}): Promise<Decision> {
    checkOptions(options, ASK);
    const check = { policy, key, cost: options.cost };
    return this.#caller.ask({
      call: this.#callOn('/v1/peek', check, wire.decision),
      checks: [check],
      fallback: (outcome) => fallback.decision(policy, outcome),
      local: (error) => this.#local.peek(check, error),
    }, options);
  }

  /** Reserves a slot in a leaky bucket. Wait `delayMs`, then start. */
  async reserve(policy: string, key: Key, options: AskOptions = {}): Promise<Reservation> {
    checkOptions(options, ASK);
    const check = { policy, key, cost: options.cost };
    return this.#caller.ask({
      call: this.#callOn('/v1/reserve', check, wire.reservation),
      checks: [check],
      fallback: fallback.reservation,
      local: (error) => this.#local.reserve(check, error),
    }, options);
  }

  /**
   * Reserves, and waits until the slot begins. Returns at once if not accepted. `signal` ends the wait; the slot stays
   * reserved.
   */
  async schedule(policy: string, key: Key, options: AskOptions = {}): Promise<Reservation> {
    const reservation = await this.reserve(policy, key, options);
    await sleep(reservation.delayMs, options.signal);
    return reservation;
  }

  /** Acquires a permit of a concurrency limit. Release it when the work is done. */
  async acquire(policy: string, key: Key, options: CheckOptions = {}): Promise<Permit> {
    checkOptions(options, [...ASK, 'headers']);
    const { headers = false, cost } = options;
    const check = { policy, key, cost };
    const call: Call<Permit> = {
      path: '/v1/acquire',
      body: checkBody(check),
      decode: (json, reply) =>
        headers ? { ...wire.permit(json), headers: wire.limitHeaders(reply?.headers ?? {}) } : wire.permit(json),
      repeatable: true,
      // The caller has left and cannot release it.
      onLate: ({ permit }) => void this.#releaseQuietly(policy, key, permit),
    };
    const granted = await this.#caller.ask({
      call,
      checks: [check],
      fallback: (outcome) => fallback.permit(policy, outcome),
      local: (error) => this.#local.acquire(check, error),
    }, options);
    const refusal = this.#caller.granted(check, granted, options.onError);
    if (refusal !== undefined) {
      void this.#releaseQuietly(policy, key, granted.permit);
    }
    return refusal ?? granted;
  }

  /** Releases a permit: false if it was not held any more. Releasing twice is safe. */
  async release(policy: string, key: Key, permit: string, options: CallOptions = {}): Promise<boolean> {
    checkOptions(options, CALL);
    text('permit', permit);
    const call = this.#callOn('/v1/release', { policy, key }, wire.released, { permit });
    const isCurrent = this.#local.isCurrent(permit);
    const wasOurs = this.#local.release(permit);
    if (wasOurs !== undefined) {
      return wasOurs;
    }
    const released = await this.#caller.send(call, options);
    if (!released && isCurrent) {
      this.#local.doubtPermits();
    }
    return released;
  }

  /** Keeps a permit for as long again as it was granted for, unless it is not held any more. */
  async renew(policy: string, key: Key, permit: string, options: CallOptions = {}): Promise<Renewal> {
    checkOptions(options, CALL);
    text('permit', permit);
    const call = this.#callOn('/v1/renew', { policy, key }, wire.renewal, { permit });
    const renewed = this.#local.renew(permit);
    if (renewed !== undefined) {
      return renewed;
    }
    const renewal = await this.#caller.send(call, options);
    this.#local.renewed(permit, renewal);
    return renewal;
  }

  /**
   * Runs `work` if a permit is free, and releases the permit however the work ends. Meanwhile the permit is renewed, each
   * time when a third of its time has passed.
   */
  async withPermit<T>(
    policy: string, key: Key, work: (permit: Permit) => T | PromiseLike<T>, options: CheckOptions = {},
  ): Promise<Permitted<T>> {
    if (typeof work !== 'function') {
      throw badInput('work', 'a function', work);
    }
    const decision = await this.acquire(policy, key, options);
    if (!decision.allowed) {
      return { allowed: false, decision };
    }
    const { permit } = decision;
    const stop = this.#caller.keepRenewing(policy, decision, () => this.renew(policy, key, String(permit)));
    try {
      return { allowed: true, value: await work(decision), decision };
    } finally {
      stop();
      await this.#releaseQuietly(policy, key, permit);
    }
  }

  /** Returns up to `cost` units, and reports what is left. */
  async refund(policy: string, key: Key, options: CallOptions & { readonly cost?: number } = {}): Promise<Decision> {
    checkOptions(options, [...CALL, 'cost']);
    const call = this.#callOn('/v1/refund', { policy, key, cost: options.cost }, wire.decision);
    // A retry could return the units twice.
    return this.#caller.send({ ...call, repeatable: false }, options);
  }

  /** Resets a key. An admin call: needs the `token`, or a server on the same machine. */
  async reset(policy: string, key: Key, options: CallOptions = {}): Promise<Decision> {
    checkOptions(options, CALL);
    return this.#caller.send(this.#callOn('/v1/reset', { policy, key }, wire.decision), options);
  }

  /** Reports the latency and load of a service, for adaptive limits. */
  async observe(target: string, observation: Observation, options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL);
    const body = observationBody(target, observation);
    await this.#caller.send({ path: '/v1/observe', body, decode: () => {}, repeatable: true }, options);
  }

  /** The names of the server's policies. */
  async policyNames(options: CallOptions = {}): Promise<string[]> {
    checkOptions(options, CALL);
    return this.#caller.policyNames(options);
  }

  /** Rejects new calls, waits for pending ones, and closes the connections. */
  async close(): Promise<void> {
    await this.#caller.close();
  }

  #callOn<T>(path: string, check: Check, decode: (json: unknown) => T, more = {}): Call<T> {
    return { path, body: checkBody(check, more), decode: (json) => decode(json), repeatable: true };
  }

  /** Never throws: a permit that is not released expires, and the work's result must not be lost. */
  async #releaseQuietly(policy: string, key: Key, permit: string | null): Promise<void> {
    if (permit === null) {
      return;
    }
    try {
      await this.release(policy, key, permit);
    } catch (error) {
      this.#caller.troubled(error as TidegateError);
    }
  }
}

function checkOptions(options: CheckOptions & CheckManyOptions, names: readonly string[]): void {
  object('options', options, names);
  const { signal, timeoutMs, onError, headers, atomic } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw badInput('signal', 'an AbortSignal', signal);
  }
  if (timeoutMs !== undefined) {
    timeout(timeoutMs);
  }
  if (onError !== undefined) {
    onErrorValue(onError);
  }
  for (const [name, value] of Object.entries({ headers, atomic })) {
    if (value !== undefined && typeof value !== 'boolean') {
      throw badInput(name, 'true or false', value);
    }
  }
}
