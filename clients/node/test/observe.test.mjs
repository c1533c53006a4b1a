// The option `observe`: a limit follows the responses of the app, without another line of code.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, test } from 'node:test';
import { Tidegate } from 'tidegate';
import { rateLimit as expressLimit } from 'tidegate/express';
import { rateLimit } from 'tidegate/fastify';
import { Observer, SAMPLE_MAX } from '../dist/esm/observer.js';
import { expressApp, fastifyApp, listLog } from './support/apps.mjs';
import { DECISION, faultyServer, http } from './support/fault.mjs';
import { startServer, until } from './support/server.mjs';
import { deadUrl, get } from './support/web.mjs';

const CONFIG = `
policies:
  api:
    limit: 1000/s
    adaptive:
      source: { latency: db }
      smoothing: { close: 100ms, open: 500ms }
      hysteresis: none
  three: { limit: 3/day }
`;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** An app of each framework with `answer` behind the limit, and its URL. */
const APPS = {
  Fastify: (options, answer) => fastifyApp(async (it) => {
    it.register(rateLimit, options);
    it.get('/', async (_, reply) => reply.code(await answer()).send('hello'));
  }),
  Express: (options, answer) => expressApp((it) => it
    .use(expressLimit(options))
    .get('/', async (_, response) => response.status(await answer()).send('hello'))),
};

async function serving(t, on) {
  const server = await startServer({ config: CONFIG, on });
  const client = new Tidegate({ ...server.options, timeoutMs: 60_000 });
  t.after(async () => {
    await client.close();
    await server.stop();
  });
  return { client, server };
}

/** GETs JSON of the server; not by fetch, which knows no Unix sockets. */
function read(server, path) {
  return new Promise((resolve, reject) => {
    const options = server.url === undefined ? { ...server.options, path } : new URL(path, server.url);
    request(options, async (response) => {
      let text = '';
      for await (const piece of response) {
        text += piece;
      }
      resolve(JSON.parse(text));
    }).on('error', reject).end();
  });
}
const target = async (server) => (await read(server, '/v1/pressure')).targets.db;
const effective = async (server) => (await read(server, '/v1/policies')).api.effective;

for (const [framework, on] of [['Fastify', undefined], ['Express', 'unix']]) {
  test(`${framework}, ${on ?? 'TCP'}: slow responses make a limit fall, and fast ones raise it again`, async (t) => {
    const { client, server } = await serving(t, on);
    let delayMs = 0;
    const url = await APPS[framework]({ client, policy: 'api', observe: 'db' }, async () => {
      await sleep(delayMs);
      return 200;
    });
    const asking = { isOn: true };
    const load = Promise.all(Array.from({ length: 8 }, async () => {
      while (asking.isOn) {
        await get(url);
        await sleep(10);
      }
    }));
    try {
      await until('the usual latency to be known', async () => (await target(server))?.count > 300);
      await until('the whole limit', async () => await effective(server) > 800);
      delayMs = 800;
      await until('the limit to fall', async () => await effective(server) < 300);
      delayMs = 0;
      await until('the limit to rise', async () => await effective(server) > 800);
    } finally {
      asking.isOn = false;
      await load;
    }
  });
}

for (const [framework, start] of Object.entries(APPS)) {
  test(`${framework}: failures are reported as such, refusals are not, and without \`observe\` nothing is`, async (t) => {
    const { client, server } = await serving(t);
    let status = 200;
    const options = { client, policy: 'three', key: () => framework };
    const silent = await start({ ...options, policy: 'api' }, async () => 500);
    await get(silent);
    const url = await start({ ...options, observe: 'db' }, async () => status);
    await get(url);
    status = 503;
    await get(url);
    status = 404;
    await get(url);
    assert.equal((await get(url)).status, 429);
    // Reports are sent in order: the last one brings all before it.
    await get(await start({ client, policy: 'api', observe: 'db' }, async () => 200));
    await until('the reports', async () => (await target(server)).count >= 4);
    const { count, errors } = await target(server);
    assert.deepEqual([count, errors], [4, 1]);
  });

  test(`${framework}: a request that \`skip\` exempts is not reported`, async (t) => {
    const { client, server } = await serving(t);
    let status = 500;
    const skip = (request) => request.url.includes('skip');
    const url = await start({ client, policy: 'api', observe: 'db', skip }, async () => status);
    for (let round = 0; round < 3; round += 1) {
      assert.equal((await get(`${url}/?skip`)).status, 500);
    }
    status = 200;
    await get(url);
    await until('the report', async () => (await target(server)).count >= 1);
    const { count, errors } = await target(server);
    assert.deepEqual([count, errors], [1, 0]);
  });

  test(`${framework}: a client that leaves counts with the time it has waited`, async (t) => {
    const { client, server } = await serving(t);
    const [leave, times] = [new AbortController(), []];
    const url = await start({ client, policy: 'api', observe: 'db' }, () => {
      times.push(performance.now());
      return new Promise(() => {});
    });
    const left = assert.rejects(fetch(url, { signal: leave.signal }), { name: 'AbortError' });
    await until('it to have waited', () => performance.now() - times[0] > 300);
    leave.abort();
    await left;
    await until('the report', async () => (await target(server)).count === 1);
    const { errors, mean_ms: meanMs } = await target(server);
    assert.equal(errors, 0);
    assert.ok(meanMs >= 300, String(meanMs));
  });
}

test('an even sample of bounded size is sent, one call at a time', async () => {
  const [batches, done] = [[], []];
  const observer = new Observer((batch) => {
    batches.push(batch);
    return new Promise((resolve) => done.push(resolve));
  });
  const note = (count, latencyMs) => Array.from({ length: count }, () => observer.note('db', latencyMs, true));
  note(2 * SAMPLE_MAX, 1);
  note(2 * SAMPLE_MAX, 2);
  await until('a batch', () => batches.length === 1);
  assert.equal(batches[0].length, SAMPLE_MAX);
  const late = batches[0].filter(({ latency_ms: ms }) => ms === 2).length;
  assert.ok(late > SAMPLE_MAX / 4 && late < 3 * SAMPLE_MAX / 4, String(late));
  note(3, 5e9);
  let isOther = false;
  new Observer(async () => { isOther = true; }).note('other', 1, true);
  await until('as long as a batch takes', () => isOther);
  assert.equal(batches.length, 1, 'the first is still under way');
  done[0]();
  await until('the next', () => batches.length === 2);
  assert.deepEqual(batches[1][2], { target: 'db', latency_ms: 3_600_000, ok: true });
});

test('requests do not wait for a server that takes no reports, and one line says that it does not', async () => {
  const lines = [];
  const problem = JSON.stringify({ type: 'urn:tidegate:not-found', title: 'Not found', status: 404, detail: 'no route' });
  let reports = 0;
  const fault = await faultyServer(after, (socket, request) => {
    const isReport = request.includes('/v1/observe');
    reports += Number(isReport);
    request.startsWith('POST') && socket.write(isReport ? http(problem, '404 Not Found') : http(DECISION));
  });
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client: { url: fault.url }, policy: 'api', observe: 'db' });
    it.get('/', async () => 'hello');
  }, { loggerInstance: listLog(lines) });
  const told = () => lines.filter((line) => line.includes('`observe`'));
  await until('the line', async () => (await get(url)).status === 200 && told().length > 0);
  assert.match(told()[0], /^warn tidegate: the server rejects the option `observe`: not-found: no route/);
  const seen = reports;
  await until('further reports', async () => (await get(url)) && reports > seen + 2);
  assert.equal(told().length, 1);
});

test('an app whose server is away answers as before', async () => {
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client: { url: await deadUrl(), onTrouble: () => {} }, policy: 'api', observe: 'db' });
    it.get('/', async () => 'hello');
  });
  for (let round = 0; round < 50; round += 1) {
    assert.equal((await get(url)).status, 200);
  }
});

test('a target is a name', () => {
  for (const observe of ['', 'x'.repeat(101), 'a\nb', 7, true]) {
    assert.throws(() => expressLimit({ policy: 'api', observe }), /`options.observe`: expected the name of a target/);
  }
});

test('a target that no limit follows is reported at the start, once, with the nearest', async (t) => {
  const { server } = await serving(t);
  const told = async (limits, warnings) => {
    const lines = [];
    const started = new Tidegate({ ...server.options, timeoutMs: 60_000 });
    t.after(() => started.close());
    limits.forEach((limit) => expressLimit({ client: started, logger: listLog(lines), policy: 'api', ...limit }));
    await until('the warnings', () => lines.length >= warnings);
    await started.policyNames();
    return lines;
  };
  const said = "warn tidegate: no limit follows `observe: 'dbb'`: the nearest name is `db`. Its reports change nothing";
  assert.deepEqual(await told([{ observe: 'dbb' }, { observe: 'dbb' }, { observe: 'db' }, {}], 1), [said]);

  const lines = [];
  await fastifyApp(async (it) => {
    it.register(rateLimit, { client: { ...server.options }, policy: 'api', observe: 'db' });
    it.get('/', { config: { rateLimit: { observe: 'dbb' } } }, async () => 'hello');
  }, { loggerInstance: listLog(lines) });
  await until('the warning', () => lines.length > 0);
  assert.deepEqual(lines, [said]);
});

test('a target is not reported if a limit follows all, or the server does not tell targets', async (t) => {
  for (const [targets, count] of [['["all"]', 0], ['[]', 0], ['["db"]', 1]]) {
    const lines = [];
    const limit = `{"algorithm":"gcra","limit":5,"period_us":1000000,"targets":${targets}}`;
    const fault = await faultyServer((stop) => t.after(stop), (socket) => socket.write(http(`{"api":${limit}}`)));
    const started = new Tidegate({ url: fault.url, timeoutMs: 60_000 });
    t.after(() => started.close());
    expressLimit({ client: started, logger: listLog(lines), policy: 'api', observe: 'dbb' });
    expressLimit({ client: started, logger: listLog(lines), policy: 'apii' });
    await until('the misspelt policy to be reported', () => lines.some((line) => line.includes('`apii`')));
    assert.equal(lines.length, 1 + count, targets);
  }
});
