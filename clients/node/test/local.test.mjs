// onError: 'local' against a real server that is killed: this process counts with the numbers that the server had told.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Tidegate } from 'tidegate';
import { rateLimit } from 'tidegate/fastify';
import { fastifyApp, listLog } from './support/apps.mjs';
import { faultyServer, http } from './support/fault.mjs';
import { startServer, until } from './support/server.mjs';
import { deadUrl, get } from './support/web.mjs';

const CONFIG = `
policies:
  gcra: { limit: 8/day }
  bucket: { algorithm: token-bucket, capacity: 8, refill: 8/day }
  fixed: { algorithm: fixed-window, limit: 8/day }
  sliding: { algorithm: sliding-window, limit: 8/day }
  log: { algorithm: sliding-log, limit: 8/day }
  month: { algorithm: quota, limit: 8, every: month }
  rolling: { algorithm: quota, limit: 8, every: day, rolling: true }
  plan:
    all:
      - { name: second, limit: 1000/s }
      - { name: day, algorithm: fixed-window, limit: 8/day }
  paid:
    all:
      - { name: second, limit: 1000/s }
      - { name: day, algorithm: sliding-log, limit: 20/day, cost: 5 }
  either:
    any:
      - { name: small, algorithm: fixed-window, limit: 4/day, cost: 2 }
      - { name: large, algorithm: fixed-window, limit: 9/day, cost: 3 }
  work:
    all:
      - { name: dear, algorithm: concurrency, limit: 10, cost: 5 }
      - { name: cheap, algorithm: concurrency, limit: 10 }
  try: { limit: 1/day, mode: shadow }
  trial: { algorithm: concurrency, limit: 1, mode: shadow }
  part: { limit: 3/day, enforce: 10% }
  everyone: { limit: 3/day, enforce: 100% }
  report: { algorithm: concurrency, limit: 8 }
  export: { algorithm: leaky-bucket, limit: 8/day, max_wait: 5h }
  orders:
    all:
      - { name: rate, key: global, limit: 5/day }
      - { name: day, key: global, algorithm: sliding-log, limit: 6/day }
      - { name: in-flight, key: global, algorithm: concurrency, limit: 3, ttl: 1h }
`;
const times = (count, ask) => Array.from({ length: count }, ask);

/** A client that has learnt the numbers of a server, which is then killed. `before` is what it has asked before. */
async function orphan(t, options = {}, before = () => {}) {
  const troubles = [];
  const server = await startServer({ config: CONFIG });
  const client = new Tidegate({ url: server.url, onError: 'local', onTrouble: (it) => troubles.push(it), ...options });
  t.after(() => client.close());
  await client.policyNames();
  const answers = await before(client);
  await server.stop();
  return { client, server, troubles, answers };
}

for (const processes of [1, 4]) {
  test(`each of ${processes} admits its part of every limit, and not one more`, async (t) => {
    const { client, troubles } = await orphan(t, { processes });
    const share = 8 / processes;
    for (const policy of ['gcra', 'bucket', 'fixed', 'sliding', 'log', 'month', 'rolling', 'plan']) {
      const decisions = await Promise.all(times(20, () => client.check(policy, 'ann')));
      const admitted = decisions.filter(({ allowed }) => allowed);
      assert.equal(admitted.length, share, policy);
      const refused = decisions.find(({ allowed }) => !allowed);
      assert.deepEqual([refused.source, refused.limit, refused.remaining], ['local', share, 0], policy);
      assert.ok(refused.retryAfterMs > 0, policy);
      assert.ok(['unreachable', 'circuit-open'].includes(refused.error.code));
      assert.equal((await client.check(policy, 'ben')).allowed, true, 'others have their own');
    }
    assert.equal(troubles.length, 8 * 21);
    const shadow = await Promise.all(times(5, () => client.check('try', 'ann')));
    assert.ok(shadow.every(({ allowed }) => allowed));
  });
}

for (const [processes, paid, either, work] of [[1, 4, 3, 2], [2, 2, 1, 1], [8, 1, 1, 1]]) {
  test(`the cost of a limit counts in each of ${processes}`, async (t) => {
    const { client } = await orphan(t, { processes });
    const admitted = async (policy) => {
      const decisions = await Promise.all(times(10, () => client.check(policy, 'ann')));
      return decisions.filter(({ allowed, source }) => allowed && source === 'local').length;
    };
    assert.deepEqual([await admitted('paid'), await admitted('either')], [paid, either]);
    const { allowed, remaining, binding } = await client.peek('paid', 'ann');
    assert.deepEqual([allowed, remaining, binding], [false, 0, 'day']);
    assert.equal((await client.peek('paid', 'ann', { cost: 5 })).retryAfterMs, null);
    const many = await client.checkMany(times(paid + 1, () => ({ policy: 'paid', key: 'ben' })), { atomic: true });
    assert.equal(many.at(-1).allowed, false);
    assert.equal((await client.peek('paid', 'ben', { cost: 0 })).remaining, Math.max(5, 20 / processes));

    const permits = await Promise.all(times(3, () => client.acquire('work', 'ann')));
    const held = permits.filter(({ permit }) => permit !== null);
    assert.equal(held.length, work);
    assert.equal(await client.release('work', 'ann', held[0].permit), true);
    const again = await Promise.all(times(2, () => client.acquire('work', 'ann')));
    assert.equal(again.filter(({ permit }) => permit !== null).length, 1);
  });
}

test('a policy that is enforced for a part of the callers refuses nobody', async (t) => {
  const { client } = await orphan(t);
  const admitted = async (policy) => {
    const decisions = await Promise.all(times(20, (_, index) => client.check(policy, `k${index % 2}`)));
    return decisions.filter(({ allowed }) => allowed).length;
  };
  assert.deepEqual([await admitted('part'), await admitted('everyone')], [20, 6]);
});

test('every call that asks for permission is counted', async (t) => {
  const { client } = await orphan(t);
  assert.equal((await client.peek('fixed', 'ann', { cost: 8 })).allowed, true);
  assert.equal((await client.peek('fixed', 'ann', { cost: 9 })).retryAfterMs, null);
  const many = await client.checkMany(times(10, () => ({ policy: 'fixed', key: 'ann' })));
  assert.equal(many.filter(({ allowed }) => allowed).length, 8);
  const atomic = await client.checkMany(times(9, () => ({ policy: 'fixed', key: 'ben' })), { atomic: true });
  assert.equal(atomic.filter(({ allowed }) => !allowed).length, 1);
  assert.equal((await client.peek('fixed', 'ben', { cost: 0 })).remaining, 8);

  // Calls at the same time: a probe of the server fails later than its neighbours, and is decided after them.
  const slots = await Promise.all(times(5, () => client.reserve('export', 'ann')));
  assert.ok(slots.every(({ source }) => source === 'local'));
  const delays = slots.filter(({ accepted }) => accepted).map(({ delayMs }) => delayMs);
  assert.equal(delays.length, 2);
  const [first, second] = delays.sort((a, b) => a - b);
  assert.ok(first === 0 && second > 10_000_000 && second <= 10_800_000, `${first} ${second}`);

  const permits = await Promise.all(times(9, () => client.acquire('report', 'ann')));
  const held = permits.filter(({ allowed }) => allowed).map(({ permit }) => permit);
  assert.equal(held.length, 8);
  assert.equal((await client.acquire('report', 'ann')).permit, null);
  assert.equal(await client.release('report', 'ann', held[0]), true);
  assert.equal(await client.release('report', 'ann', held[0]), false);
  assert.equal((await client.withPermit('report', 'ann', () => 'done')).value, 'done');
  assert.equal((await client.withPermit('report', 'ann', () => 'done')).value, 'done');
});

test('a released permit gives its place back, and nothing of a rate beside it', async (t) => {
  const { client } = await orphan(t);
  const admitted = [];
  for (let round = 0; round < 20; round += 1) {
    const { allowed, permit } = await client.acquire('orders', `k${round}`);
    if (allowed) {
      admitted.push(permit);
      assert.equal(await client.release('orders', `k${round}`, permit), true);
    }
  }
  assert.equal(admitted.length, 5);
  const { binding } = await client.acquire('orders', 'k');
  assert.equal(binding, 'rate');
});

test('a check of a policy with places takes none', async (t) => {
  const { client } = await orphan(t);
  const checks = await Promise.all(times(20, () => client.check('report', 'ann')));
  assert.ok(checks.every(({ allowed }) => allowed));
  const permits = await Promise.all(times(9, () => client.acquire('report', 'ann')));
  assert.equal(permits.filter(({ permit }) => permit !== null).length, 8);
});

test('never more at work than places, while a server is killed and started again', async (t) => {
  const acquired = (it) => Promise.all(times(8, () => it.acquire('report', 'ann')));
  const { client, server, answers: held } = await orphan(t, {}, acquired);
  assert.ok(held.every(({ permit }) => /^p/.test(permit)));
  const free = async (index) => {
    const [{ permit }] = held.splice(index, 1);
    await client.release('report', 'ann', permit).catch(() => {});
  };
  const fill = async () => {
    const more = await Promise.all(times(9, () => client.acquire('report', 'ann')));
    held.push(...more.filter(({ allowed }) => allowed));
    return held.length;
  };
  assert.equal(await fill(), 8, 'the permits of the server count');
  await free(0);
  await free(0);
  assert.equal(await fill(), 8);
  assert.equal(held.filter(({ source }) => source === 'local').length, 2);
  const back = await startServer({ config: CONFIG, on: server.listen });
  t.after(() => back.stop());
  await until('the server to decide', async () => (await client.check('gcra', 'zoe')).source === 'store');
  const refused = await client.acquire('report', 'ann');
  assert.deepEqual([refused.allowed, refused.permit, refused.source], [false, null, 'local']);
  assert.equal(refused.error.code, 'recovering');
  assert.equal(await fill(), 8, 'the server has forgotten them, this process has not');
  assert.equal((await client.acquire('report', 'ben')).source, 'store');
  for (let drained = 0; drained < 8; drained += 1) {
    await free(0);
    assert.equal(await fill(), 8);
  }
  assert.ok(held.every(({ source }) => source === 'store'));
});

/** A client that holds all eight places of a server, and another that can take them away. */
async function full(t) {
  const server = await startServer({ config: CONFIG });
  const [client, other] = [0, 1].map(() => new Tidegate({ url: server.url, onError: 'local', onTrouble: () => {} }));
  t.after(() => Promise.all([client.close(), other.close()]));
  await client.policyNames();
  const held = await Promise.all(times(8, () => client.acquire('report', 'ann')));
  assert.ok(held.every(({ allowed, source }) => allowed && source === 'store'));
  return { server, client, other, held: held.map(({ permit }) => permit) };
}

for (const call of ['renew', 'release']) {
  test(`a server that has lost a permit, as ${call} finds, may have forgotten the others`, async (t) => {
    const { server, client, other, held } = await full(t);
    t.after(() => server.stop());
    await Promise.all(held.map((permit) => other.release('report', 'ann', permit)));
    const answer = await client[call]('report', 'ann', held[0]);
    assert.equal(call === 'renew' ? answer.renewed : answer, false);
    const more = await Promise.all(times(9, () => client.acquire('report', 'ann')));
    assert.equal(more.filter(({ allowed }) => allowed).length, call === 'renew' ? 0 : 1);
    assert.equal(more.find(({ allowed }) => !allowed).error.code, 'recovering');
  });
}

test('a restart that only a renewal notices does not double the places', async (t) => {
  const { server, client, held } = await full(t);
  await server.stop();
  await assert.rejects(client.renew('report', 'ann', held[0]), { transient: true });
  const back = await startServer({ config: CONFIG, on: server.listen });
  t.after(() => back.stop());
  await until('the server to answer', () => client.policyNames().then(() => true, () => false));
  const more = await Promise.all(times(9, () => client.acquire('report', 'ann')));
  assert.deepEqual(more.filter(({ allowed }) => allowed), []);
});

test('a permit that no place was charged for has nothing to release', async (t) => {
  const { client } = await orphan(t);
  const rate = await client.acquire('gcra', 'ann');
  assert.deepEqual([rate.allowed, rate.permit, rate.source], [true, null, 'local']);
  const permits = await Promise.all(times(3, () => client.acquire('trial', 'ann')));
  assert.deepEqual(permits.map(({ allowed, permit }) => [allowed, permit !== null]), [[true, true], [true, false], [true, false]]);
});

test('a server that was never reached: allowed, with a warning', async (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => {});
  const client = new Tidegate({ url: await deadUrl(), onError: 'local' });
  const decisions = await Promise.all(times(50, () => client.check('gcra', 'ann')));
  assert.ok(decisions.every(({ allowed, source }) => allowed && source === 'fallback'));
  assert.equal(warn.mock.callCount(), 1);
  assert.match(warn.mock.calls[0].arguments[0], /checks are allowed, because the limits were not learnt before/);
});

test('numbers that cannot be read replace none that could, also after a reload that drops the policy', async (t) => {
  const numbers = '{"orders":{"algorithm":"sliding-log","limit":5,"period_us":86400000000}}';
  const replies = [numbers, '{"orders":null}', '{"orders":{"algorithm":"gcra","limit":"x"}}', '{"orders":{"members":[]}}',
    '{}', '"orders"', 'garbage'];
  const fault = await faultyServer((stop) => t.after(stop), (socket, request) => {
    const reply = request.startsWith('GET /v1/policies') ? replies.shift() : undefined;
    reply === undefined ? socket.destroy() : socket.write(http(reply));
  });
  const client = new Tidegate({ url: fault.url, onError: 'local', onTrouble: () => {} });
  t.after(() => client.close());
  while (replies.length > 0) {
    await client.policyNames().catch(({ code }) => assert.equal(code, 'bad-answer'));
  }
  const decisions = await Promise.all(times(12, () => client.check('orders', 'ann')));
  assert.equal(decisions.filter(({ allowed }) => allowed).length, 5);
});

test('the numbers are learnt by the first checks, and a policy that is not among them is allowed', async (t) => {
  const server = await startServer({ config: CONFIG });
  const client = new Tidegate({ url: server.url, onError: 'local', onTrouble: () => {} });
  t.after(() => client.close());
  await client.check('gcra', 'ann');
  // The numbers come with a request of their own, which the check does not wait for.
  await until('the numbers', async () => {
    await client.check('gcra', 'zoe');
    return client[Symbol.for('tidegate.for-apps')].local.knows([{ policy: 'fixed', key: 'k' }]);
  });
  await server.stop();
  const decisions = await Promise.all(times(20, () => client.check('fixed', 'ann')));
  assert.equal(decisions.filter(({ allowed }) => allowed).length, 8);
  assert.equal((await client.check('not-there', 'ann')).source, 'fallback');
});

test('an app refuses with 429 and Retry-After while its server is away, and its log says who counts', async (t) => {
  const lines = [];
  const server = await startServer({ config: CONFIG });
  const client = new Tidegate({ url: server.url, onError: 'local', processes: 2 });
  t.after(() => client.close());
  const url = await fastifyApp(async (it) => {
    it.register(rateLimit, { client, policy: 'fixed', key: () => 'ann' });
    it.get('/', async () => 'hello');
  }, { loggerInstance: listLog(lines) });
  await get(url);
  await client.policyNames();
  await server.stop();
  const answers = [];
  for (let round = 0; round < 10; round += 1) {
    answers.push(await get(url));
  }
  assert.deepEqual(answers.map(({ status }) => status), [...times(4, () => 200), ...times(6, () => 429)]);
  assert.ok(Number(answers[9].headers.get('retry-after')) >= 86_400);
  assert.match(answers[9].text, /^{"error":"Too Many Requests"/);
  assert.equal(lines.length, 1);
  assert.match(lines[0], /: requests are counted by this process alone, with 1\/2 of each limit, meanwhile$/);
  const back = await startServer({ config: CONFIG, on: server.listen });
  t.after(() => back.stop());
  await until('the server to decide', async () => (await get(url)).headers.get('x-ratelimit-limit') === '8');
  assert.equal(lines.length, 2);
});
