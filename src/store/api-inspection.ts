import type { Span } from '../kernel/span.js';
import type { StartReason, StreamRef } from '../ledger/batch.js';
import type { Gap, RecordedGap, StartTries } from './api-completeness.js';

/** A stream with what its coverage reaches. */
export interface KnownStream extends StreamRef {
  /** `*` for streams that cover all markets together. */
  readonly market: string;
  /** Whether the exchange lists the market no longer. */
  readonly isDelisted: boolean;
  readonly oldestCoveredMs: number | null;
  readonly newestCoveredMs: number | null;
  /** Tries to find the start of history that led no further. */
  readonly startTries: StartTries | null;
  /** Null where the start was chosen, or is not known. */
  readonly startReason: StartReason | null;
}

/** A span of one stream that somebody wants to know about. */
export interface StreamSpan {
  readonly streamId: number;
  readonly marketId: number;
  readonly span: Span;
}

/** How far a span has come, from the ledger alone. What is none of these parts is open and due. */
export interface SpanProgress {
  readonly lengthMs: number;
  readonly coveredMs: number;
  /** Not covered, and given up. */
  readonly unfillableMs: number;
  /** Not covered, open, and not to be tried before the moment asked about. */
  readonly waitingMs: number;
  /** Rows stored under coverage of the whole stream. */
  readonly rows: number;
}

/** Coverage next to a span, with what proves it. */
export interface CoverageNeighbour {
  readonly span: Span;
  readonly firstId: number | null;
  readonly lastId: number | null;
  readonly rowCount: number;
  /** What the newest answer showed that proves the claim. */
  readonly evidence: unknown;
}

/** What is remembered of one gap, also of one that is closed. */
export interface GapDetail extends RecordedGap {
  readonly closedAtMs: number | null;
}

export interface QuarantineFilter {
  readonly endpoint?: string;
  readonly market?: string;
  /** Part of the reason, in any case. */
  readonly reason?: string;
  /** Newest first; at most this many. */
  readonly limit: number;
}

/** A sample of refused data. Its texts come from outside. */
export interface QuarantinedRow {
  readonly quarantineId: number;
  /** Clock of the collecting machine. */
  readonly receivedAtMs: number;
  readonly endpoint: string;
  readonly market: string | null;
  readonly reason: string;
  /** Of the first of the rows. */
  readonly payload: string;
  /** Rows of the same answer that were refused for the same reason. */
  readonly count: number;
}

export interface QuarantineCount {
  readonly endpoint: string;
  readonly reason: string;
  /** Since the archive began. */
  readonly count: number;
  readonly lastAtMs: number;
  /** Samples of them that are kept; one may stand for many rows. */
  readonly kept: number;
}

/** What a statement of a person comes to. */
export interface Answer {
  readonly names: readonly string[];
  /** Decimals, 64-bit integers and moments are text. */
  readonly rows: ReadonlyArray<readonly unknown[]>;
  /** Tables that the statement looked at and of which a part is in files, so not in the answer. */
  readonly cold: readonly { readonly table: string; readonly span: Span }[];
}

/** What people look at, and write to, beside the series: the ledger in detail, and what was refused. */
export interface InspectionStore {
  /** All streams by market, kind and variant. */
  streams(): Promise<KnownStream[]>;
  /**
   * One answer a span, in their order.
   *
   * @param untilMs tries after this moment count as waiting; exchange time
   */
  progress(spans: readonly StreamSpan[], untilMs: number): Promise<SpanProgress[]>;
  /** The nearest coverage before and after a span, touching or not. */
  neighbours(span: StreamSpan): Promise<{
    readonly before: CoverageNeighbour | null;
    readonly after: CoverageNeighbour | null;
  }>;
  /** Null when nothing has this id (any more). */
  gap(gapId: number): Promise<GapDetail | null>;
  /**
   * Appends a person's words to the memories of these gaps, making one where there is none.
   *
   * @param atMs exchange time
   * @returns how many memories have the words now
   */
  note(
    gaps: readonly Pick<Gap, 'streamId' | 'marketId' | 'span'>[],
    note: string,
    atMs: number,
  ): Promise<number>;
  /**
   * Runs one statement of a person, with the rights of a role that only reads.
   *
   * @param timeoutMs what is not answered by then is cut off
   * @throws {@link StoreError} `query_refused` for what does not read, `query_timeout`, and
   * `query_role_missing` where that role is not there
   */
  ask(sql: string, timeoutMs: number): Promise<Answer>;
  /** Whether a program writes to this archive at present. */
  isWritten(): Promise<boolean>;

  quarantined(filter: QuarantineFilter): Promise<QuarantinedRow[]>;
  quarantinedRow(quarantineId: number): Promise<QuarantinedRow | null>;
  /** Most first. */
  quarantineCounts(): Promise<QuarantineCount[]>;
}
