import { codeOf, type ErrorAction, messageOf, TapekeepError } from '../../kernel/errors.js';

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
  /** The cold folder can not be written or read. */
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

/** Names what a file system refused, however it was told; errors of our own stay as they are. */
export function asColdError(error: unknown, path: string): unknown {
  const code = codeOf(error);
  if (FULL_CODES.has(code) || FULL_WORDS.test(messageOf(error))) {
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
      `${path} can not be read or written (${code}): check the disk and the rights of cold.dir`,
      { cause: error },
    );
  }
  return error;
}
