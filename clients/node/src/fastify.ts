// The plugin for Fastify 5.

import type {
  FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest, onRequestAsyncHookHandler,
} from 'fastify';
import { object } from './arguments.js';
import { badInput } from './error.js';
import { checkRule, clientOf, judge, RULE_NAMES, type Client, type Rule } from './middleware.js';

export type FastifyRateLimitRule = Rule<FastifyRequest, FastifyReply>;

export type FastifyRateLimitOptions = Partial<FastifyRateLimitRule> & {
  /** A client, or its options. */
  readonly client?: Client | undefined;
  /** When to ask; `onRequest` unless given. `preHandler` is after the body was read. */
  readonly hook?: 'onRequest' | 'preHandler' | undefined;
};

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What is different for this route, or false: not limited. */
    rateLimit?: Partial<FastifyRateLimitRule> | false;
  }
}

/** Which registration is in force: instances of inner contexts inherit it, and an inner one hides the outer. */
const IN_FORCE = Symbol.for('tidegate.in-force');
type Marked = FastifyInstance & { [IN_FORCE]?: object };

/**
 * Limits all routes of the context that it is registered in, and of those inside. Registered again further in, it
 * replaces what was registered outside. Without a `policy` only routes with one in their `config.rateLimit` are.
 */
export const rateLimit: FastifyPluginAsync<FastifyRateLimitOptions> = async (instance, options) => {
  object('options', options, [...RULE_NAMES, 'client', 'hook', 'prefix', 'logLevel', 'logSerializers']);
  const { client: given, hook = 'onRequest', ...others } = options;
  const rule = Object.fromEntries(Object.entries(others).filter(([name]) => RULE_NAMES.includes(name)));
  checkRule('options', rule);
  if (hook !== 'onRequest' && hook !== 'preHandler') {
    throw badInput('options.hook', "'onRequest' or 'preHandler'", hook);
  }
  if (Object.hasOwn(instance, IN_FORCE)) {
    throw badInput('rateLimit', 'one registration in a context', 'a second one');
  }
  Object.defineProperty(instance, IN_FORCE, { value: rule });

  const { client, ours } = clientOf(given);
  if (ours) {
    instance.addHook('onClose', () => client.close());
  }
  instance.addHook('onRoute', ({ config, url }) => checkRoute(url, config?.rateLimit));

  const limit: onRequestAsyncHookHandler = async (request, reply) => {
    const route = request.routeOptions.config?.rateLimit;
    const applied = { ...rule, ...route };
    if (route === false || applied.policy === undefined || (request.server as Marked)[IN_FORCE] !== rule) {
      return;
    }
    const { headers, refusal } = await judge(client, applied as FastifyRateLimitRule, request);
    if (reply.sent) {
      // Somebody else has answered meanwhile, as those do who limit the time.
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

/** A mistake in a route's config is told when the route is made. */
function checkRoute(url: string, route: unknown): void {
  if (route !== undefined && route !== false) {
    checkRule(`config.rateLimit of ${url}`, route as object);
  }
}

// What Fastify looks for: it is for the context that registers it, not for one of its own.
Object.assign(rateLimit, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tidegate',
  [Symbol.for('plugin-meta')]: { name: 'tidegate', fastify: '5.x' },
});

export default rateLimit;
