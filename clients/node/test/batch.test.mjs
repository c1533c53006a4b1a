// Many concurrent checks: exactly the limit is admitted, none is lost, in as few calls as possible.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Tidegate } from 'tidegate';
import { DECISION, faultyServer, http } from './support/fault.mjs';
import { serve } from './support/server.mjs';

const { client, server } = await serve(after, Tidegate);
const times = (count, each) => Promise.all(Array.from({ length: count }, (_, index) => each(index)));
const admitted = (decisions) => decisions.filter(({ allowed }) => allowed).length;

for (const batch of [true, false]) {
  test(`batch ${batch}: of 500 at once exactly the limit of 100 is admitted`, async () => {
    const one = new Tidegate({ ...server.options, timeoutMs: 60_000, onError: 'throw', batch });
    const decisions = await times(500, () => one.check('hundred', `exact-${batch}`));
    assert.equal(admitted(decisions), 100);
    assert.deepEqual(new Set(decisions.map(({ source }) => source)), new Set(['store']));
    await one.close();
  });

  test(`batch ${batch}: of 10,000 at once none is lost, and each gets its own answer`, async () => {
    const one = new Tidegate({ ...server.options, timeoutMs: 60_000, onError: 'throw', batch });
    const key = `lossless-${batch}`;
    const decisions = await times(10_000, (index) => one.check('plenty', key, { cost: index % 3 }));
    assert.equal(admitted(decisions), 10_000);
    // 0 + 1 + 2 for each three of them, and nothing twice.
    assert.equal((await one.peek('plenty', key, { cost: 0 })).remaining, 1_000_000 - 9999);
    await one.close();
  });
}

test('waiting checks share a call, and a check that need not wait is sent alone', async () => {
  const asked = [];
  const fault = await faultyServer(after, (socket, request) => {
    const { checks, headers = false } = JSON.parse(request.split('\r\n\r\n')[1]);
    asked.push([request.split(' ')[1], checks?.length ?? 1].join(' '));
    const decision = headers ? DECISION.replace('{', '{"headers":{"ratelimit":"r"},') : DECISION;
    socket.write(http(checks ? `{"decisions":[${checks.map(() => decision).join(',')}]}` : decision));
  });
  const rows = [
    [{ maxSockets: 1 }, {}, ['/v1/check 1', '/v1/check/batch 1000', '/v1/check/batch 1000', '/v1/check 1']],
    [{}, {}, [...Array(4).fill('/v1/check 1'), '/v1/check/batch 1000', '/v1/check/batch 998']],
    [{ batch: false }, {}, Array(2002).fill('/v1/check 1')],
    [{}, { headers: true }, [...Array(4).fill('/v1/check 1'), '/v1/check/batch 1000', '/v1/check/batch 998']],
  ];
  for (const [options, check, expected] of rows) {
    const one = new Tidegate({ url: fault.url, timeoutMs: 60_000, onError: 'throw', ...options });
    await times(2002, () => one.check('p', 'k', check));
    await one.check('p', 'k');
    // Of several connections nobody knows which is read first.
    assert.deepEqual(asked.splice(0).sort(), [...expected, '/v1/check 1'].sort());
    await one.close();
  }
});

test('each of 10,000 concurrent checks gets its own headers', async () => {
  const one = new Tidegate({ ...server.options, timeoutMs: 60_000, onError: 'throw' });
  const decisions = await times(10_000, () => one.check('plenty', 'headers', { headers: true }));
  assert.equal(new Set(decisions.map(({ headers }) => headers['x-ratelimit-remaining'])).size, 10_000);
  assert.ok(decisions.every(({ headers, remaining }) => headers['x-ratelimit-remaining'] === String(remaining)));
  await one.close();
});

test('headers with invalid characters are not passed on', async () => {
  const told = {
    ratelimit: '"p";r=8;t=1', 'x-ratelimit-limit': '9\r\nset-cookie: a=b', 'set-cookie': 'a=b', 'retry-after': '',
  };
  const decision = DECISION.replace('{', `{"headers":${JSON.stringify(told)},`);
  const fault = await faultyServer(after, (socket, request) => {
    const { checks } = JSON.parse(request.split('\r\n\r\n')[1]);
    socket.write(http(checks ? `{"decisions":[${checks.map(() => decision).join(',')}]}` : decision));
  });
  const one = new Tidegate({ url: fault.url, timeoutMs: 60_000, maxSockets: 1, onError: 'throw' });
  const decisions = await times(3, () => one.check('p', 'k', { headers: true }));
  const passed = { ratelimit: told.ratelimit };
  assert.deepEqual(decisions.map(({ headers }) => headers), [{}, passed, passed], 'the first has a call of its own');
  await one.close();
});

test('an invalid check in a batch fails alone', async () => {
  const narrow = new Tidegate({ ...server.options, maxSockets: 1, timeoutMs: 60_000, onError: 'throw' });
  const outcomes = await Promise.allSettled([
    narrow.check('hundred', 'spoilt'), narrow.check('hundred', 'spoilt'), narrow.check('nope', 'spoilt'),
    narrow.check('hundred', 'spoilt'),
  ]);
  assert.deepEqual(outcomes.map(({ status }) => status), ['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
  assert.equal(outcomes[2].reason.code, 'unknown-policy');
  assert.equal(outcomes[2].reason.field, 'policy');
  assert.equal((await narrow.peek('hundred', 'spoilt', { cost: 0 })).remaining, 97);
  await narrow.close();
});

test('rejected checks do not keep others from sharing a call', async () => {
  const asked = [];
  const problem = JSON.stringify({ type: 'urn:tidegate:unknown-policy', status: 404, detail: 'no such policy' });
  const fault = await faultyServer(after, (socket, request) => {
    const { checks, policy } = JSON.parse(request.split('\r\n\r\n')[1]);
    asked.push(...(checks === undefined && policy === 'good' ? ['good alone'] : []));
    const disliked = (checks ?? [{ policy }]).some(({ policy }) => policy === 'bad');
    const answer = checks ? `{"decisions":[${checks.map(() => DECISION).join(',')}]}` : DECISION;
    socket.write(disliked ? http(problem, '404 Not Found') : http(answer));
  });
  const one = new Tidegate({ url: fault.url, maxSockets: 1, timeoutMs: 60_000, onError: 'throw' });
  const all = Array.from({ length: 200 }, (_, index) => one.check(index % 2 ? 'bad' : 'good', 'k'));
  const outcomes = await Promise.allSettled(all);
  assert.deepEqual(outcomes.map(({ status }) => status === 'fulfilled'), outcomes.map((_, index) => index % 2 === 0));
  assert.deepEqual(asked, ['good alone'], 'the first, which did not have to wait');
  await one.close();
});

test('checkMany keeps the order, and splits long lists', async () => {
  const checks = Array.from({ length: 2500 }, (_, index) => ({
    policy: index % 2 ? 'hundred' : 'plenty', key: 'many', cost: index % 2,
  }));
  const decisions = await client.checkMany(checks);
  assert.deepEqual(decisions.map(({ policy }) => policy), checks.map(({ policy }) => policy));
  assert.equal(admitted(decisions), 1250 + 100);
  assert.deepEqual(await client.checkMany([]), []);
});

test('checkMany splits calls by size as well', async () => {
  const key = 'long'.repeat(10_000);
  const decisions = await client.checkMany(Array.from({ length: 100 }, () => ({ policy: 'plenty', key })));
  assert.equal(admitted(decisions), 100);
  assert.equal(decisions.at(-1).limit, 1_000_000);
});

test('an error names the index in the whole list', async () => {
  const checks = Array.from({ length: 1500 }, () => ({ policy: 'plenty', key: 'named' }));
  checks[1234] = { policy: 'nope', key: 'named' };
  await assert.rejects(client.checkMany(checks), (error) => {
    assert.equal(error.field, 'checks[1234].policy');
    assert.match(error.detail, /checks\[1234\]/);
    return true;
  });
});

test('atomic charges all or none', async () => {
  const checks = [{ policy: 'hundred', key: 'atom' }, { policy: 'three', key: 'atom', cost: 4 }];
  const apart = await client.checkMany(checks);
  assert.deepEqual(apart.map(({ allowed, remaining }) => [allowed, remaining]), [[true, 99], [false, 3]]);
  const together = await client.checkMany(checks, { atomic: true });
  assert.equal(together[1].allowed, false);
  assert.equal((await client.peek('hundred', 'atom', { cost: 0 })).remaining, 99);
});
