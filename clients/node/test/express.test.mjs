// The Express middleware, over real HTTP and with a real tidegate.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, test } from 'node:test';
import express from 'express';
import { Tidegate } from 'tidegate';
import { rateLimit } from 'tidegate/express';
import { serve, until } from './support/server.mjs';
import { deadUrl, get, isRefusal, isUnavailable } from './support/web.mjs';

const { client } = await serve(after, Tidegate);
const hello = (_, response) => response.send('hello');
const left = async (key, policy = 'three') => (await client.peek(policy, key, { cost: 0 })).remaining;

/** Starts an app that `build` sets up, and returns its URL. */
async function app(build, host = '127.0.0.1') {
  const made = express();
  build(made);
  const server = made.listen(0, host);
  await once(server, 'listening');
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://${host === '::1' ? '[::1]' : '127.0.0.1'}:${server.address().port}`;
}

async function statuses(count, url, headers) {
  const all = [];
  for (let index = 0; index < count; index += 1) {
    all.push((await get(url, headers)).status);
  }
  return all;
}

test('an address is limited: headers on every response, and the body of a 429', async () => {
  await client.reset('three', '127.0.0.1');
  const url = await app((it) => it.use(rateLimit({ client, policy: 'three' })).get('/', hello));
  for (const remaining of ['2', '1', '0']) {
    const { status, headers, text } = await get(url);
    assert.deepEqual([status, text], [200, 'hello']);
    assert.equal(headers.get('ratelimit-policy'), '"three";q=3;w=86400');
    assert.match(headers.get('ratelimit'), new RegExp(`^"three";r=${remaining};t=\\d+$`));
    assert.equal(headers.get('x-ratelimit-remaining'), remaining);
    assert.equal(headers.get('retry-after'), null);
  }
  isRefusal(await get(url));
});

test('the key is the user if there is one', async () => {
  const url = await app((it) => it.use((request, _, next) => {
    request.user = { id: request.get('x-user') };
    next();
  }).use(rateLimit({ client, policy: 'three' })).get('/', hello));
  await client.reset('three', '127.0.0.1');
  assert.deepEqual(await statuses(4, url, { 'x-user': 'ann' }), [200, 200, 200, 429]);
  assert.deepEqual(await statuses(1, url), [200]);
  assert.deepEqual([await left('ann'), await left('127.0.0.1')], [0, 2]);
});

test('of 200 concurrent requests exactly 100 pass', async () => {
  const url = await app((it) =>
    it.use(rateLimit({ client, policy: 'hundred', key: () => 'express-exact' })).get('/', hello));
  const all = await Promise.all(Array.from({ length: 200 }, () => get(url)));
  assert.equal(all.filter(({ status }) => status === 200).length, 100);
  assert.equal(all.filter(({ status }) => status === 429).length, 100);
});

test('X-Forwarded-For counts only where the proxy is trusted', async () => {
  const build = (it) => it.use(rateLimit({ client, policy: 'three' })).get('/', hello);
  await client.reset('three', '127.0.0.1');
  const [trusting, other] = [await app((it) => build(it.set('trust proxy', 'loopback'))), await app(build)];
  await get(trusting, { 'x-forwarded-for': '203.0.113.7' });
  assert.deepEqual([await left('203.0.113.7'), await left('127.0.0.1')], [2, 3]);
  await get(other, { 'x-forwarded-for': '203.0.113.7' });
  assert.deepEqual([await left('203.0.113.7'), await left('127.0.0.1')], [2, 2]);
  await get(trusting, { 'x-forwarded-for': '2001:db8:0:1::7' });
  await get(trusting, { 'x-forwarded-for': '2001:db8:0:1:ffff::8' });
  assert.equal(await left('2001:db8:0:1::/64'), 1);
});

test('IPv6 and mapped IPv4 addresses have the same keys as on the server', async () => {
  const build = (it) => it.use(rateLimit({ client, policy: 'three' })).get('/', hello);
  await client.reset('three', '127.0.0.1');
  await get(await app(build, '::1'));
  await get(await app(build, '::'));
  assert.deepEqual([await left('::/64'), await left('127.0.0.1')], [2, 2]);
});

test('routes have their own options', async () => {
  const limit = (rule) => rateLimit({ client, policy: 'three', key: ({ path }) => `express-${path}`, ...rule });
  const url = await app((it) => it
    .get('/free', hello)
    .get('/policy', limit({ policy: async () => 'hundred' }), hello)
    .get('/cost', limit({ cost: 2 }), hello)
    .get('/costs', limit({ cost: async () => 3 }), hello)
    .get('/skip', limit({ skip: async (request) => request.get('x-internal') === '1' }), hello));
  assert.equal((await get(`${url}/free`)).headers.get('ratelimit'), null);
  assert.deepEqual(await statuses(4, `${url}/policy`), [200, 200, 200, 200]);
  assert.deepEqual(await statuses(2, `${url}/cost`), [200, 429]);
  assert.deepEqual(await statuses(2, `${url}/costs`), [200, 429]);
  assert.deepEqual(await statuses(4, `${url}/skip`, { 'x-internal': '1' }), [200, 200, 200, 200]);
  assert.deepEqual(await statuses(4, `${url}/skip`), [200, 200, 200, 429]);
});

test('onDenied sends its own response, with status and headers set', async () => {
  const rows = [
    ['an object', () => ({ sorry: true }), 429, '{"sorry":true}'],
    ['a text', async () => 'sorry', 429, 'sorry'],
    ['sends', (_, response) => { response.status(420).send('calm'); }, 420, 'calm'],
    ['only looks', () => undefined, 429, undefined],
  ];
  for (const [what, onDenied, status, text] of rows) {
    const url = await app((it) => it.use(rateLimit({ client, policy: 'three', cost: 4, onDenied })));
    const answer = await get(url);
    assert.equal(answer.status, status, what);
    assert.equal(answer.headers.get('x-ratelimit-limit'), '3');
    text === undefined ? assert.match(answer.text, /^{"error":"Too Many/) : assert.equal(answer.text, text);
  }
});

test('a server that is down: pass, 503, or the app\'s error handler', async () => {
  const gone = { url: await deadUrl() };
  const seen = [];
  const url = await app((it) => it
    .get('/allow', rateLimit({ client: gone, policy: 'three' }), hello)
    .get('/deny', rateLimit({ client: gone, policy: 'three', onError: 'deny', timeoutMs: 10_000 }), hello)
    .get('/throw', rateLimit({ client: { ...gone, onError: 'throw' }, policy: 'three' }), hello)
    .use((error, _request, response, _next) => {
      seen.push([error.message, error.cause.code]);
      response.status(error.status).end();
    }));
  const through = await get(`${url}/allow`);
  assert.deepEqual([through.status, through.text, through.headers.get('ratelimit')], [200, 'hello', null]);
  isUnavailable(await get(`${url}/deny`));
  assert.equal((await get(`${url}/throw`)).status, 503);
  assert.deepEqual(seen, [['Rate limiter unavailable', 'unreachable']]);
});

test('an unknown policy is a server error, and one warning names it and the nearest', async (t) => {
  const [log, warn] = [t.mock.method(console, 'error', () => {}), t.mock.method(process, 'emitWarning', () => {})];
  const url = await app((it) => it
    .set('env', 'production')
    .use(rateLimit({ client, policy: () => 'hunderd', onError: 'allow' })).get('/', hello));
  assert.deepEqual(await statuses(3, url), [500, 500, 500]);
  assert.doesNotMatch((await get(url)).text, /hunderd/);
  await until('the warning', () => warn.mock.callCount() > 0);
  assert.deepEqual([warn.mock.callCount(), log.mock.callCount()], [1, 0]);
  assert.match(warn.mock.calls[0].arguments[0], /no policy is called `hunderd`: the nearest name is `hundred`/);
});

test('a visitor without a key is limited by address', async () => {
  const key = (request) => request.get('x-key');
  const url = await app((it) => it.use(rateLimit({ client, policy: 'three', key })).get('/', hello));
  await client.reset('three', '127.0.0.1');
  assert.deepEqual(await statuses(1, url), [200]);
  assert.deepEqual(await statuses(1, url, { 'x-key': '' }), [200]);
  assert.equal(await left('127.0.0.1'), 1);
});

test('a request that was already answered is left alone', async () => {
  const errors = [];
  const url = await app((it) => it
    .use((_, response, next) => {
      next();
      response.status(504).send('too late');
    })
    .use(rateLimit({ client, policy: 'plenty' }))
    .get('/', () => assert.fail('it was answered'))
    .use((error, _request, _response, _next) => errors.push(error)));
  assert.deepEqual([(await get(url)).status, (await get(url)).text], [504, 'too late']);
  await client.check('plenty', 'behind them');
  assert.deepEqual(errors, []);
});
