// The types, as a user of CommonJS has them: compiled, never run.
import tidegate = require('tidegate');
import expressLimit = require('tidegate/express');
import fastifyLimit = require('tidegate/fastify');
import type { FastifyInstance } from 'fastify';
import type { Express } from 'express';

const client = new tidegate.Tidegate({ socketPath: '/run/tidegate.sock' });
const decision: Promise<tidegate.Decision> = client.check('api', 'user-42');
// @ts-expect-error not without a policy
void client.check();

export function limit(express: Express, fastify: FastifyInstance): void {
  express.use(expressLimit.rateLimit({ client, policy: 'api' }), expressLimit.default({ client, policy: 'api' }));
  fastify.register(fastifyLimit.rateLimit, { client, policy: 'api' });
  fastify.register(fastifyLimit.default, { client, policy: 'api' });
  void decision;
}
