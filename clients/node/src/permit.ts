// Holds a place of a concurrency limit for a request, as long as the app works on it.

import type { ServerResponse } from 'node:http';
import type { Tidegate } from './client.js';
import type { CheckOptions, Key, Permit } from './types.js';

/** An app may never answer a request whose client has left: its place is held for no longer than this. */
const ABANDONED_MS_MAX = 60_000;

/** Asks for a permit and returns the decision. The permit is renewed and held until `ended`. */
export function heldUntil(
  ended: Promise<void>, client: Tidegate, policy: string, key: Key, options: CheckOptions,
): Promise<Permit> {
  return new Promise((resolve, reject) => {
    const work = (permit: Permit): Promise<void> => {
      resolve(permit);
      return ended;
    };
    // A second `resolve` does nothing.
    client.withPermit(policy, key, work, options).then(({ decision }) => resolve(decision), reject);
  });
}

/**
 * When the app is done with a request: its response has ended, or its client has left during the response. An app goes
 * on with a request whose client has left before: until it answers all the same.
 */
export function responseEnded(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const closed = (): void => response.headersSent ? resolve() : whenAnswered(response, resolve);
    // Over HTTP/2 only the stream knows.
    const { stream } = response as { stream?: Pick<ServerResponse, 'destroyed'> };
    const isGone = response.destroyed ?? stream?.destroyed;
    isGone ? closed() : response.once('close', closed);
  });
}

/** No event tells of the answer to a client that has left. */
function whenAnswered(response: ServerResponse, done: () => void): void {
  const { end } = response;
  const timer = setTimeout(done, ABANDONED_MS_MAX).unref();
  response.end = function (this: ServerResponse, ...args: unknown[]) {
    clearTimeout(timer);
    done();
    return Reflect.apply(end, this, args) as ServerResponse;
  } as typeof end;
}
