/**
 * What the owner of a failed piece of work should do about it.
 *
 * - `retry`: the same work may succeed later; back off and repeat.
 * - `skip`: this piece cannot succeed, the next one may; record it and go on.
 * - `fatal`: nothing of this kind can succeed until a person changes something.
 */
export type ErrorAction = 'retry' | 'skip' | 'fatal';

/**
 * Base of every error that tapekeep throws on purpose.
 *
 * `code` is stable and meant for programs, `message` names what was wrong, where, and what to do.
 */
export class TapekeepError extends Error {
  /** Stable, for programs: it never changes its meaning. */
  readonly code: string;
  /** What the caller should do about it. */
  readonly action: ErrorAction;

  constructor(code: string, action: ErrorAction, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
    this.action = action;
  }
}

/** Work was given up because its owner asked for it, not because it failed. */
export class AbortedError extends TapekeepError {
  constructor(message = 'stopped on request') {
    super('aborted', 'skip', message);
  }
}

/** Whether `error` only says that work was stopped on request. */
export function isAborted(error: unknown): boolean {
  return error instanceof AbortedError || (error instanceof Error && error.name === 'AbortError');
}

/** The text of any thrown value, for log lines and messages. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message;
  try {
    return String(error);
  } catch {
    // Objects without a usable toString: reporting a failure must not fail over its text.
    return 'a thrown value without text';
  }
}

/** The stable code of any thrown value: ours, Node's or Postgres' `code`, else the class name. */
export function codeOf(error: unknown): string {
  if (error instanceof Error) {
    const code: unknown = (error as { code?: unknown }).code;
    return typeof code === 'string' ? code : error.name;
  }
  return 'unknown';
}
