import { constants } from 'node:os';
import {
  type ArchiveErrorCode,
  type ColdErrorCode,
  codeOf,
  type ErrorDetails,
  messageOf,
  TapekeepError,
} from '../kernel/errors.js';
import type { Span } from '../kernel/span.js';
import type { Piece } from '../model/explain.js';
import type { SeriesKind } from '../model/kinds.js';
import { StoreError, type StreamPlace } from '../store/index.js';

/** Errors of the archive: of questions to it, of cold files, of exports, and of statements. */

/** The archive cannot answer. The message says what it has, or what to do. */
export class ArchiveError extends TapekeepError {
  declare readonly code: ArchiveErrorCode;

  constructor(code: ArchiveErrorCode, message: string, options?: { cause?: unknown }) {
    super(code, message, options);
  }
}

/** The forms of a moment. */
export const MOMENT_FORMS = 'a Date, text such as 2026-01-31T12:00:00Z, or whole UNIX microseconds';

/** A time that is none. */
export class BadMomentError extends ArchiveError {
  constructor(given: string) {
    super('bad_moment', `${given} is not a timestamp: give ${MOMENT_FORMS}`);
  }
}

/** A part of the archive that is not proven complete. */
export interface ArchiveGap {
  /** Name of the market. */
  readonly market: string;
  /** Missing spans. */
  readonly kind: SeriesKind;
  /** Interval of candles or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** Start, UNIX microseconds. Candles count by the time at which they open. */
  readonly fromUs: number;
  /** The first instant after it, UNIX microseconds. */
  readonly toUs: number;
  /** In the words of the ledger, such as `not observed`. */
  readonly reason: string;
}

/** The span is not complete. `gaps` has the first of them, `gapCount` counts all of them. */
export class ArchiveGapsError extends ArchiveError {
  /** The first gaps, in order. */
  readonly gaps: readonly ArchiveGap[];
  /** How many there are in all. */
  readonly gapCount: number;

  constructor(gaps: readonly ArchiveGap[], gapCount: number, first: string) {
    super(
      'archive_gaps',
      `the archive is not complete there (${gapCount === 1 ? 'one gap' : `${gapCount} gaps`}, first ${first}): fill it where that is possible ("tapekeep gaps fill", trades and candles), choose another time range, leave out what you do not need (kinds, intervalsS, periodsS), or ask with gaps: 'mark' (they come as events) or 'ignore'`,
    );
    this.gaps = gaps;
    this.gapCount = gapCount;
  }
}

/** Something is wrong with cold partitions. Nothing was dropped for it. */
export class ColdError extends TapekeepError {
  declare readonly code: ColdErrorCode;

  constructor(code: ColdErrorCode, message: string, options?: ErrorDetails) {
    super(code, message, options);
  }
}

const FULL_CODES: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);
const FULL_WORDS = /No space left on device|File too large|Disk quota exceeded/i;

/** Returns true if an error says that a disk is full, be it ours or that of a server. */
export function isFullDisk(error: unknown): boolean {
  return FULL_CODES.has(codeOf(error)) || FULL_WORDS.test(messageOf(error));
}

/** Codes of rights, of paths, and of disks that are ill, busy or away; the last line is of a network that is not there. */
const REFUSED: ReadonlySet<string> = new Set([
  ...['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ENAMETOOLONG'],
  ...['EIO', 'EBUSY', 'ENODEV', 'ENXIO'],
  ...['ENOTCONN', 'ESTALE', 'EHOSTDOWN', 'EHOSTUNREACH', 'ETIMEDOUT', 'EREMOTEIO'],
]);
/** Texts of Node for codes that it has no name for: of ESTALE, and of a file system that is damaged. */
const NAMELESS = /^Unknown system error /;

/** The code of an error of the system, also where Node has no name for it. */
function systemCodeOf(error: unknown): string {
  const code = codeOf(error);
  return NAMELESS.test(code) && (error as NodeJS.ErrnoException).errno === -constants.errno.ESTALE
    ? 'ESTALE'
    : code;
}

/** Names what a file system refused, whatever its form; errors of our own stay as they are. */
export function asColdError(error: unknown, path: string): unknown {
  // A server's disk is none of ours.
  if (error instanceof ColdError || error instanceof StoreError) return error;
  const code = systemCodeOf(error);
  if (isFullDisk(error)) {
    return new ColdError(
      'cold_disk_full',
      `no space is left for ${path}; the partition stays in the database. Free some, or set cold.dir to another disk`,
      { cause: error },
    );
  }
  if (error instanceof TapekeepError) return error;
  if (code === 'ENOENT') {
    return new ColdError('cold_missing', `${path} is not there: bring it back from a copy`, {
      cause: error,
    });
  }
  if (REFUSED.has(code) || NAMELESS.test(code)) {
    return new ColdError(
      'cold_refused',
      `${path} cannot be read or written (${code}): check the disk and the rights of cold.dir`,
      { action: 'retry', cause: error },
    );
  }
  return error;
}

/** Does something with a path, and names what the file system refused. @throws as {@link asColdError} says */
export async function inColdWords<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asColdError(error, path);
  }
}

/**
 * Reason that kept a partition from coming back, and that it is where it was. Errors that say so by themselves
 * stay as they are.
 */
export function asRestoreError(error: unknown, coldDir: string, partition: string): unknown {
  const stays = `${partition} stays archived, and its files are as they were`;
  if (error instanceof ColdError) return error;
  if (error instanceof StoreError) {
    if (error.sqlstate === '53100' || isFullDisk(error)) {
      return new ColdError(
        'restore_disk_full',
        `the database has no room for the rows of ${partition} (${error.message}): ${stays}. Free space on the disk of the database server, then run the same command again`,
        { cause: error },
      );
    }
    if (error.action !== 'retry' || error.code === 'sealing_busy') return error;
    const { code, action, sqlstate } = error;
    const text = `${error.message}. ${stays}: run the same command again when the database is well`;
    return new StoreError(code, text, { action, cause: error, sqlstate });
  }
  if (isFullDisk(error)) {
    const text = `no space is left in the folder of TMPDIR for what is laid aside while reading: ${stays}. Free some, then run the same command again`;
    return new ColdError('cold_disk_full', text, { cause: error });
  }
  return asColdError(error, coldDir);
}

/** Missing parts of one market, for people. */
export interface SeriesGaps {
  readonly missing: readonly Piece[];
  readonly kind: SeriesKind;
  readonly market: string;
  /** The stream that was to cover it. */
  readonly stream: StreamPlace;
  readonly span: Span;
}

/** Rows are not written because some of the span is not proven complete. Nothing was written. */
export class ExportGapsError extends TapekeepError {
  readonly gaps: readonly SeriesGaps[];

  constructor(gaps: readonly SeriesGaps[]) {
    const names = [...new Set(gaps.map(({ market }) => market))].join(', ');
    super('export_gaps', `the time range is not complete for ${names}; nothing was written`);
    this.gaps = gaps;
  }
}

/** The place to write to cannot be used. */
export class OutputError extends TapekeepError {
  constructor(path: string, advice: string, cause?: unknown) {
    super('output_refused', `cannot write ${path}: ${advice}`, { cause });
  }
}

/** The disk is full. What was begun is taken away. */
export class DiskFullError extends TapekeepError {
  constructor(path: string, cause: unknown) {
    super(
      'disk_full',
      `no space is left for ${path}; nothing was left behind there. Free some, choose another place with --out, or a shorter time range`,
      { cause },
    );
  }
}

/** Names a full disk as such; other errors stay as they are. */
export function asDiskFull(error: unknown, path: string): unknown {
  if (error instanceof DiskFullError || !isFullDisk(error)) return error;
  return new DiskFullError(path, error);
}

/** Something that DuckDB could not do: a file that is no Parquet, a disk that is full. */
export class ParquetError extends TapekeepError {
  constructor(doing: string, cause: unknown) {
    // The first line has the error; the others quote the statement.
    const [said] = messageOf(cause).split('\n');
    super('parquet_failed', `${doing}: ${said}`, { cause });
  }
}

/** A statement that cannot be answered as it is; the message says what to change. */
export class StatementRefusedError extends TapekeepError {
  constructor(message: string, cause?: unknown) {
    super('usage', message, { cause });
  }
}

/** A file that cannot be imported as it is; the message says what to change. */
export class ImportRefusedError extends TapekeepError {
  constructor(message: string, cause?: unknown) {
    super('usage', message, { cause });
  }
}
