// Where questions wait for a connection: bounded, each with its own deadline, and checks that wait go together.

import { Circuit } from './circuit.js';
import { TidegateError } from './error.js';
import type { Settings } from './options.js';
import { Timer, timedOut } from './timer.js';
import { Transport, type Answer } from './transport.js';
import type { CallOptions } from './types.js';
import * as wire from './wire.js';

/** What the server takes in one batch. */
export const BATCH_MAX = 1000;
/** The server reads 1 MiB; commas and brackets need some of it. */
export const BATCH_BYTES_MAX = 1_000_000;
/**
 * Checks have so many connections at once, and wait for one of them to go together. With 32 at a time that is five
 * times the checks per second of a connection for each, at a fifth of the delay: a request costs Node 0.2 ms.
 */
const SHARED_CALLS_MAX = 4;

export interface Question<T> {
  readonly path: string;
  readonly body: string;
  readonly decode: (json: unknown, answer?: Answer) => T;
  /** A check that may be sent with others of its shape: the server dislikes all of them, or none. */
  readonly shape?: string;
  /** Whether the rate limit headers are wanted, too. */
  readonly headers?: boolean;
  /** Whether it does no harm if the server does it twice. */
  readonly repeatable: boolean;
  /** Takes an answer that nobody waits for any more. */
  late?(value: T): void;
}

interface Job extends Question<unknown> {
  readonly since: number;
  readonly timeoutMs: number;
  readonly settle: (outcome: { value: unknown } | { error: unknown }) => void;
  settled: boolean;
}

export class Desk {
  readonly #settings: Settings;
  readonly #transport: Transport;
  readonly #circuit = new Circuit();
  /** In the order they came; whoever gives up leaves at once. */
  readonly #alone = new Set<Job>();
  readonly #together = new Set<Job>();
  #calls = 0;
  #sharedCalls = 0;
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
    const waiting = this.#alone.size + this.#together.size;
    if (waiting >= this.#settings.maxWaiting && !this.#hasRoomFor(question)) {
      throw new TidegateError('overloaded', `${waiting} calls are waiting already`, { transient: true });
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
        settled: false,
        timeoutMs,
        since: performance.now(),
        settle: (outcome) => {
          job.settled = true;
          timer.cancel();
          signal?.removeEventListener('abort', leave);
          this.#alone.delete(job);
          this.#together.delete(job);
          'error' in outcome ? reject(outcome.error) : resolve(outcome.value);
        },
      };
      const leave = (): void => job.settle({ error: signal?.reason });
      const timer = new Timer(timeoutMs, () => job.settle({ error: timedOut(timeoutMs) }));
      signal?.addEventListener('abort', leave, { once: true });
      (this.#goesTogether(question) ? this.#together : this.#alone).add(job);
      this.#sendNext();
    });
  }

  #goesTogether({ shape }: Question<unknown>): boolean {
    return shape !== undefined && this.#settings.batch;
  }

  /** Whether it would not have to wait. */
  #hasRoomFor(question: Question<unknown>): boolean {
    const shared = this.#goesTogether(question) ? this.#sharedCalls : 0;
    return this.#calls < this.#settings.maxSockets && shared < SHARED_CALLS_MAX;
  }

  #sendNext(): void {
    while (this.#calls < this.#settings.maxSockets) {
      const alone = first(this.#alone);
      const shared = this.#sharedCalls < SHARED_CALLS_MAX ? first(this.#together) : undefined;
      if (alone === undefined && shared === undefined) {
        break;
      }
      // Whoever has waited longest: neither kind keeps the other from its turn.
      if (shared === undefined || (alone !== undefined && alone.since <= shared.since)) {
        this.#alone.delete(alone as Job);
        this.#begin([alone as Job], 0);
      } else {
        this.#begin(this.#takeTogether(), 1);
      }
    }
    if (this.#calls === 0) {
      this.#drained();
    }
  }

  #begin(jobs: Job[], shared: 0 | 1): void {
    this.#calls += 1;
    this.#sharedCalls += shared;
    void this.#send(jobs).finally(() => {
      this.#calls -= 1;
      this.#sharedCalls -= shared;
      this.#sendNext();
    });
  }

  /** As many of those that wait as fit into one call, and are of the shape of who has waited longest. */
  #takeTogether(): Job[] {
    const jobs: Job[] = [];
    const shape = first(this.#together)?.shape;
    let bytes = 0;
    for (const job of this.#together) {
      if (job.shape !== shape) {
        continue;
      }
      bytes += Buffer.byteLength(job.body) + 1;
      if (jobs.length === BATCH_MAX || (jobs.length > 0 && bytes > BATCH_BYTES_MAX)) {
        break;
      }
      this.#together.delete(job);
      jobs.push(job);
    }
    return jobs;
  }

  async #send(jobs: Job[]): Promise<void> {
    if (!this.#circuit.enter()) {
      settleAll(jobs, circuitOpen());
      return;
    }
    // Each has a timer of its own: the connection is given up when the last of them has run out.
    const begin = performance.now();
    const deadline = Math.max(...jobs.map((job) => job.since + job.timeoutMs));
    const leftMs = Math.max(1, Math.ceil(deadline - begin));
    const waitedLong = leftMs < Math.max(...jobs.map((job) => job.timeoutMs)) / 2;
    try {
      const values = await this.#answers(jobs, leftMs);
      this.#circuit.succeeded();
      jobs.forEach((job, index) => {
        job.settled ? job.late?.(values[index]) : job.settle({ value: values[index] });
      });
    } catch (error) {
      this.#note(error as TidegateError, waitedLong, performance.now() - begin);
      if (jobs.length > 1 && isTheirFault(error)) {
        this.#sendEachAlone(jobs);
      } else {
        settleAll(jobs, error);
      }
    }
  }

  async #answers(jobs: Job[], timeoutMs: number): Promise<unknown[]> {
    const [job] = jobs as [Job];
    const { path, body, repeatable } = job;
    if (jobs.length === 1) {
      const answer = await this.#transport.post({ path, body, timeoutMs, repeatable });
      return [job.decode(wire.body(answer), answer)];
    }
    const headers = jobs.some((job) => job.headers) ? '"headers":true,' : '';
    const all = `{${headers}"checks":[${jobs.map((job) => job.body).join(',')}]}`;
    const answer = await this.#transport.post({ path: '/v1/check/batch', body: all, timeoutMs, repeatable });
    return wire.decisions(wire.body(answer), jobs.length).map((json, index) => jobs[index]?.decode(json));
  }

  #note(error: TidegateError, waitedLong: boolean, tookMs: number): void {
    if (error.code === 'timeout' && waitedLong) {
      // It had little time left when it was sent: that is our own rush, and says nothing of the server.
      this.#circuit.undecided();
    } else if (isTheirFault(error) || error.code === 'store-unavailable') {
      // A server that refuses to answer is there; so is one whose store is not.
      this.#circuit.succeeded();
    } else {
      this.#circuit.failed(tookMs);
    }
  }

  /** Nothing was charged, and each is told what is wrong with it alone. Each is sent twice at most. */
  #sendEachAlone(jobs: Job[]): void {
    for (const job of jobs.filter(({ settled }) => !settled)) {
      this.#alone.add(job);
    }
  }
}

function first(jobs: Set<Job>): Job | undefined {
  return jobs.values().next().value;
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
  const detail = 'the server did not answer several times in a row, and is left alone for up to a second';
  return new TidegateError('circuit-open', detail, { transient: true });
}
