// The types, as a user of ES modules has them: compiled, never run.
import express, { type Request } from 'express';
import Fastify from 'fastify';
import { ipKey, Tidegate, TidegateError, type Decision, type Permitted, type Reservation } from 'tidegate';
import expressLimit, { rateLimit as expressRateLimit } from 'tidegate/express';
import fastifyLimit, {
  rateLimit as fastifyRateLimit, type FastifyRateLimitOptions, type FastifyRateLimitRule,
} from 'tidegate/fastify';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
const is = <T extends true>(_?: T): void => {};

const client = new Tidegate({ url: new URL('http://127.0.0.1:8080'), timeoutMs: 50, onError: 'deny' });
const { signal } = new AbortController();

const decision = await client.check('api', 'user-42', { cost: 2, signal, headers: true });
is<Equal<typeof decision, Decision>>();
is<Equal<typeof decision.retryAfterMs, number | null>>();
is<Equal<typeof decision.error, TidegateError | undefined>>();
const limit: string | undefined = decision.headers?.['ratelimit'];
const checks = [{ policy: 'api', key: { ip: '192.0.2.7' } }] as const;
const many: Decision[] = await client.checkMany(checks, { atomic: true });
const place: Reservation = await client.schedule('export', 'user-42', { signal });
const done = await client.withPermit('report', 'user-42', async () => 7);
is<Equal<typeof done, Permitted<number>>>();
if (done.allowed) {
  const value: number = done.value;
  void value;
} else {
  // @ts-expect-error nothing was done
  void done.value;
}
const renewed: boolean = (await client.renew('report', 'user-42', 'p2..1')).renewed;
await client.observe('db', { latencyMs: 12, ok: true });
await client.close();

new Tidegate({ onError: 'local', processes: 4 });
// @ts-expect-error no such option
new Tidegate({ failOpen: true });
// @ts-expect-error no such word
new Tidegate({ onError: 'open' });
// @ts-expect-error a key is a string, or several by name
client.check('api', 42);
// @ts-expect-error a refund has nothing to fall back on
client.refund('api', 'k', { onError: 'allow' });
// @ts-expect-error answers are not for writing
decision.allowed = true;

const app = express();
app.use(expressRateLimit({ policy: 'api', key: (request: Request) => ipKey(request.ip ?? ''), skip: () => false }));
app.use(expressRateLimit({ policy: 'api', logger: console, observe: 'db', permit: true }));
app.get('/', expressLimit({ client, policy: ({ path }) => path, onDenied: (_, response) => response.end() }));
// @ts-expect-error a policy is needed
expressRateLimit({ client });

const fastify = Fastify();
const options: FastifyRateLimitOptions = { client, policy: 'api', hook: 'preHandler' };
await fastify.register(fastifyRateLimit, options);
await fastify.register(fastifyLimit, { client: { socketPath: '/run/tidegate.sock' }, policy: 'api' });
fastify.get('/free', { config: { rateLimit: false } }, async () => 'hello');
fastify.get('/dear', { config: { rateLimit: { cost: (request) => request.url.length } } }, async () => 'hello');
// @ts-expect-error no such option
await fastify.register(fastifyRateLimit, { client, polcy: 'api' });
// @ts-expect-error a cost is a number
fastify.get('/wrong', { config: { rateLimit: { cost: '10' } } }, async () => 'hello');
// Fastify infers the type of `config`, so that only `satisfies` sees a misspelt name. The start does without.
// @ts-expect-error no such option
const misspelt = { cots: 10 } satisfies Partial<FastifyRateLimitRule>;
// @ts-expect-error no such option
expressRateLimit({ policy: 'api', cots: 10 });
// @ts-expect-error no such option
client.check('api', 'user-42', { cots: 10 });
// @ts-expect-error no such field
client.checkMany([{ policy: 'api', key: 'user-42', cots: 10 }]);
const names: string[] = await client.policyNames();

void [limit, renewed, many, place, names, misspelt];
