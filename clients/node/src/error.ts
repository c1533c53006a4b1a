// The one error type of the client.

export interface ErrorDetails {
  /** The HTTP status, if the server answered. */
  readonly status?: number | undefined;
  /** The invalid argument, option or field. */
  readonly field?: string | undefined;
  /** The server's Retry-After, if it sent one. */
  readonly retryAfterMs?: number | undefined;
  /** Whether a retry may succeed. A check then follows `onError`. */
  readonly transient?: boolean;
  readonly cause?: unknown;
}

/**
 * A call failed. A denial is not an error: it is a value with `allowed: false`.
 *
 * `code` is `timeout`, `unreachable`, `bad-answer`, `overloaded`, `circuit-open`, `recovering` or `closed`, or a code of
 * the server: `bad-input`, `unknown-policy`, `unauthorized`, `not-local`, `store-unavailable` and others. The client also
 * throws `bad-input` for an invalid argument, before it sends anything.
 */
export class TidegateError extends Error {
  override readonly name = 'TidegateError';
  readonly code: string;
  readonly detail: string;
  readonly status: number | undefined;
  readonly field: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly transient: boolean;

  constructor(code: string, detail: string, details: ErrorDetails = {}) {
    super(`${code}: ${detail}`, 'cause' in details ? { cause: details.cause } : undefined);
    this.code = code;
    this.detail = detail;
    this.status = details.status;
    this.field = details.field;
    this.retryAfterMs = details.retryAfterMs;
    this.transient = details.transient ?? false;
  }
}

export function badInput(field: string, expected: string, got: unknown): TidegateError {
  return new TidegateError('bad-input', `\`${field}\`: expected ${expected}, got ${preview(got)}`, { field });
}

/** Short enough for a log line. */
function preview(value: unknown): string {
  if (typeof value === 'string') {
    return value.length > 40 ? `a string of ${value.length} characters` : JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    return 'a list';
  }
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}
