// Reports how long an app's responses took, for adaptive limits: in batches, bounded, and never in the way of a request.

import type { ServerResponse } from 'node:http';

/** The server looks once a second: a fraction of that, so that no second is without reports. */
const INTERVAL_MS = 250;
/** The server's limit for one batch. Of more responses in one interval, an even sample is sent. */
export const SAMPLE_MAX = 1000;
/** The server's limit. */
const LATENCY_MS_MAX = 3_600_000;

export interface Observed {
  readonly target: string;
  readonly latency_ms: number;
  readonly ok: boolean;
}

export class Observer {
  readonly #send: (observations: readonly Observed[]) => Promise<void>;
  #sample: Observed[] = [];
  #seen = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `send` must not reject. It is called again only after it is done. */
  constructor(send: (observations: readonly Observed[]) => Promise<void>) {
    this.#send = send;
  }

  note(target: string, latencyMs: number, ok: boolean): void {
    this.#seen += 1;
    const observed = { target, latency_ms: Math.min(latencyMs, LATENCY_MS_MAX), ok };
    const index = this.#sample.length < SAMPLE_MAX ? this.#sample.length : Math.floor(Math.random() * this.#seen);
    if (index < SAMPLE_MAX) {
      this.#sample[index] = observed;
    }
    this.#schedule();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.#flush(), INTERVAL_MS).unref();
  }

  async #flush(): Promise<void> {
    const sample = this.#sample;
    [this.#sample, this.#seen] = [[], 0];
    await this.#send(sample);
    this.#timer = undefined;
    if (this.#sample.length > 0) {
      this.#schedule();
    }
  }
}

/**
 * Calls `done` when the head of the response is written: the time of the body depends on how fast the client reads. If
 * the client leaves before, the time so far counts, or an app would look fast whose clients have lost patience; it is
 * not a failure, or clients could close the limit by leaving. The time of an upgraded connection is not one of a request.
 */
export function measure(response: ServerResponse, done: (latencyMs: number, ok: boolean) => void): void {
  const begin = performance.now();
  const { writeHead } = response;
  let isDone = false;
  const end = (status: number): void => {
    if (!isDone) {
      isDone = true;
      done(performance.now() - begin, status < 500);
    }
  };
  response.writeHead = function (this: ServerResponse, status: number, ...rest: unknown[]) {
    end(status);
    return Reflect.apply(writeHead, this, [status, ...rest]) as ServerResponse;
  } as typeof writeHead;
  response.once('close', () => response.req?.headers.upgrade === undefined && end(0));
}
