// A fake server with a scripted answer, for failures that a real one does not produce.
import { createServer } from 'node:net';
import { once } from 'node:events';

/** `answer(socket, request, number)` writes the response; `request` is the text of one request. */
export async function faultyServer(after, answer) {
  const sockets = new Set();
  const seen = { requests: 0, get open() { return sockets.size; } };
  const server = createServer((socket) => {
    sockets.add(socket);
    let text = '';
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (piece) => {
      text += piece;
      const [head, body] = text.split('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (body !== undefined && Buffer.byteLength(body) >= length) {
        [text, seen.requests] = ['', seen.requests + 1];
        answer(socket, `${head}\r\n\r\n${body}`, seen.requests);
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, seen };
}

export function http(body, status = '200 OK', headers = '') {
  return `HTTP/1.1 ${status}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`;
}

export const DECISION = JSON.stringify({
  allowed: true, limit: 9, remaining: 8, retry_after_ms: 0, reset_after_ms: 1, policy: 'p', binding: 'p',
  source: 'store',
});
