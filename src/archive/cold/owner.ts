import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { codeOf } from '../../kernel/errors.js';
import { makeFolder } from '../../kernel/folders.js';
import { parseJson } from '../../kernel/json.js';
import type { DatabaseIdentity, PartitionInfo } from '../../store/index.js';
import { asColdError, ColdError, inColdWords } from '../errors.js';
import { moveSynced, writeSynced } from '../files.js';
import { isColdThere } from './folder.js';
import { findUnknownManifests } from './tidy.js';

/**
 * Names the one database that may write and delete in a cold folder. A copy of a database has the same
 * partitions as the original, and would take the original's files for its own.
 */
const MARKER = 'archive.json';
/** Names of a cold folder's own entries. */
const COLD_ENTRY = /^(?:kind=.*|manifests)$/;

const OWNER: z.ZodType<DatabaseIdentity> = z.object({
  archive: z.string().nullable(),
  database: z.string(),
  system: z.string().nullable(),
  databaseOid: z.number(),
  tableOid: z.number(),
});

/** Returns whose folder it is; `unknown` of one that names no database, null of one that is still nobody's. */
async function readOwner(coldDir: string): Promise<DatabaseIdentity | 'unknown' | null> {
  const path = join(coldDir, MARKER);
  try {
    return OWNER.safeParse(parseJson(await readFile(path, 'utf8'))).data ?? 'unknown';
  } catch (error) {
    if (error instanceof SyntaxError) return 'unknown';
    if (codeOf(error) !== 'ENOENT') throw asColdError(error, path);
  }
  const names = await readdir(coldDir).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return [];
    throw asColdError(error, coldDir);
  });
  return names.some((name) => COLD_ENTRY.test(name)) ? 'unknown' : null;
}

/** Names may change; the system is unknown where the login may not ask for it. */
function isSame(one: DatabaseIdentity, other: DatabaseIdentity): boolean {
  const isSystem = one.system === null || other.system === null || one.system === other.system;
  return isSystem && one.databaseOid === other.databaseOid && one.tableOid === other.tableOid;
}

function nameOf({ archive, database, system, databaseOid }: DatabaseIdentity): string {
  const of = archive === null ? '' : `, archive of ${archive}`;
  return `${database} (Postgres system ${system ?? 'unknown'}, oid ${databaseOid}${of})`;
}

/**
 * Returns why a database may not write or delete in a cold folder; null when it may.
 *
 * @throws ColdError when that cannot be seen
 */
export async function coldOwnerConflict(
  coldDir: string,
  mine: DatabaseIdentity,
): Promise<string | null> {
  const owner = await readOwner(coldDir);
  if (owner === null || (owner !== 'unknown' && isSame(owner, mine))) return null;
  return owner === 'unknown'
    ? `${coldDir} holds cold files, and no ${MARKER} that names their database; this one is ${nameOf(mine)}`
    : `${coldDir} belongs to the database ${nameOf(owner)}, and this one is ${nameOf(mine)}`;
}

export const COLD_OWNER_ADVICE =
  'give each database a folder of its own by cold.dir (TAPEKEEP_COLD_DIR), with a copy of the files. Where this folder is such a copy, or the other database is gone, "tapekeep adopt" gives it to this one';

/** @throws ColdError `cold_refused` when the folder belongs to another database */
export async function assertColdOwner(coldDir: string, mine: DatabaseIdentity): Promise<void> {
  const conflict = await coldOwnerConflict(coldDir, mine);
  if (conflict === null) return;
  const text = `${conflict}; nothing was written or deleted there: ${COLD_OWNER_ADVICE}`;
  throw new ColdError('cold_refused', text);
}

/**
 * Makes the folder ready for a database, and its own where it is nobody's.
 *
 * @throws ColdError `cold_refused` when it is another one's; `cold_missing` when it holds nothing of this one's,
 *   though it should: a disk that is not mounted, whose files would lie in two places from then on
 */
export async function claimColdDir(
  coldDir: string,
  mine: DatabaseIdentity,
  partitions: readonly PartitionInfo[],
): Promise<void> {
  await assertColdOwner(coldDir, mine);
  const path = join(coldDir, MARKER);
  if (await isColdThere(path)) return;
  await assertPresent(coldDir, partitions);
  try {
    await makeFolder(coldDir);
    await writeSynced(path, textOf(mine));
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw asColdError(error, path);
    // Another database was quicker.
    await assertColdOwner(coldDir, mine);
  }
}

/**
 * Gives a folder to a database, whoever had it.
 *
 * @throws ColdError `cold_missing` when its files are not there; `cold_refused` when the folder holds partitions that
 *   this database does not have in files: tidying would delete them
 */
export async function adoptColdDir(
  coldDir: string,
  mine: DatabaseIdentity,
  partitions: readonly PartitionInfo[],
): Promise<void> {
  await assertPresent(coldDir, partitions);
  const unknown = await findUnknownManifests(coldDir, partitions);
  if (unknown.length > 0) {
    throw new ColdError(
      'cold_refused',
      `${coldDir} holds ${unknown.length} partitions that this database does not have in files, first ${unknown[0]}, and would lose them: give this database a folder of its own by cold.dir (TAPEKEEP_COLD_DIR), or move those manifests and their files out of the folder`,
    );
  }
  const path = join(coldDir, MARKER);
  const temporary = `${path}.new`;
  await inColdWords(path, async () => {
    await makeFolder(coldDir);
    await rm(temporary, { force: true });
    await writeSynced(temporary, textOf(mine));
    await moveSynced(temporary, path);
  });
}

const textOf = (owner: DatabaseIdentity) => `${JSON.stringify(owner, null, 2)}\n`;

async function assertPresent(coldDir: string, partitions: readonly PartitionInfo[]): Promise<void> {
  const archived = partitions.find(({ state }) => state === 'archived');
  if (archived === undefined || (await isColdThere(join(coldDir, archived.uri ?? '')))) return;
  const missing = `${coldDir} holds no cold files of this archive, and ${archived.name} should be there`;
  throw new ColdError(
    'cold_missing',
    `${missing}: mount its disk, bring the files back from a copy, or name the right folder by cold.dir; nothing is moved into files until then`,
  );
}
