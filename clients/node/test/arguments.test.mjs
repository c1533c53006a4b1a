// Invalid arguments throw before anything is sent: no server listens here.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Tidegate, TidegateError, ipKey } from 'tidegate';
import { rateLimit } from 'tidegate/express';

const client = new Tidegate({ socketPath: '/nowhere/tidegate.sock' });
const many = (count) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 'v']));

function isBadInput(field, said) {
  return (error) => {
    assert.ok(error instanceof TidegateError, String(error));
    assert.deepEqual([error.code, error.field, error.transient], ['bad-input', field, false], error.message);
    assert.ok(error.detail.includes(said), error.detail);
    return true;
  };
}

test('an error names the invalid argument and what was expected', async () => {
  const rows = [
    [() => client.check(), 'policy', 'expected a non-empty string, got undefined'],
    [() => client.check('', 'k'), 'policy', 'got ""'],
    [() => client.check('p', ''), 'key', 'a non-empty string'],
    [() => client.check('p', 42), 'key', "an object like { ip: '192.0.2.7' }, got 42"],
    [() => client.check('p', null), 'key', 'got null'],
    [() => client.check('p', ['a']), 'key', 'got a list'],
    [() => client.check('p', {}), 'key', '1 to 32 keys'],
    [() => client.check('p', many(33)), 'key', '33 keys'],
    [() => client.check('p', { ip: 7 }), 'key.ip', 'got 7'],
    [() => client.check('p', 'a\ud800'), 'key', 'well-formed'],
    [() => client.check('p', 'a'.repeat(70_000)), 'key', 'at most 65536 bytes'],
    [() => client.check('p', 'k', { cost: -1 }), 'cost', 'a whole number from 0'],
    [() => client.check('p', 'k', { cost: 1.5 }), 'cost', 'got 1.5'],
    [() => client.check('p', 'k', { cost: 2 ** 53 }), 'cost', 'got 9007199254740992'],
    [() => client.check('p', 'k', { cost: '1' }), 'cost', 'got "1"'],
    [() => client.check('p', 'k', { costs: 1 }), 'options', 'got "costs"'],
    [() => client.check('p', 'k', null), 'options', 'an object'],
    [() => client.check('p', 'k', { signal: {} }), 'signal', 'an AbortSignal'],
    [() => client.check('p', 'k', { timeoutMs: 0 }), 'timeoutMs', 'from 1 to 2147483647'],
    [() => client.check('p', 'k', { timeoutMs: 2 ** 31 }), 'timeoutMs', 'got 2147483648'],
    [() => client.check('p', 'k', { onError: 'open' }), 'onError', "'allow', 'deny', 'local' or 'throw'"],
    [() => client.check('p', 'k', { headers: 1 }), 'headers', 'true or false'],
    [() => client.checkMany('p'), 'checks', 'a list'],
    [() => client.checkMany([{ policy: 'p', key: 'k' }, {}]), 'checks[1].policy', 'got undefined'],
    [() => client.checkMany([null]), 'checks[0]', 'got null'],
    [() => client.checkMany([{ policy: 'p', key: 'k', cost: -2 }]), 'checks[0].cost', 'got -2'],
    [() => client.checkMany(Array(1001).fill({ policy: 'p', key: 'k' }), { atomic: true }), 'checks', 'at most 1000'],
    [() => client.checkMany([], { atomic: 'yes' }), 'atomic', 'true or false'],
    [() => client.refund('p', 'k', { onError: 'allow' }), 'options', 'only signal, timeoutMs, cost'],
    [() => client.release('p', 'k'), 'permit', 'got undefined'],
    [() => client.withPermit('p', 'k'), 'work', 'a function'],
    [() => client.observe('', {}), 'target', 'non-empty'],
    [() => client.observe('db'), 'observation', 'an object'],
    [() => client.observe('db', { latency: 3 }), 'observation', 'got "latency"'],
    [() => client.observe('db', { latencyMs: NaN }), 'latencyMs', 'a number of milliseconds'],
    [() => client.observe('db', { saturation: 1.1 }), 'saturation', 'from 0 to 1'],
    [() => client.observe('db', { ok: 1 }), 'ok', 'true or false'],
    [async () => ipKey('example.com'), 'address', 'an IP address'],
    [async () => new Tidegate({ url: 'localhost:8080' }), 'url', 'a URL like http://127.0.0.1:8080'],
    [async () => new Tidegate({ url: 'nonsense' }), 'url', 'got "nonsense"'],
    [async () => new Tidegate({ url: 'http://a:b@host' }), 'url', 'without a user'],
    [async () => new Tidegate({ url: 'http://host', socketPath: '/s' }), 'socketPath', 'both'],
    [async () => new Tidegate({ socketPath: '' }), 'socketPath', 'non-empty'],
    [async () => new Tidegate({ failOpen: true }), 'options', 'got "failOpen"'],
    [async () => new Tidegate({ timeoutMs: Infinity }), 'timeoutMs', 'a whole number'],
    [async () => new Tidegate({ maxSockets: 0 }), 'maxSockets', 'from 1 to 10000'],
    [async () => new Tidegate({ onError: 'local', processes: 0 }), 'processes', 'from 1 to 100000, got'],
    [async () => new Tidegate({ processes: '4' }), 'processes', 'from 1 to 100000, got'],
    [async () => new Tidegate({ maxWaiting: -1 }), 'maxWaiting', 'from 0'],
    [async () => new Tidegate({ onError: 'closed' }), 'onError', "'deny'"],
    [async () => new Tidegate({ onTrouble: true }), 'onTrouble', 'a function'],
    [async () => new Tidegate({ batch: 'no' }), 'batch', 'true or false'],
    [async () => new Tidegate({ token: 'a\r\nb' }), 'token', 'visible ASCII'],
    [async () => rateLimit({}), 'options.policy', 'a policy name'],
    [async () => rateLimit({ policy: 'p', keys: () => 'k' }), 'options', 'got "keys"'],
    [async () => rateLimit({ policy: 'p', key: 'ip' }), 'options.key', 'a function'],
    [async () => rateLimit({ policy: 'p', cost: -1 }), 'options.cost', 'a whole number'],
    [async () => rateLimit({ policy: 'p', onError: 'open' }), 'onError', "'allow'"],
    [async () => rateLimit({ policy: 'p', client: { uri: 'x' } }), 'options', 'got "uri"'],
    [async () => rateLimit({ policy: 'p', client: 'http://host' }), 'options.client', 'a Tidegate or options like'],
    [async () => rateLimit({ policy: 'p', client: null }), 'options.client', 'got null'],
  ];
  for (const [call, field, said] of rows) {
    await assert.rejects(call, isBadInput(field, said), call.toString());
  }
});

test('a secret is not repeated in an error', async () => {
  assert.throws(() => new Tidegate({ token: 'geheim\n' }), (error) => !String(error).includes('geheim'));
});

test('addresses have the same form as on the server', () => {
  const rows = [
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['::FFFF:cb00:7107', '203.0.113.7'],
    ['2001:db8::7', '2001:db8::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8:0:0:1::', '2001:db8::/64'],
    ['2001::1:0:0:0:1', '2001:0:0:1::/64'],
    ['0:0:1:0:5:6:7:8', '0:0:1::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['::1', '::/64'],
  ];
  for (const [address, key] of rows) {
    assert.equal(ipKey(address), key, address);
  }
});
