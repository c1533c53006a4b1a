// The plugin for Fastify 5.

import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { object } from './arguments.js';
import { FOR_APPS } from './caller.js';
import type { Tidegate } from './client.js';
import { badInput, TidegateError } from './error.js';
import { checkHabits } from './habits.js';
import { checkRule, clientOf, decide, observeResponse, RULE_NAMES, type Client, type Rule } from './middleware.js';
import { eachRoute, type KnownRoute } from './routes.js';
import { deferredStages, type Limit } from './stages.js';
import { addressWarning } from './user.js';
import { prefixed, processLogger, type Logger } from './warnings.js';

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
  checkHabits('options', options);
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
  client[FOR_APPS]?.inApp(logOf(instance));
  instance.addHook('onReady', async () => {
    const active = routes.filter(({ context }) => isActive(context));
    active.forEach((route) => checkPolicy(route, rule));
    const rules: RouteRule[] = [rule, ...active.map((route) => route.options.config?.rateLimit)];
    const names = rules.map((one) => one && one.policy).filter((policy) => typeof policy === 'string');
    const targets = rules.map((one) => one && one.observe).filter((target) => typeof target === 'string');
    client[FOR_APPS]?.checkAtStart(names, targets, rule.onError as FastifyRateLimitRule['onError']);
  });
};

/** The app's log; undefined if it has none, whose level is then undefined. */
function logOf({ log }: FastifyInstance): Logger | undefined {
  return (log.level as string | undefined) === undefined ? undefined : prefixed(log);
}

/** Limits a request once, however many hooks call it. */
function limiter(
  client: Tidegate, rule: Partial<FastifyRateLimitRule>, isActive: (context: FastifyInstance) => boolean,
): Limit {
  const seen = new WeakSet<FastifyRequest>();
  const warnings = addressWarnings();
  return async (request, reply) => {
    const route = request.routeOptions.config?.rateLimit;
    const applied = { ...rule, ...route, policy: policyOf(rule, route) };
    if (seen.has(request) || route === false || applied.policy === undefined || !isActive(request.server)) {
      return undefined;
    }
    seen.add(request);
    const checked = applied as FastifyRateLimitRule;
    const verdict = await decide(client, checked, request, reply.raw);
    const { headers, refusal, isExempt = false, isByAddress = false } = verdict;
    if (reply.sent) {
      // Another plugin, such as a timeout, has answered in the meantime.
      return reply;
    }
    reply.headers(headers);
    if (isByAddress) {
      warnings(request, reply, refusal !== undefined);
    }
    if (refusal === undefined) {
      if (!isExempt) {
        observeResponse(client, applied.observe, reply.raw);
      }
      return undefined;
    }
    reply.code(refusal.status);
    const body = refusal.decision && await applied.onDenied?.(request, reply, refusal.decision);
    if (!reply.sent) {
      body === undefined ? reply.type('application/json; charset=utf-8').send(refusal.body) : reply.send(body);
    }
    return reply;
  };
}

const REMEDY = 'Authenticate in `onRequest`, or register the rate limit later, with `hook: "preHandler"`';

/** Warns once, when a request that was limited by its address has a user, or seems to have one. */
function addressWarnings(): (request: FastifyRequest, reply: FastifyReply, isRefused: boolean) => void {
  let hasWarned = false;
  return (request, reply, isRefused) => {
    const warn = (): void => {
      const warning = hasWarned ? undefined : addressWarning(request, REMEDY, isRefused);
      if (warning !== undefined) {
        hasWarned = true;
        (logOf(request.server) ?? processLogger).warn(warning);
      }
    };
    if (isRefused) {
      // No hook runs any more that could bring the user.
      warn();
    } else if (!hasWarned) {
      reply.raw.once('finish', warn);
    }
  };
}

type RouteRule = Partial<FastifyRateLimitRule> | false | undefined;

function policyOf(rule: Partial<FastifyRateLimitRule>, route: RouteRule): FastifyRateLimitRule['policy'] | undefined {
  return (route || undefined)?.policy ?? rule.policy;
}

/** Reports an invalid route config when the app starts. */
function checkRoute({ options: { config, url } }: KnownRoute): void {
  const route = config?.rateLimit;
  if (route !== undefined && route !== false) {
    checkRule(`config.rateLimit of ${url}`, route);
  }
}

/** Reports a route that asks for a limit and has none. */
function checkPolicy({ options: { config, method, url } }: KnownRoute, rule: Partial<FastifyRateLimitRule>): void {
  const route = config?.rateLimit;
  if (route && policyOf(rule, route) === undefined) {
    const field = `config.rateLimit of ${[method].flat().join(', ')} ${url}`;
    const here = 'write `config: { rateLimit: { policy: \'NAME\' } }`';
    const there = '`policy: \'NAME\'` where the plugin is registered, for all routes';
    const detail = `\`${field}\` names no policy, nor does the registration: the route would have no limit`;
    throw new TidegateError('bad-input', `${detail}. Either ${here}, or ${there}`, { field });
  }
}

// Applies the plugin to the context that registers it instead of a new one.
Object.assign(rateLimit, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'tidegate',
  [Symbol.for('plugin-meta')]: { name: 'tidegate', fastify: '5.x' },
});

export default rateLimit;
