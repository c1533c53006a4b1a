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
  const errors = () => lines.filter((line) => line.startsWith('error'));
  await until('three errors', () => errors().length >= 3);
  assert.deepEqual(errors().map((line) => line.split('. ')[0]).sort(), [
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

test('a route that asks for a limit and has no policy fails the start, and the error says what to write', async () => {
  const route = { config: { rateLimit: { cost: 10 } } };
  const rows = [
    (it) => it.get('/export', route, hello),
    (it) => it.get('/export', { config: { rateLimit: { policy: undefined } } }, hello),
    (it) => it.register(async (inner) => inner.get('/export', { config: { rateLimit: {} } }, hello)),
  ];
  for (const build of rows) {
    const app = Fastify();
    app.register(rateLimit, { client });
    build(app);
    await assert.rejects(async () => app.ready(), (error) => {
      assert.match(error.message, /`config\.rateLimit of (GET|HEAD|GET, HEAD) \/export` names no policy/);
      assert.match(error.message, /write `config: \{ rateLimit: \{ policy: 'NAME' \} \}`, or `policy: 'NAME'` where/);
      return true;
    });
    await app.close();
  }
  const app = Fastify();
  app.register(rateLimit, { client, policy: 'three' });
  app.get('/export', { config: { rateLimit: { cost: 4, policy: undefined } } }, hello);
  await app.ready();
  assert.equal((await app.inject('/export')).statusCode, 429, 'the policy of the registration holds');
  await app.close();
});

test('options of other limiters, and of the client, get an error that says what to write', async () => {
  const there = (rate) => new RegExp(`fixed-window, limit: ${rate} .*\`policy: 'NAME'\` here`);
  const rows = [
    [{ max: 100, timeWindow: '1 minute' }, there('100/min')],
    [{ max: 100, timeWindow: 60_000 }, there('100/min')],
    [{ max: 5, timeWindow: '15 minutes' }, there('5/15min')],
    [{ max: 5, timeWindow: '2 hours' }, there('5/2h')],
    [{ max: 5, timeWindow: '500ms' }, there('5/500ms')],
    [{ max: 5, timeWindow: 'a while' }, there('5/min')],
    [{ max: async () => 5 }, there('100/min')],
    [{ windowMs: 900_000, limit: 20 }, there('20/900s')],
    [{ keyGenerator: () => 'k' }, /write `key: \(request\) => …`/],
    [{ allowList: ['127.0.0.1'] }, /write `skip:/],
    [{ errorResponseBuilder: () => ({}) }, /write `onDenied:/],
    [{ skipOnError: true }, /write `onError: 'allow'`/],
    [{ redis: {} }, /in the server's file/],
    [{ processes: 4 }, /has no `processes`: it belongs in `client: \{ processes: … \}`/],
    [{ socketPath: '/x' }, /has no `socketPath`: it belongs in `client: \{ socketPath: … \}`/],
  ];
  for (const [options, said] of rows) {
    assert.throws(() => expressLimit({ client, policy: 'three', ...options }), said);
    const registered = Fastify();
    await assert.rejects(async () => registered.register(rateLimit, { client, policy: 'three', ...options }), said);
    const routed = Fastify();
    routed.register(rateLimit, { client, policy: 'three' });
    routed.get('/a', { config: { rateLimit: options } }, hello);
    await assert.rejects(async () => routed.ready(), said);
  }
  const app = Fastify();
  app.register(rateLimit, { client, policy: 'three' });
  app.get('/a', { config: { rateLimit: true } }, hello);
  await assert.rejects(async () => app.ready(), /config\.rateLimit of \/a.*`true`: write `\{ policy: 'NAME' \}`/);
});

test('an app starts without the server, and its log says so once, with what happens to requests', async () => {
  const hung = await faultyServer(after, () => {});
  const nonsense = await faultyServer(after, (socket) => socket.write(http('[]')));
  const rows = [
    [await deadUrl(), undefined, /connect ECONNREFUSED.*requests are admitted meanwhile$/],
    [await deadUrl(), 'deny', /connect ECONNREFUSED.*requests are refused with 503 meanwhile$/],
    [await deadUrl(), 'throw', /connect ECONNREFUSED.*requests fail with 503 meanwhile$/],
    [hung.url, 'allow', /timeout: no answer within 100 ms\): requests are admitted meanwhile$/],
    [nonsense.url, 'allow', /bad-answer: .*: requests are admitted meanwhile$/],
  ];
  for (const [url, onError, said] of rows) {
    const lines = [];
    const app = Fastify({ loggerInstance: listLog(lines) });
    app.register(rateLimit, { client: { url, timeoutMs: 100 }, policy: 'nope', onError });
    app.get('/', hello);
    await app.ready();
    await until('the warning', () => lines.length > 0);
    assert.ok(lines[0].startsWith(`warn tidegate: the server at ${url} gives no decision (`), lines[0]);
    assert.match(lines[0], said);
    await app.inject('/');
    await app.inject('/');
    const own = lines.filter((line) => line.includes('tidegate:'));
    assert.equal(own.length, 1, own.join('\n'));
    await app.close();
  }
});

test('Express: a server that is absent at the start is reported to the logger, or as a process warning', async (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => {});
  const lines = [];
  expressLimit({ client: { url: await deadUrl() }, policy: 'api', logger: listLog(lines) });
  await until('the line', () => lines.length > 0);
  assert.match(lines[0], /^warn tidegate: the server at http.*ECONNREFUSED.*requests are admitted meanwhile/);
  assert.equal(warn.mock.callCount(), 0);
  expressLimit({ client: { url: await deadUrl() }, policy: () => 'api', onError: 'deny' });
  await until('the warning', () => warn.mock.callCount() > 0);
  assert.match(warn.mock.calls[0].arguments[0], /requests are refused with 503 meanwhile/);
  assert.throws(() => expressLimit({ policy: 'api', logger: () => {} }), /`options.logger`: expected a logger with/);
});
