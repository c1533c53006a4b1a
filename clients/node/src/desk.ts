// Where questions wait for a connection: bounded, each with its own deadline, and checks that wait go together.

import { Circuit } from './circuit.js';
import { TidegateError } from './error.js';
import type { Settings } from './options.js';
import { Transport, type Answer } from './transport.js';
import type { CallOptions } from './types.js';
import * as wire from './wire.js';

/** What the server takes in one batch. */
export const BATCH_MAX = 1000;
/** The server reads 1 MiB; commas and brackets need some of it. */
export const BATCH_BYTES_MAX = 1_000_000;

export interface Question<T> {
  readonly path: string;
  readonly body: string;
  readonly decode: (json: unknown, answer?: Answer) => T;
  /** A check that may be sent with others. */
  readonly shareable?: boolean;
  /** Whether it does no harm if the server does it twice. */
  readonly repeatable: boolean;
}

interface Job extends Question<unknown> {
  readonly deadline: number;
  readonly settle: (outcome: { value: unknown } | { error: unknown }) => void;
  /** A batch with it was refused: it has to go alone, and be told so itself if it is to blame. */
  alone: boolean;
  settled: boolean;
}

export class Desk {
  readonly #settings: Settings;
  readonly #transport: Transport;
  readonly #circuit = new Circuit();
  /** In the order they came; whoever gives up leaves it at once. */
  readonly #waiting = new Set<Job>();
  #busy = 0;
  #closing: Promise<void> | undefined;
  #drained: () => void = () => {};

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#transport = new Transport(settings);
  }

  async ask<T>(question: Question<T>, { signal, timeoutMs = this.#settings.timeoutMs }: CallOptions): Promise<T> {
    signal?.throwIfAborted();
    if (this.#closing !== undefined) {
      throw new TidegateError('closed', 'this client was closed');
    }
    if (this.#circuit.open) {
      throw circuitOpen();
    }
    if (this.#waiting.size >= this.#settings.maxWaiting && this.#busy >= this.#settings.maxSockets) {
      throw new TidegateError('overloaded', `${this.#waiting.size} calls are waiting already`, { transient: true });
    }
    return await this.#enqueue(question, timeoutMs, signal) as T;
  }

  /** Takes no more questions, and waits for those that are under way. */
  close(): Promise<void> {
    this.#closing ??= new Promise<void>((resolve) => {
      this.#drained = resolve;
      this.#sendNext();
    }).then(() => this.#transport.close());
    return this.#closing;
  }

  #enqueue(question: Question<unknown>, timeoutMs: number, signal?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const job: Job = {
        ...question,
        alone: !(question.shareable && this.#settings.batch),
        settled: false,
        deadline: performance.now() + timeoutMs,
        settle: (outcome) => {
          job.settled = true;
          clearTimeout(timer);
          signal?.removeEventListener('abort', leave);
          this.#waiting.delete(job);
          'error' in outcome ? reject(outcome.error) : resolve(outcome.value);
        },
      };
      const leave = (): void => job.settle({ error: signal?.reason });
      const timer = setTimeout(() => job.settle({ error: timedOut(timeoutMs) }), timeoutMs);
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.add(job);
      this.#sendNext();
    });
  }

  #sendNext(): void {
    while (this.#busy < this.#settings.maxSockets && this.#waiting.size > 0) {
      const jobs = this.#take();
      this.#busy += 1;
      void this.#send(jobs).finally(() => {
        this.#busy -= 1;
        this.#sendNext();
      });
    }
    if (this.#busy === 0) {
      this.#drained();
    }
  }

  /** The one who waits longest, and if that is a check, the checks behind it. */
  #take(): Job[] {
    const jobs: Job[] = [];
    let bytes = 0;
    for (const job of this.#waiting) {
      bytes += Buffer.byteLength(job.body) + 1;
      if (jobs.length > 0 && (job.alone || jobs.length === BATCH_MAX || bytes > BATCH_BYTES_MAX)) {
        break;
      }
      this.#waiting.delete(job);
      jobs.push(job);
      if (job.alone) {
        break;
      }
    }
    return jobs;
  }

  async #send(jobs: Job[]): Promise<void> {
    if (!this.#circuit.enter()) {
      settleAll(jobs, circuitOpen());
      return;
    }
    try {
      const values = await this.#answers(jobs);
      this.#circuit.succeeded();
      jobs.forEach((job, index) => job.settle({ value: values[index] }));
    } catch (error) {
      this.#note(error);
      if (jobs.length > 1 && isTheirFault(error)) {
        this.#sendEachAlone(jobs);
      } else {
        settleAll(jobs, error);
      }
    }
  }

  async #answers(jobs: Job[]): Promise<unknown[]> {
    const [first] = jobs as [Job];
    const alone = jobs.length === 1;
    const answer = await this.#transport.post({
      path: alone ? first.path : '/v1/check/batch',
      body: alone ? first.body : `{"checks":[${jobs.map((job) => job.body).join(',')}]}`,
      // Each has a timer of its own: the connection is given up when the last of them has run out.
      timeoutMs: Math.max(1, Math.ceil(Math.max(...jobs.map((job) => job.deadline)) - performance.now())),
      repeatable: first.repeatable,
    });
    const json = wire.body(answer);
    return alone
      ? [first.decode(json, answer)]
      : wire.decisions(json, jobs.length).map((decision, index) => jobs[index]?.decode(decision));
  }

  /** A server that refuses to answer is there; so is one whose store is not. */
  #note(error: unknown): void {
    if (isTheirFault(error) || (error instanceof TidegateError && error.code === 'store-unavailable')) {
      this.#circuit.succeeded();
    } else {
      this.#circuit.failed();
    }
  }

  /** Nothing was charged, and only one of them may be to blame. Each is sent twice at most. */
  #sendEachAlone(jobs: Job[]): void {
    for (const job of jobs.filter(({ settled }) => !settled)) {
      job.alone = true;
      this.#waiting.add(job);
    }
  }
}

function isTheirFault(error: unknown): boolean {
  return error instanceof TidegateError && !error.transient;
}

function settleAll(jobs: Job[], error: unknown): void {
  for (const job of jobs) {
    job.settle({ error });
  }
}

function circuitOpen(): TidegateError {
  const detail = 'the server did not answer several times in a row, and is left alone for a second';
  return new TidegateError('circuit-open', detail, { transient: true });
}

function timedOut(timeoutMs: number): TidegateError {
  return new TidegateError('timeout', `no answer within ${timeoutMs} ms`, { transient: true });
}
