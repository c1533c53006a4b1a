// The middleware for Express 5.

import type { Request, RequestHandler, Response } from 'express';
import { object } from './arguments.js';
import { badInput } from './error.js';
import { checkRule, clientOf, decide, RULE_NAMES, type Client, type Rule } from './middleware.js';

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

  return async (request, response, next) => {
    const { headers, refusal } = await decide(client, rule, request);
    if (response.headersSent) {
      // Another middleware, such as a timeout, has answered in the meantime.
      return;
    }
    response.set(headers);
    if (refusal === undefined) {
      next();
      return;
    }
    response.status(refusal.status);
    const body = await rule.onDenied?.(request, response, refusal.decision);
    if (!response.headersSent) {
      typeof body === 'string' ? response.send(body) : response.json(body ?? refusal.body);
    }
  };
}

export default rateLimit;
