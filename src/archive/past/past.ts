import type { Market } from '../../contract/resources.js';
import type { Span } from '../../kernel/span.js';
import type { DepthRow, KlineRow, StateRow, TickerRow, TradeRow } from '../../ledger/batch.js';
import type { KnownStream, SpanCompleteness } from '../../store/index.js';

/**
 * The archive asked about moments of the past, the way an exchange is asked about the present: what
 * was seen last, the newest rows before here, the next ones after. All moments are UNIX
 * milliseconds of exchange time unless a name says otherwise.
 */

export type { DepthRow, KlineRow, KnownStream, SpanCompleteness, StateRow, TickerRow, TradeRow };

/** Place of a trade in the order of time and id; as an upper end it is itself left out. */
export interface TradePlace {
  readonly tradedAtS: number;
  readonly tid: number;
}

/** Place of a state record among those of its market and period. */
export interface StatePlace {
  readonly observedAtMs: number;
  readonly seq: number;
}

/**
 * When this machine learned of a row decides whether it is there: only rows received at this moment
 * or before, in the versions of then. Null: every row is, however late it came. Of a trade the first
 * receipt counts: when its exact time was learned, by another endpoint, is not kept.
 */
export type KnownAt = number | null;

/** A pushed state as the contract writes it. */
export interface PastUpdate extends StatePlace {
  readonly receivedAtMs: number;
  /** The record in JSON: period, prices and volumes as texts; no change. */
  readonly recordText: string;
}

/** What was seen last, and how long it stays the last. */
export interface Seen<T> {
  readonly row: T | undefined;
  /** Until then nothing else can be the last; at the latest a day later. */
  readonly nextAtMs: number;
}

/** Candles made of trades. */
export interface MadeCandles {
  readonly candles: readonly BuiltCandle[];
  /** Begins of those that lack trades which were received later, oldest first. */
  readonly lateOpenAtS: readonly number[];
}

/** An observed series, looked at from a moment on. */
export interface SeriesFrom {
  readonly marketId: number;
  /** Period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  readonly fromMs: number;
}

/** Rows of what had happened by a moment that were received after it only: what was missing then. */
export interface LateRows {
  /** Trades from a place (included) up to another, newest first; at most `limit`. */
  trades(
    marketId: number,
    run: { readonly from: TradePlace; readonly before: TradePlace },
    nowMs: number,
    limit: number,
  ): Promise<readonly TradePlace[]>;
  /**
   * Begins (seconds) of candles that begin in a span, oldest first; at most `limit`. Those with an
   * earlier version are among them.
   */
  klines(
    marketId: number,
    intervalS: number,
    span: Span,
    nowMs: number,
    limit: number,
  ): Promise<readonly number[]>;
  /** The first observation of any of several series; null where nothing came late. */
  observed(
    kind: 'tickers' | 'depth' | 'states',
    series: readonly SeriesFrom[],
    nowMs: number,
  ): Promise<number | null>;
}

/** A market with all the terms that it ever had. */
export interface PastMarket {
  readonly marketId: number;
  readonly name: string;
  /** Oldest first; each holds up to `untilMs`, the last one (null) until now. */
  readonly terms: ReadonlyArray<{ readonly market: Market; readonly untilMs: number | null }>;
  readonly firstSeenMs: number;
  readonly delistedMs: number | null;
  /** Begin of what is covered of it, by any stream; null: nothing is. */
  readonly oldestCoveredMs: number | null;
}

/** A connection that once told states. */
export interface PastSession {
  readonly openedMs: number;
  /** Its end, or its last message where it never was closed. */
  readonly endedMs: number;
  readonly closeCode: number | null;
  readonly reason: string;
}

/** Whose archive it is. */
export interface PastIdentity {
  readonly name: string;
  readonly baseUrl: string;
  readonly identity: string | null;
  readonly createdAt: string;
}

/** Places that divide a run of trades into pieces of equal size. */
export interface TradeMarks {
  /** Newest first: between the `n`th (included) and the upper end lie `n × step` trades. */
  readonly marks: readonly TradePlace[];
  /** Trades that were counted. */
  readonly count: number;
  /** False: counting stopped at its limit, not at the lower end. */
  readonly isWhole: boolean;
}

/** A candle as far as its trades have come. */
export interface BuiltCandle {
  readonly openAtS: number;
  readonly open: string;
  readonly close: string;
  readonly high: string;
  readonly low: string;
  readonly volume: string;
  readonly amount: string;
}

export interface PastArchive {
  readonly late: LateRows;
  /** Null while nothing was ever collected into it. */
  identity(): Promise<PastIdentity | null>;
  markets(): Promise<readonly PastMarket[]>;
  streams(): Promise<readonly KnownStream[]>;
  /** What is missing of a stream in a span; lists are cut at `limit`. */
  completeness(
    stream: { readonly streamId: number; readonly marketId: number },
    span: Span,
    limit: number,
  ): Promise<SpanCompleteness>;
  /** Connections of a state stream that lived in a span, oldest first. */
  sessions(
    stream: { readonly streamId: number; readonly marketId: number },
    span: Span,
  ): Promise<readonly PastSession[]>;

  /** The newest trades before a place, newest first, at most `limit`. */
  tradesBefore(
    marketId: number,
    before: TradePlace,
    limit: number,
    knownAt: KnownAt,
  ): Promise<TradeRow[]>;
  /** All trades of one second, in the order of their ids. */
  tradesOfSecond(marketId: number, second: number): Promise<TradeRow[]>;
  /** Counts trades down from a place, to another one (included) or as far as `maxCount` goes. */
  tradeMarks(
    marketId: number,
    before: TradePlace,
    downTo: TradePlace | undefined,
    limits: { readonly step: number; readonly maxCount: number },
  ): Promise<TradeMarks>;
  /** Candles made of the trades from `from` (included) up to `before`, oldest first. */
  candlesOfTrades(
    marketId: number,
    intervalS: number,
    from: TradePlace,
    before: TradePlace,
    knownAt: KnownAt,
  ): Promise<MadeCandles>;

  /** Candles that begin in a span, oldest first; at most `limit`. */
  klines(
    marketId: number,
    intervalS: number,
    span: Span,
    limit: number,
    knownAt: KnownAt,
  ): Promise<BuiltCandle[]>;

  /** Of each market the last ticker, and when the next one of any of them came. */
  lastTickers(
    marketIds: readonly number[],
    atMs: number,
    knownAt: KnownAt,
  ): Promise<{ readonly rows: readonly TickerRow[]; readonly nextAtMs: number }>;
  lastDepth(marketId: number, atMs: number, knownAt: KnownAt): Promise<Seen<DepthRow>>;
  /** @param isUpdate only what the exchange pushed */
  lastState(
    marketId: number,
    periodS: number,
    atMs: number,
    isUpdate: boolean,
    knownAt: KnownAt,
  ): Promise<Seen<StateRow>>;
  /** Pushed states after a place and before a moment, oldest first; at most `limit`. */
  updatesAfter(
    marketId: number,
    periodS: number,
    after: StatePlace,
    beforeMs: number,
    limit: number,
  ): Promise<PastUpdate[]>;
  /** The next moment after `afterMs` and before `beforeMs` of which anything is recorded. */
  nextMomentMs(
    marketIds: readonly number[],
    afterMs: number,
    beforeMs: number,
  ): Promise<number | null>;

  /** Lets go of what it holds; the store stays open. Safe to call twice. */
  close(): Promise<void>;
}
