// The client: one method per call of the server's API.

import { object, observation, onErrorWord, question, shape, text, timeout } from './arguments.js';
import { asCounted, parts, type Part } from './batch.js';
import { Desk, type Question } from './desk.js';
import { badInput, TidegateError } from './error.js';
import * as fallback from './fallback.js';
import { settings, type Settings, type TidegateOptions } from './options.js';
import { sleep } from './sleep.js';
import type {
  AskOptions, CallOptions, Check, CheckManyOptions, CheckOptions, Decision, Key, Observation, OnError, Permit,
  Permitted, Reservation,
} from './types.js';
import * as wire from './wire.js';

/** What every call can be told. */
const CALL = ['signal', 'timeoutMs'];
const ASK = [...CALL, 'cost', 'onError'];

/**
 * Asks a tidegate server.
 *
 * Whatever asks for permission (`check`, `checkMany`, `peek`, `reserve`, `schedule`, `acquire`, `withPermit`) is
 * answered as `onError` says if the server cannot be asked. Everything else throws then.
 * A question that makes no sense always throws.
 */
export class Tidegate {
  readonly #settings: Settings;
  readonly #desk: Desk;

  constructor(options: TidegateOptions = {}) {
    this.#settings = settings(options);
    this.#desk = new Desk(this.#settings);
  }

  /** Spends, if allowed. */
  async check(policy: string, key: Key, options: CheckOptions = {}): Promise<Decision> {
    checkOptions(options, [...ASK, 'headers']);
    const { headers = false, cost } = options;
    const asked: Question<Decision> = {
      path: '/v1/check',
      body: question({ policy, key, cost }),
      decode: (json, answer) => {
        const decision = wire.decision(json);
        if (!headers) {
          return decision;
        }
        // A call of its own has them where all answers have theirs.
        return { ...decision, headers: wire.limitHeaders(answer?.headers ?? wire.toldHeaders(json)) };
      },
      shape: shape(policy, key),
      headers,
      repeatable: true,
    };
    return this.#permission(asked, options, (instead) => fallback.decision(policy, instead));
  }

  /**
   * Many checks, answered in order; each on its own, or with `atomic` all of them or none. More than 1000 are
   * several calls: if one of these is refused for what it says, the others may have been charged.
   */
  async checkMany(checks: readonly Check[], options: CheckManyOptions = {}): Promise<Decision[]> {
    checkOptions(options, [...CALL, 'onError', 'atomic']);
    const ask = async (part: Part): Promise<Decision[]> => {
      try {
        return await this.#permission(part.question, options, (instead) =>
          part.checks.map(({ policy }) => fallback.decision(policy, instead)));
      } catch (error) {
        throw asCounted(error, part);
      }
    };
    const answers = await Promise.all(parts(checks, options.atomic ?? false).map(ask));
    return answers.flat();
  }

  /** Answers what a check would, and spends nothing. With `cost: 0` it tells what is left now. */
  async peek(policy: string, key: Key, options: AskOptions = {}): Promise<Decision> {
    checkOptions(options, ASK);
    const asked = this.#on('/v1/peek', { policy, key, cost: options.cost }, wire.decision);
    return this.#permission(asked, options, (instead) => fallback.decision(policy, instead));
  }

  /** Takes a place in a leaky bucket's queue: wait `delayMs`, then go ahead. */
  async reserve(policy: string, key: Key, options: AskOptions = {}): Promise<Reservation> {
    checkOptions(options, ASK);
    const asked = this.#on('/v1/reserve', { policy, key, cost: options.cost }, wire.reservation);
    return this.#permission(asked, options, fallback.reservation);
  }

  /**
   * Reserves, and waits until it is time. Not accepted, it answers at once. `signal` also ends the wait; the
   * place in the queue stays taken.
   */
  async schedule(policy: string, key: Key, options: AskOptions = {}): Promise<Reservation> {
    const reservation = await this.reserve(policy, key, options);
    await sleep(reservation.delayMs, options.signal);
    return reservation;
  }

  /** Takes a place of a limit on concurrency. Give `permit` back when the work is done. */
  async acquire(policy: string, key: Key, options: AskOptions = {}): Promise<Permit> {
    checkOptions(options, ASK);
    const asked: Question<Permit> = {
      ...this.#on('/v1/acquire', { policy, key, cost: options.cost }, wire.permit),
      // Who has left cannot give it back.
      late: ({ permit }) => void this.#giveBack(policy, key, permit),
    };
    return this.#permission(asked, options, (instead) => fallback.permit(policy, instead));
  }

  /** Gives a place back. To do so twice does no harm. */
  async release(policy: string, key: Key, permit: string, options: CallOptions = {}): Promise<boolean> {
    checkOptions(options, CALL);
    text('permit', permit);
    return this.#desk.ask(this.#on('/v1/release', { policy, key }, wire.released, { permit }), options);
  }

  /** Does the work if there is a place for it, and gives the place back however the work ends. */
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
      await this.#giveBack(policy, key, decision.permit);
    }
  }

  /** Gives back up to `cost` of what was used, and answers what is left now. */
  async refund(policy: string, key: Key, options: CallOptions & { readonly cost?: number } = {}): Promise<Decision> {
    checkOptions(options, [...CALL, 'cost']);
    const asked = this.#on('/v1/refund', { policy, key, cost: options.cost }, wire.decision);
    // Done twice it would give back too much.
    return this.#desk.ask({ ...asked, repeatable: false }, options);
  }

  /** Forgets what a key has used. An admin call: it needs the `token`, or the server on the same machine. */
  async reset(policy: string, key: Key, options: CallOptions = {}): Promise<Decision> {
    checkOptions(options, CALL);
    return this.#desk.ask(this.#on('/v1/reset', { policy, key }, wire.decision), options);
  }

  /** Says how long a service took, for limits that follow its load. */
  async observe(target: string, seen: Observation, options: CallOptions = {}): Promise<void> {
    checkOptions(options, CALL);
    const body = observation(target, seen);
    await this.#desk.ask({ path: '/v1/observe', body, decode: () => {}, repeatable: true }, options);
  }

  /** Takes no more calls, waits for those under way, and closes the connections. */
  async close(): Promise<void> {
    await this.#desk.close();
  }

  #on<T>(path: string, check: Check, decode: (json: unknown) => T, more = {}): Question<T> {
    return { path, body: question(check, more), decode: (json) => decode(json), repeatable: true };
  }

  async #permission<T>(
    asked: Question<T>, options: CallOptions & { readonly onError?: OnError | undefined },
    answerOf: (instead: fallback.StandIn) => T,
  ): Promise<T> {
    try {
      return await this.#desk.ask(asked, options);
    } catch (error) {
      const { onError, onTrouble } = this.#settings;
      return answerOf(fallback.standIn(error, options.onError ?? onError, onTrouble));
    }
  }

  /** A place that cannot be given back comes back when its time is over: no reason to lose what was done. */
  async #giveBack(policy: string, key: Key, permit: string | null): Promise<void> {
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
    onErrorWord(onError);
  }
  for (const [name, value] of Object.entries({ headers, atomic })) {
    if (value !== undefined && typeof value !== 'boolean') {
      throw badInput(name, 'true or false', value);
    }
  }
}
