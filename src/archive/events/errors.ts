import { TapekeepError } from '../../kernel/errors.js';
import type { SeriesKind } from '../../model/kinds.js';

/** Stable codes of what can be wrong with a question to the archive. */
export type ArchiveErrorCode =
  /** A moment that is none. */
  | 'bad_moment'
  /** A span that is empty, or ends before it begins. */
  | 'bad_span'
  /** A span of which nothing was ever collected. */
  | 'span_outside_archive'
  /** An option with a value that is none of those allowed. */
  | 'bad_option'
  /** A market that the archive does not know. */
  | 'unknown_market'
  /** A kind of rows that is none of those known. */
  | 'unknown_kind'
  /** The market exists, but nothing of this kind (or interval, or period) is collected of it. */
  | 'not_collected'
  /** The span is not proven complete, and that was not allowed. */
  | 'archive_gaps'
  /** Nothing is there to be opened. */
  | 'no_archive'
  /** The archive was closed before. */
  | 'archive_closed';

/** The archive cannot answer. The message says what it has, or what to do. */
export class ArchiveError extends TapekeepError {
  declare readonly code: ArchiveErrorCode;

  constructor(code: ArchiveErrorCode, message: string, options?: { cause?: unknown }) {
    super(code, 'fatal', message, options);
  }
}

/** A moment that is none. */
export class BadMomentError extends ArchiveError {
  constructor(given: string) {
    super(
      'bad_moment',
      `${given} is no moment: give a Date, text such as 2026-01-31T12:00:00Z, or whole UNIX microseconds`,
    );
  }
}

/** A part of the archive that is not proven complete. */
export interface ArchiveGap {
  /** `*` for what covers all markets together. */
  readonly market: string;
  /** What is missing. */
  readonly kind: SeriesKind;
  /** Interval of klines or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** Where it begins, UNIX microseconds. */
  readonly fromUs: number;
  /** The first moment after it, UNIX microseconds. */
  readonly toUs: number;
  /** In the words of the ledger, such as `not observed`. */
  readonly reason: string;
}

/** The span is not complete. `gaps` has the first of them, `gapCount` tells how many there are. */
export class ArchiveGapsError extends ArchiveError {
  /** The first gaps, in order. */
  readonly gaps: readonly ArchiveGap[];
  /** How many there are in all. */
  readonly gapCount: number;

  constructor(gaps: readonly ArchiveGap[], gapCount: number, first: string) {
    super(
      'archive_gaps',
      `the archive is not complete there (${gapCount === 1 ? 'one gap' : `${gapCount} gaps`}, first ${first}): fill it where that is possible ("tapekeep gaps fill", trades and candles), choose another span, or ask with gaps: 'mark' (they come as events) or 'ignore'`,
    );
    this.gaps = gaps;
    this.gapCount = gapCount;
  }
}
