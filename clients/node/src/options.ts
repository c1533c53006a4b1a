// What a client can be told, checked once.

import type { SecureContextOptions } from 'node:tls';
import { object, onErrorWord, text, timeout, wholeNumber } from './arguments.js';
import { badInput, type TidegateError } from './error.js';
import { harmless, warner } from './trouble.js';
import type { OnError } from './types.js';

export interface TidegateOptions {
  /** Where the server listens; `http://127.0.0.1:8080` unless given. A path is put before every route. */
  readonly url?: string | URL | undefined;
  /** Instead of `url`: the server's Unix socket. */
  readonly socketPath?: string | undefined;
  /** How long a call may take as a whole, waiting for its turn included; 1000 unless given. */
  readonly timeoutMs?: number | undefined;
  /** What to answer when the server cannot be asked; `allow` unless given. */
  readonly onError?: OnError | undefined;
  /** Told of every answer that the server did not give: count it or log it. A warning of the process unless given. */
  readonly onTrouble?: ((error: TidegateError) => void) | undefined;
  /** The bearer token that admin calls need. */
  readonly token?: string | undefined;
  /** The most connections at once; 32 unless given. */
  readonly maxSockets?: number | undefined;
  /** The most calls that wait for a connection; 20,000 unless given. The next one is `overloaded`. */
  readonly maxWaiting?: number | undefined;
  /** Whether checks that are asked at the same time are sent together; true unless given. */
  readonly batch?: boolean | undefined;
  /** For `https:`: certificates of your own. */
  readonly tls?: Pick<SecureContextOptions, 'ca' | 'cert' | 'key' | 'passphrase'> | undefined;
}

/** Where the server is, as node:http wants to be told. */
export interface Target {
  readonly secure: boolean;
  readonly connection: { readonly socketPath: string } | { readonly host: string; readonly port: string };
  readonly prefix: string;
}

export interface Settings {
  readonly target: Target;
  readonly timeoutMs: number;
  readonly onError: OnError;
  readonly onTrouble: (error: TidegateError) => void;
  readonly token: string | undefined;
  readonly maxSockets: number;
  readonly maxWaiting: number;
  readonly batch: boolean;
  readonly tls: TidegateOptions['tls'];
}

const NAMES = [
  'url', 'socketPath', 'timeoutMs', 'onError', 'onTrouble', 'token', 'maxSockets', 'maxWaiting', 'batch', 'tls',
];

export function settings(options: TidegateOptions): Settings {
  object('options', options, NAMES);
  const { timeoutMs = 1000, onError = 'allow', onTrouble = warner(), token } = options;
  const { maxSockets = 32, maxWaiting = 20_000, batch = true, tls } = options;
  timeout(timeoutMs);
  onErrorWord(onError);
  wholeNumber('maxSockets', maxSockets, 1, 10_000);
  wholeNumber('maxWaiting', maxWaiting, 0, 1_000_000);
  if (typeof onTrouble !== 'function') {
    throw badInput('onTrouble', 'a function', onTrouble);
  }
  if (typeof batch !== 'boolean') {
    throw badInput('batch', 'true or false', batch);
  }
  if (token !== undefined && !(typeof token === 'string' && /^[\x21-\x7e]+$/.test(token))) {
    throw badInput('token', 'visible ASCII characters', 'something else');
  }
  const told = harmless(onTrouble);
  return { target: target(options), timeoutMs, onError, onTrouble: told, token, maxSockets, maxWaiting, batch, tls };
}

function target({ url, socketPath }: TidegateOptions): Target {
  if (socketPath !== undefined) {
    if (url !== undefined) {
      throw badInput('socketPath', 'either `url` or `socketPath`', 'both');
    }
    text('socketPath', socketPath);
    return { secure: false, connection: { socketPath }, prefix: '' };
  }
  return targetOfUrl(url ?? 'http://127.0.0.1:8080');
}

function targetOfUrl(given: string | URL): Target {
  const expected = 'a URL like http://127.0.0.1:8080 or https://limits.example.com';
  const url = URL.canParse(String(given)) ? new URL(String(given)) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw badInput('url', expected, given instanceof URL ? given.href : given);
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw badInput('url', `${expected}, without a user, query or fragment`, 'one that has such');
  }
  const secure = url.protocol === 'https:';
  // Brackets are the URL's way to write an IPv6 address, not part of it.
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? (secure ? '443' : '80') : url.port;
  return { secure, connection: { host, port }, prefix: url.pathname.replace(/\/+$/, '') };
}
