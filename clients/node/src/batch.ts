// Many checks in as few calls as the server takes them.

import { question } from './arguments.js';
import { BATCH_BYTES_MAX, BATCH_MAX, type Question } from './desk.js';
import { badInput, TidegateError } from './error.js';
import type { Check, Decision } from './types.js';
import * as wire from './wire.js';

/** What goes into one call. */
export interface Part {
  /** How many checks are in the parts before it. */
  readonly begin: number;
  readonly checks: readonly Check[];
  readonly question: Question<Decision[]>;
}

/** All of it is checked before any of it is sent. */
export function parts(checks: readonly Check[], atomic: boolean): Part[] {
  if (!Array.isArray(checks)) {
    throw badInput('checks', 'a list like [{ policy, key }]', checks);
  }
  const bodies = checks.map((check, index) => question(check, {}, `checks[${index}].`));
  const parts: Part[] = [];
  for (let begin = 0; begin < bodies.length;) {
    const end = endOfPart(bodies, begin);
    if (atomic && end - begin < bodies.length) {
      throw badInput('checks', `at most ${BATCH_MAX} checks in one step, of 1 MB`, `${bodies.length} checks`);
    }
    parts.push(part(checks, bodies, begin, end, atomic));
    begin = end;
  }
  return parts;
}

function endOfPart(bodies: readonly string[], begin: number): number {
  let end = begin;
  for (let bytes = 0; end < bodies.length && end - begin < BATCH_MAX; end += 1) {
    bytes += Buffer.byteLength(bodies[end] ?? '') + 1;
    if (bytes > BATCH_BYTES_MAX) {
      break;
    }
  }
  return end;
}

function part(checks: readonly Check[], bodies: string[], begin: number, end: number, atomic: boolean): Part {
  const all = bodies.slice(begin, end).join(',');
  return {
    begin,
    checks: checks.slice(begin, end),
    question: {
      path: '/v1/check/batch',
      body: `{"checks":[${all}]${atomic ? ',"atomic":true' : ''}}`,
      decode: (json) => wire.decisions(json, end - begin).map(wire.decision),
      repeatable: true,
    },
  };
}

/** The server counts from the first check of its call, the caller from the first of all. */
export function asCounted(error: unknown, { begin }: Part): unknown {
  if (!(error instanceof TidegateError) || error.transient || begin === 0) {
    return error;
  }
  const count = (text: string): string =>
    text.replace(/checks\[(\d+)\]/g, (_, index) => `checks[${Number(index) + begin}]`);
  const { code, detail, status, field } = error;
  return new TidegateError(code, count(detail), { status, field: field && count(field), cause: error });
}
