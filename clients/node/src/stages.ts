// When a request is checked in Fastify: as soon as its user is known, or when no hook can bring one any more.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { KnownRoute } from './routes.js';
import { userKey } from './user.js';

export type Limit = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;

/**
 * Adds the hooks that call `limit`, which ignores all calls for a request but the first:
 *
 * 1. `onRequest`, before all else, if the user is known, or the app has no users. `@fastify/jwt`, `@fastify/passport`
 *    and others add a property `user` to every request.
 * 2. `preParsing`, after the `onRequest` hooks of the app and of the route, and before the body is read.
 * 3. After the last `preHandler` of the route, if the route has hooks of its own that may bring the user.
 *
 * The result adds the last to a route.
 */
export function deferredStages(instance: FastifyInstance, limit: Limit): (route: KnownRoute) => void {
  const expectsUser = new WeakSet<FastifyRequest>();
  const hasCors = (): boolean => instance.hasPlugin('@fastify/cors');
  const hadCors = hasCors();
  // A page could not read a refusal that is sent before the headers of @fastify/cors are set.
  let isBeforeCors = false;
  instance.addHook('onReady', async () => {
    isBeforeCors = !hadCors && hasCors();
  });

  instance.addHook('onRequest', async (request, reply) =>
    !isBeforeCors && (!('user' in request) || isKnown(request)) ? limit(request, reply) : undefined);
  instance.addHook('preParsing', async (request, reply) =>
    expectsUser.has(request) && !isKnown(request) ? undefined : limit(request, reply) as Promise<undefined>);

  return ({ options }) => {
    if (!['preParsing', 'preValidation', 'preHandler'].some((hook) => hook in options)) {
      return;
    }
    const mark = async (request: FastifyRequest): Promise<void> => {
      expectsUser.add(request);
    };
    options.onRequest = [...list(options.onRequest), mark];
    options.preHandler = [...list(options.preHandler), limit];
  };
}

function isKnown(request: FastifyRequest): boolean {
  return userKey(request) !== undefined;
}

function list<T>(hooks: T | T[] | undefined): T[] {
  return hooks === undefined ? [] : [hooks].flat() as T[];
}
