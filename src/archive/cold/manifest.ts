import { z } from 'zod';
import { messageOf } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import { type ColumnForm, FORM_NAMES } from '../../model/columns.js';
import { SERIES_TABLES, viewOf } from '../../model/series.js';
import type { PlacedPartition } from '../../store/index.js';
import { ColdError } from '../errors.js';
import { ownSumOf, sumOf, withOwnSum } from '../own-sum.js';
import { isColdPath } from './folder.js';
import type { ColdCondition, ColdStorage, ColdTexts } from './storage.js';

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
  /** Checksum of the sealing, or of the files where the rows were never in the database. */
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

/** True if a manifest is of a partition, whatever rows it had then. */
export function isOfPartition(
  { table, from, to }: ColdManifest,
  partition: Pick<PlacedPartition, 'table' | 'span'>,
): boolean {
  const { fromMs, toMs } = partition.span;
  return table === partition.table && Date.parse(from) === fromMs && Date.parse(to) === toMs;
}

/** Names how a checksum of files was made, as another name is that of a checksum of rows. */
const FILES_FORM = 'files1-sha256';

/** Checksum of rows that came as files: of the files' own, in their order. */
export function checksumOfFiles(files: readonly ColdFile[]): string {
  const text = files.map(({ marketId, date, sha256 }) => `${marketId} ${date} ${sha256}\n`);
  return `${FILES_FORM}:${sumOf(text.join(''))}`;
}

/** True if the checksum is that of files. */
export function isOfFiles({ checksum }: Pick<ColdContent, 'checksum'>): boolean {
  return checksum.startsWith(`${FILES_FORM}:`);
}

const FORMAT = 1;

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
  const sum = format === FORMAT ? ownSumOf(text) : undefined;
  if (sum !== undefined) return sum;
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
export async function readColdManifest(cold: ColdTexts, uri: string): Promise<ColdManifest> {
  return parseColdManifest(await readManifestText(cold, uri), cold.at(uri));
}

/** {@link readColdManifest} where its own checksum is known, so that a local copy may serve. It may have another. */
export async function readKnownManifest(
  cold: ColdStorage,
  uri: string,
  sha256: string,
): Promise<ColdManifest> {
  assertWithin(cold, uri);
  const text = await cold.readKnown(uri, MAX_BYTES, (one) => ownSumOf(one) === sha256);
  return parseColdManifest(text, cold.at(uri));
}

/** Text of {@link readColdManifest}, which may be damaged. */
export async function readManifestText(cold: ColdTexts, uri: string): Promise<string> {
  assertWithin(cold, uri);
  return (await cold.readText(uri, MAX_BYTES)).text;
}

function assertWithin({ name }: ColdTexts, uri: string): void {
  if (isColdPath(uri)) return;
  throw new ColdError('cold_damaged', `"${uri}" leads out of ${name}`);
}

/** The manifest at a place, if it is one, and the version of whatever is there; null for nothing. @throws ColdError */
export async function findColdManifest(
  cold: ColdStorage,
  uri: string,
): Promise<{ readonly manifest: ColdManifest | undefined; readonly version: string | null }> {
  try {
    const { text, version } = await cold.readText(uri, MAX_BYTES);
    try {
      return { manifest: parseColdManifest(text, cold.at(uri)), version };
    } catch (error) {
      if (!(error instanceof ColdError)) throw error;
      return { manifest: undefined, version };
    }
  } catch (error) {
    if (!(error instanceof ColdError) || error.code !== 'cold_missing') throw error;
    return { manifest: undefined, version: null };
  }
}

/**
 * Writes a manifest so that it is there whole, or not at all.
 *
 * @param condition what may be there before
 * @returns it with the checksum that it carries of itself
 * @throws ColdError
 */
export async function writeColdManifest(
  cold: ColdStorage,
  uri: string,
  content: ColdContent,
  condition: ColdCondition,
): Promise<ColdManifest> {
  const { text, sha256 } = withOwnSum({ format: FORMAT, ...content });
  await cold.putText(uri, text, condition);
  return { ...content, sha256 };
}
