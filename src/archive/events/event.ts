import { SERIES_KINDS, type SeriesKind } from '../../model/kinds.js';

/**
 * Events of an archive, one instant after the other. Decimals are exact text in plain notation without
 * superfluous zeros (`1.5`, never `1.50`), so that the same number is the same text wherever it was
 * kept. Times are whole UNIX microseconds, UTC.
 */
interface EventBase {
  /** Name of the market. */
  readonly market: string;
  /** When it happened, exchange time. What this means for each kind stands with the kind. */
  readonly atUs: number;
  /** When the collector received it, clock of the collecting machine. */
  readonly receivedAtUs: number;
}

/**
 * A trade. `atUs` is its exact time; where only its second is known it is the last
 * microsecond of that second, so that it is never seen before it happened.
 *
 * `receivedAtUs` is when the trade was received first. Exact times may come later, by another endpoint;
 * when they did is not kept, so that a trade has its exact time in either order from the start.
 */
export interface TradeEvent extends EventBase {
  readonly kind: 'trade';
  /** The id that the exchange gave, growing with time. */
  readonly id: number;
  /** In the quote currency, decimal text. */
  readonly price: string;
  /** In the base currency. */
  readonly amount: string;
  /** In the quote currency. */
  readonly total: string;
  /** Side of the taker. */
  readonly side: 'buy' | 'sell';
  /** False where only the second of the trade is known. */
  readonly isExactTime: boolean;
}

/**
 * A closed candle of the exchange. `atUs` is its close (`openAtUs` and its interval), before which nothing
 * knows it. In the order of happening it is the newest version that the archive has, also where
 * the exchange corrected it after that instant, which was not known then; in the order of receipt each
 * version comes when it was received.
 */
export interface CandleEvent extends EventBase {
  readonly kind: 'candle';
  /** When it opens, UNIX microseconds. */
  readonly openAtUs: number;
  /** Its length in seconds. */
  readonly intervalS: number;
  /** Opening price. */
  readonly open: string;
  /** Highest price. */
  readonly high: string;
  /** Lowest price. */
  readonly low: string;
  /** Closing price. */
  readonly close: string;
  /** In the base currency. */
  readonly volume: string;
  /** Volume in the quote currency. */
  readonly quoteVolume: string;
  /** 0 for the version that was received first. */
  readonly revision: number;
}

/** 24-hour figures, where they changed. `atUs` is when they were looked at. */
export interface TickerEvent extends EventBase {
  readonly kind: 'ticker';
  /** The time that the exchange wrote into it. */
  readonly tickerAtUs: number;
  /** Highest bid. */
  readonly bid: string;
  /** Lowest ask. */
  readonly ask: string;
  /** Price 24 hours ago. */
  readonly open: string;
  /** Highest price of 24 hours. */
  readonly high: string;
  /** Lowest price of 24 hours. */
  readonly low: string;
  /** Price of the last deal. */
  readonly last: string;
  /** In the base currency. */
  readonly volume: string;
  /** Volume in the quote currency. */
  readonly quoteVolume: string;
  /** Per cent, from open to last. */
  readonly change: string;
}

/** A price level: price in the quote currency, amount in the base currency. */
export type PriceLevel = readonly [price: string, amount: string];

/** The order book where it changed. `atUs` is when it was looked at; it holds until the next one. */
export interface DepthEvent extends EventBase {
  readonly kind: 'depth';
  /** Highest price first. */
  readonly bids: readonly PriceLevel[];
  /** Lowest price first. */
  readonly asks: readonly PriceLevel[];
}

/** The order book of a moment. */
export interface BookAt extends DepthEvent {
  /**
   * Time until that moment since the newest look at the book, microseconds; 0 before that look. Then
   * `atUs` is the last look that showed a change: what the book was between two looks is not known.
   */
  readonly ageUs: number;
}

/** A market status of the real-time interface. `atUs` is when it came, in exchange time. */
export interface StateEvent extends EventBase {
  readonly kind: 'state';
  /** The length of time that it sums up. */
  readonly periodS: number;
  /** Pushed by the exchange (update), or its answer to a question (query). */
  readonly origin: 'update' | 'query';
  /** Price of the last deal. */
  readonly last: string;
  /** First price of the period. */
  readonly open: string;
  /** Last price of the period. */
  readonly close: string;
  /** Highest price of the period. */
  readonly high: string;
  /** Lowest price of the period. */
  readonly low: string;
  /** Volume in the quote currency. */
  readonly quoteVolume: string;
  /** In the base currency. */
  readonly volume: string;
  /** Per cent; updates carry none. */
  readonly change: string | null;
  /** Orders records of one session at the same instant. */
  readonly seq: number;
  /** The connection that brought it. */
  readonly sessionId: number;
}

/**
 * An end of a span in which the archive is not proven complete; with `gaps: 'mark'` only. It stands
 * where the missing events would: candles are missed when they close. Both times are the same in
 * either order.
 */
export interface GapEvent extends EventBase {
  readonly kind: 'gap';
  /** Missing stream. */
  readonly of: SeriesKind;
  /** Interval of candles or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** Which end of the gap this is. */
  readonly edge: 'begin' | 'end';
  /** Start of the gap, cut to what was asked for; of candles that of their closes. */
  readonly fromUs: number;
  /** Its end, cut likewise; null at its start, because it was not known then how long it would last. */
  readonly toUs: number | null;
  /** In the words of the ledger, such as `not observed`. */
  readonly reason: string;
}

/** A row of a series that has no event of its own above; `atUs` is the time by which it is kept. */
export interface RowEvent<Kind extends SeriesKind = OtherKind> extends EventBase {
  /** Name of its rows. */
  readonly kind: Kind;
  /** Its columns by the names of their fields. */
  readonly row: Readonly<Record<string, unknown>>;
}

/** Anything that {@link Archive.events} returns; `kind` says what. */
export type ArchiveEvent = NamedEvents[keyof NamedEvents] | RowEvent | GapEvent;

/** The events of a kind of series. */
export type EventOf = NamedEvents & { readonly [Kind in OtherKind]: RowEvent<Kind> };

/** The series without an event of their own. */
export type OtherKind = Exclude<SeriesKind, keyof NamedEvents>;

/** The events of series that have one of their own. */
export interface NamedEvents {
  /** Trades, each once. */
  readonly trades: TradeEvent;
  /** Closed candles of the exchange. */
  readonly candles: CandleEvent;
  /** Figures of 24 hours, where they changed. */
  readonly tickers: TickerEvent;
  /** Order books, where they changed. */
  readonly depth: DepthEvent;
  /** Market statuses of the real-time interface. */
  readonly states: StateEvent;
}

const FIRST = ['candles', 'trades', 'states', 'tickers', 'depth'] as const;

/** All kinds, in the order in which events of one instant come. */
export const EVENT_KINDS: readonly SeriesKind[] = [...new Set([...FIRST, ...SERIES_KINDS])];

/** An instant: ISO 8601 text (UTC where it names no zone), a Date, or whole UNIX microseconds. */
export type Moment = string | Date | number;

/** By what events are ordered: when they happened, or when the collector received them. */
export type EventOrder = 'happened' | 'received';

/**
 * Handling of spans that are not proven complete.
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

/** Options of {@link Archive.events}. */
export interface EventQuery<Kind extends SeriesKind = SeriesKind> extends Omit<SpanQuery, 'to'> {
  /** First instant after the span. Left out with `follow` only. */
  readonly to?: Moment;
  /**
   * Continues after the stored events with what is committed, until the signal aborts or the loop is left. Events come
   * in the order of time up to the present, then in the order of commits; what is committed within a second comes in the
   * order of time. So a late row comes late. Each row comes once, and each new version of a candle that is seen is an
   * event. Later revoked, expired or removed time is handled as `gaps` says. Not with `to` or `order`. Markets and series
   * that are new later are not in it.
   */
  readonly follow?: boolean;
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
  /** Interval of candles or period of states in seconds; needed where there are several. */
  readonly variantS?: number;
  /** First instant of the span. */
  readonly from: Moment;
  /** First instant after it. */
  readonly to: Moment;
}
