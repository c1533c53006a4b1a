// Pages of other origins: their preflights are free, and they can read a 429. With the real `cors` and `@fastify/cors`.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fastifyCors from '@fastify/cors';
import jwt from '@fastify/jwt';
import cors from 'cors';
import { Tidegate } from 'tidegate';
import { rateLimit as expressLimit } from 'tidegate/express';
import { rateLimit } from 'tidegate/fastify';
import { expressApp, fastifyApp } from './support/apps.mjs';
import { serve } from './support/server.mjs';

const { client } = await serve(after, Tidegate);
const origin = 'https://page.example';
const preflight = { origin, 'access-control-request-method': 'GET' };
const hello = async () => 'hello';
let keys = 0;
/** Three requests per key, and a key per app. */
const rule = () => {
  const key = `cors ${keys += 1}`;
  return { client, policy: 'three', key: () => key };
};

const APPS = {
  'Express, cors first': () => expressApp((it) =>
    it.use(cors({ origin })).use(expressLimit(rule())).get('/', (_, response) => response.send('hello'))),
  'Fastify, @fastify/cors first': () => fastifyApp(async (it) => {
    it.register(fastifyCors, { origin });
    it.register(rateLimit, rule());
    it.get('/', hello);
  }),
  'Fastify, limiter first': () => fastifyApp(async (it) => {
    it.register(rateLimit, rule());
    it.register(fastifyCors, { origin });
    it.get('/', hello);
  }),
  'Fastify with users, limiter first': () => fastifyApp(async (it) => {
    it.register(rateLimit, rule());
    it.register(jwt, { secret: 'secret' });
    it.register(fastifyCors, { origin });
    it.get('/', hello);
  }),
};

for (const [name, build] of Object.entries(APPS)) {
  test(`a page can read a 429, and its preflights are free: ${name}`, async () => {
    const url = await build();
    for (let index = 0; index < 5; index += 1) {
      const asked = await fetch(url, { method: 'OPTIONS', headers: preflight });
      assert.deepEqual([asked.status, asked.headers.get('access-control-allow-origin')], [204, origin]);
    }
    const answers = [];
    for (let index = 0; index < 4; index += 1) {
      answers.push(await fetch(url, { headers: { origin } }));
    }
    assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200, 429]);
    assert.equal(answers[3].headers.get('access-control-allow-origin'), origin);
  });
}

test('a preflight is free where the limiter stands outermost, and other OPTIONS are not', async () => {
  const url = await expressApp((it) => it.use(expressLimit(rule())).use(cors({ origin })));
  const options = async (headers) => (await fetch(url, { method: 'OPTIONS', headers })).status;
  for (let index = 0; index < 4; index += 1) {
    assert.equal(await options(preflight), 204);
  }
  const plain = [];
  for (const headers of [{}, { origin }, { 'access-control-request-method': 'GET' }, {}]) {
    plain.push(await options(headers));
  }
  assert.deepEqual(plain, [204, 204, 204, 429]);
  // The control: in this order, a page cannot read the 429.
  assert.equal((await fetch(url, { headers: { origin } })).headers.get('access-control-allow-origin'), null);
});
