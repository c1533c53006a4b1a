// Every call, over TCP and over a Unix socket.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Tidegate, TidegateError } from 'tidegate';
import { serve } from './support/server.mjs';

for (const on of ['127.0.0.1:0', '[::1]:0', 'unix']) {
  const { client } = await serve(after, Tidegate, {}, on);

  test(`${on}: a check spends until nothing is left, and a refusal is a value`, async () => {
    for (const remaining of [2, 1, 0]) {
      const { resetAfterMs, ...decision } = await client.check('three', 'ann');
      assert.deepEqual(decision, {
        allowed: true, limit: 3, remaining, retryAfterMs: 0, policy: 'three', binding: 'three', source: 'store',
      });
      assert.ok(resetAfterMs > 0);
    }
    const refused = await client.check('three', 'ann');
    assert.equal(refused.allowed, false);
    assert.ok(refused.retryAfterMs > 0);
    assert.equal(refused.headers, undefined);
  });

  test(`${on}: a cost above the limit is refused for ever`, async () => {
    const { allowed, retryAfterMs } = await client.check('three', 'bob', { cost: 4 });
    assert.deepEqual([allowed, retryAfterMs], [false, null]);
  });

  test(`${on}: headers are answered if they are asked for`, async () => {
    const allowed = await client.check('three', 'cleo', { headers: true });
    assert.equal(allowed.headers['ratelimit-policy'], '"three";q=3;w=86400');
    assert.equal(allowed.headers['x-ratelimit-remaining'], '2');
    assert.equal(allowed.headers['retry-after'], undefined);
    assert.equal(allowed.headers['content-type'], undefined);
    const refused = await client.check('three', 'cleo', { headers: true, cost: 3 });
    assert.ok(Number(refused.headers['retry-after']) >= 1);
  });

  test(`${on}: several identifiers are counted in one check`, async () => {
    const keys = { ip: '192.0.2.7', email_domain: 'example.com' };
    assert.equal((await client.check('signup', keys, { cost: 3 })).allowed, true);
    const refused = await client.check('signup', keys);
    assert.deepEqual([refused.allowed, refused.binding], [false, 'ip']);
    const elsewhere = await client.check('signup', { ...keys, ip: '192.0.2.8' });
    assert.equal(elsewhere.allowed, true);
  });

  test(`${on}: peek spends nothing, refund gives back, reset forgets`, async () => {
    await client.check('three', 'dora', { cost: 2 });
    assert.equal((await client.peek('three', 'dora')).remaining, 0);
    assert.equal((await client.peek('three', 'dora', { cost: 0 })).remaining, 1);
    assert.equal((await client.refund('three', 'dora')).remaining, 2);
    assert.equal((await client.refund('three', 'dora', { cost: 9 })).remaining, 3);
    await client.check('three', 'dora', { cost: 3 });
    assert.equal((await client.reset('three', 'dora')).remaining, 3);
  });

  test(`${on}: a reservation says how long to wait, schedule waits`, async () => {
    assert.deepEqual(await client.reserve('export', 'eve'), {
      accepted: true, delayMs: 0, retryAfterMs: 0, source: 'server',
    });
    const waits = await Promise.all(Array.from({ length: 10 }, () => client.reserve('decade', 'eve')));
    assert.ok(Math.max(...waits.map(({ delayMs }) => delayMs)) > 2 ** 31);
    const begin = performance.now();
    const [first, last] = await Promise.all([
      client.schedule('export', 'fay'), client.schedule('export', 'fay', { cost: 50 }),
    ]);
    assert.ok(first.accepted && last.accepted);
    assert.ok(performance.now() - begin >= Math.max(first.delayMs, last.delayMs) - 1);
    const never = await client.schedule('export', 'fay', { cost: 51 });
    assert.deepEqual([never.accepted, never.retryAfterMs], [false, null]);
  });

  test(`${on}: a permit is held until it is released`, async () => {
    const [one, two] = [await client.acquire('report', 'gus'), await client.acquire('report', 'gus')];
    const three = await client.acquire('report', 'gus');
    assert.deepEqual([one.allowed, two.allowed, three.allowed, three.permit], [true, true, false, null]);
    assert.equal(await client.release('report', 'gus', one.permit), true);
    assert.equal((await client.acquire('report', 'gus')).allowed, true);
  });

  test(`${on}: withPermit gives the place back, however the work ends`, async () => {
    for (let round = 0; round < 3; round += 1) {
      const done = await client.withPermit('report', 'hal', async ({ permit }) => {
        assert.equal(typeof permit, 'string');
        return round;
      });
      assert.deepEqual([done.allowed, done.value], [true, round]);
      const boom = new Error('boom');
      await assert.rejects(client.withPermit('report', 'hal', () => { throw boom; }), boom);
    }
    const held = [await client.acquire('report', 'hal'), await client.acquire('report', 'hal')];
    assert.ok(held.every(({ allowed }) => allowed));
    const refused = await client.withPermit('report', 'hal', () => assert.fail('there was no place'));
    assert.equal(refused.allowed, false);
  });

  test(`${on}: an observation is taken`, async () => {
    assert.equal(await client.observe('db', { latencyMs: 12.5 }), undefined);
    await client.observe('db', { latencyMs: 3, ok: false, queueMs: 1, saturation: 0.5, url: '/a' });
  });

  test(`${on}: what the server finds wrong is an error that names the field, whatever onError says`, async () => {
    const rows = [
      [() => client.check('threee', 'k', { onError: 'allow' }), 'unknown-policy', 404, 'policy'],
      [() => client.check('export', 'k', { onError: 'deny' }), 'bad-input', 400, 'policy'],
      [() => client.check('signup', 'k'), 'bad-input', 400, 'keys.ip'],
      [() => client.reserve('three', 'k'), 'bad-input', 400, 'policy'],
      [() => client.release('report', 'k', 'nonsense'), 'bad-input', 400, 'permit'],
      [() => client.checkMany([{ policy: 'three', key: 'k' }, { policy: 'no', key: 'k' }]), 'unknown-policy', 404,
        'checks[1].policy'],
    ];
    for (const [call, code, status, field] of rows) {
      await assert.rejects(call(), (error) => {
        assert.ok(error instanceof TidegateError);
        assert.deepEqual([error.code, error.status, error.field], [code, status, field]);
        assert.ok(error.detail.length > 10 && error.message.includes(error.detail));
        return true;
      });
    }
  });
}

test('a socket may have the `unix:` of the server\'s file in front', async (t) => {
  const { server } = await serve(t.after.bind(t), Tidegate, {}, 'unix');
  const client = new Tidegate({ socketPath: `unix:${server.options.socketPath}`, timeoutMs: 60_000, onError: 'throw' });
  t.after(() => client.close());
  assert.equal((await client.check('three', 'ann')).source, 'store');
});
