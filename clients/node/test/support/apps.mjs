// Apps of both frameworks on free ports, closed afterwards.
import { once } from 'node:events';
import { after } from 'node:test';
import express from 'express';
import Fastify from 'fastify';

/** Starts an app that `build` sets up, and returns its URL. */
export async function fastifyApp(build, options = {}) {
  const app = Fastify(options);
  after(() => app.close());
  await build(app);
  await app.listen({ port: 0, host: '127.0.0.1' });
  return `http://127.0.0.1:${app.server.address().port}`;
}

export async function expressApp(build) {
  const app = express();
  build(app);
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** A log for Fastify's option `loggerInstance`, that keeps its lines in a list. */
export function listLog(lines) {
  const log = { level: 'warn', fatal() {}, debug() {}, trace() {}, silent() {}, child: () => log };
  log.warn = (message) => lines.push(`warn ${message}`);
  log.error = (message) => lines.push(`error ${message}`);
  // Fastify tells of every request here.
  log.info = (message) => String(message).startsWith('tidegate: ') && lines.push(`info ${message}`);
  return log;
}
