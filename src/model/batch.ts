import type { Span } from '../kernel/span.js';
import type { GapMemory } from './gap-memories.js';
import type { GapReason } from './gap-reasons.js';
import type { PageRow } from './order.js';
import { type RowOf, SERIES, type Series, type SeriesRow, type StreamKind } from './series.js';

/**
 * Data from collectors to the archive: rows together with the coverage that they prove.
 * A batch commits whole or not at all, which is what makes coverage trustworthy.
 *
 * Decimals are text in plain notation. Times carry their unit in their name and are in exchange
 * time, except `receivedAtMs`, which is this machine's clock.
 */

/** Why the expected coverage of a stream begins where it does; unknown where it was chosen. */
export type StartReason = 'history begins' | 'history horizon';

/** A stream as the archive knows it. */
export interface StreamRef {
  readonly streamId: number;
  readonly kind: StreamKind;
  readonly marketId: number;
  /** Kline interval or state period in seconds; 0 for the other kinds. */
  readonly variant: number;
  /** Start of expected coverage; null while the start of history is not known yet. */
  readonly collectFromMs: number | null;
}

export type TradeRow = RowOf<'trade'>;
export type KlineRow = RowOf<'kline'>;
export type TickerRow = RowOf<'ticker'>;
export type DepthRow = RowOf<'depth'>;
export type StateRow = RowOf<'market_state'>;

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

/** The rows of a batch, by the name that their series gives them there. */
type BatchRows = {
  readonly [Table in Series as (typeof SERIES)[Table]['batch']]?: readonly RowOf<Table>[];
};

/** Coverage that is wrong. Its rows stay: a claim can be suspect, a trade not. */
export interface Revocation {
  readonly stream: StreamRef;
  /** Parts whose rows have left the database stay covered: they were checked before. */
  readonly span: Span;
  readonly reason: GapReason;
  readonly note: string;
  /** Exchange time. */
  readonly atMs: number;
}

/** A finding of a collector about a gap. It replaces what the ledger remembered of its span. */
export interface GapRecord {
  readonly stream: StreamRef;
  readonly span: Span;
  readonly state: GapMemory['state'];
  readonly reason: GapReason;
  readonly note?: string;
  /** When it was seen; exchange time. */
  readonly atMs: number;
  /** Exchange time; null (the default): as soon as possible, or never for what is unfillable. */
  readonly nextAttemptAtMs?: number | null;
  /** An attempt to fill it failed, which is counted. */
  readonly isAttempt?: boolean;
}

/** Start of the expected coverage of a stream from now on. */
export interface StreamStart {
  readonly streamId: number;
  readonly fromMs: number;
  readonly reason?: StartReason | null;
}

/** Changes that one response makes to the archive: revocations and exposures first, then rows and claims, then the rest. */
export interface Batch extends BatchRows {
  readonly quarantine?: readonly QuarantineRow[];
  readonly claims?: readonly CoverageClaim[];
  readonly revoke?: readonly Revocation[];
  readonly expose?: readonly TradeExposure[];
  readonly findings?: readonly GapRecord[];
  readonly begins?: readonly StreamStart[];
}

/** The rows of one series that a batch brings. */
export function rowsIn(batch: Batch, table: Series): readonly SeriesRow[] {
  return batch[SERIES[table].batch] ?? [];
}

/** A connected piece of coverage: one row of the ledger. */
export interface CoveredRange {
  readonly streamId: number;
  readonly span: Span;
}

/** Outcomes of the rows of one batch, by table. Their sum is the number of rows given. */
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

export interface CommitResult {
  readonly outcomes: Readonly<Record<Series, RowOutcomes>>;
  /** For each claim of the batch, in its order, the covered range that now holds it. */
  readonly ranges: readonly CoveredRange[];
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

/** Place where an exchange restarted the ids of a market's trades. */
export interface IdEpoch {
  readonly marketId: number;
  /** Second of its first trade that was seen, exchange milliseconds. */
  readonly beginsMs: number;
  readonly firstId: number;
  /** Id of the last trade before it that was seen. */
  readonly lastBeforeMs: number;
  readonly lastIdBefore: number;
  readonly endpoint: string;
  /** When it was seen, exchange time. */
  readonly atMs: number;
}
