// The routes of a Fastify app, also those that are added before the plugin is loaded.

import { subscribe } from 'node:diagnostics_channel';
import type { FastifyInstance, RouteOptions } from 'fastify';

export interface KnownRoute {
  readonly context: FastifyInstance;
  /** Fastify reads hooks from it when the app is ready. */
  readonly options: RouteOptions;
}

const ROUTES = Symbol.for('tidegate.routes');
type Watched = FastifyInstance & { readonly [ROUTES]?: KnownRoute[] };

/**
 * Calls `found` for every route of a context and its inner contexts. `app.register(plugin)` without `await` loads the
 * plugin after the routes that follow it, and Fastify tells plugins of later routes only.
 */
export function eachRoute(instance: FastifyInstance, found: (route: KnownRoute) => void): void {
  const earlier = (instance as Watched)[ROUTES] ?? [];
  earlier.filter(({ context }) => context === instance || Object.prototype.isPrototypeOf.call(instance, context))
    .forEach(found);
  instance.addHook('onRoute', function (options) {
    found({ context: this, options });
  });
}

/** Remembers the routes of apps that are created after this module was imported. */
function watch(message: unknown): void {
  const { fastify } = message as { readonly fastify: FastifyInstance };
  const routes: KnownRoute[] = [];
  if (!Object.hasOwn(fastify, ROUTES)) {
    Object.defineProperty(fastify, ROUTES, { value: routes });
    fastify.addHook('onRoute', function (options) {
      routes.push({ context: this, options });
    });
  }
}

subscribe('fastify.initialization', watch);
