import { z } from 'zod';
import { codeOf, messageOf, TapekeepError } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import { isColdPath } from '../cold/folder.js';
import { IDENTITY } from '../cold/owner.js';
import { ColdError } from '../errors.js';
import { ownSumOf, withOwnSum } from '../own-sum.js';
import type { BackupPlace } from './place.js';

/**
 * Document of a backup, written when all that it names is there for good: a folder or prefix without it is no backup.
 *
 *     backup.json
 *     tapekeep-0123456789ab/postgres/…         files of the cluster, or `archive.dump`
 *     tapekeep-0123456789ab/cold/manifests/…   manifests of archived partitions
 *     tapekeep-0123456789ab/cold/kind=…        their files, with --with-files
 */
export const DOCUMENT = 'backup.json';
/** Names of the folders of single runs. */
export const RUN_FOLDER = /^tapekeep-[0-9a-f]{12}$/;
const FORMAT = 1;

const count = z.int().nonnegative();
const path = z.string().refine(isColdPath, 'leads out of the folder');

const FILE = z.object({
  /** Relative to the folder of the run, with `/`. */
  path,
  bytes: count,
  sha256: z.string(),
});

const BACKUP = z.object({
  format: z.literal(FORMAT),
  /** Version of the program that made it. */
  tapekeep: z.string(),
  /** Version of Postgres. */
  postgres: z.string(),
  /** Clock of the machine that made it, ISO 8601. */
  madeAt: z.string(),
  archive: IDENTITY,
  /** Folder of the run. */
  folder: z.string().regex(RUN_FOLDER),
  /** Addresses in the journal of Postgres that a recovery leads from and to; null: a dump of pg_dump. */
  journal: z.object({ start: z.string(), stop: z.string() }).nullable(),
  /** Folders of the cluster, empty ones too. */
  folders: z.array(path).readonly(),
  files: z.array(FILE.readonly()).readonly(),
  cold: z.object({
    /** True if the files that the manifests name are in the backup. */
    isCopied: z.boolean(),
    /** Manifests of all archived partitions; they have the checksums of their files. */
    manifests: z.array(FILE.readonly()).readonly(),
    files: count,
    bytes: count,
  }),
});

export type BackupDocument = Readonly<z.infer<typeof BACKUP>>;
/** A file of a backup with its size and checksum. */
export type BackupFile = Readonly<z.infer<typeof FILE>>;

/** @throws TapekeepError `backup_damaged` where there is none, or not the one that was written; ColdError of a bucket */
export async function readBackup(place: BackupPlace): Promise<BackupDocument> {
  const at = place.at(DOCUMENT);
  let value: unknown;
  try {
    const { text } = await place.readText(DOCUMENT);
    // As many files as an archive has.
    value = parseJson(text, Number.POSITIVE_INFINITY);
    const { format } = Object(value) as { readonly format?: unknown };
    if (typeof format === 'number' && format > FORMAT) {
      throw damaged(`${at} has the format ${format} of a newer tapekeep: use that version`);
    }
    if (ownSumOf(text) === undefined) {
      throw damaged(`${at} does not match its own checksum: use another backup`);
    }
  } catch (error) {
    const isMissing = codeOf(error) === 'cold_missing';
    if (error instanceof TapekeepError && !isMissing) throw error;
    const text = isMissing
      ? `${place.name} is no backup, or one that was interrupted: it has no ${DOCUMENT}`
      : `${at} cannot be read (${messageOf(error)})`;
    throw damaged(text, error);
  }
  const { data, error } = BACKUP.safeParse(value);
  if (data !== undefined) return data;
  const [issue] = error.issues;
  throw damaged(`${at} is damaged (${issue?.path.join('.')}: ${issue?.message})`, error);
}

function damaged(text: string, cause?: unknown): TapekeepError {
  return new TapekeepError('backup_damaged', text, { cause });
}

/** Version of a document that is there, readable or not; null: there is none. */
export async function findBackup(place: BackupPlace): Promise<string | null> {
  try {
    return (await place.readText(DOCUMENT)).version;
  } catch (error) {
    if (error instanceof ColdError && error.code === 'cold_missing') return null;
    throw error;
  }
}

/** Makes a backup of what was copied: the document takes the place of that of an earlier one. @param version of that */
export async function writeBackup(
  place: BackupPlace,
  document: Omit<BackupDocument, 'format'>,
  version: string | null,
): Promise<void> {
  const { text } = withOwnSum({ format: FORMAT, ...document });
  await place.replaceText(DOCUMENT, text, version);
}

/** Names that one message has. */
const NAMED_MAX = 5;

/** @throws TapekeepError `backup_damaged` if any file of a backup is not as it was */
export function assertWhole(dir: string, wrong: readonly string[]): void {
  if (wrong.length === 0) return;
  const named = wrong.slice(0, NAMED_MAX).join('; ');
  const more = wrong.length > NAMED_MAX ? `; and ${wrong.length - NAMED_MAX} more` : '';
  throw damaged(
    `the backup in ${dir} is not what was written, and nothing was recovered: ${named}${more}. Bring those files back from a copy of the backup, or use another backup`,
  );
}
