import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import type { ColumnForm } from '../../model/columns.js';
import { SERIES, SERIES_TABLES, type SeriesTable } from '../../model/series.js';
import { asColdError, ColdError } from './errors.js';
import { type ColdKind, isColdPath } from './layout.js';

/** One data file: a day of a market. */
export interface ColdFile {
  /** Relative to the cold folder, with `/`. */
  readonly path: string;
  /** `_all` for rows that belong to no market. */
  readonly market: string;
  readonly marketId: number;
  /** UTC, `2026-01-31`. */
  readonly date: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  /** Oldest and newest moment of the rows, ISO 8601. */
  readonly first: string;
  readonly last: string;
}

/** What the ledger said of a stream within the partition, when it left. */
export interface ColdCoverage {
  readonly kind: string;
  readonly market: string;
  readonly variantS: number;
  readonly spans: readonly { readonly from: string; readonly to: string }[];
}

/** What a partition is that has left the database. */
export interface ColdManifest {
  /** Version of the program that wrote it. */
  readonly tapekeep: string;
  /** Clock of the machine that wrote it, ISO 8601. */
  readonly madeAt: string;
  readonly table: SeriesTable;
  readonly kind: ColdKind;
  /** Half-open, ISO 8601. */
  readonly from: string;
  readonly to: string;
  readonly rows: number;
  /** What the partition was sealed with; that of its rows again after a restore. */
  readonly checksum: string;
  /** Of every file, in their order; the market stands in the path. */
  readonly columns: readonly { readonly name: string; readonly type: ColumnForm }[];
  readonly files: readonly ColdFile[];
  readonly coverage: readonly ColdCoverage[];
  /** Of the text of the manifest without this field; null in one of the first format. */
  readonly sha256: string | null;
}

/** What a manifest says, before it is written. */
export type ColdContent = Omit<ColdManifest, 'sha256'>;

/** The first format had neither a number nor a checksum of itself. */
const FORMAT = 2;
/** How the text ends: the checksum of what stands before it, closed in the same way. */
const OWN_SUM = /,\n {2}"sha256": "([0-9a-f]{64})"\n\}\n$/;
const FIELDS: ReadonlySet<string> = new Set([
  ...['tapekeep', 'madeAt', 'table', 'kind', 'from', 'to', 'rows', 'checksum', 'columns', 'files'],
  'coverage',
]);

const sumOf = (text: string) => createHash('sha256').update(text).digest('hex');

/** A manifest of ten years of minutes of a thousand markets stays far below. */
const MAX_BYTES = 256 * 1024 * 1024;

type Fields = Readonly<Record<string, unknown>>;

/** Takes fields apart, naming the first one that is not what it should be. */
class Reader {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  damaged(what: string, cause?: unknown): ColdError {
    const text = `${this.#path} is damaged: ${what}. Bring it back from a copy`;
    return new ColdError('cold_damaged', 'fatal', text, { cause });
  }

  newer(format: number): ColdError {
    const text = `${this.#path} is damaged, or of the format ${format} of a newer tapekeep: use that version, or bring it back from a copy`;
    return new ColdError('cold_damaged', 'fatal', text);
  }

  object(value: unknown, where: string): Fields {
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Fields;
    throw this.damaged(`${where} is no object`);
  }

  list<T>(fields: Fields, name: string, each: (fields: Fields) => T): T[] {
    const value = fields[name];
    if (!Array.isArray(value)) throw this.damaged(`${name} is no list`);
    return value.map((one, index) => each(this.object(one, `${name}[${index}]`)));
  }

  text(fields: Fields, name: string): string {
    const value = fields[name];
    if (typeof value === 'string') return value;
    throw this.damaged(`${name} is no text`);
  }

  moment(fields: Fields, name: string): string {
    const text = this.text(fields, name);
    if (Number.isFinite(Date.parse(text))) return text;
    throw this.damaged(`${name} is no moment`);
  }

  count(fields: Fields, name: string): number {
    const value = fields[name];
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
    throw this.damaged(`${name} is no count`);
  }

  oneOf<T extends string>(fields: Fields, name: string, allowed: readonly T[]): T {
    const text = this.text(fields, name);
    const found = allowed.find((one) => one === text);
    if (found === undefined) throw this.damaged(`${name} is "${text}"`);
    return found;
  }

  path(fields: Fields, name: string): string {
    const text = this.text(fields, name);
    if (!isColdPath(text)) throw this.damaged(`${name} leads out of the folder`);
    return text;
  }
}

const COLUMN_TYPES: readonly ColumnForm[] = ['timestamp', 'integer', 'text', 'decimal', 'decimals'];

/**
 * The checksum that a manifest carries of itself, null in one of the first format. That one is known by
 * having neither of the two fields that came with the second, and no others: so no damage of one place
 * makes a manifest pass for an older one.
 */
function ownSum(read: Reader, text: string, fields: Fields): string | null {
  if (!('format' in fields) && !('sha256' in fields)) {
    const unknown = Object.keys(fields).find((name) => !FIELDS.has(name));
    if (unknown !== undefined) throw read.damaged(`"${unknown}" is no field of a manifest`);
    return null;
  }
  if (typeof fields.format === 'number' && fields.format > FORMAT) {
    throw read.newer(fields.format);
  }
  const [end, sum] = OWN_SUM.exec(text) ?? [];
  if (fields.format === FORMAT && end !== undefined && sum !== undefined) {
    if (sumOf(`${text.slice(0, -end.length)}\n}\n`) === sum) return sum;
  }
  throw read.damaged('it does not match the checksum that it carries of itself');
}

/**
 * Takes a manifest from its text.
 *
 * @param path for messages
 * @throws ColdError `cold_damaged`
 */
export function parseColdManifest(text: string, path: string): ColdManifest {
  const read = new Reader(path);
  let value: unknown;
  try {
    // As many spans as a day had: only how deeply it is nested is bounded.
    value = parseJson(text, Number.POSITIVE_INFINITY);
  } catch (error) {
    throw read.damaged(`no JSON (${messageOf(error)})`, error);
  }
  const fields = read.object(value, 'the manifest');
  const sha256 = ownSum(read, text, fields);
  const table = read.oneOf(fields, 'table', SERIES_TABLES);
  const manifest: ColdManifest = {
    tapekeep: read.text(fields, 'tapekeep'),
    madeAt: read.moment(fields, 'madeAt'),
    table,
    kind: read.oneOf(fields, 'kind', [SERIES[table].kind]),
    from: read.moment(fields, 'from'),
    to: read.moment(fields, 'to'),
    rows: read.count(fields, 'rows'),
    checksum: read.text(fields, 'checksum'),
    columns: read.list(fields, 'columns', (one) => ({
      name: read.text(one, 'name'),
      type: read.oneOf(one, 'type', COLUMN_TYPES),
    })),
    files: read.list(fields, 'files', (one) => ({
      path: read.path(one, 'path'),
      market: read.text(one, 'market'),
      marketId: read.count(one, 'marketId'),
      date: read.text(one, 'date'),
      rows: read.count(one, 'rows'),
      bytes: read.count(one, 'bytes'),
      sha256: read.text(one, 'sha256'),
      first: read.moment(one, 'first'),
      last: read.moment(one, 'last'),
    })),
    coverage: read.list(fields, 'coverage', (one) => ({
      kind: read.text(one, 'kind'),
      market: read.text(one, 'market'),
      variantS: read.count(one, 'variantS'),
      spans: read.list(one, 'spans', (span) => ({
        from: read.moment(span, 'from'),
        to: read.moment(span, 'to'),
      })),
    })),
    sha256,
  };
  const sum = manifest.files.reduce((rows, file) => rows + file.rows, 0);
  if (sum !== manifest.rows) {
    throw read.damaged(`its files have ${sum} rows and not ${manifest.rows}`);
  }
  return manifest;
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
    throw new ColdError('cold_damaged', 'fatal', `"${uri}" leads out of the folder ${coldDir}`);
  }
  let text: Buffer;
  try {
    text = await readFile(path);
  } catch (error) {
    throw asColdError(error, path);
  }
  if (text.length > MAX_BYTES) {
    throw new ColdError('cold_damaged', 'fatal', `${path} has ${text.length} bytes: no manifest`);
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
    await mkdir(dirname(path), { recursive: true });
    const file = await open(temporary, 'w', 0o644);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    await syncFolder(dirname(path));
    return { ...content, sha256 };
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw asColdError(error, path);
  }
}

/** Makes renames last over a loss of power, where the system can. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}
