// The Fastify plugin, over real HTTP and with a real tidegate.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import Fastify from 'fastify';
import { Tidegate } from 'tidegate';
import { rateLimit } from 'tidegate/fastify';
import { DECISION, faultyServer, http } from './support/fault.mjs';
import { listLog } from './support/apps.mjs';
import { serve, until } from './support/server.mjs';
import { deadUrl, get, isRefusal, isUnavailable } from './support/web.mjs';

const { client } = await serve(after, Tidegate);

/** Starts an app that `build` sets up, and returns its URL. */
async function app(build, options = {}, host = '127.0.0.1') {
  const fastify = Fastify(options);
  after(() => fastify.close());
  await build(fastify);
  await fastify.listen({ port: 0, host });
  const { port } = fastify.server.address();
  return `http://${host === '::1' ? '[::1]' : '127.0.0.1'}:${port}`;
}
const hello = async () => 'hello';
const left = async (key, policy = 'three') => (await client.peek(policy, key, { cost: 0 })).remaining;
const statuses = async (count, url, headers) => {
  const all = [];
  for (let index = 0; index < count; index += 1) {
    all.push((await get(url, headers)).status);
  }
  return all;
};

test('an address is limited: headers on every response, and the body of a 429', async () => {
  await client.reset('three', '127.0.0.1');
  const url = await app(async (it) => {
    it.register(rateLimit, { client, policy: 'three' });
    it.get('/', hello);
  });
  for (const remaining of ['2', '1', '0']) {
    const { status, headers, text } = await get(url);
    assert.deepEqual([status, text], [200, 'hello']);
    assert.equal(headers.get('ratelimit-policy'), '"three";q=3;w=86400');
    assert.match(headers.get('ratelimit'), new RegExp(`^"three";r=${remaining};t=\\d+$`));
    assert.deepEqual([headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-remaining')], ['3', remaining]);
    assert.ok(Number(headers.get('x-ratelimit-reset')) > Date.now() / 1000);
    assert.equal(headers.get('retry-after'), null);
  }
  isRefusal(await get(url));
  isRefusal(await get(`${url}/not-a-route`));
});

test('the key is the user if there is one, regardless of registration order', async () => {
  for (const hook of ['onRequest', 'preHandler']) {
    const url = await app(async (it) => {
      const user = async (request) => {
        request.user = { id: request.headers['x-user'] && Number(request.headers['x-user']) };
      };
      hook === 'preHandler' && it.register(rateLimit, { client, policy: 'three', hook });
      it.addHook('onRequest', user);
      hook === 'onRequest' && it.register(rateLimit, { client, policy: 'three', hook });
      it.get('/', hello);
    });
    await client.reset('three', '4711');
    await client.reset('three', '127.0.0.1');
    assert.deepEqual(await statuses(4, url, { 'x-user': '4711' }), [200, 200, 200, 429]);
    assert.deepEqual(await statuses(1, url), [200]);
    assert.deepEqual([await left('4711'), await left('127.0.0.1')], [0, 2]);
  }
});

test('of 200 concurrent requests exactly 100 pass', async () => {
  const url = await app(async (it) => {
    it.register(rateLimit, { client, policy: 'hundred', key: () => 'fastify-exact' });
    it.get('/', hello);
  });
  const all = await Promise.all(Array.from({ length: 200 }, () => get(url)));
  assert.equal(all.filter(({ status }) => status === 200).length, 100);
  assert.equal(all.filter(({ status }) => status === 429).length, 100);
});

test('X-Forwarded-For counts only where the proxy is trusted', async () => {
  const build = async (it) => {
    it.register(rateLimit, { client, policy: 'three' });
    it.get('/', hello);
  };
  await client.reset('three', '127.0.0.1');
  const [trusting, other] = [await app(build, { trustProxy: '127.0.0.1' }), await app(build)];
  await get(trusting, { 'x-forwarded-for': '203.0.113.7' });
  assert.deepEqual([await left('203.0.113.7'), await left('127.0.0.1')], [2, 3]);
  await get(other, { 'x-forwarded-for': '203.0.113.7' });
  assert.deepEqual([await left('203.0.113.7'), await left('127.0.0.1')], [2, 2]);
  // A whole network is one client: it could rotate through its addresses.
  assert.equal((await get(trusting, { 'x-forwarded-for': '2001:db8:0:1::7' })).status, 200);
  await get(trusting, { 'x-forwarded-for': '2001:db8:0:1:ffff::8' });
  assert.equal(await left('2001:db8:0:1::/64'), 1);
});

test('IPv6 and mapped IPv4 addresses have the same keys as on the server', async () => {
  const build = async (it) => {
    it.register(rateLimit, { client, policy: 'three' });
    it.get('/', hello);
  };
  await client.reset('three', '127.0.0.1');
  await get(await app(build, {}, '::1'));
  await get(await app(build, {}, '::'));
  assert.deepEqual([await left('::/64'), await left('127.0.0.1')], [2, 2]);
});

test('routes have their own options, or no limit', async () => {
  const key = ({ url }) => `route-${url}`;
  const url = await app(async (it) => {
    // A route that was there before the plugin is limited as well.
    it.get('/before', hello);
    it.register(rateLimit, { client, policy: 'three', key });
    it.get('/free', { config: { rateLimit: false } }, hello);
    it.get('/policy', { config: { rateLimit: { policy: 'hundred' } } }, hello);
    it.get('/cost', { config: { rateLimit: { cost: 2 } } }, hello);
    it.get('/costs', { config: { rateLimit: { cost: async () => 3 } } }, hello);
    it.get('/skip', { config: { rateLimit: { skip: ({ headers }) => 'x-internal' in headers } } }, hello);
    it.get('/never', { config: { rateLimit: { cost: 4 } } }, hello);
  });
  assert.deepEqual(await statuses(4, `${url}/before`), [200, 200, 200, 429]);
  assert.deepEqual(await statuses(4, `${url}/free`), [200, 200, 200, 200]);
  assert.deepEqual(await statuses(4, `${url}/policy`), [200, 200, 200, 200]);
  assert.equal(await left('route-/policy', 'hundred'), 96);
  assert.deepEqual(await statuses(2, `${url}/cost`), [200, 429]);
  assert.deepEqual(await statuses(2, `${url}/costs`), [200, 429]);
  assert.deepEqual(await statuses(4, `${url}/skip`, { 'x-internal': '1' }), [200, 200, 200, 200]);
  assert.deepEqual(await statuses(4, `${url}/skip`), [200, 200, 200, 429]);
  const never = await get(`${url}/never`);
  assert.deepEqual([never.status, never.headers.get('retry-after')], [429, null]);
  assert.equal(JSON.parse(never.text).retryAfter, null);
});

test('each context has its own options, and the innermost applies', async () => {
  const url = await app(async (it) => {
    it.get('/outside', hello);
    it.register(async (inner) => {
      inner.register(rateLimit, { client, policy: 'three', key: () => 'inner' });
      inner.get('/inner', hello);
      inner.register(async (innermost) => {
        innermost.register(rateLimit, { client, policy: 'hundred', key: () => 'innermost' });
        innermost.get('/innermost', hello);
        innermost.get('/its-own', { config: { rateLimit: { policy: 'three', key: () => 'its-own' } } }, hello);
      });
      inner.register(async (sibling) => sibling.get('/sibling', hello));
    });
  });
  assert.equal((await get(`${url}/outside`)).headers.get('ratelimit'), null);
  assert.deepEqual(await statuses(5, `${url}/innermost`), [200, 200, 200, 200, 200]);
  assert.deepEqual([await left('innermost', 'hundred'), await left('inner')], [95, 3]);
  assert.deepEqual(await statuses(2, `${url}/its-own`), [200, 200]);
  assert.equal(await left('its-own'), 1);
  assert.deepEqual(await statuses(2, `${url}/inner`), [200, 200]);
  assert.deepEqual(await statuses(2, `${url}/sibling`), [200, 429]);
});

test('without a policy only the routes that name one are limited', async () => {
  const url = await app(async (it) => {
    it.register(rateLimit, { client, key: () => 'named' });
    it.get('/', hello);
    it.get('/named', { config: { rateLimit: { policy: 'three' } } }, hello);
  });
  assert.equal((await get(url)).headers.get('ratelimit'), null);
  assert.deepEqual(await statuses(4, `${url}/named`), [200, 200, 200, 429]);
});

test('onDenied sends its own response, with status and headers set', async () => {
  const rows = [
    ['returns', () => ({ sorry: true }), 429, '{"sorry":true}'],
    ['sends', (_, reply) => { reply.code(420).send('calm'); }, 420, 'calm'],
    ['only looks', () => undefined, 429, undefined],
  ];
  for (const [what, onDenied, status, text] of rows) {
    const key = `denied-${what}`;
    const url = await app(async (it) => {
      it.register(rateLimit, { client, policy: async () => 'three', key: async () => key, cost: 4, onDenied });
      it.get('/', () => assert.fail('it was denied'));
    });
    const answer = await get(url);
    assert.equal(answer.status, status, what);
    assert.equal(answer.headers.get('x-ratelimit-limit'), '3');
    text === undefined ? assert.match(answer.text, /^{"error":"Too Many/) : assert.equal(answer.text, text);
  }
});

test('several named keys make one key', async () => {
  const url = await app(async (it) => {
    it.register(rateLimit, {
      client, policy: 'signup', key: ({ query }) => ({ ip: 'fastify', email_domain: query.domain }),
    });
    it.get('/', hello);
  });
  assert.deepEqual(await statuses(3, `${url}/?domain=a`), [200, 200, 200]);
  assert.deepEqual(await statuses(1, `${url}/?domain=b`), [429]);
});

test('a server that is down: pass, 503, or the app\'s error handler', async () => {
  const gone = { url: await deadUrl() };
  const url = await app(async (it) => {
    it.register(rateLimit, { client: gone, policy: 'three' });
    it.get('/allow', hello);
    it.get('/deny', { config: { rateLimit: { onError: 'deny' } } }, hello);
    it.get('/throw', { config: { rateLimit: { onError: 'throw', timeoutMs: 10_000 } } }, hello);
  });
  const through = await get(`${url}/allow`);
  assert.deepEqual([through.status, through.text, through.headers.get('ratelimit')], [200, 'hello', null]);
  isUnavailable(await get(`${url}/deny`));
  const thrown = await get(`${url}/throw`);
  assert.equal(thrown.status, 503);
  assert.equal(JSON.parse(thrown.text).message, 'Rate limiter unavailable');
});

test('an unknown policy is a server error, and one line in the log names it and the nearest', async () => {
  const [lines, errors] = [[], []];
  const log = listLog(lines);
  log.error = (...args) => lines.push(args);
  const url = await app(async (it) => {
    it.setErrorHandler((error, _, reply) => {
      errors.push(error);
      reply.send(error);
    });
    it.register(rateLimit, { client, policy: () => 'hunderd', onError: 'allow' });
    it.get('/', hello);
  }, { loggerInstance: log });
  for (let round = 0; round < 5; round += 1) {
    const { status, text } = await get(url);
    assert.deepEqual([status, text], [500, '{"error":"Internal Server Error","message":"Rate limiter misused"}']);
  }
  await until('the line', () => lines.length > 0);
  assert.deepEqual([lines, errors], [[['tidegate: no policy is called `hunderd`: the nearest name is `hundred`. '
    + 'Its requests are answered with status 500']], []]);
});

test('whatever else the server rejects is one line, too', async () => {
  const lines = [];
  const url = await app(async (it) => {
    it.register(rateLimit, { client, policy: 'signup', key: () => ({ ip: 'x' }) });
    it.get('/', hello);
  }, { loggerInstance: listLog(lines) });
  assert.deepEqual(await statuses(3, url), [500, 500, 500]);
  assert.equal(lines.length, 1);
  assert.match(lines[0], /^error tidegate: policy `signup` counts by .*email_domain.* Its requests are answered with status 500/);
});

test('invalid options fail at startup', async () => {
  const rows = [
    [(it) => it.register(rateLimit, { client, polcy: 'three' }), /got "polcy"/],
    [(it) => it.register(rateLimit, { client, hook: 'onSend' }), /'onRequest' or 'preHandler'/],
    [(it) => it.register(rateLimit, { client, policy: 7 }), /options.policy/],
    [(it) => {
      it.register(rateLimit, { client, policy: 'three' });
      it.register(rateLimit, { client, policy: 'hundred' });
    }, /one registration per context/],
    [async (it) => {
      await it.register(rateLimit, { client });
      it.get('/a', { config: { rateLimit: { polcy: 'three' } } }, hello);
    }, /config.rateLimit of \/a.*got "polcy"/],
  ];
  for (const [build, said] of rows) {
    const fastify = Fastify();
    await assert.rejects(async () => {
      await build(fastify);
      await fastify.ready();
    }, said);
    await fastify.close();
  }
});

test('the plugin closes its own client with the app, not a given one', async () => {
  const fault = await faultyServer(after, (socket) => socket.write(http(DECISION)));
  const fastify = Fastify();
  fastify.register(rateLimit, { client: { url: fault.url, timeoutMs: 60_000, onError: 'throw' }, policy: 'p' });
  fastify.register(async (inner) => inner.register(rateLimit, { client, policy: 'plenty' }));
  fastify.get('/', hello);
  await get(await fastify.listen({ port: 0, host: '127.0.0.1' }));
  assert.ok(fault.seen.open >= 1);
  await fastify.close();
  await until('its connection to be closed', () => fault.seen.open === 0);
  assert.equal((await client.check('plenty', 'still open')).allowed, true);
});
