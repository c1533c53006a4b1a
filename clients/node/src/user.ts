// The default key of a request: its user, else its IP address.

import { badInput } from './error.js';
import { ipKey } from './ip.js';

export interface HasIp {
  readonly ip?: string | undefined;
}

interface User {
  readonly id?: unknown;
  /** The user in a JSON Web Token. */
  readonly sub?: unknown;
}

/** `request.user.id` or `request.user.sub`, if authentication has set one. */
export function userKey(request: object): string | undefined {
  const { user } = request as { user?: User | null };
  const id = [user?.id, user?.sub].find(isId);
  return id === undefined ? undefined : String(id);
}

export function addressKey({ ip }: HasIp): string {
  if (!ip) {
    throw badInput('key', 'a user or an IP address (behind a Unix socket, trust the proxy or set `key`)', ip);
  }
  return ipKey(ip);
}

/**
 * Why a request with a user was limited by its address: users behind one address share a limit, which looks right. A
 * refused request gets no user any more; its credentials suggest one.
 */
export function addressWarning(request: object, remedy: string, isRefused: boolean): string | undefined {
  const { user, headers } = request as { user?: unknown; headers?: { readonly authorization?: unknown } };
  const outcome = isRefused ? 'refused' : 'limited';
  if (typeof user !== 'object' || user === null) {
    return isRefused && headers?.authorization !== undefined
      ? `a request with an Authorization header was refused by its IP address, because its user was not known yet. ${remedy}`
      : undefined;
  }
  if (userKey(request) === undefined) {
    return 'id' in user || 'sub' in user
      ? undefined
      : `a request was ${outcome} by its IP address: \`request.user\` has neither \`id\` nor \`sub\`. Set the option \`key\``;
  }
  return `a request was limited by its IP address, because its user was not known yet. ${remedy}`;
}

function isId(value: unknown): boolean {
  return typeof value === 'number' || typeof value === 'bigint' || (typeof value === 'string' && value !== '');
}
