import type { Span } from '../kernel/span.js';
import type { IdEpoch, Island, StreamRef, TradeExposure } from '../ledger/batch.js';
import type { GapReason } from '../ledger/gap-reasons.js';
import type { PageRow } from '../ledger/order.js';
import type { StreamKind } from '../model/series.js';
import type { BeyondPresent } from './completeness/present.js';

export type { BeyondPresent };

/** How a server understands `since` and `lastId` (field notes, since / lastId). */
export type SinceMode = 'skip' | 'id';
/** The endpoints that page through trades. */
export type PagedEndpoint = 'history' | 'historyResult';

/**
 * A span that is expected and not covered, with what is remembered of it. Gaps are derived: expected
 * (from `collect_from`, and what was wanted besides) minus covered. Where several memories overlap a
 * missing span it is cut into one gap each; a part that nothing is remembered of has the reason
 * `not collected`, no `gapId`, and no attempts.
 */
export interface Gap {
  readonly gapId: number | null;
  readonly streamId: number;
  readonly kind: StreamKind;
  readonly marketId: number;
  readonly market: string;
  readonly variant: number;
  readonly span: Span;
  readonly state: 'open' | 'filling' | 'unfillable';
  readonly reason: string;
  readonly attempts: number;
  readonly firstSeenAtMs: number | null;
  readonly nextAttemptAtMs: number | null;
  readonly note: string | null;
}

export const GAP_STATES = ['open', 'filling', 'filled', 'unfillable'] as const;
export type GapState = (typeof GAP_STATES)[number];

/** A remembered gap, as `Store.recordedGaps` returns it. */
export interface RecordedGap {
  readonly gapId: number;
  readonly streamId: number;
  readonly marketId: number;
  readonly span: Span;
  readonly state: GapState;
  readonly reason: string;
  readonly note: string | null;
  readonly firstSeenAtMs: number;
  readonly attempts: number;
  readonly nextAttemptAtMs: number | null;
}

export interface GapFilter {
  readonly marketIds?: readonly number[];
  readonly kinds?: readonly StreamKind[];
  /** Only what overlaps this span; gaps are cut to it. */
  readonly span?: Span;
  readonly states?: readonly Gap['state'][];
  readonly reasons?: readonly string[];
  /** Newest first; at most this many. */
  readonly limit: number;
}

/** What one try at filling a gap came to. */
export interface GapAttempt {
  readonly stream: StreamRef;
  readonly span: Span;
  readonly state: 'open' | 'unfillable';
  readonly reason: GapReason;
  /** What was found, in words. */
  readonly note?: string;
  /** Exchange time. */
  readonly atMs: number;
  /** Exchange time; null: as soon as possible, or never for what is unfillable. */
  readonly nextAttemptAtMs: number | null;
}

/** A span that somebody asked for beyond what is collected anyway (backfill). */
export interface WantedSpan {
  readonly wantedId: number;
  readonly streamId: number;
  readonly marketId: number;
  readonly span: Span;
}

/**
 * What a person or the verification asks of whoever fills gaps: read again and again, so that it
 * reaches a daemon in another process and survives a crash.
 */
export interface FillRequests {
  readonly wanted: readonly WantedSpan[];
  /** Open memories with reason `suspect` whose span is still (partly) covered: to be uncovered. */
  readonly suspects: readonly {
    readonly gapId: number;
    readonly streamId: number;
    readonly span: Span;
  }[];
  /** Open memories that may be tried again now: `next_attempt_at` null or reached. */
  readonly due: readonly {
    readonly gapId: number;
    readonly streamId: number;
    readonly span: Span;
    readonly attempts: number;
    readonly nextAttemptAtMs: number | null;
  }[];
}

/** A try to go below the lowest that is covered, while the start of history is not known. */
export interface StartTry {
  readonly reason: GapReason;
  readonly note: string;
  /** Exchange time. */
  readonly nextAttemptAtMs: number;
}

/** Such tries in a row, with what is remembered of the last one. */
export interface StartTries {
  readonly attempts: number;
  readonly reason: string;
  readonly note: string;
  readonly nextAttemptAtMs: number;
}

/** Open and lost time by stream and reason, from the ledger alone. */
export interface GapTotals {
  readonly streamId: number;
  readonly kind: StreamKind;
  readonly marketId: number;
  readonly market: string;
  readonly state: 'open' | 'unfillable';
  readonly reason: string;
  readonly count: number;
  readonly lengthMs: number;
  /** Oldest moment that is missing. */
  readonly oldestMs: number;
}

/** The part of the archive that knows what is complete, beyond what the collectors' commits say. */
export interface CompletenessStore {
  /** Gaps up to `untilMs`, from the ledger alone, newest first. */
  listGaps(filter: GapFilter, untilMs: number): Promise<Gap[]>;
  /** Sums of gaps up to `untilMs`, from the ledger alone. */
  gapTotals(untilMs: number): Promise<GapTotals[]>;
  /**
   * Remembers a try at a gap: counts it and sets state, reason and next try. One memory per stream
   * and start of span, as `recordGap`.
   */
  recordAttempt(attempt: GapAttempt): Promise<void>;
  /** Tries to find the start of history that led no further; null when it is known, or the last one did. */
  startTries(streamId: number): Promise<StartTries | null>;
  /** Counts such a try while the start is not known; null when one led further. */
  noteStartTry(streamId: number, failed: StartTry | null): Promise<void>;
  /** Appends a person's words to the memories that overlap, making one where there is none. Returns how many. */
  noteGaps(filter: GapFilter, untilMs: number, note: string): Promise<number>;
  /**
   * Makes gaps due now, whatever their pause: open ones, and with `isUnfillableToo` also those that
   * were given up (they become open again). Returns how many.
   */
  retryGaps(filter: GapFilter, untilMs: number, isUnfillableToo: boolean): Promise<number>;

  /** Adds a span to what is expected of a stream. The same span twice is one. */
  want(stream: StreamRef, span: Span): Promise<WantedSpan>;
  fillRequests(nowExchangeMs: number): Promise<FillRequests>;

  /**
   * Takes back coverage of a span (trades, times, kline), in one transaction with a memory of it as an open
   * gap. Rows stay. Counts and ids of what is left of the islands stay exact.
   *
   * @returns the islands that were cut, as they are now (neighbours of the span)
   */
  uncover(
    stream: StreamRef,
    span: Span,
    gap: { readonly reason: GapReason; readonly note: string; readonly atMs: number },
  ): Promise<Island[]>;
  /** Stored trades of a span, oldest first; its end may be infinite. */
  storedTrades(marketId: number, span: Span, limit: number): Promise<PageRow[]>;
  /**
   * Moves rows that never were trades to quarantine, and takes back what is covered around them, of
   * trades and exact times alike, in one transaction.
   */
  exposeTrades(exposure: TradeExposure): Promise<void>;
  /** @returns whether it was not known before */
  recordIdEpoch(epoch: IdEpoch): Promise<boolean>;
  /**
   * Takes back what any stream covers after a moment, as a gap with the reason `clock jumped`. Rows stay.
   *
   * @param how.isStart it was covered by an earlier run: of a sandbox or a replay, which may begin anew,
   *   only what never was past is taken back then
   */
  revokeBeyond(
    presentMs: number,
    how: { readonly isStart: boolean },
  ): Promise<readonly BeyondPresent[]>;
  /** Notes the exchange's time, and exchange seconds per second; for {@link beyondPresent}. */
  notePresent(presentMs: number, pace: number): Promise<void>;
  /** What is covered of time that has not come yet, as far as the archive knows: suspect. */
  beyondPresent(): Promise<readonly BeyondPresent[]>;
  /** Islands that overlap a span, newest first; at most `limit`. */
  islandsWithin(stream: StreamRef, span: Span, limit: number): Promise<Island[]>;

  /**
   * Slots of a grid in which a trade is stored and all trades are proven to be, of spans that are whole
   * slots; where each begins, milliseconds. Of trades that have left the database nothing is known.
   */
  tradedSlots(marketId: number, spans: readonly Span[], stepMs: number): Promise<number[]>;

  /** How each endpoint understands its offset, as far as it was found out. */
  sinceModes(): Promise<Partial<Record<PagedEndpoint, SinceMode>>>;
  rememberSinceMode(endpoint: PagedEndpoint, mode: SinceMode): Promise<void>;
}
