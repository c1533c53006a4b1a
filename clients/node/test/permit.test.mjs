// The option `permit`: a request holds its place of a concurrency limit for as long as the app works on it.
import assert from 'node:assert/strict';
import http from 'node:http';
import http2 from 'node:http2';
import { after, test } from 'node:test';
import { Tidegate } from 'tidegate';
import { rateLimit as expressLimit } from 'tidegate/express';
import { rateLimit } from 'tidegate/fastify';
import { responseEnded } from '../dist/esm/permit.js';
import { expressApp, fastifyApp, listLog } from './support/apps.mjs';
import { startServer, until } from './support/server.mjs';
import { deadUrl, get, isRefusal } from './support/web.mjs';

const CONFIG = `
policies:
  plain: { limit: 3/day }
  leak: { algorithm: leaky-bucket, limit: 3/day, max_wait: 5s }
  two: { algorithm: concurrency, limit: 2, ttl: 3s }
  orders:
    all:
      - { name: rate, key: global, limit: 3/day }
      - { name: in-flight, key: global, algorithm: concurrency, limit: 2 }
`;
const server = await startServer({ config: CONFIG, on: 'unix' });
const client = new Tidegate({ ...server.options, timeoutMs: 60_000, onError: 'throw' });
after(async () => {
  await client.close();
  await server.stop();
});

/** An app of each framework whose work takes until the test ends it, and its URL. */
const APPS = {
  Fastify: (options, work) => fastifyApp(async (it) => {
    it.register(rateLimit, options);
    it.get('/', async () => work());
  }),
  Express: (options, work) => expressApp((it) => it
    .use(expressLimit(options))
    .get('/', async (_, response) => response.send(await work()))),
};

/** Work that waits to be ended, oldest first. Ended after the test, or the app could not be closed. */
function workshop(t) {
  const waiting = [];
  t.after(() => waiting.forEach((end) => end()));
  return {
    work: () => new Promise((done) => waiting.push(() => done('done'))),
    atWork: (count) => until(`${count} at work`, () => waiting.length === count),
    endOne: () => waiting.shift()(),
  };
}

/** The number of free places. */
async function free(policy, key) {
  const held = [];
  for (;;) {
    const { permit } = await client.acquire(policy, key);
    if (permit === null) {
      await Promise.all(held.map((one) => client.release(policy, key, one)));
      return held.length;
    }
    held.push(permit);
  }
}

for (const [framework, start] of Object.entries(APPS)) {
  test(`${framework}: never more at work than there are places, for longer than a permit lasts`, async (t) => {
    const { work, atWork, endOne } = workshop(t);
    const key = `${framework}-many`;
    const url = await start({ client, policy: 'two', key: () => key, permit: true }, work);
    const begin = performance.now();
    const admitted = [get(url), get(url)];
    await atWork(2);
    await until('longer than a permit', async () => {
      isRefusal(await get(url));
      return performance.now() - begin > 4500;
    });
    endOne();
    const { status, headers } = await Promise.race(admitted);
    assert.equal(status, 200);
    assert.match(headers.get('ratelimit'), /^"two";r=[01];t=3$/);
    await until('a place to be free', async () => await free('two', key) === 1);
    endOne();
    await Promise.all(admitted);
    await until('all places to be free', async () => await free('two', key) === 2);
  });

  test(`${framework}: a client that leaves frees its place only when the app has ended its work`, async (t) => {
    const { work, atWork, endOne } = workshop(t);
    const key = `${framework}-leaves`;
    const url = await start({ client, policy: 'two', key: () => key, permit: true }, work);
    const leave = new AbortController();
    const left = [1, 2].map(() => assert.rejects(fetch(url, { signal: leave.signal }), { name: 'AbortError' }));
    await atWork(2);
    leave.abort();
    await Promise.all(left);
    // Longer than it takes the app to notice, as the next requests show.
    for (let round = 0; round < 20; round += 1) {
      isRefusal(await get(url));
    }
    endOne();
    await until('a place to be free', async () => await free('two', key) === 1);
    endOne();
    await until('all places to be free', async () => await free('two', key) === 2);
  });
}

test('a rate and a number at once are one policy, and a refusal by the rate holds no place', async () => {
  const url = await APPS.Fastify({ client, policy: 'orders', permit: true }, () => 'done');
  const statuses = [];
  for (let round = 0; round < 5; round += 1) {
    statuses.push((await get(url)).status);
  }
  assert.deepEqual(statuses, [200, 200, 200, 429, 429]);
});

test('without a server, requests are admitted, and hold nothing', async (t) => {
  const { work, atWork, endOne } = workshop(t);
  const away = { url: await deadUrl(), onTrouble: () => {} };
  const url = await APPS.Fastify({ client: away, policy: 'two', permit: true }, work);
  const admitted = [1, 2, 3].map(() => get(url));
  await atWork(3);
  [1, 2, 3].forEach(endOne);
  assert.deepEqual((await Promise.all(admitted)).map(({ status }) => status), [200, 200, 200]);
});

test('the log says what to write if the policy is of the other kind', async () => {
  for (const [policy, permit, said] of [
    ['two', false, /: policy `two` limits concurrency, so permits have to be released: write `permit: true`\. Its requests/],
    ['plain', true, /: policy `plain` does not limit concurrency and has no permits: leave `permit` out\. Its requests/],
    ['leak', false, /: policy `leak` is a leaky bucket, which .*: use `client\.schedule\(…\)`\. Its requests/],
  ]) {
    const lines = [];
    const url = await fastifyApp(async (it) => {
      it.register(rateLimit, { client, policy, permit });
      it.get('/', async () => 'hello');
    }, { loggerInstance: listLog(lines) });
    assert.equal((await get(url)).status, 500);
    assert.match(lines[0], said);
    assert.match(lines[0], /^error tidegate: policy/);
  }
});

test('an error names the method of this client that the policy is for', async () => {
  for (const [call, said] of [
    [() => client.check('two', 'k'), 'use `client.withPermit(…)`'],
    [() => client.acquire('plain', 'k'), 'use `client.check(…)`'],
    [() => client.check('leak', 'k'), 'use `client.schedule(…)`'],
  ]) {
    await assert.rejects(call, ({ detail }) => detail.endsWith(said));
  }
});

for (const [version, web] of [['HTTP/1.1', http], ['HTTP/2', http2]]) {
  test(`${version}: a place for a client that had left before is free when the app has answered`, { timeout: 30_000 }, async (t) => {
    const left = new Promise((resolve) => {
      const server = web.createServer((_, response) => response.once('close', () => resolve(response)));
      t.after(() => server.close());
      server.listen(0, '127.0.0.1', () => {
        const url = `http://127.0.0.1:${server.address().port}`;
        server.once('request', () => client.destroy());
        const client = web === http ? http.get(url) : http2.connect(url);
        client.on('error', () => {});
        web === http2 && client.request({ ':path': '/' }).on('error', () => {}).end();
      });
    });
    const response = await left;
    let isEnded = false;
    const ended = responseEnded(response).then(() => { isEnded = true; });
    await new Promise(setImmediate);
    assert.equal(isEnded, false, 'the app still works on it');
    response.end('done');
    await ended;
  });
}

test('`permit` is true or false', () => {
  assert.throws(() => expressLimit({ policy: 'two', permit: 'yes' }), /`options.permit`: expected true or false/);
});
