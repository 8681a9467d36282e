import { TapekeepError } from '../../kernel/errors.js';

/**
 * The exchange's answers do not let the walk through history get on: a request made no progress, or
 * contradicts what was answered before. The walk stops at its edge, backs off and tries again; the
 * span stays a gap meanwhile.
 */
export class WalkStalledError extends TapekeepError {
  constructor(market: string, endpoint: string, detail: string) {
    super(
      'walk_stalled',
      'retry',
      `${market}: paging through ${endpoint} made no progress: ${detail}. It is tried again later; the span stays listed as a gap.`,
    );
  }
}
