import type { SeriesKind } from '../../model/kinds.js';
import type { Moment } from './moments.js';
import type { EventOrder } from './order.js';

/**
 * What becomes of spans that are not proven complete.
 *
 * - `throw`: the question is refused with an {@link ArchiveGapsError} before its first event, so that
 *   missing data is never taken for what did not happen.
 * - `mark`: each comes as two events of kind `gap`, where it begins and where it ends.
 * - `ignore`: they are not reported.
 */
export type GapPolicy = 'throw' | 'mark' | 'ignore';

/** A span of time. */
export interface SpanQuery {
  /** First instant of the span. */
  readonly from: Moment;
  /** First instant after it. */
  readonly to: Moment;
  /** Default `throw`. */
  readonly gaps?: GapPolicy;
  /** Ends the events: the next one is refused with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** What {@link Archive.events} is asked for. */
export interface EventQuery<Kind extends SeriesKind = SeriesKind> extends SpanQuery {
  /** Names of markets; all that the archive has when left out. */
  readonly markets?: readonly string[];
  /** Kinds of events; all that are collected when left out. */
  readonly kinds?: readonly Kind[];
  /**
   * `happened` (default): by the time of the exchange, with all that is known today: a candle comes at
   * its close in its newest version, though the exchange may have corrected it later, and what was
   * fetched later stands where it happened. `received`: by the time at which the collector learnt of
   * them, every version of a candle, for a backtest that knows no more than a program would have known
   * then; but for exact times of trades, see {@link TradeEvent}. The span
   * selects by the time of happening in both orders: what was learnt late comes late, also after the
   * end of the span. There is no index for that order: it is sorted first, on the disk of the database
   * or of this machine, and its first event takes as long as all of them.
   */
  readonly order?: EventOrder;
  /** Lengths of candles in seconds; all that are collected when left out. */
  readonly intervalsS?: readonly number[];
  /** Periods of states in seconds; all that are collected when left out. */
  readonly periodsS?: readonly number[];
}

/** One market and a span of it. */
export interface MarketQuery extends SpanQuery {
  /** Name of the market. */
  readonly market: string;
}

/** Candles of one length. */
export interface CandleQuery extends MarketQuery {
  /** Length in seconds. */
  readonly intervalS: number;
}

/** One stream of the archive, and a span of it. */
export interface CoverageQuery {
  /** Name of the market. */
  readonly market: string;
  /** Kind of the series. */
  readonly kind: SeriesKind;
  /** Interval of klines or period of states in seconds; needed where there are several. */
  readonly variantS?: number;
  /** First instant of the span. */
  readonly from: Moment;
  /** First instant after it. */
  readonly to: Moment;
}
