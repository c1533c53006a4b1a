// From a question to an answer: by the server, or by this client if the server does not answer.

import { Catalog } from './catalog.js';
import { Dispatcher, type Call } from './dispatcher.js';
import { TidegateError } from './error.js';
import * as fallback from './fallback.js';
import { LocalDecisions } from './local.js';
import type { Settings } from './options.js';
import { Observer, type Observed } from './observer.js';
import { Outage } from './outage.js';
import { keepRenewing } from './renewal.js';
import type { CallOptions, Check, OnError, Permit, Renewal } from './types.js';
import type { Logger } from './warnings.js';
import * as wire from './wire.js';

/** What plugin and middleware need of a client, which may come from the other build, ESM or CJS. */
export const FOR_APPS = Symbol.for('tidegate.for-apps');

export interface ForApps {
  /** Reports outages and unknown policies in the words of an app, and to its log if it has one. */
  inApp(logger: Logger | undefined): void;
  /** Looks for the server, and for the policies and targets that an app names. */
  checkAtStart(names: readonly string[], targets: readonly string[], onError: OnError | undefined): void;
  /** Reports that the server rejected a request of the app. */
  rejected(policy: string, error: TidegateError): void;
  /** Reports a response of the app, soon, and never throws. */
  observed(target: string, latencyMs: number, ok: boolean): void;
}

/** A call that asks for permission, and who answers if the server does not. */
export interface Question<T> {
  readonly call: Call<T>;
  readonly checks: readonly Check[];
  readonly fallback: (outcome: fallback.Fallback) => T;
  readonly local: (error: TidegateError) => T;
}

export class Caller implements ForApps {
  readonly local: LocalDecisions;
  readonly #settings: Settings;
  readonly #dispatcher: Dispatcher;
  readonly #outage: Outage;
  readonly #catalog: Catalog;
  /** Whether a call had no answer since the last one that had. */
  #hasMissed = false;
  readonly #observer = new Observer((observations) => this.#report(observations));

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#dispatcher = new Dispatcher(settings);
    this.#outage = new Outage(settings.target.address, settings.onTrouble !== undefined);
    this.#catalog = new Catalog(this.#outage, () => this.policyNames({}));
    this.local = new LocalDecisions(this.#catalog, settings.processes);
  }

  inApp(logger: Logger | undefined): void {
    this.#outage.inApp(logger);
  }

  checkAtStart(
    names: readonly string[], targets: readonly string[], onError: OnError = this.#settings.onError,
  ): void {
    this.#catalog.checkAtStart(names, targets, this.#outage.consequence(onError, this.#settings.processes, false));
  }

  rejected(policy: string, error: TidegateError): void {
    this.#catalog.rejected(policy, error);
  }

  observed(target: string, latencyMs: number, ok: boolean): void {
    this.#observer.note(target, latencyMs, ok);
  }

  /** The names of the server's policies, whose numbers are remembered. */
  policyNames(options: CallOptions): Promise<string[]> {
    const decode = (json: unknown): string[] => this.#catalog.learn(wire.policies(json));
    return this.send({ path: '/v1/policies', decode, repeatable: true }, options);
  }

  close(): Promise<void> {
    return this.#dispatcher.close();
  }

  /** Keeps a permit from expiring, until the result is called. */
  keepRenewing(policy: string, { permit, ttlMs }: Permit, renew: () => Promise<Renewal>): () => void {
    if (permit === null) {
      return () => {};
    }
    // Not by `resetAfterMs`: it may be about a rate of the same policy.
    return keepRenewing(ttlMs, {
      renew,
      isFinal: (error) => {
        const { status, transient, message } = error as TidegateError;
        if (transient && status !== 404) {
          return false;
        }
        this.#catalog.unrenewed(policy, status === 404 ? `this server cannot (${message})` : message);
        return true;
      },
      lost: () => this.#catalog.unrenewed(policy, 'it had expired before'),
    });
  }

  /** Reports that do not arrive are lost: the next ones are as good. */
  async #report(observations: readonly Observed[]): Promise<void> {
    const body = JSON.stringify({ observations });
    try {
      await this.send({ path: '/v1/observe/batch', body, decode: () => {}, repeatable: true }, {});
    } catch (error) {
      if (error instanceof TidegateError && !error.transient && error.code !== 'closed') {
        this.#catalog.unobserved(error);
      }
    }
  }

  /** Asks for permission. */
  async ask<T>(
    question: Question<T>, options: CallOptions & { readonly onError?: OnError | undefined },
  ): Promise<T> {
    const { onError = this.#settings.onError } = options;
    if (onError === 'local') {
      this.#catalog.refresh();
    }
    try {
      const result = await this.send(question.call, options);
      question.checks.forEach(({ policy }) => this.#catalog.confirm(policy));
      return result;
    } catch (error) {
      const failure = this.#reported(error, onError, question.checks);
      return onError === 'local' && failure.code !== 'store-unavailable'
        ? question.local(failure)
        : question.fallback(fallback.fallback(failure, onError));
    }
  }

  /** Reports that a decision is made without the server, and returns why. Rethrows what leaves nothing to decide. */
  #reported(error: unknown, onError: OnError, checks: readonly Check[]): TidegateError {
    const [policy] = checks.length === 1 ? checks.map((check) => check.policy) : [];
    const consequence = (): string =>
      this.#outage.consequence(onError, this.#settings.processes, this.local.knows(checks));
    if (policy !== undefined && hasCode(error, 'unknown-policy') && this.#catalog.had(policy)) {
      const { code, detail, status, field } = error;
      this.#catalog.dropped(policy, consequence());
      return this.troubled(new TidegateError(code, detail, { status, field, cause: error, transient: true }));
    }
    if (!(error instanceof TidegateError) || !error.transient) {
      throw error;
    }
    if (error.code === 'store-unavailable') {
      return error;
    }
    this.#outage.failed(error, consequence(), checks.length);
    return this.troubled(error);
  }

  /** Counts a permit that the server has granted, if this process may have to go on alone: see `LocalDecisions`. */
  granted(check: Check, permit: Permit, onError: OnError = this.#settings.onError): Permit | undefined {
    return onError === 'local' ? this.local.granted(check, permit) : undefined;
  }

  /** Whether a batch was rejected because a reload has dropped one of its policies. */
  hasDropped(error: unknown, checks: readonly Check[]): boolean {
    const index = hasCode(error, 'unknown-policy') ? /^checks\[(\d+)\]/.exec(error.field ?? '')?.[1] : undefined;
    const policy = checks[Number(index)]?.policy;
    return policy !== undefined && this.#catalog.had(policy);
  }

  /** Tells the caller's hook. */
  troubled(error: TidegateError): TidegateError {
    this.#settings.onTrouble?.(error);
    return error;
  }

  /** Every call goes through here, so that an outage ends with the first answer. */
  async send<T>(call: Call<T>, options: CallOptions): Promise<T> {
    try {
      const result = await this.#dispatcher.send(call, options);
      this.#answered();
      return result;
    } catch (error) {
      if (hasCode(error, 'store-unavailable') || (error instanceof TidegateError && error.status && !error.transient)) {
        this.#answered();
      } else if (error instanceof TidegateError) {
        this.#hasMissed = true;
      }
      throw error;
    }
  }

  #answered(): void {
    if (this.#hasMissed) {
      this.#hasMissed = false;
      this.local.doubtPermits();
    }
    if (this.#outage.answered()) {
      this.#catalog.serverIsBack();
    }
  }
}

function hasCode(error: unknown, code: string): error is TidegateError {
  return error instanceof TidegateError && error.code === code;
}
