// Says once when decisions begin to be made without the server and what happens meanwhile, and once when it is back.

import type { TidegateError } from './error.js';
import type { OnError } from './types.js';
import { processLogger, type Logger } from './warnings.js';

/** A server that comes and goes is reported once in this time. */
const REPEAT_MS_MIN = 10_000;

export class Outage {
  readonly #address: string;
  readonly #now: () => number;
  #logger: Logger | undefined;
  #isInApp = false;
  #since: number | undefined;
  #decisions = 0;
  /** What was said about this outage: routes may differ in what they do. */
  readonly #told = new Set<string>();
  #quietUntil = -Infinity;

  /** `isSilent` until an app has the outage in its log: the caller's hook hears of every decision. */
  constructor(address: string, isSilent: boolean, now: () => number = () => performance.now()) {
    this.#address = address;
    this.#logger = isSilent ? undefined : processLogger;
    this.#now = now;
  }

  /** It is the requests of an app that are decided; its log, if it has one, is told. */
  inApp(logger: Logger | undefined): void {
    this.#logger = logger ?? this.#logger ?? processLogger;
    this.#isInApp = true;
  }

  get logger(): Logger {
    return this.#logger ?? processLogger;
  }

  /** What happens to requests, in words. */
  consequence(onError: OnError, processes: number, isKnown: boolean): string {
    const subject = this.#isInApp ? 'requests' : 'checks';
    const allow = `${subject} are ${this.#isInApp ? 'admitted' : 'allowed'}`;
    const share = processes === 1 ? 'all' : `1/${processes}`;
    const words = {
      allow,
      deny: `${subject} are ${this.#isInApp ? 'refused with 503' : 'denied'}`,
      throw: this.#isInApp ? 'requests fail with 503' : 'checks throw',
      local: isKnown
        ? `${subject} are counted by this process alone, with ${share} of each limit,`
        : `${allow}, because the limits were not learnt before,`,
    };
    return words[onError];
  }

  /** Decisions are made without the server; `count` of them just now. */
  failed(error: TidegateError, consequence: string, count = 1): void {
    const now = this.#now();
    this.#since ??= now;
    this.#decisions += count;
    const isFirst = this.#told.size === 0;
    if (this.#told.has(consequence) || (isFirst && now < this.#quietUntil)) {
      return;
    }
    this.#quietUntil = now + REPEAT_MS_MIN;
    this.#told.add(consequence);
    this.#logger?.warn(`the server at ${this.#address} gives no decision (${error.message}): ${consequence} meanwhile`);
  }

  /** The server has answered. Whether an outage ends with that. */
  answered(): boolean {
    if (this.#since === undefined) {
      return false;
    }
    if (this.#told.size > 0) {
      const seconds = ((this.#now() - this.#since) / 1000).toFixed(1);
      const without = `after ${seconds} s and ${this.#decisions} decisions without it`;
      this.#logger?.info(`the server at ${this.#address} decides again, ${without}`);
    }
    this.#since = undefined;
    this.#decisions = 0;
    this.#told.clear();
    return true;
  }
}
