import { codeOf, type ErrorAction, messageOf, TapekeepError } from '../../kernel/errors.js';
import { StoreError } from '../../store/index.js';

/** Stable codes of what can go wrong with cold partitions. */
export type ColdErrorCode =
  /** A file that the archive counts on is not there. */
  | 'cold_missing'
  /** A file is not what was written: other bytes, no Parquet, no manifest. */
  | 'cold_damaged'
  /** Rows do not add up to the checksum that they were sealed with. */
  | 'cold_mismatch'
  /** The disk of the cold folder is full. */
  | 'cold_disk_full'
  /** The database has no room for the rows of a partition that is brought back. */
  | 'restore_disk_full'
  /** The cold folder cannot be written or read. */
  | 'cold_refused';

/** Something is wrong with cold partitions. Nothing was dropped for it. */
export class ColdError extends TapekeepError {
  declare readonly code: ColdErrorCode;

  constructor(
    code: ColdErrorCode,
    action: ErrorAction,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(code, action, message, options);
  }
}

const FULL_CODES: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);
const FULL_WORDS = /No space left on device|File too large|Disk quota exceeded/i;

/** Whether an error says that a disk is full, be it ours or that of a server. */
export function isFullDisk(error: unknown): boolean {
  return FULL_CODES.has(codeOf(error)) || FULL_WORDS.test(messageOf(error));
}

/** Names what a file system refused, however it was told; errors of our own stay as they are. */
export function asColdError(error: unknown, path: string): unknown {
  // A server's disk is none of ours.
  if (error instanceof ColdError || error instanceof StoreError) return error;
  const code = codeOf(error);
  if (isFullDisk(error)) {
    return new ColdError(
      'cold_disk_full',
      'retry',
      `no space is left for ${path}; the partition stays in the database. Free some, or set cold.dir to another disk`,
      { cause: error },
    );
  }
  if (error instanceof TapekeepError) return error;
  if (code === 'ENOENT') {
    return new ColdError(
      'cold_missing',
      'fatal',
      `${path} is not there: bring it back from a copy`,
      {
        cause: error,
      },
    );
  }
  if (['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EISDIR', 'EIO', 'ENAMETOOLONG'].includes(code)) {
    return new ColdError(
      'cold_refused',
      'retry',
      `${path} cannot be read or written (${code}): check the disk and the rights of cold.dir`,
      { cause: error },
    );
  }
  return error;
}

/**
 * What kept a partition from coming back, and that it is where it was. Errors that say so by themselves
 * stay as they are.
 */
export function asRestoreError(error: unknown, coldDir: string, partition: string): unknown {
  const stays = `${partition} stays archived, and its files are as they were`;
  if (error instanceof ColdError) return error;
  if (error instanceof StoreError) {
    if (error.sqlstate === '53100' || isFullDisk(error)) {
      return new ColdError(
        'restore_disk_full',
        'retry',
        `the database has no room for the rows of ${partition} (${error.message}): ${stays}. Free space on the disk of the database server, then run the same command again`,
        { cause: error },
      );
    }
    if (error.action !== 'retry' || error.code === 'sealing_busy') return error;
    const { code, action, sqlstate } = error;
    const text = `${error.message}. ${stays}: run the same command again when the database is well`;
    return new StoreError(code, action, text, { cause: error, sqlstate });
  }
  if (isFullDisk(error)) {
    const text = `no space is left for what is laid aside in ${coldDir} while reading: ${stays}. Free some, then run the same command again`;
    return new ColdError('cold_disk_full', 'retry', text, { cause: error });
  }
  return asColdError(error, coldDir);
}
