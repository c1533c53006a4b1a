// The key for a client's IP address, in the same form as the server's.

import { isIPv4, isIPv6 } from 'node:net';
import { badInput } from './error.js';

/** ::ffff:192.0.2.7 as URLs write it: an IPv4 address on a dual-stack socket. */
const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/**
 * The key for an address: an IPv4 address itself; for IPv6 its /64 network, because a single customer can rotate through
 * all addresses of one.
 */
export function ipKey(address: string): string {
  const plain = typeof address === 'string' ? address.replace(/%.*$/, '') : '';
  if (isIPv4(plain)) {
    return plain;
  }
  if (!isIPv6(plain)) {
    throw badInput('address', 'an IP address', address);
  }
  const short = canonical(plain);
  const mapped = MAPPED.exec(short);
  return mapped ? ipv4(mapped[1] ?? '', mapped[2] ?? '') : network64(short);
}

/** One spelling per address: lower case, the longest run of zeros as `::`, no dots. */
function canonical(address: string): string {
  return new URL(`http://[${address}]`).hostname.slice(1, -1);
}

function ipv4(high: string, low: string): string {
  const bytes = [high, low].flatMap((group) => {
    const number = parseInt(group, 16);
    return [number >> 8, number & 255];
  });
  return bytes.join('.');
}

function network64(short: string): string {
  const [left = '', right] = short.split('::');
  const head = left === '' ? [] : left.split(':');
  const tail = right === undefined || right === '' ? [] : right.split(':');
  const zeros = right === undefined ? [] : Array<string>(8 - head.length - tail.length).fill('0');
  const groups = [...head, ...zeros, ...tail].slice(0, 4);
  return `${canonical(`${groups.join(':')}::`)}/64`;
}
