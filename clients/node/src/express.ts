// The middleware for Express 5.

import type { Request, RequestHandler, Response } from 'express';
import { object } from './arguments.js';
import { badInput } from './error.js';
import { checkRule, clientOf, decide, RULE_NAMES, type Client, type Rule } from './middleware.js';
import { checkPolicyNames } from './names.js';
import { addressWarning } from './user.js';
import { processWarning } from './warnings.js';

export type ExpressRateLimitOptions = Rule<Request, Response> & {
  /** A client or its options. */
  readonly client?: Client | undefined;
};

/** Limits the requests that pass through it. A route can have its own. */
export function rateLimit(options: ExpressRateLimitOptions): RequestHandler {
  object('options', options, [...RULE_NAMES, 'client']);
  const { client: given, ...rule } = options;
  checkRule('options', rule);
  if (rule.policy === undefined) {
    throw badInput('options.policy', 'a policy name or a function', undefined);
  }
  const { client } = clientOf(given);
  checkPolicyNames(client, typeof rule.policy === 'string' ? [rule.policy] : [], processWarning);
  let hasWarned = false;
  const warnOnce = (request: Request): void => {
    const warning = hasWarned ? undefined : addressWarning(request, 'Authenticate before the rate limit');
    if (warning !== undefined) {
      hasWarned = true;
      processWarning(warning);
    }
  };

  return async (request, response, next) => {
    const { headers, refusal, isByAddress = false } = await decide(client, rule, request);
    if (response.headersSent) {
      // Another middleware, such as a timeout, has answered in the meantime.
      return;
    }
    response.set(headers);
    if (refusal === undefined) {
      if (isByAddress && !hasWarned) {
        response.once('finish', () => warnOnce(request));
      }
      next();
      return;
    }
    response.status(refusal.status);
    const body = await rule.onDenied?.(request, response, refusal.decision);
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
