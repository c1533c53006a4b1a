// Every middleware, here and in the client for Python, refuses with the same bytes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { rateLimit as expressLimit } from 'tidegate/express';
import { rateLimit } from 'tidegate/fastify';
import { expressApp, fastifyApp } from './support/apps.mjs';
import { faultyServer, http } from './support/fault.mjs';
import { get } from './support/web.mjs';

const rows = JSON.parse(readFileSync(new URL('../../../testdata/clients/refusals.json', import.meta.url)));
const schema = { response: { '4xx': { type: 'object', properties: { other: { type: 'string' } } } } };

const APPS = {
  Fastify: (client) => fastifyApp(async (it) => {
    await it.register(rateLimit, { client, policy: 'p' });
    it.get('/', async () => 'hello');
  }),
  'Fastify, in a route with a schema of its own': (client) => fastifyApp(async (it) => {
    await it.register(rateLimit, { client, policy: 'p' });
    it.get('/', { schema }, async () => 'hello');
  }),
  Express: (client) => expressApp((it) => it.use(expressLimit({ client, policy: 'p' }))),
  'Express, with pretty JSON': (client) =>
    expressApp((it) => it.set('json spaces', 2).use(expressLimit({ client, policy: 'p' }))),
};

test('there are refusals to compare', () => assert.equal(rows.length, 3));

for (const { name, reply, status, retry_after: retryAfter, body } of rows) {
  const headers = Object.entries(reply.headers).map(([key, value]) => `${key}: ${value}\r\n`).join('');
  const answer = http(JSON.stringify(reply.body), `${reply.status} Told`, headers);
  for (const [kind, build] of Object.entries(APPS)) {
    test(`${kind}: ${name}`, async () => {
      const fault = await faultyServer(after, (socket) => socket.write(answer));
      const got = await get(await build({ url: fault.url, timeoutMs: 60_000, onError: 'throw' }));
      assert.deepEqual([got.status, got.text, got.headers.get('retry-after')], [status, body, retryAfter]);
      assert.match(got.headers.get('content-type'), /^application\/json\b/);
    });
  }
}
