// Splits many checks into as few batch calls as the server accepts.

import { checkBody, object } from './arguments.js';
import { BATCH_BYTES_MAX, BATCH_MAX, type Call } from './dispatcher.js';
import { badInput, TidegateError } from './error.js';
import type { Check, Decision } from './types.js';
import * as wire from './wire.js';

/** The checks of one call. */
export interface Part {
  /** The number of checks in earlier parts. */
  readonly begin: number;
  readonly checks: readonly Check[];
  readonly call: Call<Decision[]>;
}

/** Validates every check before the first is sent. */
export function parts(checks: readonly Check[], atomic: boolean): Part[] {
  if (!Array.isArray(checks)) {
    throw badInput('checks', 'a list like [{ policy, key }]', checks);
  }
  const bodies = checks.map((check, index) => {
    object(`checks[${index}]`, check, ['policy', 'key', 'cost']);
    return checkBody(check, {}, `checks[${index}].`);
  });
  const parts: Part[] = [];
  for (let begin = 0; begin < bodies.length;) {
    const end = endOfPart(bodies, begin);
    if (atomic && end - begin < bodies.length) {
      throw badInput('checks', `at most ${BATCH_MAX} checks and 1 MB in an atomic call`, `${bodies.length} checks`);
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
    call: {
      path: '/v1/check/batch',
      body: `{"checks":[${all}]${atomic ? ',"atomic":true' : ''}}`,
      decode: (json) => wire.decisions(json, end - begin).map(wire.decision),
      repeatable: true,
    },
  };
}

/** Renumbers `checks[i]` in an error: the server counts within one call, the caller over all. */
export function renumbered(error: unknown, { begin }: Part): unknown {
  if (!(error instanceof TidegateError) || error.transient || begin === 0) {
    return error;
  }
  const renumber = (text: string): string =>
    text.replace(/checks\[(\d+)\]/g, (_, index) => `checks[${Number(index) + begin}]`);
  const { code, detail, status, field } = error;
  return new TidegateError(code, renumber(detail), { status, field: field && renumber(field), cause: error });
}
