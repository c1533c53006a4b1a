// Queues calls until a connection is free. The queue is bounded, each call has a deadline, and waiting checks share a batch.

import { Circuit } from './circuit.js';
import { TidegateError } from './error.js';
import type { Settings } from './options.js';
import { Timer, timedOut } from './timers.js';
import { Transport, type Reply } from './transport.js';
import type { CallOptions } from './types.js';
import * as wire from './wire.js';

/** The server's limit for one batch. */
export const BATCH_MAX = 1000;
/** The server reads 1 MiB, including commas and brackets. */
export const BATCH_BYTES_MAX = 1_000_000;
/**
 * Connections for batched checks. With 32 concurrent checks this gives five times the checks per second of one request
 * each, at a fifth of the latency: a request costs Node 0.2 ms.
 */
const SHARED_CALLS_MAX = 4;

export interface Call<T> {
  readonly path: string;
  /** Without one, it is a GET. */
  readonly body?: string;
  readonly decode: (json: unknown, reply?: Reply) => T;
  /** Checks of the same shape may share a batch: the server rejects all of them or none. */
  readonly shape?: string;
  /** Whether to return the rate limit headers. */
  readonly headers?: boolean;
  /** Whether the server may safely process it twice. */
  readonly repeatable: boolean;
  /** Receives a reply after the caller has left. */
  onLate?(value: T): void;
}

interface Job extends Call<unknown> {
  readonly since: number;
  readonly timeoutMs: number;
  readonly settle: (outcome: { value: unknown } | { error: unknown }) => void;
  settled: boolean;
}

export class Dispatcher {
  readonly #settings: Settings;
  readonly #transport: Transport;
  readonly #circuit = new Circuit();
  /** In order of arrival. A job that times out or is aborted is removed at once. */
  readonly #single = new Set<Job>();
  readonly #batched = new Set<Job>();
  #calls = 0;
  #sharedCalls = 0;
  #lastFailure: TidegateError | undefined;
  #closing: Promise<void> | undefined;
  #drained: () => void = () => {};

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#transport = new Transport(settings);
  }

  async send<T>(call: Call<T>, { signal, timeoutMs = this.#settings.timeoutMs }: CallOptions): Promise<T> {
    signal?.throwIfAborted();
    if (this.#closing !== undefined) {
      throw new TidegateError('closed', 'the client is closed');
    }
    if (this.#circuit.open) {
      throw this.#circuitOpen();
    }
    const waiting = this.#single.size + this.#batched.size;
    if (waiting >= this.#settings.maxWaiting && !this.#hasRoomFor(call)) {
      throw new TidegateError('overloaded', `${waiting} calls are already waiting`, { transient: true });
    }
    return await this.#enqueue(call, timeoutMs, signal) as T;
  }

  /** Rejects new calls, and waits for pending ones. */
  close(): Promise<void> {
    this.#closing ??= new Promise<void>((resolve) => {
      this.#drained = resolve;
      this.#sendNext();
    }).then(() => this.#transport.close());
    return this.#closing;
  }

  #enqueue(call: Call<unknown>, timeoutMs: number, signal?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const job: Job = {
        ...call,
        settled: false,
        timeoutMs,
        since: performance.now(),
        settle: (outcome) => {
          job.settled = true;
          timer.cancel();
          signal?.removeEventListener('abort', abort);
          this.#single.delete(job);
          this.#batched.delete(job);
          'error' in outcome ? reject(outcome.error) : resolve(outcome.value);
        },
      };
      const abort = (): void => job.settle({ error: signal?.reason });
      const timer = new Timer(timeoutMs, () => job.settle({ error: timedOut(timeoutMs) }));
      signal?.addEventListener('abort', abort, { once: true });
      (this.#isBatched(call) ? this.#batched : this.#single).add(job);
      this.#sendNext();
    });
  }

  #isBatched({ shape }: Call<unknown>): boolean {
    return shape !== undefined && this.#settings.batch;
  }

  /** Whether the call can be sent at once. */
  #hasRoomFor(call: Call<unknown>): boolean {
    const shared = this.#isBatched(call) ? this.#sharedCalls : 0;
    return this.#calls < this.#settings.maxSockets && shared < SHARED_CALLS_MAX;
  }

  #sendNext(): void {
    while (this.#calls < this.#settings.maxSockets) {
      const single = first(this.#single);
      const shared = this.#sharedCalls < SHARED_CALLS_MAX ? first(this.#batched) : undefined;
      if (single === undefined && shared === undefined) {
        break;
      }
      // The oldest job goes first, so neither queue starves the other.
      if (shared === undefined || (single !== undefined && single.since <= shared.since)) {
        this.#single.delete(single as Job);
        this.#begin([single as Job], 0);
      } else {
        this.#begin(this.#takeBatch(), 1);
      }
    }
    if (this.#calls === 0) {
      this.#drained();
    }
  }

  #begin(jobs: Job[], shared: 0 | 1): void {
    this.#calls += 1;
    this.#sharedCalls += shared;
    void this.#post(jobs).finally(() => {
      this.#calls -= 1;
      this.#sharedCalls -= shared;
      this.#sendNext();
    });
  }

  /** The oldest job and those of the same shape, as many as fit into one batch. */
  #takeBatch(): Job[] {
    const jobs: Job[] = [];
    const shape = first(this.#batched)?.shape;
    let bytes = 0;
    for (const job of this.#batched) {
      if (job.shape !== shape) {
        continue;
      }
      bytes += Buffer.byteLength(job.body ?? '') + 1;
      if (jobs.length === BATCH_MAX || (jobs.length > 0 && bytes > BATCH_BYTES_MAX)) {
        break;
      }
      this.#batched.delete(job);
      jobs.push(job);
    }
    return jobs;
  }

  async #post(jobs: Job[]): Promise<void> {
    if (!this.#circuit.enter()) {
      settleAll(jobs, this.#circuitOpen());
      return;
    }
    // Each job has its own timer. The request is aborted at the last deadline.
    const begin = performance.now();
    const deadline = Math.max(...jobs.map((job) => job.since + job.timeoutMs));
    const leftMs = Math.max(1, Math.ceil(deadline - begin));
    const isLate = leftMs < Math.max(...jobs.map((job) => job.timeoutMs)) / 2;
    try {
      const values = await this.#replies(jobs, leftMs);
      this.#circuit.succeeded();
      jobs.forEach((job, index) => {
        job.settled ? job.onLate?.(values[index]) : job.settle({ value: values[index] });
      });
    } catch (error) {
      this.#recordFailure(error as TidegateError, isLate, performance.now() - begin);
      if (jobs.length > 1 && isRejected(error)) {
        this.#sendEach(jobs);
      } else {
        settleAll(jobs, error);
      }
    }
  }

  async #replies(jobs: Job[], timeoutMs: number): Promise<unknown[]> {
    const [job] = jobs as [Job];
    const { path, body, repeatable } = job;
    if (jobs.length === 1) {
      const reply = await this.#transport.send({ path, body, timeoutMs, repeatable });
      return [job.decode(wire.body(reply), reply)];
    }
    const headers = jobs.some((job) => job.headers) ? '"headers":true,' : '';
    const all = `{${headers}"checks":[${jobs.map((job) => job.body).join(',')}]}`;
    const reply = await this.#transport.send({ path: '/v1/check/batch', body: all, timeoutMs, repeatable });
    return wire.decisions(wire.body(reply), jobs.length).map((json, index) => jobs[index]?.decode(json));
  }

  #recordFailure(error: TidegateError, isLate: boolean, tookMs: number): void {
    if (error.code === 'timeout' && isLate) {
      // The call was sent with little time left: the timeout says nothing about the server.
      this.#circuit.undecided();
    } else if (isRejected(error) || error.code === 'store-unavailable') {
      // A server that rejects a call is up, and so is one whose store fails.
      this.#circuit.succeeded();
    } else {
      this.#circuit.failed(tookMs);
      this.#lastFailure = error;
    }
  }

  #circuitOpen(): TidegateError {
    const why = this.#lastFailure?.message;
    const detail = `the server failed several times in a row: no calls for up to a second. The last failure was ${why}`;
    return new TidegateError('circuit-open', detail, { transient: true, cause: this.#lastFailure });
  }

  /** Sends each job of a rejected batch alone, so that only invalid ones fail. Nothing was charged. */
  #sendEach(jobs: Job[]): void {
    for (const job of jobs.filter(({ settled }) => !settled)) {
      this.#single.add(job);
    }
  }
}

function first(jobs: Set<Job>): Job | undefined {
  return jobs.values().next().value;
}

function isRejected(error: unknown): boolean {
  return error instanceof TidegateError && !error.transient;
}

function settleAll(jobs: Job[], error: unknown): void {
  for (const job of jobs) {
    job.settle({ error });
  }
}
