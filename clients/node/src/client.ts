// The client: one method per call of the server's API.

import { checkBody, object, observationBody, onErrorValue, shape, text, timeout } from './arguments.js';
import { parts, renumbered, type Part } from './batch.js';
import { Catalog } from './catalog.js';
import { Dispatcher, type Call } from './dispatcher.js';
import { badInput, TidegateError } from './error.js';
import * as fallback from './fallback.js';
import { Outage } from './outage.js';
import { settings, type Settings, type TidegateOptions } from './options.js';
import { sleep } from './timers.js';
import type {
  AskOptions, CallOptions, Check, CheckManyOptions, CheckOptions, Decision, Key, Observation, OnError, Permit,
  Permitted, Reservation,
} from './types.js';
import type { Logger } from './warnings.js';
import * as wire from './wire.js';

/** What plugin and middleware need of a client, which may come from the other build, ESM or CJS. */
export const FOR_APPS = Symbol.for('tidegate.for-apps');

export interface ForApps {
  /** Reports outages and unknown policies in the words of an app, and to its log if it has one. */
  inApp(logger: Logger | undefined): void;
  /** Looks for the server and for the policies that an app names. */
  checkAtStart(names: readonly string[], onError: OnError | undefined): void;
  /** Reports that the server rejected a request of the app. */
  rejected(policy: string, error: TidegateError): void;
}

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
  readonly #outage: Outage;
  readonly #catalog: Catalog;

  constructor(options: TidegateOptions = {}) {
    this.#settings = settings(options);
    this.#dispatcher = new Dispatcher(this.#settings);
    this.#outage = new Outage(this.#settings.target.address, this.#settings.onTrouble !== undefined);
    this.#catalog = new Catalog(this.#outage, () => this.policyNames());
  }

  /** @internal */
  get [FOR_APPS](): ForApps {
    return {
      inApp: (logger) => this.#outage.inApp(logger),
      checkAtStart: (names, onError = this.#settings.onError) =>
        this.#catalog.checkAtStart(names, this.#outage.consequence(onError)),
      rejected: (policy, error) => this.#catalog.rejected(policy, error),
    };
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
    return this.#withFallback(call, options, (outcome) => fallback.decision(policy, outcome), policy);
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
    return this.#withFallback(call, options, (outcome) => fallback.decision(policy, outcome), policy);
  }

  /** Reserves a slot in a leaky bucket. Wait `delayMs`, then start. */
  async reserve(policy: string, key: Key, options: AskOptions = {}): Promise<Reservation> {
    checkOptions(options, ASK);
    const call = this.#callOn('/v1/reserve', { policy, key, cost: options.cost }, wire.reservation);
    return this.#withFallback(call, options, fallback.reservation, policy);
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
    return this.#withFallback(call, options, (outcome) => fallback.permit(policy, outcome), policy);
  }

  /** Releases a permit: false if it was not held any more. Releasing twice is safe. */
  async release(policy: string, key: Key, permit: string, options: CallOptions = {}): Promise<boolean> {
    checkOptions(options, CALL);
    text('permit', permit);
    return this.#send(this.#callOn('/v1/release', { policy, key }, wire.released, { permit }), options);
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
    return this.#send({ ...call, repeatable: false }, options);
  }

  /** Resets a key. An admin call: needs the `token`, or a server on the same machine. */
  async reset(policy: string, key: Key, options: CallOptions = {}): Promise<Decision> {
    checkOptions(options, CALL);
    return this.#send(this.#callOn('/v1/reset', { policy, key }, wire.decision), options);
  }

  /** Reports the latency and load of a service, for adaptive limits. */
  async observe(target: string, observation: Observation, options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL);
    const body = observationBody(target, observation);
    await this.#send({ path: '/v1/observe', body, decode: () => {}, repeatable: true }, options);
  }

  /** The names of the server's policies. */
  async policyNames(options: CallOptions = {}): Promise<string[]> {
    checkOptions(options, CALL);
    return this.#send({ path: '/v1/policies', decode: wire.policyNames, repeatable: true }, options);
  }

  /** Rejects new calls, waits for pending ones, and closes the connections. */
  async close(): Promise<void> {
    await this.#dispatcher.close();
  }

  #callOn<T>(path: string, check: Check, decode: (json: unknown) => T, more = {}): Call<T> {
    return { path, body: checkBody(check, more), decode: (json) => decode(json), repeatable: true };
  }

  /** `policy` is the one that the call asks; a batch has several. */
  async #withFallback<T>(
    call: Call<T>, options: CallOptions & { readonly onError?: OnError | undefined },
    toResult: (outcome: fallback.Fallback) => T, policy?: string,
  ): Promise<T> {
    try {
      const result = await this.#send(call, options);
      policy === undefined || this.#catalog.confirm(policy);
      return result;
    } catch (error) {
      const onError = options.onError ?? this.#settings.onError;
      return toResult(fallback.fallback(this.#reported(error, onError, policy), onError));
    }
  }

  /** Reports that a decision is made without the server, and returns why. Rethrows errors that leave nothing to decide. */
  #reported(error: unknown, onError: OnError, policy: string | undefined): TidegateError {
    if (policy !== undefined && hasCode(error, 'unknown-policy') && this.#catalog.had(policy)) {
      const { code, detail, status, field } = error;
      this.#catalog.dropped(policy, this.#outage.consequence(onError));
      return this.#troubled(new TidegateError(code, detail, { status, field, cause: error, transient: true }));
    }
    if (!(error instanceof TidegateError) || !error.transient) {
      throw error;
    }
    if (error.code === 'store-unavailable') {
      return error;
    }
    this.#outage.failed(error, this.#outage.consequence(onError));
    return this.#troubled(error);
  }

  #troubled(error: TidegateError): TidegateError {
    this.#settings.onTrouble?.(error);
    return error;
  }

  /** Every call goes through here, so that an outage ends with the first answer. */
  async #send<T>(call: Call<T>, options: CallOptions): Promise<T> {
    try {
      const result = await this.#dispatcher.send(call, options);
      this.#answered();
      return result;
    } catch (error) {
      if (hasCode(error, 'store-unavailable') || (error instanceof TidegateError && error.status && !error.transient)) {
        this.#answered();
      }
      throw error;
    }
  }

  #answered(): void {
    this.#outage.answered();
    this.#catalog.recheck();
  }

  /** Never throws: a permit that is not released expires, and the work's result must not be lost. */
  async #releaseQuietly(policy: string, key: Key, permit: string | null): Promise<void> {
    if (permit === null) {
      return;
    }
    try {
      await this.release(policy, key, permit);
    } catch (error) {
      this.#settings.onTrouble?.(error as TidegateError);
    }
  }
}

function hasCode(error: unknown, code: string): error is TidegateError {
  return error instanceof TidegateError && error.code === code;
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
