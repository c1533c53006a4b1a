// Trouble, as one kind of error.

/** What is known of a trouble beside its message. */
export interface Trouble {
  /** The status of the server's answer, if there was one. */
  readonly status?: number | undefined;
  /** Which argument, option or field is wrong. */
  readonly field?: string | undefined;
  /** How long to wait before asking again, if the server said so. */
  readonly retryAfterMs?: number | undefined;
  /** Whether it may pass by itself. Then a check is answered as `onError` says. */
  readonly transient?: boolean;
  readonly cause?: unknown;
}

/**
 * Something went wrong. A refusal is not an error but a value, `allowed: false`.
 *
 * `code` is `timeout`, `unreachable`, `bad-answer`, `overloaded`, `circuit-open` or `closed`, or what the server
 * calls it: `bad-input`, `unknown-policy`, `unauthorized`, `not-local`, `store-unavailable` and so on.
 * What is wrong with an argument is a `bad-input` as well, and told before anything is sent.
 */
export class TidegateError extends Error {
  override readonly name = 'TidegateError';
  readonly code: string;
  /** What is wrong, in a sentence. */
  readonly detail: string;
  readonly status: number | undefined;
  readonly field: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly transient: boolean;

  constructor(code: string, detail: string, trouble: Trouble = {}) {
    super(`${code}: ${detail}`, 'cause' in trouble ? { cause: trouble.cause } : undefined);
    this.code = code;
    this.detail = detail;
    this.status = trouble.status;
    this.field = trouble.field;
    this.retryAfterMs = trouble.retryAfterMs;
    this.transient = trouble.transient ?? false;
  }
}

/** An argument that makes no sense: which one, what was expected, and what came. */
export function badInput(field: string, expected: string, got: unknown): TidegateError {
  return new TidegateError('bad-input', `\`${field}\`: expected ${expected}, got ${shown(got)}`, { field });
}

/** Short enough for a log line, whatever was given. */
function shown(value: unknown): string {
  if (typeof value === 'string') {
    return value.length > 40 ? `a string of ${value.length} characters` : JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    return 'a list';
  }
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}
