// withPermit keeps its place for as long as its work takes.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Tidegate } from 'tidegate';
import { keepRenewing } from '../dist/esm/renewal.js';
import { DECISION, faultyServer, http } from './support/fault.mjs';
import { startServer, until } from './support/server.mjs';

// The numbers are those of a rate, which binds.
const GRANTED = JSON.stringify({ ...JSON.parse(DECISION), permit: 'p2..1', ttl_ms: 60, reset_after_ms: 86_400_000 });
const pathOf = (request) => /^POST (\S+)/.exec(request)[1];

test('a permit outlives its ttl while its work goes on, and is free afterwards', async (t) => {
  const config = 'policies: { report: { algorithm: concurrency, limit: 1, ttl: 3s } }';
  const server = await startServer({ config });
  const client = new Tidegate({ url: server.url, timeoutMs: 60_000, onError: 'throw' });
  t.after(async () => {
    await client.close();
    await server.stop();
  });
  const begin = performance.now();
  const { value } = await client.withPermit('report', 'ann', async ({ permit }) => {
    const refusals = await until('longer than its time', async () => {
      assert.equal((await client.acquire('report', 'ann')).allowed, false, 'its place is taken');
      return performance.now() - begin > 4500;
    });
    assert.deepEqual(await client.renew('report', 'ann', permit), { renewed: true, ttlMs: 3000 });
    return refusals;
  });
  assert.equal(value, true);
  const { permit } = await client.acquire('report', 'ann');
  assert.equal(await client.release('report', 'ann', permit), true);
  assert.deepEqual(await client.renew('report', 'ann', permit), { renewed: false, ttlMs: 0 });
});

test('where a rate binds, a permit is renewed by its own ttl', async (t) => {
  const jobs = '{ name: jobs, algorithm: concurrency, limit: 5, ttl: 2s }';
  const day = '{ name: day, algorithm: fixed-window, limit: 4/day }';
  const server = await startServer({ config: `policies: { job: { all: [${jobs}, ${day}] } }` });
  const client = new Tidegate({ url: server.url, timeoutMs: 60_000, onError: 'throw' });
  t.after(async () => {
    await client.close();
    await server.stop();
  });
  const renewals = [];
  t.mock.method(client, 'renew', async (...args) => {
    renewals.push(await Tidegate.prototype.renew.apply(client, args));
    return renewals.at(-1);
  });
  // The pauses before four renewals are longer than the ttl.
  const { decision } = await client.withPermit('job', 'ann', () => until('four renewals', () => renewals.length >= 4));
  assert.deepEqual([decision.binding, decision.ttlMs], ['day', 2000]);
  assert.deepEqual(renewals.slice(0, 4), Array(4).fill({ renewed: true, ttlMs: 2000 }));
});

test('a server that cannot renew is asked once, with one warning, and the work is done all the same', async (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => {});
  const notFound = JSON.stringify({ type: 'urn:tidegate:not-found', title: 'Not found', status: 404, detail: 'no route' });
  for (const body of [notFound, '<html>not found</html>']) {
    const paths = [];
    warn.mock.resetCalls();
    const { url } = await faultyServer(after, (socket, request) => {
      const path = pathOf(request);
      paths.push(path);
      const found = { '/v1/acquire': GRANTED, '/v1/release': '{"released":true}' }[path];
      socket.write(found === undefined ? http(body, '404 Not Found') : http(found));
    });
    const client = new Tidegate({ url, timeoutMs: 60_000 });
    for (let round = 1; round <= 2; round += 1) {
      // A second renewal would come after another 20 ms or less.
      const { value } = await client.withPermit('report', 'ann', async () => {
        await until('the renewal', () => paths.filter((path) => path === '/v1/renew').length === round);
        await until('three times its time', () => new Promise((done) => setTimeout(() => done(true), 180)));
        return 'done';
      });
      assert.equal(value, 'done');
    }
    const once = ['/v1/acquire', '/v1/renew', '/v1/release'];
    assert.deepEqual(paths, [...once, ...once]);
    assert.equal(warn.mock.callCount(), 1);
    assert.match(warn.mock.calls[0].arguments[0], /a permit of `report` is not renewed: this server cannot \(.*404|not-found/);
    await client.close();
  }
});

test('it is renewed at a third of its time, more often after a failure, and not after the end', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const asked = [];
  let [now, answer] = [0, async () => ({ renewed: true, ttlMs: 900 })];
  const pass = async (ms) => {
    for (let passed = 0; passed < ms; passed += 10) {
      now += 10;
      t.mock.timers.tick(10);
      await new Promise((done) => setImmediate(done));
    }
  };
  const events = [];
  const renewing = {
    renew: () => asked.push(now) && answer(),
    isFinal: (error) => error.message === 'final',
    lost: () => events.push('lost'),
  };
  const stop = keepRenewing(300, renewing);
  await pass(1000);
  // The first by the time it was granted for, the others by the time that the server says.
  assert.deepEqual(asked.splice(0), [100, 400, 700, 1000]);
  answer = async () => { throw new Error('away'); };
  await pass(500);
  assert.deepEqual(asked.splice(0), [1300, 1400, 1500]);
  stop();
  await pass(1000);
  assert.deepEqual(asked, []);
  // A server that does not tell how long a permit is held is asked soon.
  answer = async () => ({ renewed: false, ttlMs: 0 });
  keepRenewing(undefined, renewing);
  await pass(1000);
  assert.deepEqual([asked.splice(0).length, events.splice(0)], [1, ['lost']]);
  for (const [end, said] of [[async () => ({ renewed: false, ttlMs: 0 }), ['lost']], [async () => { throw new Error('final'); }, []]]) {
    answer = end;
    keepRenewing(300, renewing);
    await pass(2000);
    assert.deepEqual([asked.splice(0).length, events.splice(0)], [1, said]);
  }
});

test('a permit of this process is renewed, too', async (t) => {
  const config = 'policies: { report: { algorithm: concurrency, limit: 1, ttl: 3s } }';
  const server = await startServer({ config });
  const client = new Tidegate({ url: server.url, onError: 'local', onTrouble: () => {} });
  t.after(() => client.close());
  await client.policyNames();
  await server.stop();
  const begin = performance.now();
  const { value, decision } = await client.withPermit('report', 'ann', () => until('longer than its time', async () => {
    assert.equal((await client.acquire('report', 'ann')).allowed, false);
    return performance.now() - begin > 4000;
  }));
  assert.deepEqual([value, decision.source, decision.ttlMs], [true, 'local', 3000]);
  const { permit } = await client.acquire('report', 'ann');
  assert.deepEqual(await client.renew('report', 'ann', permit), { renewed: true, ttlMs: 3000 });
  assert.deepEqual(await client.renew('report', 'ann', 'local.4711'), { renewed: false, ttlMs: 0 });
});
