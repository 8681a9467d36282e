import type { Span } from '../kernel/span.js';
import type { PageRow } from './order.js';

/**
 * What crosses from collectors to the archive: rows together with the coverage that they prove.
 * A batch commits whole or not at all, which is what makes coverage trustworthy.
 *
 * Decimals are text in plain notation. Times carry their unit in their name and are in exchange
 * time, except `receivedAtMs`, which is this machine's clock.
 */

/**
 * The kinds of stream. `times` is the companion of `trades`: it covers the spans in which every
 * stored trade has its exact execution time, and is walked over its own endpoint.
 */
export const STREAM_KINDS = [
  'trades',
  'times',
  'depth',
  'ticker',
  'kline',
  'state',
  'balance',
  'orders',
] as const;
export type StreamKind = (typeof STREAM_KINDS)[number];

/** Why the expected coverage of a stream begins where it does; unknown where it was chosen. */
export type StartReason = 'history begins' | 'history horizon';

/** The market id that stands for "all collected markets" in streams that cover them together. */
export const ALL_MARKETS_ID = 0;

/** A stream as the archive knows it. */
export interface StreamRef {
  readonly streamId: number;
  readonly kind: StreamKind;
  readonly marketId: number;
  /** Kline interval or state period in seconds; 0 for the other kinds. */
  readonly variant: number;
  /** Where expected coverage begins; null while the start of history is not known yet. */
  readonly collectFromMs: number | null;
}

export interface TradeRow {
  readonly marketId: number;
  readonly tid: number;
  /** The whole second of execution: floor of the exact time. Part of the key. */
  readonly tradedAtS: number;
  /** Exact time from endpoint history, UNIX microseconds; null while unknown. */
  readonly executedAtUs: number | null;
  readonly price: string;
  readonly amount: string;
  readonly total: string;
  readonly side: 'buy' | 'sell';
  readonly receivedAtMs: number;
}

export interface KlineRow {
  readonly marketId: number;
  readonly intervalS: number;
  readonly openAtS: number;
  readonly open: string;
  readonly close: string;
  readonly high: string;
  readonly low: string;
  readonly volume: string;
  readonly amount: string;
  readonly receivedAtMs: number;
}

export interface TickerRow {
  readonly marketId: number;
  readonly observedAtMs: number;
  /** The time that the exchange wrote into the ticker. */
  readonly atMs: number;
  readonly receivedAtMs: number;
  readonly bid: string;
  readonly ask: string;
  readonly open: string;
  readonly high: string;
  readonly low: string;
  readonly last: string;
  readonly volume: string;
  readonly deal: string;
  readonly change: string;
}

export interface DepthRow {
  readonly marketId: number;
  readonly observedAtMs: number;
  readonly receivedAtMs: number;
  /** Best first. */
  readonly bidPrices: readonly string[];
  readonly bidAmounts: readonly string[];
  readonly askPrices: readonly string[];
  readonly askAmounts: readonly string[];
}

export interface StateRow {
  readonly marketId: number;
  readonly periodS: number;
  readonly observedAtMs: number;
  /** Orders records of one session that carry the same millisecond. */
  readonly seq: number;
  readonly receivedAtMs: number;
  readonly last: string;
  readonly open: string;
  readonly close: string;
  readonly high: string;
  readonly low: string;
  readonly deal: string;
  readonly volume: string;
  /** Updates carry none. */
  readonly change: string | null;
  readonly origin: 'update' | 'query';
  readonly sessionId: number;
}

/** What an account holds of one currency. */
export interface BalanceRow {
  /** Always {@link ALL_MARKETS_ID}. */
  readonly marketId: number;
  readonly currency: string;
  readonly observedAtMs: number;
  readonly receivedAtMs: number;
  /** Both null: the exchange lists the currency no longer. */
  readonly available: string | null;
  readonly freeze: string | null;
}

/** An active order of the account as it was first seen so; it holds until its next version. */
export interface ActiveOrderRow {
  readonly marketId: number;
  readonly orderId: number;
  readonly observedAtMs: number;
  readonly receivedAtMs: number;
  /** No longer active. The other fields repeat how it was last seen. */
  readonly isGone: boolean;
  /** Creation as the exchange tells it, UNIX microseconds. */
  readonly createdAtUs: number;
  readonly side: 'buy' | 'sell';
  readonly type: string;
  readonly price: string;
  readonly amount: string;
  readonly left: string;
  readonly dealStock: string;
  readonly dealMoney: string;
  readonly takerFee: string;
  readonly makerFee: string;
}

/** Something that was refused, kept for a person to look at. */
export interface QuarantineRow {
  readonly receivedAtMs: number;
  readonly endpoint: string;
  readonly market: string | null;
  readonly reason: string;
  /** The offending text, cut to a bound. */
  readonly payload: string;
}

/** Why a span may be called covered: what was asked, and what in the answer proves it. */
export type Evidence = Readonly<Record<string, string | number | boolean | null>>;

/** Says that once this batch has committed, nothing of the span is missing from the archive. */
export interface CoverageClaim {
  readonly stream: StreamRef;
  readonly span: Span;
  readonly evidence: Evidence;
}

export interface Batch {
  readonly trades?: readonly TradeRow[];
  readonly klines?: readonly KlineRow[];
  readonly tickers?: readonly TickerRow[];
  readonly depths?: readonly DepthRow[];
  readonly states?: readonly StateRow[];
  readonly balances?: readonly BalanceRow[];
  readonly orders?: readonly ActiveOrderRow[];
  readonly quarantine?: readonly QuarantineRow[];
  readonly claims?: readonly CoverageClaim[];
}

/**
 * A connected piece of coverage: one row of the ledger. For trades and times `rowCount` is the
 * exact number of stored rows in the span and the ids are the lowest and highest among them (null
 * when the span holds none); for the other kinds it counts the rows stored under its claims.
 */
export interface Island {
  readonly streamId: number;
  readonly span: Span;
  readonly firstId: number | null;
  readonly lastId: number | null;
  readonly rowCount: number;
}

/** What became of the rows of one batch, by table. Their sum is the number of rows given. */
export interface RowOutcomes {
  readonly stored: number;
  /** A known row that learned something: an exact time, or a candle's revision. */
  readonly updated: number;
  readonly duplicate: number;
  /** Same key, other content: the first stays, this one is in quarantine. */
  readonly conflict: number;
  /** Refused before the table: outside the sane window, or not storable. In quarantine. */
  readonly rejected: number;
}

export const NO_OUTCOMES: RowOutcomes = {
  stored: 0,
  updated: 0,
  duplicate: 0,
  conflict: 0,
  rejected: 0,
};

/** The tables that hold series. */
export const SERIES = [
  'trade',
  'kline',
  'ticker',
  'depth',
  'market_state',
  'balance',
  'active_order',
] as const;
export type Series = (typeof SERIES)[number];

export interface CommitResult {
  readonly outcomes: Readonly<Record<Series, RowOutcomes>>;
  /** For each claim of the batch, in its order, the island that now holds it. */
  readonly islands: readonly Island[];
}

/** Rows that several answers contradict, and the suspect span around them. */
export interface TradeExposure {
  readonly marketId: number;
  readonly rows: readonly PageRow[];
  readonly span: Span;
  readonly note: string;
  /** Exchange time. */
  readonly atMs: number;
}

/** Where an exchange began the ids of a market's trades anew. */
export interface IdEpoch {
  readonly marketId: number;
  /** Second of its first trade that was seen, exchange milliseconds. */
  readonly beginsMs: number;
  readonly firstId: number;
  /** Of the last trade before it that was seen. */
  readonly lastBeforeMs: number;
  readonly lastIdBefore: number;
  readonly endpoint: string;
  /** When it was seen, exchange time. */
  readonly atMs: number;
}
