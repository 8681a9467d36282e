import type { Past } from '../archive/past.js';
import type { Clock } from '../kernel/clock.js';
import { TapekeepError } from '../kernel/errors.js';
import type { Span } from '../kernel/span.js';
import type { PlaySpeed } from '../server/backend.js';
import { CandleView } from './candle-view.js';
import type { Catalog, Sight } from './catalog.js';
import type { ShownFrom } from './coverage.js';
import { GapBook } from './gaps.js';

/** A replay cannot do what was asked of it; the message says why, and what to do. */
export class ReplayError extends TapekeepError {
  /** @param option the setting that is wrong, if it is one */
  readonly option: 'from' | 'to' | 'markets' | undefined;

  constructor(message: string, option?: 'from' | 'to' | 'markets') {
    super('replay_invalid', message);
    this.option = option;
  }
}

export interface ReplayOptions {
  readonly past: Past;
  readonly clock: Clock;
  /** Time begins at its start, and stands at its end. */
  readonly span: Span;
  /** Names of the markets that are replayed; empty: all. */
  readonly markets: readonly string[];
  readonly speed: PlaySpeed;
  /** Replays a time range with gaps in trades and candles as well; none may collect from it. */
  readonly allowsGaps: boolean;
  /** Ends connections where those that recorded the states ended. */
  readonly hasDisconnects: boolean;
  /** Called when the archive failed; clients are answered to ask again, or that it is no use. */
  readonly onFailure: (error: unknown) => void;
  /** Named sessions that there may be at once; default 1,000. */
  readonly maxSessions?: number;
  /** An unused named session is forgotten after this time; default 10 minutes. */
  readonly sessionIdleMs?: number;
}

export type ReplayContext = ReturnType<typeof replayContext>;

export function sightOf({ past, clock, markets, span }: ReplayOptions): Sight {
  return { past, clock, markets, toMs: span.toMs };
}

/**
 * Everything that can be seen of the archive at some instant; the same for all sessions.
 *
 * @param sinceMs by stream of trades or candles: nothing older of it is shown; undefined: all is
 */
export function replayContext(
  options: ReplayOptions,
  sight: Sight,
  catalog: Catalog,
  sinceMs: ReadonlyMap<number, number> | undefined,
) {
  const { past, span } = options;
  const shownFromMs: ShownFrom = (stream) => {
    if (sinceMs === undefined) return 0;
    // A stream that came later was not looked at.
    return (stream && sinceMs.get(stream.streamId)) ?? Number.POSITIVE_INFINITY;
  };
  const shared = {
    catalog,
    shownFromMs,
    gaps: new GapBook(sight),
  };
  return {
    options,
    sight,
    ...shared,
    candles: new CandleView({ ...sight, ...shared }),
    /** The next instant of which anything is recorded of the replayed markets; undefined: none is left. */
    async nextTimeMs(nowMs: number): Promise<number | undefined> {
      const marketIds = Array.from(catalog.markets, ({ marketId }) => marketId);
      return (await past.nextTimeMs(marketIds, nowMs, span.toMs)) ?? undefined;
    },
  };
}
