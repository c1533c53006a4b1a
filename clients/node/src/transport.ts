// One question over HTTP: a deadline, a bound on the answer, and connections that are kept.

import * as http from 'node:http';
import * as https from 'node:https';
import { TidegateError } from './error.js';
import type { Settings } from './options.js';
import { Timer, timedOut } from './timer.js';

/** A batch of 1000 decisions has some 200 kB; names in them can be long. */
const ANSWER_BYTES_MAX = 4 * 1024 * 1024;
/** Shorter than the 75 s after which the server closes a connection that nobody uses. */
const IDLE_MS_MAX = 30_000;

export interface Request {
  readonly path: string;
  readonly body: string;
  readonly timeoutMs: number;
  /** Whether it does no harm if the server does it twice. */
  readonly repeatable: boolean;
}

export interface Answer {
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
    const kept = { keepAlive: true, maxSockets, timeout: IDLE_MS_MAX };
    this.#agent = target.secure ? new https.Agent({ ...kept, ...tls }) : new http.Agent(kept);
    this.#request = target.secure ? https.request : http.request;
    const headers = {
      'content-type': 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    this.#options = { ...target.connection, ...(target.secure ? tls : {}), method: 'POST', headers };
    this.#prefix = target.prefix;
  }

  /** Rejects with a `TidegateError`, and within the time that the request has. */
  post(request: Request): Promise<Answer> {
    const deadline = performance.now() + request.timeoutMs;
    return this.#attempt(request, deadline, request.repeatable);
  }

  close(): void {
    this.#agent.destroy();
  }

  #attempt(request: Request, deadline: number, again: boolean): Promise<Answer> {
    return new Promise((resolve, reject) => {
      // The second attempt has a connection of its own: others that were kept may be as dead as the first.
      const agent = again || !request.repeatable ? this.#agent : false;
      const call = this.#request({ ...this.#options, path: this.#prefix + request.path, agent });
      let answered = false;
      const timer = new Timer(deadline - performance.now(), () => call.destroy(timedOut(request.timeoutMs)));
      const fail = (error: Error): void => {
        timer.cancel();
        if (again && call.reusedSocket && !answered && isLost(error)) {
          resolve(this.#attempt(request, deadline, false));
        } else {
          reject(asTrouble(error));
        }
      };
      call.on('error', fail);
      call.on('close', () => {
        if (!answered) {
          fail(new Error('the connection was closed without an answer'));
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

/** The whole body, unless it is too large or breaks off. */
async function read(response: http.IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of response as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > ANSWER_BYTES_MAX) {
      throw new TidegateError('bad-answer', `an answer of more than ${ANSWER_BYTES_MAX} bytes`, {
        status: response.statusCode, transient: true,
      });
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/** What becomes of a connection that the server has closed while we wrote to it. */
function isLost(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}

function asTrouble(error: Error): TidegateError {
  if (error instanceof TidegateError) {
    return error;
  }
  // The parser's errors are about what the server wrote, all others about reaching it.
  const code = 'code' in error && String(error.code).startsWith('HPE_') ? 'bad-answer' : 'unreachable';
  return new TidegateError(code, error.message || String(error), { cause: error, transient: true });
}
