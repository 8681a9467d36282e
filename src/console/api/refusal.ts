import { ERRORS, TapekeepError } from '../../kernel/errors.js';

/** Answer other than 200 that a handler wants given, with one sentence on what was wrong and what to do. */
export class Refusal extends Error {
  readonly status: 400 | 403 | 404 | 409 | 422 | 429 | 503;
  /** Seconds after which to ask again. */
  readonly retryAfterS: number | undefined;

  constructor(status: Refusal['status'], message: string, retryAfterS?: number) {
    super(message);
    this.name = 'Refusal';
    this.status = status;
    this.retryAfterS = retryAfterS;
  }
}

/** Makes a refusal of an error that the caller can correct; undefined for any other. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error;
  if (error instanceof TapekeepError && ERRORS[error.code].exit === 'usage') {
    return new Refusal(400, error.message);
  }
  if (!(error instanceof TapekeepError)) return undefined;
  if (error.code === 'status_timeout') {
    return new Refusal(503, `${error.message}; ask for less, or later`);
  }
  // A statement of a person that is too much, or too many of them.
  if (error.code === 'query_timeout') return new Refusal(422, error.message);
  if (error.code === 'query_resources') {
    return error.action === 'retry'
      ? new Refusal(429, error.message, 5)
      : new Refusal(422, error.message);
  }
  return undefined;
}
