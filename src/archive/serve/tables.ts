import { BoundedMap } from '../../kernel/bounded.js';
import type { Span } from '../../kernel/span.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';
import type { ColdFile } from '../cold/manifest.js';
import type { ColdHold, ColdStorage } from '../cold/storage.js';
import { castSql, decimalSql } from '../parquet/columns.js';
import { type DuckSession, identifier, literal, literals } from '../parquet/session.js';
import { commonForm } from '../relation.js';
import { ColdReader, type PlacedFile, type PlacedSegment } from '../segments.js';
import { EndpointError, SQLSTATE } from './errors.js';
import type { Sql } from './numbers.js';
import { typeOfColumn } from './values.js';

/** Archived partitions as relations of DuckDB. */

/** An archived partition as the database records it. */
export interface ServedPartition {
  readonly table: SeriesTable;
  readonly span: Span;
  /** Manifest, relative to the cold folder. */
  readonly uri: string;
  /** Checksum that the manifest carries of itself; null where none was recorded. */
  readonly manifestSha256: string | null;
}

/** Part of a partition that a statement can need. */
export interface Needed {
  /** Undefined for all. */
  readonly marketIds?: readonly number[];
  /** UNIX milliseconds, or an infinity. */
  readonly fromMs: number;
  readonly toMs: number;
}

const ALL: Needed = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };

/** Rows of files as a relation. */
export interface Relation {
  readonly sql: string;
  readonly columns: ReadonlyMap<string, Sql>;
}

/** Names and types of the columns of a file, in their order. */
type FileColumns = ReadonlyMap<string, string>;

const MARKET_ID = 'market_id';
const MAX_READERS = 64;
/** Files whose columns are remembered: names hold their checksum, so what is remembered stays true. */
const MAX_FILES = 20_000;

/** Columns of a series; the digits of decimals depend on the files. */
function columnsOfTable(table: SeriesTable): Map<string, Sql> {
  const columns = seriesOf(table).columns.map((column): [string, Sql] => [
    column.name,
    { sql: identifier(column.name), type: typeOfColumn(column) },
  ]);
  return new Map([[MARKET_ID, { sql: identifier(MARKET_ID), type: 'int4' }], ...columns]);
}

/** Finds files, checks them against their manifests, and makes relations of them. */
export class ColdTables {
  readonly #cold: ColdStorage;
  readonly #readers = new BoundedMap<string, ColdReader>(MAX_READERS);
  readonly #files = new BoundedMap<string, FileColumns>(MAX_FILES);

  constructor(cold: ColdStorage) {
    this.#cold = cold;
  }

  /**
   * Files of a partition that may hold rows.
   *
   * @param held keeps them here
   * @throws ColdError for a file that is missing, or not what was written
   */
  async filesOf(
    held: ColdHold,
    partition: ServedPartition,
    { marketIds, fromMs, toMs }: Needed = ALL,
  ) {
    const { span } = partition;
    const asked = {
      fromMs: Math.max(span.fromMs, fromMs),
      toMs: Math.min(span.toMs, toMs),
    };
    const files = await this.#read(partition, (reader, segment) =>
      reader.filesOf(held, segment, asked, marketIds),
    );
    return files.filter(({ rows }) => rows > 0);
  }

  /** Files of a partition by its manifest. @throws ColdError */
  async entriesOf(partition: ServedPartition): Promise<readonly ColdFile[]> {
    return await this.#read(partition, (reader, segment) =>
      reader.entriesOf(segment, partition.span),
    );
  }

  async #read<T>(
    partition: ServedPartition,
    read: (reader: ColdReader, segment: PlacedSegment) => Promise<T>,
  ): Promise<T> {
    const { uri, manifestSha256, span } = partition;
    const key = `${manifestSha256}\0${uri}`;
    // A manifest that was read once is not read again; a failure is not remembered.
    const reader = this.#readers.get(key) ?? new ColdReader(this.#cold, undefined);
    if (manifestSha256 !== null) this.#readers.set(key, reader);
    try {
      const state = 'archived' as const;
      return await read(reader, { span, state: 'cold', partition: { ...partition, state } });
    } catch (error) {
      this.#readers.delete(key);
      throw error;
    }
  }

  /** Keeps files here for a reader. */
  hold(): ColdHold {
    return this.#cold.hold();
  }

  /** Makes one relation of files of a series. */
  async relationOf(
    duck: DuckSession,
    table: SeriesTable,
    files: readonly PlacedFile[],
  ): Promise<Relation> {
    await this.#readColumns(duck, files);
    const groups = new Map<string, { marketId: number; paths: string[]; types: FileColumns }>();
    for (const { absolutePath: path, marketId } of files) {
      const types = this.#files.get(path) ?? new Map<string, string>();
      const key = JSON.stringify([marketId, ...types]);
      const group = groups.get(key) ?? { marketId, paths: [], types };
      group.paths.push(path);
      groups.set(key, group);
    }
    const columns = columnsOfTable(table);
    const targets = new Map<string, string>();
    for (const { name, type } of seriesOf(table).columns) {
      if (type.form !== 'decimal' && type.form !== 'decimals') continue;
      const types = [...groups.values()].map((group) => group.types.get(name) ?? '');
      columns.set(name, decimalColumn(name, types, type.form === 'decimals', targets));
    }
    const selects = [...groups.values()].map((group) => groupSql(table, group, targets));
    if (selects.length === 0) selects.push(emptySql(table, targets));
    return { sql: `(${selects.join(' UNION ALL ')})`, columns };
  }

  async #readColumns(duck: DuckSession, files: readonly PlacedFile[]): Promise<void> {
    const paths = files.map(({ absolutePath }) => absolutePath);
    const unknown = paths.filter((path) => !this.#files.has(path));
    if (unknown.length === 0) return;
    const rows = await duck.rows(
      'reading the columns of cold files',
      `SELECT file_name, name, type, converted_type, precision, scale
       FROM parquet_schema([${literals(unknown)}])`,
    );
    const found = new Map<string, Map<string, string>>(unknown.map((path) => [path, new Map()]));
    let column = '';
    for (const [file, name, type, converted, precision, scale] of rows) {
      const isInner = name === 'list' || name === 'element';
      if (!isInner) column = String(name);
      const decimal = converted === 'DECIMAL' ? `DECIMAL(${precision},${scale})` : undefined;
      const sqlType = decimal ?? (type === 'BYTE_ARRAY' ? 'VARCHAR' : String(type));
      found.get(String(file))?.set(column, `${sqlType}${isInner ? '[]' : ''}`);
    }
    for (const [path, types] of found) this.#files.set(path, types);
  }
}

/** A decimal column over files of different types. Where one of them keeps text, all become text. */
function decimalColumn(
  name: string,
  types: readonly string[],
  isList: boolean,
  targets: Map<string, string>,
): Sql {
  const form = commonForm(name, types);
  const column = identifier(name);
  const isText = types.some((one) => one.startsWith('VARCHAR'));
  const target = `${isText ? 'VARCHAR' : decimalSql(form)}${isList ? '[]' : ''}`;
  targets.set(name, target);
  if (isList) return { sql: column, type: 'numeric[]', ...(isText ? {} : { form }) };
  if (!isText) return { sql: column, type: 'numeric', form };
  return { sql: castSql(name, column, 'VARCHAR', form), type: 'numeric', form, raw: column };
}

function groupSql(
  table: SeriesTable,
  { marketId, paths, types }: { marketId: number; paths: string[]; types: FileColumns },
  targets: ReadonlyMap<string, string>,
): string {
  const selected = seriesOf(table).columns.map(({ name }) => {
    const [column, target] = [identifier(name), targets.get(name)];
    if (target === undefined || target === types.get(name)) return column;
    return `CAST(${column} AS ${target}) AS ${column}`;
  });
  return `SELECT CAST(${Math.trunc(marketId)} AS BIGINT) AS ${MARKET_ID}, ${selected.join(', ')}
    FROM read_parquet([${literals(paths)}], hive_partitioning = false)`;
}

function emptySql(table: SeriesTable, targets: ReadonlyMap<string, string>): string {
  const duck = { timestamp: 'TIMESTAMPTZ', integer: 'BIGINT', text: 'VARCHAR' } as const;
  const selected = seriesOf(table).columns.map(({ name, type }) => {
    const { form } = type;
    const sqlType = form === 'decimal' || form === 'decimals' ? targets.get(name) : duck[form];
    return `CAST(NULL AS ${sqlType}) AS ${identifier(name)}`;
  });
  return `SELECT CAST(NULL AS BIGINT) AS ${MARKET_ID}, ${selected.join(', ')} WHERE false`;
}

/** @throws EndpointError 42P01 */
export function noTable(name: string): EndpointError {
  const text = `no archived partition ${literal(name)}: it was restored, or belongs to another database`;
  const hint = 'Run the statement again; if it fails again, run tapekeep doctor.';
  return new EndpointError(SQLSTATE.noTable, text, { hint });
}
