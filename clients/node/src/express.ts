// The middleware for Express 5.

import type { Request, RequestHandler, Response } from 'express';
import { object } from './arguments.js';
import { FOR_APPS } from './caller.js';
import { badInput } from './error.js';
import { checkHabits } from './habits.js';
import { checkRule, clientOf, decide, observeResponse, RULE_NAMES, type Client, type Rule } from './middleware.js';
import { addressWarning } from './user.js';
import { checkLogger, prefixed, processLogger, type Logger } from './warnings.js';

export type ExpressRateLimitOptions = Rule<Request, Response> & {
  /** A client or its options. */
  readonly client?: Client | undefined;
  /** Where outages and misuse are reported, e.g. `console`; default: process warnings. */
  readonly logger?: Logger | undefined;
};

/** Limits the requests that pass through it. A route can have its own. */
export function rateLimit(options: ExpressRateLimitOptions): RequestHandler {
  checkHabits('options', options);
  object('options', options, [...RULE_NAMES, 'client', 'logger']);
  const { client: given, logger, ...rule } = options;
  checkRule('options', rule);
  if (rule.policy === undefined) {
    throw badInput('options.policy', 'a policy name or a function', undefined);
  }
  if (logger !== undefined) {
    checkLogger('options.logger', logger);
  }
  const log = logger && prefixed(logger);
  const { client } = clientOf(given);
  client[FOR_APPS]?.inApp(log);
  const names = typeof rule.policy === 'string' ? [rule.policy] : [];
  client[FOR_APPS]?.checkAtStart(names, rule.observe === undefined ? [] : [rule.observe], rule.onError);
  let hasWarned = false;
  const warnOnce = (request: Request, isRefused: boolean): void => {
    const remedy = 'Authenticate before the rate limit';
    const warning = hasWarned ? undefined : addressWarning(request, remedy, isRefused);
    if (warning !== undefined) {
      hasWarned = true;
      (log ?? processLogger).warn(warning);
    }
  };

  return async (request, response, next) => {
    const { headers, refusal, isExempt = false, isByAddress = false } = await decide(client, rule, request, response);
    if (response.headersSent) {
      // Another middleware, such as a timeout, has answered in the meantime.
      return;
    }
    response.set(headers);
    if (refusal === undefined) {
      if (isByAddress && !hasWarned) {
        response.once('finish', () => warnOnce(request, false));
      }
      if (!isExempt) {
        observeResponse(client, rule.observe, response);
      }
      next();
      return;
    }
    if (isByAddress) {
      warnOnce(request, true);
    }
    response.status(refusal.status);
    const body = refusal.decision && await rule.onDenied?.(request, response, refusal.decision);
    if (response.headersSent) {
      return;
    }
    if (body === undefined) {
      response.type('json').send(refusal.body);
    } else {
      typeof body === 'string' ? response.send(body) : response.json(body);
    }
  };
}

export default rateLimit;
