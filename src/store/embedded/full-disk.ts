import { statfs } from 'node:fs/promises';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { StoreError, sqlstateOf } from '../errors.js';

/** What the C library says in English and Postgres passes on. */
const FULL_TEXT = /No space left on device|Disk quota exceeded/;
/** Of Node, and of Postgres. */
const FULL_CODES: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', '53100']);

/**
 * One typed error for all that a full disk leads to, with the free bytes.
 *
 * @param dataDir the folder on that disk
 * @param error an error, or what a program printed
 * @returns undefined when the disk was not what it failed for
 */
export async function fullDisk(dataDir: string, error: unknown): Promise<StoreError | undefined> {
  const text = messageOf(error);
  const isFull = FULL_CODES.has(sqlstateOf(error) ?? codeOf(error)) || FULL_TEXT.test(text);
  if (!isFull) return undefined;
  const free = await statfs(dataDir).then(
    ({ bavail, bsize }) => `${bavail * bsize} bytes free`,
    () => 'free bytes unknown',
  );
  return new StoreError(
    'embedded_postgres_disk_full',
    'retry',
    `the disk of ${dataDir} is full (${free}): nothing stored is lost; make room there`,
    { cause: error },
  );
}
