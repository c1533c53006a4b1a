// What is known of the server's policies.

import { suggestion } from './names.js';
import type { Outage } from './outage.js';
import type { TidegateError } from './error.js';
import type { PolicyNumbers } from './types.js';
import { Repeats } from './warnings.js';

/** More names than a server has; only names that it has confirmed are kept. */
const NAMES_MAX = 10_000;
/** How old the numbers may get while the server is there. */
const REFRESH_MS = 30_000;
const RETRY_MS = 1000;

/** What an app writes, where an error tells which call to use. */
const OPTIONS: readonly (readonly [call: string, option: string])[] = [
  ['use `client.withPermit(…)`', 'write `permit: true`'],
  ['use `client.check(…)`', 'leave `permit` out'],
];

type Level = 'warn' | 'error';

export class Catalog {
  readonly #outage: Outage;
  readonly #load: () => Promise<readonly string[]>;
  readonly #repeats = new Repeats();
  /** The policies that the server has or had. */
  readonly #policies = new Map<string, PolicyNumbers | undefined>();
  #staleAt = -Infinity;
  /** What the server's limits follow of `observe`. */
  #targets = new Set<string>();
  /** Names that an app uses, until the server has told which it has. */
  readonly #unchecked = new Set<string>();
  readonly #uncheckedTargets = new Set<string>();
  #isChecking = false;

  constructor(outage: Outage, load: () => Promise<readonly string[]>) {
    this.#outage = outage;
    this.#load = load;
  }

  /** The server has decided by this policy. */
  confirm(name: string): void {
    if (!this.#policies.has(name) && this.#policies.size < NAMES_MAX) {
      this.#policies.set(name, undefined);
    }
  }

  /**
   * The server has told its policies. Those that it has no longer are kept: apps may still name them. Numbers that
   * cannot be read replace none that could.
   */
  learn(policies: ReadonlyMap<string, PolicyNumbers | undefined>): string[] {
    for (const [name, numbers] of policies) {
      this.confirm(name);
      if (numbers !== undefined && this.#policies.has(name)) {
        this.#policies.set(name, numbers);
      }
    }
    const limits = [...policies.values()].flatMap((numbers) => numbers?.members ?? []);
    this.#targets = new Set(limits.flatMap(({ targets }) => targets));
    this.#staleAt = performance.now() + REFRESH_MS;
    return [...policies.keys()];
  }

  /** Whether the server had this policy before. */
  had(name: string): boolean {
    return this.#policies.has(name);
  }

  /** What this process counts with while the server is away. */
  numbers(name: string): PolicyNumbers | undefined {
    return this.#policies.get(name);
  }

  /** Asks for the numbers in the background, if they are old. */
  refresh(): void {
    const now = performance.now();
    if (now >= this.#staleAt) {
      this.#staleAt = now + RETRY_MS;
      this.#load().catch(() => {});
    }
  }

  /**
   * Asks the server once for its policies, and reports names that it does not have, and targets that no limit follows.
   * Names of the same turn share a request. The app does not wait, and starts without the server: `consequence` says
   * what happens meanwhile.
   */
  checkAtStart(names: readonly string[], targets: readonly string[], consequence: string): void {
    names.forEach((name) => this.#unchecked.add(name));
    targets.forEach((target) => this.#uncheckedTargets.add(target));
    if (!this.#isChecking) {
      this.#isChecking = true;
      setImmediate(() => {
        this.#check().catch((error: TidegateError) => this.#outage.failed(error, consequence, 0));
      });
    }
  }

  /** The server is back: its numbers may have changed, and names that could not be checked at the start are. */
  serverIsBack(): void {
    this.#staleAt = -Infinity;
    if (this.#unchecked.size + this.#uncheckedTargets.size > 0 && !this.#isChecking) {
      this.#isChecking = true;
      this.#check().catch(() => {});
    }
  }

  /** Reports requests that fail because the server rejects what the app asks, once per policy and minute. */
  rejected(policy: string, error: TidegateError): void {
    if (error.code === 'unknown-policy') {
      void this.#explainUnknown(policy, 'error', 'Its requests are answered with status 500');
    } else if (this.#repeats.isDue(policy)) {
      const told = OPTIONS.reduce((text, [call, option]) => text.replace(call, option), error.detail);
      this.#outage.logger.error(`${about(policy, told)}. Its requests are answered with status 500`);
    }
  }

  /** Reports that the server does not take what the app observes. */
  unobserved(error: TidegateError): void {
    if (this.#repeats.isDue('observe')) {
      this.#outage.logger.warn(`the server rejects the option \`observe\`: ${error.message}. No limit follows it`);
    }
  }

  /** Reports that permits of a policy are not renewed. */
  unrenewed(policy: string, why: string): void {
    if (this.#repeats.isDue(`renew ${policy}`)) {
      this.#outage.logger.warn(`a permit of \`${policy}\` is not renewed: ${why}. Others may get its place`);
    }
  }

  /** Reports that a policy was removed from the server while this app uses it. */
  dropped(policy: string, consequence: string): void {
    void this.#explainUnknown(policy, 'warn', `It was removed while this app runs: ${consequence} meanwhile`);
  }

  async #check(): Promise<void> {
    try {
      const known = await this.#load();
      const names = [...this.#unchecked];
      this.#unchecked.clear();
      for (const name of names.filter((name) => !known.includes(name) && this.#repeats.isDue(name))) {
        this.#tell(name, known, 'error', 'Its requests are answered with status 500');
      }
      this.#checkTargets();
    } finally {
      this.#isChecking = false;
    }
  }

  #checkTargets(): void {
    const [asked, followed] = [[...this.#uncheckedTargets], [...this.#targets]];
    this.#uncheckedTargets.clear();
    // A server that names no targets may be an older one.
    const isTold = followed.length > 0 && !followed.includes('all');
    const wrong = asked.filter((target) => isTold && !followed.includes(target));
    for (const target of wrong.filter((target) => this.#repeats.isDue(`observe ${target}`))) {
      const nearest = suggestion(target, followed);
      this.#outage.logger.warn(`no limit follows \`observe: '${target}'\`: ${nearest}. Its reports change nothing`);
    }
  }

  async #explainUnknown(policy: string, level: Level, consequence: string): Promise<void> {
    if (this.#repeats.isDue(level === 'error' ? policy : `${policy}: ${consequence}`)) {
      this.#tell(policy, await this.#load().catch(() => undefined), level, consequence);
    }
  }

  #tell(name: string, known: readonly string[] | undefined, level: Level, consequence: string): void {
    const nearest = known === undefined ? '' : `: ${suggestion(name, known)}`;
    this.#outage.logger[level](`no policy is called \`${name}\`${nearest}. ${consequence}`);
  }
}

/** A text that names its policy. */
function about(policy: string, told: string): string {
  const name = `policy \`${policy}\``;
  const full = told.replace(/^`policy`/, name);
  return full.startsWith(name) ? full : `${name}: ${full}`;
}
