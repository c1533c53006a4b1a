// What one process counts while the server is away: never more than its share of a limit, in any period.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KEYS_MAX, LocalLimiter } from '../dist/esm/shares.js';
import { meterOf } from '../dist/esm/meters.js';
import { policies } from '../dist/esm/wire.js';

/** The same numbers for everyone. */
function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

/** The most units that a meter admits in any period, of greedy and random callers. */
function mostInAPeriod(meter, periodMs, seed) {
  const next = random(seed);
  const usage = meter.fresh();
  const admitted = [];
  for (let now = 1e6 + next() * periodMs; now < 1e6 + 6 * periodMs; now += next() * periodMs / 40) {
    for (let tries = Math.floor(next() * 8); tries > 0; tries -= 1) {
      const cost = 1 + Math.floor(next() * 2);
      if (meter.read(usage, now, cost).allowed) {
        meter.charge(usage, now, cost);
        admitted.push([now, cost]);
      }
    }
  }
  assert.ok(admitted.length > 3, 'or this shows nothing');
  const within = (from) => admitted.filter(([at]) => at >= from && at < from + periodMs);
  return Math.max(...admitted.map(([at]) => within(at).reduce((sum, [, cost]) => sum + cost, 0)));
}

const PERIOD_MS = 60_000;
const SEEDS = Array.from({ length: 50 }, (_, seed) => seed + 1);
const numbers = (algorithm, limit, more = {}) => ({ algorithm, limit, periodMs: PERIOD_MS, ...more });

test('windows, logs and quotas never admit more than the share in any period', () => {
  for (const algorithm of ['fixed-window', 'sliding-window', 'sliding-log', 'quota', 'one-of-tomorrow']) {
    for (const [limit, processes, share] of [[20, 1, 20], [20, 3, 6], [7, 2, 3]]) {
      const meter = meterOf(numbers(algorithm, limit), processes);
      const most = Math.max(...SEEDS.map((seed) => mostInAPeriod(meter, PERIOD_MS, seed)));
      assert.ok(most <= share, `${algorithm} ${limit}/${processes}: ${most}`);
      assert.ok(most >= share - 1, `${algorithm} ${limit}/${processes} admits its share: ${most}`);
    }
  }
});

test('a share of less than one unit is one unit in a longer time', () => {
  const meter = meterOf(numbers('sliding-log', 2), 6);
  const usage = meter.fresh();
  meter.charge(usage, 0, 1);
  assert.equal(meter.read(usage, 3 * PERIOD_MS - 1, 1).allowed, false);
  assert.equal(meter.read(usage, 3.4 * PERIOD_MS, 1).allowed, true);
});

test('a share that is too small for one check is one check in a longer time', () => {
  const meter = meterOf(numbers('sliding-log', 20, { cost: 5 }), 8);
  const usage = meter.fresh();
  assert.equal(meter.read(usage, 0, 5).allowed, true);
  meter.charge(usage, 0, 5);
  assert.equal(meter.read(usage, 2 * PERIOD_MS - 1, 5).allowed, false);
  assert.equal(meter.read(usage, 2.3 * PERIOD_MS, 5).allowed, true);
  for (const algorithm of ['gcra', 'concurrency', 'quota']) {
    const least = meterOf(numbers(algorithm, 20, { cost: 5 }), 8);
    assert.equal(least.read(least.fresh(), 0, 5).allowed, true, algorithm);
    assert.equal(least.read(least.fresh(), 0, 6).allowed, false, algorithm);
  }
});

test('the cost of a limit counts for a slot in a queue', () => {
  const limiter = new LocalLimiter(1, () => 0);
  const queue = { mode: 'all', shadow: false, members: [numbers('leaky-bucket', 60, { maxWaitMs: 2000, cost: 2 })] };
  const slots = [1, 2, 3].map(() => limiter.reserve({ policy: 'p', key: 'k', numbers: queue }));
  assert.deepEqual(slots.map(({ allowed, delayMs }) => [allowed, delayMs]), [[true, 0], [true, 2000], [false, 0]]);
});

test('the cost of a limit is read, and a policy with an invalid one has no numbers', () => {
  const read = (more) => policies({ p: { algorithm: 'gcra', limit: 5, period_us: 1e6, ...more } }).get('p');
  assert.equal(read({ cost: 5 }).members[0].cost, 5);
  assert.equal(read({}).members[0].cost, undefined);
  for (const cost of [0, -1, '5', null, {}]) {
    assert.equal(read({ cost }), undefined, JSON.stringify(cost));
  }
  assert.deepEqual(['100%', '99.9999%', '10%'].map((enforce) => read({ enforce }).shadow), [false, true, true]);
});

test('buckets never admit more than their burst and their rate', () => {
  const meter = meterOf(numbers('gcra', 100, { burst: 20 }), 4);
  for (const seed of SEEDS) {
    const most = mostInAPeriod(meter, PERIOD_MS, seed);
    assert.ok(most <= 5 + 25, String(most));
  }
  assert.deepEqual(meter.read(meter.fresh(), 0, 1), {
    allowed: true, limit: 5, remaining: 4, retryAfterMs: 0, resetAfterMs: 2400,
  });
  const usage = meter.fresh();
  meter.charge(usage, 0, 5);
  assert.deepEqual(meter.read(usage, 0, 1), {
    allowed: false, limit: 5, remaining: 0, retryAfterMs: 2400, resetAfterMs: 12_000,
  });
  assert.equal(meter.read(usage, 0, 6).retryAfterMs, null);
  // An adaptive limit stays at its last value.
  assert.equal(meterOf(numbers('token-bucket', 100, { burst: 20, effective: 50 }), 1).read(usage, 0, 1).limit, 10);
});

test('the checker notices a window that forgets too early', () => {
  const wrong = {
    fresh: () => ({ window: 0, used: 0 }),
    used: (usage, now) => (usage.window === Math.floor(now / PERIOD_MS) ? usage.used : 0),
    read(usage, now, cost) { return { allowed: this.used(usage, now) + cost <= 20 }; },
    charge(usage, now, cost) {
      Object.assign(usage, { used: this.used(usage, now) + cost, window: Math.floor(now / PERIOD_MS) });
    },
  };
  assert.ok(Math.max(...SEEDS.map((seed) => mostInAPeriod(wrong, PERIOD_MS, seed))) > 20);
});

test('retryAfterMs is the first time at which the cost fits', () => {
  for (const algorithm of ['gcra', 'sliding-window', 'leaky-bucket']) {
    const meter = meterOf(numbers(algorithm, 5), 1);
    const usage = meter.fresh();
    let [now, refused] = [0, 0];
    for (let round = 0; round < 40; round += 1) {
      const { allowed, retryAfterMs } = meter.read(usage, now, 1);
      if (allowed) {
        meter.charge(usage, now, 1);
        now += 700;
        continue;
      }
      refused += 1;
      assert.equal(meter.read(usage, now + retryAfterMs - 2, 1).allowed, false, algorithm);
      assert.equal(meter.read(usage, now + retryAfterMs, 1).allowed, true, algorithm);
      now += retryAfterMs;
    }
    assert.ok(refused > 5, algorithm);
  }
});

test('the number of keys is bounded, and no key is forgotten before it is free', () => {
  let now = 0;
  const limiter = new LocalLimiter(1, () => now);
  const policy = { mode: 'all', shadow: false, members: [numbers('fixed-window', 2)] };
  const allowed = (key) => limiter.check([{ policy: 'p', key, numbers: policy }], false)[0].allowed;
  for (let key = 0; key < KEYS_MAX; key += 1) {
    assert.ok(allowed(`k${key}`));
  }
  // Further keys share one usage: too strict, never too lax.
  assert.deepEqual(['x', 'y', 'z'].map(allowed), [true, true, false]);
  assert.deepEqual(['k0', 'k0'].map(allowed), [true, false]);
  now = 2 * PERIOD_MS;
  assert.deepEqual(['x', 'y', 'z', 'z', 'z'].map(allowed), [true, true, true, true, false]);
});

test('policies that share a limit count it together, and so does the shared one', () => {
  const limiter = new LocalLimiter(1, () => 0);
  const limit = { algorithm: 'gcra', rate: '10/h', limit: 10, period_us: 3_600_000_000, burst: 10 };
  const share = { of: 'total', by: 'tenant', active: 0, contended: false, level: 1 };
  const members = [{ ...limit, name: 'total', key: 'global' }, { ...limit, key: 'tenant' }];
  const known = policies({
    total: { ...limit, key: 'global' },
    api: { mode: 'all', members, share },
    batch: { mode: 'all', members, share },
  });
  const allowed = (policy, key) => limiter.check([{ policy, key, numbers: known.get(policy) }], false)[0].allowed;
  const admitted = (policy) => Array.from({ length: 30 }, (_, n) => allowed(policy, `t${n % 3}`)).filter(Boolean).length;
  assert.equal(['a', 'b', 'c'].filter((key) => allowed('api', key)).length, 3);
  assert.equal(['a', 'b'].filter((key) => allowed('total', key)).length, 2);
  assert.deepEqual(['batch', 'api', 'total'].map(admitted), [5, 0, 0]);
});

test('several limits: all are charged or none, any charges those that admit, a shadow refuses nothing', () => {
  const limiter = new LocalLimiter(1, () => 0);
  const ip = numbers('gcra', 2, { name: 'ip', key: 'ip' });
  const domain = numbers('gcra', 3, { name: 'domain', key: 'domain' });
  const everybody = numbers('gcra', 4, { name: 'everybody', key: 'global' });
  const ask = (mode, members, key, shadow = false) => {
    const { allowed, binding } = limiter.check([{ policy: mode, key, numbers: { mode, members, shadow } }], false)[0];
    return [allowed, binding];
  };
  const all = (ip_, domain_) => ask('all', [ip, domain, everybody], { ip: ip_, domain: domain_ });
  assert.deepEqual([all('1', 'a'), all('1', 'a'), all('1', 'a')], [[true, 'ip'], [true, 'ip'], [false, 'ip']]);
  assert.deepEqual([all('2', 'a'), all('3', 'a')], [[true, 'domain'], [false, 'domain']]);
  assert.deepEqual([all('4', 'b'), all('5', 'c')], [[true, 'everybody'], [false, 'everybody']]);
  const any = () => ask('any', [ip, domain], { ip: '1', domain: 'a' })[0];
  assert.deepEqual([any(), any(), any(), any()], [true, true, true, false]);
  const shadow = () => ask('shadow', [ip], { ip: '1' }, true)[0];
  assert.deepEqual([shadow(), shadow(), shadow()], [true, true, true]);
});

test('an atomic batch that is refused charges nothing', () => {
  const limiter = new LocalLimiter(1, () => 0);
  const rule = (algorithm) => ({ mode: 'all', shadow: false, members: [numbers(algorithm, 2)] });
  for (const algorithm of ['gcra', 'sliding-log']) {
    const check = (key) => ({ policy: algorithm, key, numbers: rule(algorithm) });
    const ask = (keys, atomic) => limiter.check(keys.map(check), atomic).map(({ allowed }) => allowed);
    assert.deepEqual(ask(['b', 'b'], false), [true, true]);
    assert.deepEqual(ask(['a', 'a', 'b'], true), [true, true, false]);
    assert.deepEqual(ask(['a', 'a', 'a'], false), [true, true, false]);
  }
});

test('a permit is held for as long as the server says', () => {
  let now = 0;
  const limiter = new LocalLimiter(1, () => now);
  const policy = { mode: 'all', shadow: false, members: [numbers('concurrency', 1, { ttlMs: 60_000 })] };
  const check = (key) => ({ policy: 'p', key, numbers: policy });
  const isFree = (key) => limiter.peek(check(key)).allowed;
  limiter.ledger.add('p1', check('told'), undefined, 600_000);
  limiter.ledger.add('p2', check('untold'), policy);
  now = 599_000;
  assert.deepEqual([isFree('told'), isFree('untold')], [false, true]);
  limiter.ledger.confirm('p1', 900_000);
  now += 899_000;
  assert.equal(isFree('told'), false);
  now += 1000;
  assert.equal(isFree('told'), true);
});

test('beside permits that the server may have forgotten, no more than the share is granted', () => {
  let now = 0;
  const limiter = new LocalLimiter(4, () => now);
  const places = numbers('concurrency', 8, { name: 'places', ttlMs: PERIOD_MS, cost: 2 });
  const policy = { mode: 'all', shadow: false, members: [numbers('gcra', 2, { name: 'rate' }), places] };
  const check = (key, shadow = false) => ({ policy: 'p', key, numbers: { ...policy, shadow } });
  const grant = (permit, key) => {
    limiter.ledger.add(permit, check(key), policy);
    return limiter.fits(check(key));
  };
  assert.deepEqual(['p1', 'p2', 'p3'].map((permit) => grant(permit, 'ann')), [true, true, true], 'the server decides');
  limiter.ledger.doubtAll();
  assert.deepEqual([grant('p4', 'ann'), grant('p5', 'ben')], [false, true]);
  assert.equal(limiter.fits(check('ann', true)), true, 'a shadow refuses nothing');
  ['p1', 'p2', 'p3'].forEach((permit) => limiter.ledger.confirm(permit, 60_000));
  assert.equal(limiter.fits(check('ann')), true, 'renewed by the server: it knows them');
  limiter.ledger.doubtAll();
  now = PERIOD_MS;
  assert.equal(grant('p6', 'ann'), true, 'expired ones are gone');
  assert.equal(limiter.acquire(check('ann')).permit, null, 'but it takes the share');
});
