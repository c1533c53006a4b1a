// Waiting: longer than a timer, ended by a signal, bounded in number.
import assert from 'node:assert/strict';
import { after, mock, test } from 'node:test';
import { Tidegate } from 'tidegate';
import { sleep } from '../dist/esm/timers.js';
import { DECISION, faultyServer, http } from './support/fault.mjs';
import { serve, until } from './support/server.mjs';

const { client } = await serve(after, Tidegate);
const reason = new Error('changed my mind');
const aborter = () => {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(reason) };
};

test('a wait longer than a timer is split', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    let done = false;
    void sleep(2 ** 31 + 10).then(() => {
      done = true;
    });
    const pass = async (ms) => {
      mock.timers.tick(ms);
      await Promise.resolve().then(() => {}).then(() => {});
      return done;
    };
    // A timer that was set to more would be over after the first of these.
    const steps = [1, 100, 100, 2 ** 31 - 202, 10, 1];
    const over = [];
    for (const ms of steps) {
      over.push(await pass(ms));
    }
    assert.deepEqual(over, [false, false, false, false, false, true]);
  } finally {
    mock.timers.reset();
  }
});

test('schedule waits for a month, and a signal ends it', async () => {
  await client.reserve('decade', 'abort');
  const controller = new AbortController();
  const wait = client.schedule('decade', 'abort', { signal: controller.signal });
  // Nothing else of it can be seen from outside but that its place is taken.
  await until('the place to be taken', async () => {
    const { delayMs } = await client.reserve('decade', 'abort', { cost: 0 });
    return delayMs > 2 ** 31;
  });
  const raced = await Promise.race([wait.then(() => 'over'), Promise.resolve().then(() => 'waiting')]);
  assert.equal(raced, 'waiting');
  controller.abort(reason);
  await assert.rejects(wait, reason);
});

test('an aborted call rejects with the reason, sent or not, regardless of onError', async () => {
  const { url, seen } = await faultyServer(after, () => {});
  const hung = new Tidegate({ url, maxSockets: 1, timeoutMs: 60_000, onError: 'allow' });
  const controller = new AbortController();
  const calls = [1, 2, 3].map(() => hung.check('p', 'k', { signal: controller.signal }));
  await until('the first to be sent', () => seen.requests === 1);
  controller.abort(reason);
  for (const call of calls) {
    await assert.rejects(call, reason);
  }
  await assert.rejects(hung.check('p', 'k', { signal: controller.signal }), reason);
  assert.equal(seen.requests, 1);
});

test('an answer in time counts, even if the event loop was blocked', async () => {
  await client.check('plenty', 'busy');
  const call = client.check('plenty', 'busy', { timeoutMs: 200, onError: 'deny' });
  await new Promise((sent) => setImmediate(sent));
  // Nothing runs here for so long, and the timer is over before the answer is read.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
  assert.equal((await call).source, 'store');
});

test('no more than maxWaiting calls wait', async () => {
  const { url } = await faultyServer(after, () => {});
  // How many are under way: checks that go together have four connections, however many there are.
  const rows = [[{ maxSockets: 2 }, 2], [{ maxSockets: 32 }, 4], [{ maxSockets: 6, batch: false }, 6]];
  for (const [options, underWay] of rows) {
    const full = new Tidegate({ url, maxWaiting: 3, timeoutMs: 60_000, onError: 'deny', ...options });
    const { signal, abort } = aborter();
    const waiting = Array.from({ length: underWay + 3 }, () => full.check('p', 'k', { signal }));
    const next = full.check('p', 'k', { signal });
    abort();
    const { allowed, source, error } = await next;
    assert.deepEqual([allowed, source, error.code], [false, 'fallback', 'overloaded']);
    const outcomes = await Promise.allSettled(waiting);
    assert.ok(outcomes.every((outcome) => outcome.reason === reason), 'all others waited');
  }
});

test('a permit that arrives after its caller has left is released', async () => {
  const released = [];
  let answer;
  const { url } = await faultyServer(after, (socket, request) => {
    if (request.startsWith('POST /v1/release')) {
      released.push(JSON.parse(request.split('\r\n\r\n')[1]));
      socket.write(http('{"released":true}'));
    } else {
      answer = () => socket.write(http(DECISION.replace('{', '{"permit":"p7",')));
    }
  });
  const one = new Tidegate({ url, timeoutMs: 60_000, onError: 'throw' });
  for (const take of ['acquire', 'withPermit']) {
    const { signal, abort } = aborter();
    const work = take === 'withPermit' ? [() => assert.fail('nobody waits for it')] : [];
    const taking = one[take]('report', 'ann', ...work, { signal });
    await until('it to be asked for', () => answer);
    abort();
    await assert.rejects(taking, reason);
    answer();
    answer = undefined;
    await until('it to be given back', () => released.length > 0);
    assert.deepEqual(released.splice(0), [{ policy: 'report', key: 'ann', permit: 'p7' }]);
  }
  await one.close();
});

test('close waits for pending calls and rejects new ones', async () => {
  const closing = new Tidegate({ ...(await serve(after, Tidegate)).server.options, timeoutMs: 60_000, maxSockets: 1 });
  const calls = Array.from({ length: 50 }, () => closing.check('plenty', 'closing', { headers: true }));
  const closed = closing.close();
  await assert.rejects(closing.check('plenty', 'closing'), { code: 'closed' });
  await Promise.all([closed, closing.close()]);
  const decisions = await Promise.all(calls);
  assert.ok(decisions.every(({ source }) => source === 'store'));
});
