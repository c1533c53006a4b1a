// The plugin for Fastify 5.

import type {
  FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest, onRequestAsyncHookHandler,
} from 'fastify';
import { object } from './arguments.js';
import { badInput } from './error.js';
import { checkRule, clientOf, decide, RULE_NAMES, type Client, type Rule } from './middleware.js';

export type FastifyRateLimitRule = Rule<FastifyRequest, FastifyReply>;

export type FastifyRateLimitOptions = Partial<FastifyRateLimitRule> & {
  /** A client or its options. */
  readonly client?: Client | undefined;
  /** When to check; default `onRequest`. `preHandler` runs after the body was read. */
  readonly hook?: 'onRequest' | 'preHandler' | undefined;
};

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Options that differ for this route, or false for no limit. */
    rateLimit?: Partial<FastifyRateLimitRule> | false;
  }
}

/** Marks the registration that applies: inner contexts inherit it, and may replace it. */
const ACTIVE_RULE = Symbol.for('tidegate.active-rule');
type Marked = FastifyInstance & { [ACTIVE_RULE]?: object };

/**
 * Limits all routes of the context that registers it, and of its inner contexts. An inner registration replaces the
 * outer one. Without a `policy`, only routes with one in their `config.rateLimit` are limited.
 */
export const rateLimit: FastifyPluginAsync<FastifyRateLimitOptions> = async (instance, options) => {
  object('options', options, [...RULE_NAMES, 'client', 'hook', 'prefix', 'logLevel', 'logSerializers']);
  const { client: given, hook = 'onRequest', ...others } = options;
  const rule = Object.fromEntries(Object.entries(others).filter(([name]) => RULE_NAMES.includes(name)));
  checkRule('options', rule);
  if (hook !== 'onRequest' && hook !== 'preHandler') {
    throw badInput('options.hook', "'onRequest' or 'preHandler'", hook);
  }
  if (Object.hasOwn(instance, ACTIVE_RULE)) {
    throw badInput('rateLimit', 'one registration per context', 'a second one');
  }
  Object.defineProperty(instance, ACTIVE_RULE, { value: rule });

  const { client, isOwned } = clientOf(given);
  if (isOwned) {
    instance.addHook('onClose', () => client.close());
  }
  instance.addHook('onRoute', ({ config, url }) => checkRoute(url, config?.rateLimit));

  const limit: onRequestAsyncHookHandler = async (request, reply) => {
    const route = request.routeOptions.config?.rateLimit;
    const applied = { ...rule, ...route };
    if (route === false || applied.policy === undefined || (request.server as Marked)[ACTIVE_RULE] !== rule) {
      return;
    }
    const { headers, refusal } = await decide(client, applied as FastifyRateLimitRule, request);
    if (reply.sent) {
      // Another plugin, such as a timeout, has answered in the meantime.
      return reply;
    }
    reply.headers(headers);
    if (refusal === undefined) {
      return;
    }
    reply.code(refusal.status);
    const body = await applied.onDenied?.(request, reply, refusal.decision);
    if (!reply.sent) {
      reply.send(body ?? refusal.body);
    }
    return reply;
  };
  instance.addHook(hook, limit);
};

/** Reports an invalid route config when the route is added. */
function checkRoute(url: string, route: unknown): void {
  if (route !== undefined && route !== false) {
    checkRule(`config.rateLimit of ${url}`, route as object);
  }
}

// Applies the plugin to the context that registers it instead of a new one.
Object.assign(rateLimit, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tidegate',
  [Symbol.for('plugin-meta')]: { name: 'tidegate', fastify: '5.x' },
});

export default rateLimit;
