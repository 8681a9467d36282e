import { z } from 'zod';
import { parseJson } from '../../kernel/json.js';
import {
  type DatabaseIdentity,
  isSameDatabase,
  nameOfDatabase,
  type PartitionInfo,
} from '../../store/index.js';
import { ColdError } from '../errors.js';
import type { ColdStorage } from './storage.js';
import { findUnknownManifests } from './tidy.js';

/**
 * Names the one database that may write and delete in a place of cold files. A copy of a database has the same
 * partitions as the original, and would take the original's files for its own.
 */
const MARKER = 'archive.json';
/** Starts of the paths of cold files. */
const COLD_STARTS = ['manifests/', 'kind='];

export const IDENTITY: z.ZodType<DatabaseIdentity> = z.object({
  archive: z.string().nullable(),
  database: z.string(),
  system: z.string().nullable(),
  databaseOid: z.number(),
  tableOid: z.number(),
  copy: z.string().nullable().default(null),
});

/** A move of cold files. The marker keeps it, so that no settings make the archive write to the wrong place. */
const MOVE = z.object({
  /** Place that has the files now. */
  movedTo: z.string().optional(),
  /** Place from which files are still to come. */
  movingFrom: z.string().optional(),
});

type ColdMove = Readonly<z.infer<typeof MOVE>>;

/** Owner of a place: `unknown` of one that names no database, null of one that is free. */
interface Owner {
  readonly owner: DatabaseIdentity | 'unknown' | null;
  readonly move: ColdMove;
  /** Version of the text that names it; null without one. */
  readonly version: string | null;
}

async function readOwner(cold: ColdStorage): Promise<Owner> {
  try {
    const { text, version } = await cold.readText(MARKER);
    const value = parseMarker(text);
    const owner = IDENTITY.safeParse(value).data ?? 'unknown';
    return { owner, move: MOVE.safeParse(value).data ?? {}, version };
  } catch (error) {
    if (!(error instanceof ColdError) || error.code !== 'cold_missing') throw error;
  }
  for (const start of COLD_STARTS) {
    for await (const _ of cold.list(start)) return { owner: 'unknown', move: {}, version: null };
  }
  return { owner: null, move: {}, version: null };
}

function parseMarker(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Returns true if a place names the database that it belongs to. @throws ColdError where that cannot be seen */
export async function hasColdOwner(cold: ColdStorage): Promise<boolean> {
  return await cold.isThere(MARKER);
}

/** Reason why a database may not write or delete cold files. */
export interface ColdConflict {
  readonly found: string;
  readonly advice: string;
}

/**
 * Returns why a database may not write or delete cold files; null when it may.
 *
 * @throws ColdError when that cannot be seen
 */
export async function coldOwnerConflict(
  cold: ColdStorage,
  mine: DatabaseIdentity,
): Promise<ColdConflict | null> {
  const { owner, move } = await readOwner(cold);
  if (owner === null) return null;
  if (owner === 'unknown') {
    const found = `${cold.name} holds cold files, and no ${MARKER} that names their database; this one is ${nameOfDatabase(mine)}`;
    return { found, advice: OWNER_ADVICE };
  }
  if (!isSameDatabase(owner, mine)) {
    const found = `${cold.name} belongs to the database ${nameOfDatabase(owner)}, and this one is ${nameOfDatabase(mine)}`;
    return { found, advice: OWNER_ADVICE };
  }
  const { movedTo, movingFrom } = move;
  if (movedTo !== undefined) {
    const found = `the cold files of this archive moved from ${cold.name} to ${movedTo}`;
    return { found, advice: coldSettingAdvice(movedTo) };
  }
  if (movingFrom === undefined) return null;
  return {
    found: `the move of cold files from ${movingFrom} to ${cold.name} has not ended`,
    advice: `run "tapekeep cold move --from ${movingFrom} ${cold.name}"`,
  };
}

/** Advice to name a place of cold files in the settings. */
export function coldSettingAdvice(place: string): string {
  return place.startsWith('s3://')
    ? `set cold.url (TAPEKEEP_COLD_URL) to ${place}`
    : `set cold.dir (TAPEKEEP_COLD_DIR) to ${place}, without cold.url`;
}

const OWNER_ADVICE =
  'give each database a folder of its own by cold.dir (TAPEKEEP_COLD_DIR), with a copy of the files. Where this folder is such a copy, or the other database is gone, "tapekeep adopt" gives it to this one';

/** @throws ColdError `cold_refused` when the folder belongs to another database, or the files moved elsewhere */
export async function assertColdOwner(cold: ColdStorage, mine: DatabaseIdentity): Promise<void> {
  const conflict = await coldOwnerConflict(cold, mine);
  if (conflict === null) return;
  const text = `${conflict.found}; nothing was written or deleted there: ${conflict.advice}`;
  throw new ColdError('cold_refused', text);
}

/**
 * Makes the folder ready for a database, and its own where it is nobody's.
 *
 * @throws ColdError `cold_refused` when it is another one's; `cold_missing` when it holds nothing of this one's,
 *   though it should: a disk that is not mounted, whose files would lie in two places from then on
 */
export async function claimColdDir(
  cold: ColdStorage,
  mine: DatabaseIdentity,
  partitions: readonly PartitionInfo[],
): Promise<void> {
  await assertColdOwner(cold, mine);
  await cold.assertWritable();
  const { owner } = await readOwner(cold);
  if (owner === null) {
    await assertPresent(cold, partitions);
    await cold.putText(MARKER, textOf(mine), 'absent').catch((error: unknown) => {
      if (!(error instanceof ColdError) || error.code !== 'cold_conflict') throw error;
    });
  }
  // Another database may have been quicker.
  await assertColdOwner(cold, mine);
}

/**
 * Gives a folder to a database, whoever had it.
 *
 * @throws ColdError `cold_missing` when its files are not there; `cold_refused` when the folder holds partitions that
 *   this database does not have in files: tidying would delete them
 */
export async function adoptColdDir(
  cold: ColdStorage,
  mine: DatabaseIdentity,
  partitions: readonly PartitionInfo[],
): Promise<void> {
  await assertPresent(cold, partitions);
  const unknown = await findUnknownManifests(cold, partitions);
  if (unknown.length > 0) {
    throw new ColdError(
      'cold_refused',
      `${cold.name} holds ${unknown.length} partitions that this database does not have in files, first ${unknown[0]}, and would lose them: give this database a folder of its own by cold.dir (TAPEKEEP_COLD_DIR), or move those manifests and their files out of the folder`,
    );
  }
  const { version } = await readOwner(cold);
  await cold.putText(MARKER, textOf(mine), { version });
}

/** Returns whether the source of a move belongs to the database, and where its files went already. */
export async function readMoveSource(source: ColdStorage, mine: DatabaseIdentity) {
  const { owner, move } = await readOwner(source);
  const isOwn = isFreeOr(owner, mine);
  return { isOwn, movedTo: isOwn ? move.movedTo : undefined };
}

/**
 * Makes a place the target of a move: nothing else is written there until {@link endMove}. One that the database uses
 * already stays in use.
 *
 * @throws ColdError `cold_refused` when it belongs to another database, or holds cold files of an unknown one
 */
export async function beginMove(
  source: ColdStorage,
  target: ColdStorage,
  mine: DatabaseIdentity,
): Promise<void> {
  const { owner, move, version } = await readOwner(target);
  if (!isFreeOr(owner, mine)) {
    const conflict = await coldOwnerConflict(target, mine);
    const text = `${conflict?.found}; nothing was copied: name an empty place`;
    throw new ColdError('cold_refused', text);
  }
  if (owner !== null && !isMoving(move)) return;
  await target.putText(MARKER, textOf(mine, { movingFrom: source.name }), { version });
}

/** Puts the target of a move in use, and then the source out of it if it is the database's. */
export async function endMove(
  source: ColdStorage,
  target: ColdStorage,
  mine: DatabaseIdentity,
): Promise<void> {
  const { move, version } = await readOwner(target);
  if (isMoving(move)) await target.putText(MARKER, textOf(mine), { version });
  const left = await readOwner(source);
  if (!isFreeOr(left.owner, mine) || left.move.movedTo === target.name) return;
  const text = textOf(mine, { movedTo: target.name });
  await source.putText(MARKER, text, { version: left.version });
}

const isFreeOr = (owner: Owner['owner'], mine: DatabaseIdentity) =>
  owner === null || (owner !== 'unknown' && isSameDatabase(owner, mine));

const isMoving = ({ movedTo, movingFrom }: ColdMove) => (movedTo ?? movingFrom) !== undefined;

const textOf = (owner: DatabaseIdentity, move: ColdMove = {}) =>
  `${JSON.stringify({ ...owner, ...move }, null, 2)}\n`;

async function assertPresent(
  cold: ColdStorage,
  partitions: readonly PartitionInfo[],
): Promise<void> {
  const archived = partitions.find(({ state }) => state === 'archived');
  if (archived === undefined || (await cold.isThere(archived.uri ?? ''))) return;
  const missing = `${cold.name} holds no cold files of this archive, and ${archived.name} should be there`;
  throw new ColdError(
    'cold_missing',
    `${missing}: mount its disk, bring the files back from a copy, or name the right folder by cold.dir; nothing is moved into files until then`,
  );
}
