// A web app with a database: one query per request, over a small pool. With TIDEGATE_SOCKET, a sidecar protects it.
import Fastify from 'fastify';
import pg from 'pg';
import { rateLimit } from 'tidegate/fastify';

// Requests that find the pool busy wait in a queue without bound, also those whose clients have left.
const pool = new pg.Pool({ max: 8, connectionTimeoutMillis: 2000 });
const app = Fastify();

if (process.env.TIDEGATE_SOCKET) {
  app.register(rateLimit, {
    client: { socketPath: process.env.TIDEGATE_SOCKET, onError: 'local' },
    policy: 'orders',
    permit: true, // each request holds one of the policy's places until it is answered
    observe: 'db', // the sidecar learns how long each answer took, and whether it failed
  });
}

// An index lookup, and 20 ms that stand for disks and locks: the pool is the bottleneck, not the CPU.
const TOTAL = `
  SELECT count(*)::int AS orders, coalesce(sum(amount), 0)::int AS total
  FROM orders, pg_sleep(0.02) WHERE customer = $1`;

app.get('/customers/:id', counted(async ({ params: { id } }) => {
  const { rows: [customer] } = await pool.query({ name: 'total', text: TOTAL, values: [id] });
  return customer;
}));

// For the demo's report.
const stats = { under_way: 0, answered: 0, failed: 0 };
app.get('/stats', { config: { rateLimit: false } }, async () => stats);

function counted(handler) {
  return async (request) => {
    stats.under_way += 1;
    try {
      const answer = await handler(request);
      stats.answered += 1;
      return answer;
    } catch (error) {
      stats.failed += 1;
      throw error;
    } finally {
      stats.under_way -= 1;
    }
  };
}

console.log(`the app answers on ${await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 3000) })}`);
