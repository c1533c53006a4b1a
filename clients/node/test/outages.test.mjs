// An outage has one line at its begin and one at its end; a policy that a reload drops is an outage of that policy.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Tidegate } from 'tidegate';
import { rateLimit as expressLimit } from 'tidegate/express';
import { rateLimit } from 'tidegate/fastify';
import { expressApp, fastifyApp, listLog } from './support/apps.mjs';
import { BURST, MODES, outage, RATE } from './support/outage-table.mjs';
import { POLICIES, startServer, until } from './support/server.mjs';
import { get } from './support/web.mjs';

const hello = async () => 'hello';

test('the log says when the server goes, what its routes do meanwhile, and when it is back', async (t) => {
  const lines = [];
  const first = await startServer();
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client: { url: first.url }, policy: 'plenty' });
    it.get('/', hello);
    it.get('/login', { config: { rateLimit: { policy: 'hundred', onError: 'deny' } } }, hello);
    it.get('/typo', { config: { rateLimit: { policy: 'tree' } } }, hello);
  }, { loggerInstance: listLog(lines) });
  await until('the names to be checked', () => lines.length > 0);
  assert.match(lines.pop(), /no policy is called `tree`/);
  assert.equal((await get(url)).status, 200);
  await first.stop();
  const statuses = [];
  for (const path of ['/', '/', '/login', '/login', '/']) {
    statuses.push((await get(url + path)).status);
  }
  assert.deepEqual(statuses, [200, 200, 503, 503, 200]);
  assert.deepEqual(lines.map((line) => line.replace(/\(.*\)/, '(…)')), [
    `warn tidegate: the server at ${first.url} gives no decision (…): requests are admitted meanwhile`,
    `warn tidegate: the server at ${first.url} gives no decision (…): requests are refused with 503 meanwhile`,
  ]);
  const second = await startServer({ on: first.listen });
  t.after(() => second.stop());
  await until('the server to decide', async () => (await get(url)).headers.has('ratelimit'));
  assert.equal(lines.length, 3);
  assert.match(lines[2], /^info tidegate: the server at \S+ decides again, after \d+\.\d s and \d+ decisions without it$/);
});

test('names that could not be checked at the start are checked when the server is there', async (t) => {
  const lines = [];
  const gone = await startServer();
  await gone.stop();
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client: { url: gone.url }, policy: 'plenty' });
    it.get('/', hello);
    it.get('/typo', { config: { rateLimit: { policy: 'tree' } } }, hello);
  }, { loggerInstance: listLog(lines) });
  await until('the warning', () => lines.length > 0);
  const server = await startServer({ on: gone.listen });
  t.after(() => server.stop());
  await until('all', async () => (await get(url)) && lines.length >= 3);
  assert.match(lines[1], /^info tidegate: the server at \S+ decides again/);
  assert.match(lines[2], /^error tidegate: no policy is called `tree`: the nearest name is `three`/);
});

test('a policy that a reload drops follows onError, and the log says so', async (t) => {
  const lines = [];
  const server = await startServer();
  const client = new Tidegate({ url: server.url, timeoutMs: 60_000 });
  t.after(async () => {
    await client.close();
    await server.stop();
  });
  const limits = [{ onError: 'allow' }, { onError: 'deny' }, { onError: 'throw' }];
  const fastify = await fastifyApp(async (it) => {
    it.register(rateLimit, { client, policy: 'hundred' });
    limits.forEach((rule, index) => it.get(`/${index}`, { config: { rateLimit: rule } }, hello));
  }, { loggerInstance: listLog(lines) });
  const express = await expressApp((it) => limits.forEach((rule, index) => it.get(
    `/${index}`, expressLimit({ client, policy: 'hundred', logger: listLog(lines), ...rule }),
    (_, response) => response.send('hello'))));
  const statuses = async () => {
    const all = [];
    for (const url of [fastify, express]) {
      for (const path of [0, 1, 2]) {
        all.push((await get(`${url}/${path}`)).status);
      }
    }
    return all;
  };
  assert.deepEqual(await statuses(), [200, 200, 200, 200, 200, 200]);
  const file = join(server.folder, 'policies.yaml');
  writeFileSync(file, POLICIES.replace('hundred:', 'hundreds:'));
  await until('the reload', async () => (await client.policyNames()).includes('hundreds'));
  assert.deepEqual(await statuses(), [200, 503, 503, 200, 503, 503]);
  assert.deepEqual(await statuses(), [200, 503, 503, 200, 503, 503]);
  const own = () => lines.filter((line) => line.includes('tidegate: '));
  await until('a line per consequence', () => own().length === 3);
  const consequences = ['are admitted', 'are refused with 503', 'fail with 503'];
  assert.deepEqual(own(), consequences.map((it) => 'warn tidegate: no policy is called `hundred`: the nearest name is '
    + `\`hundreds\`. It was removed while this app runs: requests ${it} meanwhile`));
  assert.equal((await client.check('hundred', 'k')).source, 'fallback');
  await assert.rejects(client.check('never-there', 'k'), { code: 'unknown-policy' });
  const both = [{ policy: 'plenty', key: 'k' }, { policy: 'hundred', key: 'k', cost: 2 }];
  const sources = (await client.checkMany(both)).map(({ source }) => source);
  assert.deepEqual(sources, ['store', 'fallback']);
  await assert.rejects(client.checkMany(both, { atomic: true }), { code: 'unknown-policy', field: 'checks[1].policy' });
  await assert.rejects(client.checkMany([...both, { policy: 'never-there', key: 'k' }]), { code: 'unknown-policy' });
});

for (const { name, options } of MODES) {
  test(`under load, a server is killed and started again: ${name} admits what it promises`, async () => {
    const { answers, killedAt, backAt } = await outage(options, { perSecond: 200, phaseMs: 1500 });
    const [servers, own] = [true, false].map((isServers) => answers.filter((it) => it.isServers === isServers));
    assert.ok(own.length > 20, 'or this shows nothing');
    assert.ok(servers.some(({ at }) => at < killedAt) && servers.some(({ at }) => at > backAt));
    const statuses = new Set(own.map(({ status }) => status));
    const { onError, processes = 1 } = options;
    if (onError !== 'local') {
      assert.deepEqual([...statuses], [onError === 'allow' ? 200 : 503]);
      return;
    }
    assert.deepEqual([...statuses].sort(), [200, 429]);
    const times = own.map(({ at, ms }) => [at, at + ms]).flat();
    const seconds = (Math.max(...times) - Math.min(...times)) / 1000;
    const most = Math.ceil((BURST + RATE * seconds) / processes);
    const admitted = own.filter(({ status }) => status === 200).length;
    assert.ok(admitted <= most, `${admitted} of at most ${most}`);
  });
}

test('under load, a server is killed and started again: an app is never at work on more than its places', async (t) => {
  const config = 'policies: { work: { key: global, algorithm: concurrency, limit: 8, ttl: 5s } }';
  const first = await startServer({ config });
  const client = new Tidegate({ url: first.url, onError: 'local', onTrouble: () => {} });
  const [phases, seen] = [['before', 'away', 'back'], { atWork: 0, finished: 0, most: {} }];
  let phase = 'before';
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client, policy: 'work', permit: true });
    it.get('/', async () => {
      seen.atWork += 1;
      seen.most[phase] = Math.max(seen.most[phase] ?? 0, seen.atWork);
      await new Promise((done) => setTimeout(done, 500));
      seen.atWork -= 1;
      seen.finished += 1;
      return 'done';
    });
  });
  await client.policyNames();
  let isOn = true;
  const load = Promise.all(Array.from({ length: 40 }, async () => {
    while (isOn) {
      await get(url);
      await new Promise((done) => setTimeout(done, 20));
    }
  }));
  t.after(() => client.close());
  await until('all places to be taken', () => seen.most.before >= 8);
  phase = 'away';
  await first.stop();
  await until('all places to be taken by this process', () => seen.most.away >= 8 && seen.atWork < 8);
  await until('all places to be taken again', () => seen.atWork >= 8);
  const second = await until('the address', () => startServer({ config, on: first.listen }).catch(() => undefined));
  t.after(() => second.stop());
  phase = 'back';
  await until('the server to decide', async () => (await client.peek('work', 'zoe')).source === 'store');
  const { finished } = seen;
  await until('three rounds of work', () => seen.finished >= finished + 24);
  isOn = false;
  await load;
  assert.deepEqual(phases.map((one) => seen.most[one]), [8, 8, 8]);
});
