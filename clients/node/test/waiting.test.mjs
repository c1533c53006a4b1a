// Waiting: in pieces that timers can hold, ended by a signal, bounded in number.
import assert from 'node:assert/strict';
import { after, mock, test } from 'node:test';
import { Tidegate } from 'tidegate';
import { sleep } from '../dist/esm/sleep.js';
import { faultyServer } from './support/fault.mjs';
import { serve, until } from './support/server.mjs';

const { client } = await serve(after, Tidegate);
const reason = new Error('changed my mind');

test('a wait longer than a timer can be set to is waited in pieces', async () => {
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

test('a schedule of a month is waited for, and a signal ends it', async () => {
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

test('an aborted call rejects with the reason, whether sent or not, and whatever onError says', async () => {
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

test('an answer that came in time counts, even if this process was too busy to read it', async () => {
  await client.check('plenty', 'busy');
  const call = client.check('plenty', 'busy', { timeoutMs: 200, onError: 'deny' });
  await new Promise((sent) => setImmediate(sent));
  // Nothing runs here for so long, and the timer is over before the answer is read.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
  assert.equal((await call).source, 'store');
});

test('no more calls wait than are allowed to', async () => {
  const { url } = await faultyServer(after, () => {});
  const full = new Tidegate({ url, maxSockets: 2, maxWaiting: 3, timeoutMs: 60_000, onError: 'deny' });
  const controller = new AbortController();
  const waiting = [1, 2, 3, 4, 5].map(() => full.check('p', 'k', { signal: controller.signal }));
  const { allowed, source, error } = await full.check('p', 'k');
  assert.deepEqual([allowed, source, error.code], [false, 'fallback', 'overloaded']);
  controller.abort(reason);
  await Promise.allSettled(waiting);
});

test('close waits for what is under way, and takes nothing more', async () => {
  const closing = new Tidegate({ ...(await serve(after, Tidegate)).server.options, timeoutMs: 60_000, maxSockets: 1 });
  const calls = Array.from({ length: 50 }, () => closing.check('plenty', 'closing', { headers: true }));
  const closed = closing.close();
  await assert.rejects(closing.check('plenty', 'closing'), { code: 'closed' });
  await Promise.all([closed, closing.close()]);
  const decisions = await Promise.all(calls);
  assert.ok(decisions.every(({ source }) => source === 'store'));
});
