// The key is the user, wherever the app authenticates: with the real @fastify/jwt and @fastify/auth.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import auth from '@fastify/auth';
import jwt from '@fastify/jwt';
import Fastify from 'fastify';
import { Tidegate } from 'tidegate';
import { rateLimit as expressLimit } from 'tidegate/express';
import { rateLimit } from 'tidegate/fastify';
import { expressApp, fastifyApp, listLog } from './support/apps.mjs';
import { serve, until } from './support/server.mjs';
import { get } from './support/web.mjs';

const { client } = await serve(after, Tidegate);
const hello = async () => 'hello';
const left = async (key, policy = 'three') => (await client.peek(policy, key, { cost: 0 })).remaining;
const signer = Fastify();
await signer.register(jwt, { secret: 'secret' });
const bearer = (claims) => ({ authorization: `Bearer ${signer.jwt.sign(claims)}` });
const verify = async (request) => request.jwtVerify();

/** Where an app can authenticate. */
const PLACES = [
  ['onRequest of a route', (it) => it.get('/', { onRequest: verify }, hello)],
  ['onRequest of the app', (it) => it.addHook('onRequest', verify).get('/', hello)],
  ['onRequest of a route, and another preHandler', (it) =>
    it.get('/', { onRequest: [verify], preHandler: async () => {} }, hello)],
  ['preParsing of a route', (it) => it.get('/', { preParsing: verify }, hello)],
  ['preValidation of a route', (it) => it.get('/', { preValidation: [verify] }, hello)],
  ['preHandler of a route', (it) => it.get('/', { preHandler: verify }, hello)],
  ['@fastify/auth in preHandler', (it) => it.register(auth).after(() =>
    it.get('/', { preHandler: it.auth([verify]) }, hello))],
];

for (const [place, build] of PLACES) {
  for (const order of ['before', 'after']) {
    test(`two users of one address have a limit each: ${place}, limiter registered ${order} @fastify/jwt`, async () => {
      const lines = [];
      const [ann, ben] = [`ann ${place} ${order}`, `ben ${place} ${order}`];
      await client.reset('three', '127.0.0.1');
      const url = await fastifyApp(async (it) => {
        order === 'before' && it.register(rateLimit, { client, policy: 'three' });
        it.register(jwt, { secret: 'secret' });
        order === 'after' && it.register(rateLimit, { client, policy: 'three' });
        build(it);
      }, { loggerInstance: listLog(lines) });
      const statuses = [];
      for (const sub of [ann, ann, ann, ann, ben]) {
        statuses.push((await get(url, bearer({ sub }))).status);
      }
      assert.deepEqual(statuses, [200, 200, 200, 429, 200]);
      assert.deepEqual([await left(ann), await left(ben), await left('127.0.0.1')], [0, 2, 3]);
      assert.deepEqual(lines, []);
    });
  }
}

test('a token has its user in `id` or `sub`, and a key function may read both', async () => {
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client, policy: 'three' });
    it.register(jwt, { secret: 'secret' });
    it.get('/', { onRequest: verify }, hello);
    const config = { rateLimit: { key: ({ user }) => `tenant ${user.tenant}` } };
    it.get('/tenant', { config, preHandler: verify }, hello);
  });
  await get(url, bearer({ id: 'id-1', sub: 'sub-1' }));
  await get(url, bearer({ id: 4712 }));
  await get(`${url}/tenant`, bearer({ sub: 'sub-2', tenant: 7 }));
  assert.deepEqual(await Promise.all(['id-1', '4712', 'tenant 7'].map((key) => left(key))), [2, 2, 2]);
  assert.deepEqual(await Promise.all(['sub-1', 'sub-2'].map((key) => left(key))), [3, 3]);
});

test('in an app without users an address is refused before any other hook runs', async () => {
  await client.reset('three', '127.0.0.1');
  let ran = 0;
  const url = await fastifyApp(async (it) => {
    await it.register(rateLimit, { client, policy: 'three', cost: 4 });
    it.addHook('onRequest', async () => {
      ran += 1;
    });
    it.post('/', { preHandler: async () => {} }, hello);
  });
  const response = await fetch(url, { method: 'POST', body: '{', headers: { 'content-type': 'application/json' } });
  assert.deepEqual([response.status, ran], [429, 0]);
});

test('in an app with users a visitor is refused before the body is read', async () => {
  await client.reset('three', '127.0.0.1');
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client, policy: 'three', cost: 4 });
    it.register(jwt, { secret: 'secret' });
    it.post('/login', hello);
  });
  const headers = { 'content-type': 'application/json' };
  const post = (path) => fetch(url + path, { method: 'POST', body: '{', headers });
  // A body that is read would be a 400.
  assert.deepEqual([(await post('/login')).status, (await post('/not-a-route')).status], [429, 429]);
});

const LATE = /^warn tidegate: a request was limited by its IP address, because its user was not known yet/;
const NAMELESS = /^warn tidegate: .*`request\.user` has neither `id` nor `sub`/;

test('a user that comes after the key was taken is reported once', async () => {
  const onRequest = (it) => it.get('/', { onRequest: verify }, hello);
  const ofApp = (it) => it.get('/', hello).addHook('preHandler', async (request) =>
    request.headers.authorization && request.jwtVerify());
  const rows = [
    ['a hook that is too early', onRequest, { hook: 'onRequest' }, { sub: 'ann' }, LATE],
    ['a preHandler of the app', ofApp, {}, { sub: 'ann' }, LATE],
    ['a token without a user', onRequest, {}, { role: 'admin' }, NAMELESS],
  ];
  for (const [what, build, options, claims, expected] of rows) {
    const lines = [];
    const url = await fastifyApp(async (it) => {
      it.register(jwt, { secret: 'secret' });
      it.register(rateLimit, { client, policy: 'plenty', ...options });
      build(it);
      it.get('/open', hello);
    }, { loggerInstance: listLog(lines) });
    await get(`${url}/open`);
    assert.deepEqual(lines, [], what);
    await get(url, bearer(claims));
    await get(url, bearer(claims));
    await until('the warning', () => lines.length > 0);
    await get(url, bearer(claims));
    assert.equal(lines.length, 1, what);
    assert.match(lines[0], expected, what);
  }
});

test('a user is missed also if the address was refused from the first request on', async (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => {});
  const refused = { client, policy: 'three', cost: 4 };
  const lines = [];
  const url = await fastifyApp(async (it) => {
    it.register(jwt, { secret: 'secret' });
    it.register(rateLimit, refused);
    it.get('/', hello).addHook('preHandler', verify);
  }, { loggerInstance: listLog(lines) });
  assert.equal((await get(url)).status, 429);
  assert.deepEqual(lines, [], 'a visitor');
  for (let round = 0; round < 3; round += 1) {
    assert.equal((await get(url, bearer({ sub: 'ann' }))).status, 429);
  }
  assert.equal(lines.length, 1);
  assert.match(lines[0], /^warn tidegate: a request with an Authorization header was refused by its IP address/);
  assert.match(lines[0], /its user was not known yet\. Authenticate in `onRequest`/);

  const other = await expressApp((it) => it.use(expressLimit(refused)));
  await get(other);
  assert.equal(warn.mock.callCount(), 0, 'a visitor');
  await get(other, bearer({ sub: 'ann' }));
  await get(other, bearer({ sub: 'ann' }));
  assert.equal(warn.mock.callCount(), 1);
  assert.match(warn.mock.calls[0].arguments[0], /refused by its IP address.*Authenticate before the rate limit/);
});

test('Express: a user that comes after the key was taken is reported once', async (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => {});
  const authenticate = (request, _, next) => {
    request.user = { sub: request.get('x-user') };
    next();
  };
  const url = await expressApp((it) => it
    .use(expressLimit({ client, policy: 'plenty' }))
    .use(authenticate)
    .get('/', (_, response) => response.send('hello'))
    .get('/right', expressLimit({ client, policy: 'three' }), (_, response) => response.send('hello')));
  await get(url, { 'x-user': 'eve' });
  await get(`${url}/right`, { 'x-user': 'eve' });
  await until('the warning', () => warn.mock.callCount() > 0);
  assert.equal(warn.mock.callCount(), 1);
  assert.match(warn.mock.calls[0].arguments[0], /because its user was not known yet/);
  assert.equal(await left('eve'), 2);
});
