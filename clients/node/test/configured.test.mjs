// Other server configurations: TLS, an admin token, a failing store.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import express from 'express';
import Fastify from 'fastify';
import { Tidegate } from 'tidegate';
import { rateLimit as expressLimit } from 'tidegate/express';
import { rateLimit as fastifyLimit } from 'tidegate/fastify';
import { startServer } from './support/server.mjs';
import { deadUrl, get } from './support/web.mjs';

const tlsFile = (name) => fileURLToPath(new URL(`./support/tls/${name}.pem`, import.meta.url));
const patient = { timeoutMs: 60_000, onError: 'throw' };

async function start(config) {
  const server = await startServer({ on: config.includes('listen:') ? null : '127.0.0.1:0', config });
  after(() => server.stop());
  return server;
}

test('TLS needs a trusted certificate', async () => {
  const { url } = await start(`
listen: { http: { address: "127.0.0.1:0", tls: { cert: "${tlsFile('cert')}", key: "${tlsFile('key')}" } } }
policies: { api: { limit: 100/day } }
`);
  assert.match(url, /^https:/);
  const trusting = new Tidegate({ ...patient, url, tls: { ca: readFileSync(tlsFile('cert')) } });
  const all = await Promise.all(Array.from({ length: 150 }, () => trusting.check('api', 'k', { headers: true })));
  assert.equal(all.filter(({ allowed }) => allowed).length, 100);
  await trusting.close();
  const other = new Tidegate({ ...patient, url, onError: 'deny' });
  const { allowed, source, error } = await other.check('api', 'k');
  assert.deepEqual([allowed, source, error.code], [false, 'fallback', 'unreachable']);
  assert.match(error.message, /self-signed/);
});

test('an admin call needs the token', async () => {
  const { url } = await start('admin: { token: sixteen-bytes-or-more }\npolicies: { api: { limit: 100/day } }\n');
  const admin = new Tidegate({ ...patient, url, token: 'sixteen-bytes-or-more' });
  assert.equal((await admin.reset('api', 'k')).remaining, 100);
  for (const token of [undefined, 'sixteen-bytes-of-others']) {
    const other = new Tidegate({ ...patient, url, token });
    await assert.rejects(other.reset('api', 'k'), { code: 'unauthorized', status: 401, transient: false });
    await other.close();
  }
  await admin.close();
});

test('a path in the URL is a prefix of every route', async () => {
  const { url } = await start('policies: { api: { limit: 100/day } }\n');
  const client = new Tidegate({ ...patient, url: `${url}/limits/` });
  await assert.rejects(client.check('api', 'k'), { code: 'unknown-path', detail: /\/limits\/v1\/check/ });
  await client.close();
});

test('when the store fails, the policy decides, not onError', async () => {
  const store = (await deadUrl()).replace('http:', 'redis:');
  const { url } = await start(`
store: ${store}
policies:
  open: { limit: 3/day, on_store_error: allow }
  shut: { limit: 3/day, on_store_error: deny }
`);
  const client = new Tidegate({ ...patient, url, onError: 'allow' });
  after(() => client.close());
  const told = ({ allowed, source }) => [allowed, source];
  for (const headers of [true, false]) {
    assert.deepEqual(told(await client.check('open', 'k', { headers })), [true, 'fail-open']);
    assert.deepEqual(told(await client.check('shut', 'k', { headers })), [false, 'fail-closed']);
  }
  const many = await client.checkMany([{ policy: 'open', key: 'k' }, { policy: 'shut', key: 'k' }]);
  assert.deepEqual(many.map(told), [[true, 'fail-open'], [false, 'fail-closed']]);

  const fastify = Fastify();
  fastify.register(fastifyLimit, { client, policy: 'shut' });
  after(() => fastify.close());
  const app = express().use(expressLimit({ client, policy: 'shut' })).listen(0, '127.0.0.1');
  after(() => app.close());
  const urls = [await fastify.listen({ port: 0, host: '127.0.0.1' }), `http://127.0.0.1:${app.address().port}`];
  for (const url of urls) {
    const { status, headers, text } = await get(url);
    const seconds = Number(headers.get('retry-after'));
    assert.ok(status === 503 && seconds >= 1);
    assert.equal(text, '{"error":"Service Unavailable","message":"Rate limiter unavailable. Retry after '
      + `${seconds} seconds.","retryAfter":${seconds}}`);
  }
});

test('the older RateLimit headers are passed on', async () => {
  const { url } = await start('headers: { dialect: legacy, legacy: off }\npolicies: { api: { limit: 100/day } }\n');
  const one = new Tidegate({ ...patient, url });
  const { headers } = await one.check('api', 'k', { headers: true });
  assert.deepEqual([headers['ratelimit-limit'], headers['ratelimit-remaining']], ['100', '99']);
  assert.equal(Object.keys(headers).length, 3);
  await one.close();
});
