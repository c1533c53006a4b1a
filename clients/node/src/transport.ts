// One HTTP request: with a deadline, a size limit for the reply, and keep-alive connections.

import * as http from 'node:http';
import * as https from 'node:https';
import { TidegateError } from './error.js';
import type { Settings } from './options.js';
import { Timer, timedOut } from './timers.js';

/** 1000 decisions take about 200 kB, more with long names. */
const REPLY_BYTES_MAX = 4 * 1024 * 1024;
/** Shorter than the 75 s after which the server closes an idle connection. */
const IDLE_MS_MAX = 30_000;

export interface Request {
  readonly path: string;
  /** Without one, it is a GET. */
  readonly body?: string | undefined;
  readonly timeoutMs: number;
  /** Whether the server may safely process it twice. */
  readonly repeatable: boolean;
}

export interface Reply {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

export class Transport {
  readonly #agent: http.Agent;
  readonly #request: typeof http.request;
  readonly #options: https.RequestOptions;
  readonly #prefix: string;

  constructor({ target, token, maxSockets, tls = {} }: Settings) {
    const options = { keepAlive: true, maxSockets, timeout: IDLE_MS_MAX };
    this.#agent = target.secure ? new https.Agent({ ...options, ...tls }) : new http.Agent(options);
    this.#request = target.secure ? https.request : http.request;
    const headers = {
      'content-type': 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    this.#options = { ...target.connection, ...(target.secure ? tls : {}), headers };
    this.#prefix = target.prefix;
  }

  /** Rejects only with a `TidegateError`, and within the timeout. */
  send(request: Request): Promise<Reply> {
    const deadline = performance.now() + request.timeoutMs;
    return this.#attempt(request, deadline, request.repeatable);
  }

  close(): void {
    this.#agent.destroy();
  }

  #attempt(request: Request, deadline: number, mayRetry: boolean): Promise<Reply> {
    return new Promise((resolve, reject) => {
      // The retry opens a new connection: other idle ones may be closed as well.
      const agent = mayRetry || !request.repeatable ? this.#agent : false;
      const method = request.body === undefined ? 'GET' : 'POST';
      const call = this.#request({ ...this.#options, method, path: this.#prefix + request.path, agent });
      let answered = false;
      const timer = new Timer(deadline - performance.now(), () => call.destroy(timedOut(request.timeoutMs)));
      const fail = (error: Error): void => {
        timer.cancel();
        if (mayRetry && call.reusedSocket && !answered && isLost(error)) {
          resolve(this.#attempt(request, deadline, false));
        } else {
          reject(toTidegateError(error));
        }
      };
      call.on('error', fail);
      call.on('close', () => {
        if (!answered) {
          fail(new Error('the server closed the connection without an answer'));
        }
      });
      call.on('response', (response) => {
        answered = true;
        read(response).then((body) => {
          timer.cancel();
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
        }, (error: Error) => {
          call.destroy();
          fail(error);
        });
      });
      call.end(request.body);
    });
  }
}

/** Reads the whole body. Rejects if it is too large or incomplete. */
async function read(response: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > REPLY_BYTES_MAX) {
      throw new TidegateError('bad-answer', `the answer has more than ${REPLY_BYTES_MAX} bytes`, {
        status: response.statusCode, transient: true,
      });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** The server closed the connection while the client wrote to it. */
function isLost(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}

function toTidegateError(error: Error): TidegateError {
  if (error instanceof TidegateError) {
    return error;
  }
  // HPE_ errors come from the HTTP parser: the server's reply is malformed. Others mean that it was not reached.
  const code = 'code' in error && String(error.code).startsWith('HPE_') ? 'bad-answer' : 'unreachable';
  return new TidegateError(code, error.message || String(error), { cause: error, transient: true });
}
