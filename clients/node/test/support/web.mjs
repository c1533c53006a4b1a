// Assertions on responses, for both frameworks.
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { once } from 'node:events';

export async function get(url, headers = {}) {
  const response = await fetch(url, { headers });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

export function isRefusal({ status, headers, text }) {
  assert.equal(status, 429);
  const seconds = Number(headers.get('retry-after'));
  assert.ok(Number.isInteger(seconds) && seconds >= 1);
  assert.equal(text, '{"error":"Too Many Requests","message":"Rate limit exceeded. Retry after '
    + `${seconds} seconds.","retryAfter":${seconds}}`);
  assert.match(headers.get('content-type'), /^application\/json/);
  assert.equal(headers.get('x-ratelimit-remaining'), '0');
}

export function isUnavailable({ status, headers, text }) {
  assert.equal(status, 503);
  const seconds = headers.get('retry-after');
  assert.match(seconds, /^[12]$/);
  assert.equal(text, '{"error":"Service Unavailable","message":"Rate limiter unavailable. '
    + `Retry after ${seconds} seconds.","retryAfter":${seconds}}`);
}

/** A URL without a listener. */
export async function deadUrl() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}
