// The plugin for Fastify 5.

import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { object } from './arguments.js';
import type { Tidegate } from './client.js';
import { badInput } from './error.js';
import { checkRule, clientOf, decide, RULE_NAMES, type Client, type Rule } from './middleware.js';
import { checkPolicyNames } from './names.js';
import { eachRoute, type KnownRoute } from './routes.js';
import { deferredStages, type Limit } from './stages.js';
import { addressWarning } from './user.js';
import { logTo } from './warnings.js';

export type FastifyRateLimitRule = Rule<FastifyRequest, FastifyReply>;

export type FastifyRateLimitOptions = Partial<FastifyRateLimitRule> & {
  /** A client or its options. */
  readonly client?: Client | undefined;
  /**
   * When to check. By default as soon as the user is known; in an app without users, at once. `onRequest` checks at
   * once, `preHandler` after the body was read.
   */
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
  const { client: given, hook, ...others } = options;
  const rule = Object.fromEntries(Object.entries(others).filter(([name]) => RULE_NAMES.includes(name)));
  checkRule('options', rule);
  if (hook !== undefined && hook !== 'onRequest' && hook !== 'preHandler') {
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
  const routes: KnownRoute[] = [];
  const isActive = (context: FastifyInstance): boolean => (context as Marked)[ACTIVE_RULE] === rule;
  const limit = limiter(client, rule, isActive);
  if (hook !== undefined) {
    instance.addHook(hook, limit);
  }
  const defer = hook === undefined ? deferredStages(instance, limit) : () => {};
  eachRoute(instance, (route) => {
    checkRoute(route);
    routes.push(route);
    defer(route);
  });
  instance.addHook('onReady', async () => {
    const active = routes.filter(({ context }) => isActive(context));
    const policies = [rule, ...active.map((route) => route.options.config?.rateLimit)].map((one) => one && one.policy);
    const names = policies.filter((policy) => typeof policy === 'string');
    checkPolicyNames(client, names, logTo(instance.log, 'error'));
  });
};

/** Limits a request once, however many hooks call it. */
function limiter(
  client: Tidegate, rule: Partial<FastifyRateLimitRule>, isActive: (context: FastifyInstance) => boolean,
): Limit {
  const seen = new WeakSet<FastifyRequest>();
  const warnings = addressWarnings();
  return async (request, reply) => {
    const route = request.routeOptions.config?.rateLimit;
    const applied = { ...rule, ...route };
    if (seen.has(request) || route === false || applied.policy === undefined || !isActive(request.server)) {
      return undefined;
    }
    seen.add(request);
    const { headers, refusal, isByAddress = false } = await decide(client, applied as FastifyRateLimitRule, request);
    if (reply.sent) {
      // Another plugin, such as a timeout, has answered in the meantime.
      return reply;
    }
    reply.headers(headers);
    if (refusal === undefined) {
      warnings(request, reply, isByAddress);
      return undefined;
    }
    reply.code(refusal.status);
    const body = await applied.onDenied?.(request, reply, refusal.decision);
    if (!reply.sent) {
      body === undefined ? reply.type('application/json; charset=utf-8').send(refusal.body) : reply.send(body);
    }
    return reply;
  };
}

const REMEDY = 'Authenticate in `onRequest`, or register the rate limit later, with `hook: "preHandler"`';

/** Warns once, when a request that was limited by its address turns out to have a user. */
function addressWarnings(): (request: FastifyRequest, reply: FastifyReply, isByAddress: boolean) => void {
  let hasWarned = false;
  return (request, reply, isByAddress) => {
    if (!isByAddress || hasWarned) {
      return;
    }
    reply.raw.once('finish', () => {
      const warning = hasWarned ? undefined : addressWarning(request, REMEDY);
      if (warning !== undefined) {
        hasWarned = true;
        logTo(request.server.log, 'warn')(warning);
      }
    });
  };
}

/** Reports an invalid route config when the app starts. */
function checkRoute({ options: { config, url } }: KnownRoute): void {
  const route = config?.rateLimit;
  if (route !== undefined && route !== false) {
    checkRule(`config.rateLimit of ${url}`, route);
  }
}

// Applies the plugin to the context that registers it instead of a new one.
Object.assign(rateLimit, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tidegate',
  [Symbol.for('plugin-meta')]: { name: 'tidegate', fastify: '5.x' },
});

export default rateLimit;
