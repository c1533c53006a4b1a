// A server that is down, hangs or sends nonsense costs at most the timeout; then onError applies.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Tidegate } from 'tidegate';
import { DECISION, faultyServer, http } from './support/fault.mjs';
import { kill, startServer, until } from './support/server.mjs';
import { deadUrl } from './support/web.mjs';

test('a failure follows onError and calls onTrouble', async () => {
  const troubles = [];
  const client = new Tidegate({ url: await deadUrl(), onTrouble: (error) => troubles.push(error.code) });
  const numbers = { limit: 0, remaining: 0, resetAfterMs: 0, policy: 'p', binding: 'p', source: 'fallback' };
  const told = ({ error, ...decision }) => [error.code, error.transient, decision];
  assert.deepEqual(told(await client.check('p', 'k')), ['unreachable', true, {
    ...numbers, allowed: true, retryAfterMs: 0,
  }]);
  assert.deepEqual(told(await client.check('p', 'k', { onError: 'deny' })), ['unreachable', true, {
    ...numbers, allowed: false, retryAfterMs: 1000,
  }]);
  await assert.rejects(client.check('p', 'k', { onError: 'throw' }), (error) => {
    assert.deepEqual([error.name, error.code, error.cause.code], ['TidegateError', 'unreachable', 'ECONNREFUSED']);
    return true;
  });
  assert.deepEqual(troubles, ['unreachable', 'unreachable', 'unreachable']);
});

test('failures emit one process warning', async () => {
  const warnings = [];
  const note = (warning) => warning.name === 'TidegateWarning' && warnings.push(warning.message);
  process.on('warning', note);
  const client = new Tidegate({ url: await deadUrl() });
  await Promise.all(Array.from({ length: 100 }, () => client.check('p', 'k', { headers: true })));
  await until('the warning', () => warnings.length > 0);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0], /^the server at http\S+ gives no decision \(unreachable: connect ECONNREFUSED .*checks are allowed/);
  process.off('warning', note);
});

test('a hook that throws changes no decision', async () => {
  const warned = new Promise((resolve) => process.once('warning', resolve));
  const onTrouble = () => { throw new Error('no disk'); };
  const client = new Tidegate({ url: await deadUrl(), onTrouble });
  assert.equal((await client.check('p', 'k')).allowed, true);
  assert.match((await warned).message, /onTrouble threw: Error: no disk/);
});

test('every call that asks for permission follows onError, and every other throws', async () => {
  const client = new Tidegate({ url: await deadUrl() });
  const checks = [{ policy: 'p', key: 'a' }, { policy: 'q', key: 'b' }];
  for (const onError of ['allow', 'deny']) {
    const allowed = onError === 'allow';
    const many = await client.checkMany(checks, { onError });
    assert.deepEqual(many.map((it) => [it.policy, it.allowed, it.source]), [
      ['p', allowed, 'fallback'], ['q', allowed, 'fallback'],
    ]);
    assert.equal((await client.peek('p', 'k', { onError })).allowed, allowed);
    const { accepted, delayMs, source } = await client.reserve('p', 'k', { onError });
    assert.deepEqual([accepted, delayMs, source], [allowed, 0, 'fallback']);
    assert.equal((await client.schedule('p', 'k', { onError })).accepted, allowed);
    const { permit, ...place } = await client.acquire('p', 'k', { onError });
    assert.deepEqual([place.allowed, permit], [allowed, null]);
    const done = await client.withPermit('p', 'k', () => 'done', { onError });
    assert.deepEqual([done.allowed, done.value], [allowed, allowed ? 'done' : undefined]);
  }
  const others = [
    () => client.refund('p', 'k'), () => client.release('p', 'k', 'x'), () => client.observe('db', {}),
    () => client.reset('p', 'k'),
  ];
  for (const call of others) {
    await assert.rejects(call, { name: 'TidegateError', transient: true });
  }
});

test('an invalid answer is a failure, not a decision', async () => {
  const rows = [
    ['nothing, and closes', (socket) => socket.end(), 'unreachable'],
    ['a reset', (socket) => socket.resetAndDestroy(), 'unreachable'],
    ['no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'), 'bad-answer'],
    ['half a head', (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-le'), 'unreachable'],
    ['half a body', (socket) => socket.end(http(DECISION).slice(0, -20)), 'unreachable'],
    ['no JSON', (socket) => socket.write(http('<html>it works</html>')), 'bad-answer'],
    ['JSON of another kind', (socket) => socket.write(http('[1,2]')), 'bad-answer'],
    ['null', (socket) => socket.write(http('null')), 'bad-answer'],
    ['a field missing', (socket) => socket.write(http(DECISION.replace('"remaining":8,', ''))), 'bad-answer'],
    ['a field of another kind', (socket) => socket.write(http(DECISION.replace('true', '"true"'))), 'bad-answer'],
    ['a page that is not found', (socket) => socket.write(http('{"a":1}', '404 Not Found')), 'bad-answer'],
    ['a proxy\'s error', (socket) => socket.write(http('<html>', '502 Bad Gateway')), 'bad-answer'],
    ['a redirect', (socket) => socket.write(http('{}', '302 Found', 'location: /\r\n')), 'bad-answer'],
    ['nothing where something was due', (socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n'), 'bad-answer'],
    ['more than anybody needs', (socket) => socket.write(http(`"${'x'.repeat(5_000_000)}"`)), 'bad-answer'],
    ['headers without end', (socket) => socket.write(`HTTP/1.1 200 OK\r\na: ${'x'.repeat(100_000)}`), 'bad-answer'],
    ['an upgrade', (socket) => socket.write('HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
      'unreachable'],
  ];
  for (const [what, answer, code] of rows) {
    const { url } = await faultyServer(after, answer);
    const client = new Tidegate({ url, timeoutMs: 60_000 });
    const decision = await client.check('p', 'k');
    assert.deepEqual([decision.source, decision.error.code], ['fallback', code], `${what}: ${decision.error}`);
    await client.close();
  }
});

test('a server that hangs costs the timeout, wherever it hangs', async () => {
  const rows = [
    ['before the answer', () => {}],
    ['in the head', (socket) => socket.write('HTTP/1.1 200 OK\r\n')],
    ['in the body', (socket) => socket.write(http(DECISION).slice(0, -20))],
  ];
  for (const [where, answer] of rows) {
    const { url } = await faultyServer(after, answer);
    const client = new Tidegate({ url, timeoutMs: 60 });
    const begin = performance.now();
    const { allowed, error } = await client.check('p', 'k');
    assert.deepEqual([allowed, error.code], [true, 'timeout'], where);
    assert.ok(performance.now() - begin >= 55, where);
    // A call can override the client's timeout.
    await assert.rejects(client.refund('p', 'k', { timeoutMs: 20 }), /no answer within 20 ms/);
    await client.close();
  }
});

test('the circuit opens when a server does not answer, and closes again', async () => {
  let mute = true;
  const { url, seen } = await faultyServer(after, (socket) => mute || socket.write(http(DECISION)));
  const client = new Tidegate({ url, timeoutMs: 20 });
  const { error } = await until('the circuit to open', async () => {
    const decision = await client.check('p', 'k');
    return decision.error.code === 'circuit-open' && decision;
  });
  assert.equal(error.transient, true);
  assert.ok(seen.requests >= 5);
  mute = false;
  const decision = await until('an answer', async () => {
    const decision = await client.check('p', 'k', { timeoutMs: 10_000 });
    return decision.source === 'store' && decision;
  });
  assert.equal(decision.remaining, 8);
});

test('calls sent with little time left do not open the circuit', async () => {
  const held = [];
  const { url, seen } = await faultyServer(after, (socket) => held.push(() => socket.write(http(DECISION))));
  const client = new Tidegate({ url, maxSockets: 5, timeoutMs: 60_000, onError: 'allow', batch: false });
  const ask = (timeoutMs) => Array.from({ length: 5 }, () => client.check('p', 'k', { timeoutMs }));
  const first = ask(60_000);
  const hurried = ask(400);
  const begin = performance.now();
  await until('the second five to be in a hurry', () => held.length === 5 && performance.now() - begin > 250);
  held.splice(0).forEach((answer) => answer());
  assert.ok((await Promise.all(first)).every(({ source }) => source === 'store'));
  const late = await Promise.all(hurried);
  assert.ok(late.every(({ error }) => error.code === 'timeout'), 'or this shows nothing');
  await until('them to be given up', () => seen.open === 0);
  const next = client.check('p', 'k');
  const answering = setInterval(() => held.splice(0).forEach((answer) => answer()), 1);
  assert.equal((await next).source, 'store');
  clearInterval(answering);
});

test('fail-closed wins over onError: allow', async () => {
  const problem = JSON.stringify({ type: 'urn:tidegate:store-unavailable', title: 'x', status: 503, detail: 'gone' });
  const { url } = await faultyServer(after, (socket) =>
    socket.write(http(problem, '503 Service Unavailable', 'retry-after: 3\r\n')));
  const client = new Tidegate({ url, onError: 'allow', timeoutMs: 60_000 });
  for (let round = 0; round < 10; round += 1) {
    const { allowed, source, retryAfterMs, error } = await client.check('p', 'k');
    assert.deepEqual([allowed, source, retryAfterMs, error.status], [false, 'fail-closed', 3000, 503]);
  }
});

for (const on of ['127.0.0.1:0', 'unix']) {
  test(`${on}: connections that a restart has closed fail no request; no refund is sent twice`, async () => {
    const first = await startServer({ on });
    const client = new Tidegate({ ...first.options, timeoutMs: 60_000, onError: 'throw', batch: false });
    const restarted = (pid) => {
      // While this waits, nothing here learns that the connections are gone.
      const script = fileURLToPath(new URL('./support/restart.mjs', import.meta.url));
      const where = on === 'unix' ? `unix:${first.options.socketPath}` : first.listen;
      const args = [script, String(pid), where, first.folder];
      return Number(execFileSync(process.execPath, args, { encoding: 'utf8' }));
    };
    let pid = first.pid;
    try {
      const check = () => client.check('hundred', 'k');
      const twenty = () => Promise.all(Array.from({ length: 20 }, check));
      await twenty();
      pid = restarted(pid);
      const after = await twenty();
      assert.ok(after.every(({ allowed, source }) => allowed && source === 'store'));
      // Each was charged once. Their own numbers may repeat: the server takes the time of a check before its turn.
      assert.equal((await client.check('hundred', 'k')).remaining, 79);
      pid = restarted(pid);
      await assert.rejects(client.refund('hundred', 'k'), { code: 'unreachable' });
      assert.equal((await client.check('hundred', 'k')).remaining, 99);
    } finally {
      kill(pid);
      await first.stop();
      await client.close();
    }
  });
}
