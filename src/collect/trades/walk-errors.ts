import { TapekeepError } from '../../kernel/errors.js';

/** A request of the exchange failed: what went wrong lies on the way to it or with it. */
export class FetchFailure extends Error {
  constructor(cause: unknown) {
    super('a page could not be fetched', { cause });
  }
}

/**
 * The exchange's answers do not let the walk through history get on: a request made no progress, or
 * contradicts what was answered before. The walk stops at its edge, backs off and tries again; the
 * span stays a gap meanwhile.
 */
export class WalkStalledError extends TapekeepError {
  /** Why the span is a gap. */
  readonly reason: 'walk stalled' | 'refused rows';

  constructor(
    market: string,
    endpoint: string,
    detail: string,
    reason: WalkStalledError['reason'] = 'walk stalled',
  ) {
    super(
      'walk_stalled',
      `${market}: paging through ${endpoint} made no progress: ${detail}. It is tried again later; the span stays listed as a gap.`,
    );
    this.reason = reason;
  }
}
