// The options of a client, and their validation.

import type { SecureContextOptions } from 'node:tls';
import { object, onErrorValue, text, timeout, wholeNumber } from './arguments.js';
import { badInput, type TidegateError } from './error.js';
import { guarded } from './warnings.js';
import type { OnError } from './types.js';

export interface TidegateOptions {
  /** The server's URL; default `http://127.0.0.1:8080`. A path in it becomes a prefix of every route. */
  readonly url?: string | URL | undefined;
  /** The server's Unix socket, instead of `url`. */
  readonly socketPath?: string | undefined;
  /** Timeout of a whole call, including the wait for a connection; default 1000. */
  readonly timeoutMs?: number | undefined;
  /** The decision when the server does not answer; default `allow`. */
  readonly onError?: OnError | undefined;
  /** With `onError: 'local'`: how many processes share the limits, each with an equal part; default 1. */
  readonly processes?: number | undefined;
  /** Called for every decision made without the server. By default, the process warns once per outage. */
  readonly onTrouble?: ((error: TidegateError) => void) | undefined;
  /** The bearer token for admin calls. */
  readonly token?: string | undefined;
  /** Maximum number of connections; default 32. */
  readonly maxSockets?: number | undefined;
  /** Maximum number of calls that wait for a connection; default 20,000. Further calls fail with `overloaded`. */
  readonly maxWaiting?: number | undefined;
  /** Whether concurrent checks share a batch call; default true. */
  readonly batch?: boolean | undefined;
  /** Certificates for `https:`. */
  readonly tls?: Pick<SecureContextOptions, 'ca' | 'cert' | 'key' | 'passphrase'> | undefined;
}

/** The server's address, as node:http takes it. */
export interface Target {
  /** For messages. */
  readonly address: string;
  readonly secure: boolean;
  readonly connection: { readonly socketPath: string } | { readonly host: string; readonly port: string };
  readonly prefix: string;
}

export interface Settings {
  readonly target: Target;
  readonly timeoutMs: number;
  readonly onError: OnError;
  readonly processes: number;
  readonly onTrouble: ((error: TidegateError) => void) | undefined;
  readonly token: string | undefined;
  readonly maxSockets: number;
  readonly maxWaiting: number;
  readonly batch: boolean;
  readonly tls: TidegateOptions['tls'];
}

export const CLIENT_NAMES = [
  'url', 'socketPath', 'timeoutMs', 'onError', 'processes', 'onTrouble', 'token', 'maxSockets', 'maxWaiting', 'batch',
  'tls',
];

export function settings(options: TidegateOptions): Settings {
  object('options', options, CLIENT_NAMES);
  const { timeoutMs = 1000, onError = 'allow', processes = 1, onTrouble, token } = options;
  const { maxSockets = 32, maxWaiting = 20_000, batch = true, tls } = options;
  timeout(timeoutMs);
  onErrorValue(onError);
  wholeNumber('processes', processes, 1, 100_000);
  wholeNumber('maxSockets', maxSockets, 1, 10_000);
  wholeNumber('maxWaiting', maxWaiting, 0, 1_000_000);
  if (onTrouble !== undefined && typeof onTrouble !== 'function') {
    throw badInput('onTrouble', 'a function', onTrouble);
  }
  if (typeof batch !== 'boolean') {
    throw badInput('batch', 'true or false', batch);
  }
  if (token !== undefined && !(typeof token === 'string' && /^[\x21-\x7e]+$/.test(token))) {
    throw badInput('token', 'visible ASCII characters', 'other characters');
  }
  const hook = onTrouble && guarded(onTrouble);
  const numbers = { timeoutMs, processes, maxSockets, maxWaiting };
  return { ...numbers, target: target(options), onError, onTrouble: hook, token, batch, tls };
}

function target({ url, socketPath }: TidegateOptions): Target {
  if (socketPath !== undefined) {
    if (url !== undefined) {
      throw badInput('socketPath', 'either `url` or `socketPath`', 'both');
    }
    text('socketPath', socketPath);
    // As the server's file writes it.
    const path = socketPath.replace(/^unix:(?=.)/, '');
    return { address: path, secure: false, connection: { socketPath: path }, prefix: '' };
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
    throw badInput('url', `${expected}, without a user, query or fragment`, 'a URL with one of these');
  }
  const secure = url.protocol === 'https:';
  // A URL writes an IPv6 address in brackets; node:http wants it without.
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? (secure ? '443' : '80') : url.port;
  const [address, prefix] = [url.href, url.pathname].map((text) => text.replace(/\/+$/, '')) as [string, string];
  return { address, secure, connection: { host, port }, prefix };
}
