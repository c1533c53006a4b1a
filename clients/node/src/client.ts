// The client: one method per call of the server's API.

import { checkBody, object, observationBody, onErrorValue, shape, text, timeout } from './arguments.js';
import { parts, renumbered, type Part } from './batch.js';
import { Dispatcher, type Call } from './dispatcher.js';
import { badInput, TidegateError } from './error.js';
import * as fallback from './fallback.js';
import { settings, type Settings, type TidegateOptions } from './options.js';
import { sleep } from './timers.js';
import type {
  AskOptions, CallOptions, Check, CheckManyOptions, CheckOptions, Decision, Key, Observation, OnError, Permit,
  Permitted, Reservation,
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
  readonly #settings: Settings;
  readonly #dispatcher: Dispatcher;

  constructor(options: TidegateOptions = {}) {
    this.#settings = settings(options);
    this.#dispatcher = new Dispatcher(this.#settings);
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
    return this.#withFallback(call, options, (outcome) => fallback.decision(policy, outcome));
  }

  /**
   * Many checks, with decisions in the same order. With `atomic`, all are charged or none. More than 1000 checks are
   * sent as several calls: if the server rejects one call, the others may be charged.
   */
  async checkMany(checks: readonly Check[], options: CheckManyOptions = {}): Promise<Decision[]> {
    checkOptions(options, [...CALL, 'onError', 'atomic']);
    const send = async (part: Part): Promise<Decision[]> => {
      try {
        return await this.#withFallback(part.call, options, (outcome) =>
          part.checks.map(({ policy }) => fallback.decision(policy, outcome)));
      } catch (error) {
        throw renumbered(error, part);
      }
    };
    const decisions = await Promise.all(parts(checks, options.atomic ?? false).map(send));
    return decisions.flat();
  }

  /** Returns what a check would, and charges nothing. With `cost: 0` it returns what is left. */
  async peek(policy: string, key: Key, options: AskOptions = {}): Promise<Decision> {
    checkOptions(options, ASK);
    const call = this.#callOn('/v1/peek', { policy, key, cost: options.cost }, wire.decision);
    return this.#withFallback(call, options, (outcome) => fallback.decision(policy, outcome));
  }

  /** Reserves a slot in a leaky bucket. Wait `delayMs`, then start. */
  async reserve(policy: string, key: Key, options: AskOptions = {}): Promise<Reservation> {
    checkOptions(options, ASK);
    const call = this.#callOn('/v1/reserve', { policy, key, cost: options.cost }, wire.reservation);
    return this.#withFallback(call, options, fallback.reservation);
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
  async acquire(policy: string, key: Key, options: AskOptions = {}): Promise<Permit> {
    checkOptions(options, ASK);
    const call: Call<Permit> = {
      ...this.#callOn('/v1/acquire', { policy, key, cost: options.cost }, wire.permit),
      // The caller has left and cannot release it.
      onLate: ({ permit }) => void this.#releaseQuietly(policy, key, permit),
    };
    return this.#withFallback(call, options, (outcome) => fallback.permit(policy, outcome));
  }

  /** Releases a permit: false if it was not held any more. Releasing twice is safe. */
  async release(policy: string, key: Key, permit: string, options: CallOptions = {}): Promise<boolean> {
    checkOptions(options, CALL);
    text('permit', permit);
    return this.#dispatcher.send(this.#callOn('/v1/release', { policy, key }, wire.released, { permit }), options);
  }

  /** Runs `work` if a permit is free, and releases the permit however the work ends. */
  async withPermit<T>(
    policy: string, key: Key, work: (permit: Permit) => T | PromiseLike<T>, options: AskOptions = {},
  ): Promise<Permitted<T>> {
    if (typeof work !== 'function') {
      throw badInput('work', 'a function', work);
    }
    const decision = await this.acquire(policy, key, options);
    if (!decision.allowed) {
      return { allowed: false, decision };
    }
    try {
      return { allowed: true, value: await work(decision), decision };
    } finally {
      await this.#releaseQuietly(policy, key, decision.permit);
    }
  }

  /** Returns up to `cost` units, and reports what is left. */
  async refund(policy: string, key: Key, options: CallOptions & { readonly cost?: number } = {}): Promise<Decision> {
    checkOptions(options, [...CALL, 'cost']);
    const call = this.#callOn('/v1/refund', { policy, key, cost: options.cost }, wire.decision);
    // A retry could return the units twice.
    return this.#dispatcher.send({ ...call, repeatable: false }, options);
  }

  /** Resets a key. An admin call: needs the `token`, or a server on the same machine. */
  async reset(policy: string, key: Key, options: CallOptions = {}): Promise<Decision> {
    checkOptions(options, CALL);
    return this.#dispatcher.send(this.#callOn('/v1/reset', { policy, key }, wire.decision), options);
  }

  /** Reports the latency and load of a service, for adaptive limits. */
  async observe(target: string, observation: Observation, options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL);
    const body = observationBody(target, observation);
    await this.#dispatcher.send({ path: '/v1/observe', body, decode: () => {}, repeatable: true }, options);
  }

  /** The names of the server's policies. */
  async policyNames(options: CallOptions = {}): Promise<string[]> {
    checkOptions(options, CALL);
    return this.#dispatcher.send({ path: '/v1/policies', decode: wire.policyNames, repeatable: true }, options);
  }

  /** Rejects new calls, waits for pending ones, and closes the connections. */
  async close(): Promise<void> {
    await this.#dispatcher.close();
  }

  #callOn<T>(path: string, check: Check, decode: (json: unknown) => T, more = {}): Call<T> {
    return { path, body: checkBody(check, more), decode: (json) => decode(json), repeatable: true };
  }

  async #withFallback<T>(
    call: Call<T>, options: CallOptions & { readonly onError?: OnError | undefined },
    toResult: (outcome: fallback.Fallback) => T,
  ): Promise<T> {
    try {
      return await this.#dispatcher.send(call, options);
    } catch (error) {
      const { onError, onTrouble } = this.#settings;
      return toResult(fallback.fallback(error, options.onError ?? onError, onTrouble));
    }
  }

  /** Never throws: a permit that is not released expires, and the work's result must not be lost. */
  async #releaseQuietly(policy: string, key: Key, permit: string | null): Promise<void> {
    if (permit === null) {
      return;
    }
    try {
      await this.release(policy, key, permit);
    } catch (error) {
      this.#settings.onTrouble(error as TidegateError);
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
