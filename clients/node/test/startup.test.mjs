// Misspelt options and policy names are noticed when an app starts.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import Fastify from 'fastify';
import { Tidegate } from 'tidegate';
import { rateLimit as expressLimit } from 'tidegate/express';
import { rateLimit } from 'tidegate/fastify';
import { fastifyApp, listLog } from './support/apps.mjs';
import { faultyServer, http } from './support/fault.mjs';
import { serve, until } from './support/server.mjs';
import { deadUrl, get } from './support/web.mjs';

const { client } = await serve(after, Tidegate);
const hello = async () => 'hello';
const misspelt = { config: { rateLimit: { cots: 10 } } };

test('a misspelt option of a route fails the start, whenever the route is added', async () => {
  const rows = {
    'after the plugin was loaded': async (it) => {
      await it.register(rateLimit, { client, policy: 'three' });
      it.get('/a', misspelt, hello);
    },
    'after the plugin, without await': (it) => {
      it.register(rateLimit, { client, policy: 'three' });
      it.get('/a', misspelt, hello);
    },
    'before the plugin': (it) => {
      it.get('/a', misspelt, hello);
      it.register(rateLimit, { client, policy: 'three' });
    },
    'in an inner context': (it) => {
      it.register(async (inner) => inner.get('/a', misspelt, hello));
      it.register(rateLimit, { client, policy: 'three' });
    },
  };
  for (const [when, build] of Object.entries(rows)) {
    const app = Fastify();
    await assert.rejects(async () => {
      await build(app);
      await app.ready();
    }, /config\.rateLimit of \/a.*expected only policy, key, cost.*got "cots"/, when);
    await app.close();
  }
});

test('routes that another plugin limits are not ours to check', async () => {
  const url = await fastifyApp(async (it) => {
    it.get('/outside', misspelt, hello);
    it.register(async (inner) => {
      inner.register(rateLimit, { client, policy: 'plenty' });
      inner.get('/inside', hello);
    });
  });
  assert.deepEqual([(await get(`${url}/outside`)).status, (await get(`${url}/inside`)).status], [200, 200]);
});

test('other misspelt options are errors at once', async () => {
  assert.throws(() => expressLimit({ client, policy: 'three', cots: 10 }), /got "cots"/);
  await assert.rejects(() => client.check('three', 'k', { cots: 10 }), /got "cots"/);
  await assert.rejects(() => client.checkMany([{ policy: 'three', key: 'k', cots: 10 }]), /`checks\[0\]`.*got "cots"/);
});

test('Fastify: a misspelt policy is an error in the log, with the nearest names', async () => {
  const lines = [];
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client, policy: 'tree' });
    it.get('/', hello);
    it.get('/a', { config: { rateLimit: { policy: 'hunderd' } } }, hello);
    it.get('/b', { config: { rateLimit: { policy: 'qqqq' } } }, hello);
    it.get('/c', { config: { rateLimit: { policy: () => 'zzzz' } } }, hello);
    it.get('/ok', { config: { rateLimit: { policy: 'plenty' } } }, hello);
    it.register(async (inner) => {
      inner.register(rateLimit, { client: { url: 'http://127.0.0.1:1' }, policy: 'elsewhere' });
      inner.get('/inner', { config: { rateLimit: { policy: 'elsewhere-too' } } }, hello);
    });
  }, { loggerInstance: listLog(lines) });
  await until('three errors', () => lines.length >= 3);
  assert.deepEqual(lines.map((line) => line.split('. ')[0]).sort(), [
    'error tidegate: no policy is called `hunderd`: the nearest name is `hundred`',
    'error tidegate: no policy is called `qqqq`: the server has `decade`, `export`, `hundred`, `plenty`, `report`, '
      + '`signup`, `three`',
    'error tidegate: no policy is called `tree`: the nearest name is `three`',
  ]);
  assert.equal((await get(`${url}/ok`)).status, 200);
});

test('Express: a misspelt policy is a warning, and all middlewares of a client share one request', async (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => {});
  const fault = await faultyServer(after, (socket) => socket.write(http('{"api":{},"login":{}}')));
  const one = new Tidegate({ url: fault.url, timeoutMs: 60_000 });
  for (const policy of ['api', 'lgoin', 'login', () => 'x']) {
    expressLimit({ client: one, policy });
  }
  await until('the warning', () => warn.mock.callCount() > 0);
  assert.deepEqual([warn.mock.callCount(), fault.seen.requests], [1, 1]);
  assert.match(warn.mock.calls[0].arguments[0], /no policy is called `lgoin`: the nearest name is `login`/);
  await one.close();
});

test('an app starts without the server, and with one that hangs or sends nonsense', async (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => {});
  const hung = await faultyServer(after, () => {});
  const nonsense = await faultyServer(after, (socket) => socket.write(http('[]')));
  for (const url of [await deadUrl(), hung.url, nonsense.url]) {
    const app = Fastify();
    app.register(rateLimit, { client: { url, timeoutMs: 100 }, policy: 'nope' });
    app.get('/', hello);
    await app.ready();
    await app.close();
  }
  assert.equal(warn.mock.callCount(), 0);
});
