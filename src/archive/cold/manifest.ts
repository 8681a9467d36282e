import { createHash } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { messageOf } from '../../kernel/errors.js';
import { makeFolder } from '../../kernel/folders.js';
import { parseJson } from '../../kernel/json.js';
import { type ColumnForm, FORM_NAMES } from '../../model/columns.js';
import { SERIES_TABLES, viewOf } from '../../model/series.js';
import { asColdError, ColdError, inColdWords } from '../errors.js';
import { moveSynced, writeSynced } from '../files.js';
import { isColdPath } from './folder.js';

const timestamp = z
  .string()
  .refine((text) => Number.isFinite(Date.parse(text)), 'is not an ISO 8601 timestamp');
const count = z.int().nonnegative();

const FILE = z.object({
  /** Relative to the cold folder, with `/`. */
  path: z.string().refine(isColdPath, 'leads out of the folder'),
  /** `_all` for rows that belong to no market. */
  market: z.string(),
  marketId: count,
  /** UTC, `2026-01-31`. */
  date: z.string(),
  rows: count,
  bytes: count,
  sha256: z.string(),
  /** Oldest and newest instant of the rows, ISO 8601. */
  first: timestamp,
  last: timestamp,
});

const COLUMN_TYPES = Object.keys(FORM_NAMES) as ColumnForm[];

const CONTENT = z.object({
  /** Version of the program that wrote it. */
  tapekeep: z.string(),
  /** Clock of the machine that wrote it, ISO 8601. */
  madeAt: timestamp,
  table: z.enum(SERIES_TABLES),
  kind: z.enum(SERIES_TABLES.map(viewOf)),
  /** Half-open, ISO 8601. */
  from: timestamp,
  to: timestamp,
  rows: count,
  /** Checksum of the sealing; that of its rows again after a restore. */
  checksum: z.string(),
  /** Entries of every file, in their order; the market stands in the path. */
  columns: z.array(z.object({ name: z.string(), type: z.enum(COLUMN_TYPES) })).readonly(),
  files: z.array(FILE.readonly()).readonly(),
  /** Ledger of each stream within the partition, when it left. */
  coverage: z
    .array(
      z.object({
        kind: z.string(),
        market: z.string(),
        variantS: count,
        spans: z.array(z.object({ from: timestamp, to: timestamp })).readonly(),
      }),
    )
    .readonly(),
});

/** One data file: a day of a market. */
export type ColdFile = Readonly<z.infer<typeof FILE>>;

/** A manifest before it is written. */
export type ColdContent = Readonly<z.infer<typeof CONTENT>>;

/** Facts about a partition that has left the database. */
export interface ColdManifest extends ColdContent {
  /** Checksum of the text of the manifest without this field. */
  readonly sha256: string;
}

const FORMAT = 1;
/** How the text ends: the checksum of what stands before it, closed in the same way. */
const OWN_SUM = /,\n {2}"sha256": "([0-9a-f]{64})"\n\}\n$/;
const sumOf = (text: string) => createHash('sha256').update(text).digest('hex');

/** A manifest of ten years of minutes of a thousand markets stays far below. */
const MAX_BYTES = 256 * 1024 * 1024;

function damagedError(path: string, what: string, cause?: unknown): ColdError {
  const text = `${path} is damaged: ${what}. Bring it back from a copy`;
  return new ColdError('cold_damaged', text, { cause });
}

/** Returns the checksum that a manifest carries of itself, if its text has it. */
function ownSum(path: string, text: string, fields: object): string {
  const format = 'format' in fields ? fields.format : undefined;
  if (typeof format === 'number' && format > FORMAT) {
    const newer = `${path} is damaged, or of the format ${format} of a newer tapekeep: use that version, or bring it back from a copy`;
    throw new ColdError('cold_damaged', newer);
  }
  const [end, sum] = OWN_SUM.exec(text) ?? [];
  if (format === FORMAT && end !== undefined && sum !== undefined) {
    if (sumOf(`${text.slice(0, -end.length)}\n}\n`) === sum) return sum;
  }
  throw damagedError(path, 'it does not match the checksum that it carries of itself');
}

/**
 * Takes a manifest from its text.
 *
 * @param path for messages
 * @throws ColdError `cold_damaged`
 */
export function parseColdManifest(text: string, path: string): ColdManifest {
  let value: unknown;
  try {
    // As many spans as a day had: only how deeply it is nested is bounded.
    value = parseJson(text, Number.POSITIVE_INFINITY);
  } catch (error) {
    throw damagedError(path, `no JSON (${messageOf(error)})`, error);
  }
  if (typeof value !== 'object' || value === null) throw damagedError(path, 'it is no object');
  const sha256 = ownSum(path, text, value);
  const { success, data, error } = CONTENT.safeParse(value);
  if (!success) {
    const [issue] = error.issues;
    throw damagedError(path, `${issue?.path.join('.')}: ${issue?.message}`, error);
  }
  if (data.kind !== viewOf(data.table)) throw damagedError(path, `kind: "${data.kind}"`);
  const sum = data.files.reduce((rows, file) => rows + file.rows, 0);
  if (sum !== data.rows) {
    throw damagedError(path, `its files have ${sum} rows and not ${data.rows}`);
  }
  return { ...data, sha256 };
}

/**
 * Reads the manifest of an archived partition.
 *
 * @param uri `partition_state.uri`
 * @throws ColdError `cold_missing`, `cold_damaged`, `cold_refused`
 */
export async function readColdManifest(coldDir: string, uri: string): Promise<ColdManifest> {
  const path = join(coldDir, uri);
  if (!isColdPath(uri)) {
    throw new ColdError('cold_damaged', `"${uri}" leads out of the folder ${coldDir}`);
  }
  const text = await inColdWords(path, () => readFile(path));
  if (text.length > MAX_BYTES) {
    throw new ColdError('cold_damaged', `${path} has ${text.length} bytes: no manifest`);
  }
  return parseColdManifest(text.toString('utf8'), path);
}

/**
 * Writes a manifest so that it is on the disk whole, or not there.
 *
 * @returns it with the checksum that it carries of itself
 * @throws ColdError
 */
export async function writeColdManifest(
  coldDir: string,
  uri: string,
  content: ColdContent,
): Promise<ColdManifest> {
  const body = `${JSON.stringify({ format: FORMAT, ...content }, null, 2)}\n`;
  const sha256 = sumOf(body);
  const text = body.replace(/\n\}\n$/, `,\n  "sha256": "${sha256}"\n}\n`);
  const path = join(coldDir, uri);
  const temporary = `${path}.new`;
  try {
    await makeFolder(dirname(path));
    await rm(temporary, { force: true });
    await writeSynced(temporary, text);
    await moveSynced(temporary, path);
    return { ...content, sha256 };
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw asColdError(error, path);
  }
}
