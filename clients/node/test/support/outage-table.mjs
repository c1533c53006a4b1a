// What each `onError` admits while a server is killed and started again under load, or hangs. Run it to print the table:
//   node test/support/outage-table.mjs
import { fileURLToPath } from 'node:url';
import Fastify from 'fastify';
import { rateLimit } from 'tidegate/fastify';
import { startServer, until } from './server.mjs';

export const RATE = 100;
export const BURST = 20;
const CONFIG = `policies: { api: { limit: ${RATE}/s, burst: ${BURST} } }`;
export const MODES = [
  { name: '`allow`', options: { onError: 'allow' } },
  { name: '`deny`', options: { onError: 'deny' } },
  { name: '`throw`', options: { onError: 'throw' } },
  { name: '`local`', options: { onError: 'local' } },
  { name: '`local`, `processes: 4`', options: { onError: 'local', processes: 4 } },
];
const HANGS = [
  { name: '`allow`, it hangs', options: { onError: 'allow' }, hangs: true },
  { name: '`local`, it hangs', options: { onError: 'local' }, hangs: true },
];

/**
 * Sends `perSecond` requests a second to an app: `phaseMs` with its server, as long after the server was killed, and as
 * long after a new one listens. A server that `hangs` is stopped instead (SIGSTOP), and goes on afterwards. Returns every
 * answer, and the times of the kill and the restart.
 */
export async function outage(options, { perSecond, phaseMs, hangs = false }) {
  const first = await startServer({ config: CONFIG });
  const app = Fastify();
  app.register(rateLimit, { client: { url: first.url, onTrouble: () => {}, ...options }, policy: 'api' });
  app.get('/', async () => 'hello');
  await app.ready();
  const answers = [];
  const load = startLoad(app, perSecond, answers);
  await sleep(phaseMs);
  const killedAt = performance.now();
  hangs ? process.kill(first.pid, 'SIGSTOP') : await first.stop();
  await sleep(phaseMs);
  const second = await until('the address', () => (hangs ? first : startServer({ config: CONFIG, on: first.listen })
    .catch(() => undefined)));
  hangs && process.kill(first.pid, 'SIGCONT');
  const backAt = performance.now();
  await until('the server to decide', () => answers.some(({ at, isServers }) => isServers && at > backAt));
  await sleep(phaseMs);
  await load.stop();
  await app.close();
  await second.stop();
  return { answers, killedAt, backAt };
}

function startLoad(app, perSecond, answers) {
  const [begin, pending] = [performance.now(), new Set()];
  let sent = 0;
  const send = async () => {
    const at = performance.now();
    const { statusCode, headers } = await app.inject('/');
    answers.push({ at, ms: performance.now() - at, status: statusCode, isServers: 'ratelimit' in headers });
  };
  const timer = setInterval(() => {
    for (const due = (performance.now() - begin) * perSecond / 1000; sent < due; sent += 1) {
      const one = send().finally(() => pending.delete(one));
      pending.add(one);
    }
  }, 5);
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(pending);
    },
  };
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function table({ perSecond = 400, phaseMs = 5000 } = {}) {
  const columns = ['`onError`', 'with the server', 'first second without', 'then', 'comeback', 'first second after it',
    'then', 'slowest answer', 'statuses without'];
  console.log(`| ${columns.join(' | ')} |\n|${'---|'.repeat(columns.length)}`);
  for (const { name, options, hangs } of [...MODES, ...HANGS]) {
    const { answers, killedAt, backAt } = await outage(options, { perSecond, phaseMs, hangs });
    const end = Math.max(...answers.map(({ at }) => at));
    const between = (from, to) => answers.filter(({ at }) => at >= from && at < to);
    const admitted = (from, to) => between(from, to).filter(({ status }) => status === 200).length;
    const perS = (from, to) => Math.round(admitted(from, to) * 1000 / (to - from));
    // A killed server's last answers come a moment after the kill.
    const comeback = Math.min(...between(killedAt + phaseMs / 2, end).filter(({ isServers }) => isServers)
      .map(({ at, ms }) => at + ms)) - backAt;
    const slowest = Math.max(...between(killedAt, backAt + 1000).map(({ ms }) => ms));
    const statuses = new Set(between(killedAt, backAt).filter(({ isServers }) => !isServers).map(({ status }) => status));
    console.log(`| ${[
      name, `${perS(killedAt - phaseMs + 1000, killedAt)}/s`, admitted(killedAt, killedAt + 1000),
      `${perS(killedAt + 1000, backAt - 500)}/s`, `${Math.max(0, Math.round(comeback))} ms`,
      admitted(backAt, backAt + 1000), `${perS(backAt + 1000, end)}/s`, `${Math.round(slowest)} ms`,
      [...statuses].sort().join(', '),
    ].join(' | ')} |`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await table();
}
