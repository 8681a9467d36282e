import { isoMs } from '../kernel/timestamp.js';
import { FORM_NAMES } from '../model/columns.js';
import type { SeriesColumn, SeriesKind } from '../model/kinds.js';
import { SERIES_KINDS, seriesColumns, tableOfKind, timeColumnOf } from '../model/kinds.js';
import { viewOf } from '../model/series.js';
import type { Store } from '../store/index.js';
import { usualForms } from './cold/decimals.js';
import { decimalSql, longestSql } from './parquet/columns.js';
import { type DuckSession, identifier, literal, openDuck } from './parquet/session.js';
import { EVER } from './query/selection.js';
import { DEPTH_LEVELS, questionSql } from './query/tables.js';
import type { ArchiveReader } from './reading.js';
import { relationSql } from './relation.js';

/** Name of the attached database in the script. */
const DATABASE = 'tapekeep';

export interface ScriptOptions {
  readonly store: Store;
  readonly reader: ArchiveReader;
  /** Address of the database for readers, with its password. */
  readonly url: string;
  /** Place where the reader of the script finds the cold files. */
  readonly filesAt: string;
  readonly signal: AbortSignal;
}

/**
 * A script for DuckDB 1.5 or newer: the names of `tapekeep query` as views over the cold files and, for the time that is in
 * the database, over Postgres. It is of now: partitions that are archived later are read as they were, from Postgres.
 *
 * @throws ColdError, StoreError, ParquetError, the signal's reason
 */
export async function duckdbScript(options: ScriptOptions): Promise<string> {
  const { store, url, signal } = options;
  const archive = await store.archive();
  const duck = await openDuck('views', {}, signal);
  try {
    const lines = [
      `-- The archive ${JSON.stringify(archive?.name ?? '')} for DuckDB 1.5 or newer. Contains the password of a login that reads.`,
      "SET TimeZone = 'UTC';",
      'INSTALL postgres;',
      'LOAD postgres;',
      `ATTACH IF NOT EXISTS ${literal(url)} AS ${DATABASE} (TYPE postgres, READ_ONLY);`,
      'CREATE SCHEMA IF NOT EXISTS analytics;',
    ];
    const view = (name: string, sql: string) => {
      lines.push(`CREATE OR REPLACE VIEW main.${identifier(name)} AS ${sql};`);
      lines.push(
        `CREATE OR REPLACE VIEW analytics.${identifier(name)} AS FROM main.${identifier(name)};`,
      );
    };
    let types: ReadonlyMap<string, string> = new Map();
    for (const kind of SERIES_KINDS) {
      const parts = await partsOf(options, kind);
      const from = parts.sql === null ? null : inPostgres(parts.sql);
      const sql = await viewSql(duck.session, kind, parts, from);
      if (kind === 'trades') {
        const empty = await viewSql(duck.session, kind, parts, emptySql(kind));
        types = await duck.session.types('looking at trades', `(${empty})`);
      }
      view(viewOf(tableOfKind(kind)), atFiles(sql, parts.shown));
    }
    view('depth_levels', DEPTH_LEVELS);
    for (const [name, columns] of Object.entries(LEDGER)) {
      view(name, inPostgres(`SELECT ${columns} FROM analytics.${name}`));
    }
    for (const sql of questionSql(types)) lines.push(`${sql};`);
    return `${lines.join('\n')}\n`;
  } finally {
    await duck.close();
  }
}

/** SQL with other paths. */
const atFiles = (sql: string, shown: ReadonlyMap<string, string>) =>
  sql.replaceAll(/'(?:[^']|'')*'/g, (text) => shown.get(text) ?? text);

/** Tables of the ledger; a numeric without digits would arrive as a float. */
const LEDGER = {
  markets: `market, base, quote, base_prec, quote_prec, fee_prec, min_amount::numeric(38,18) AS min_amount,
    first_seen_at, last_seen_at, delisted_at, market_id`,
  coverage: 'market, kind, variant, starts_at, ends_at, updated_at',
  gaps: 'market, kind, variant, starts_at, ends_at, state, reason, is_lag, attempts, first_seen_at, next_attempt_at, note, is_before_history',
};

const inPostgres = (sql: string) =>
  `SELECT * FROM postgres_query(${literal(DATABASE)}, ${literal(sql.replaceAll(/\s+/g, ' '))})`;

function textIn({ name, type }: SeriesColumn): string {
  if (type === 'decimal') return `s.${name}::text AS ${name}`;
  if (type === 'decimals') return `s.${name}::text[] AS ${name}`;
  return type === 'text' ? `s.${name}::text AS ${name}` : `s.${name}`;
}

/** Parts of a series: its cold files, and what Postgres is asked for the rest; null for none. */
interface Parts {
  readonly cold: readonly string[];
  /** Literals of their paths here, and of their paths for the reader of the script. */
  readonly shown: ReadonlyMap<string, string>;
  readonly sql: string | null;
  /** Types of decimals that come from Postgres as text. */
  readonly types: ReadonlyMap<string, string>;
}

async function partsOf(
  { store, reader, filesAt }: ScriptOptions,
  kind: SeriesKind,
): Promise<Parts> {
  const table = tableOfKind(kind);
  const files = await reader.coldFiles(kind, EVER);
  const cold = files.map(({ absolutePath }) => absolutePath);
  const base = filesAt.replace(/\/+$/, '');
  const shown = new Map(
    files.map(({ absolutePath, path }) => [literal(absolutePath), literal(`${base}/${path}`)]),
  );
  const time = timeColumnOf(table);
  const spans = reader
    .segments(kind, EVER)
    .filter(({ state }) => state === 'hot')
    .map(
      ({ span }) => `s.${time} >= '${isoMs(span.fromMs)}' AND s.${time} < '${isoMs(span.toMs)}'`,
    );
  const columns = seriesColumns(kind).map(textIn).join(', ');
  const sql = `SELECT m.name AS market, ${columns} FROM ${table} s JOIN market m USING (market_id) WHERE ${spans.join(' OR ')}`;
  const types = await measure(store, kind, spans.join(' OR '));
  return { cold, shown, sql: spans.length === 0 ? null : sql, types };
}

/** Types that hold all decimals that are in Postgres now, and those that the precisions of the markets let expect. */
async function measure(
  store: Store,
  kind: SeriesKind,
  where: string,
): Promise<Map<string, string>> {
  const table = tableOfKind(kind);
  const [market] = await store.query<{ base: number | null; quote: number | null }>(
    'SELECT max(base_prec)::int AS base, max(quote_prec)::int AS quote FROM market',
  );
  const forms = [...usualForms(table, market?.base ?? null, market?.quote ?? null)];
  const isList = new Set(
    seriesColumns(kind)
      .filter(({ type }) => type === 'decimals')
      .map(({ name }) => name),
  );
  const of = (name: string, most: string) =>
    isList.has(name)
      ? `max((SELECT max(${most}) FROM unnest(s.${name}) AS v))`
      : `max(${most.replaceAll('v', `s.${name}`)})`;
  const measured = forms.map(([name], at) => {
    return `${of(name, 'scale(trim_scale(v))')} AS s${at}, ${of(name, 'length(trunc(abs(v))::text)')} AS w${at}`;
  });
  const [row = {}] = await store.query<Record<string, number | null>>(
    `SELECT ${measured.join(', ')} FROM ${table} s WHERE ${where === '' ? 'false' : where}`,
  );
  return new Map(
    forms.map(([name, allowed], at) => {
      const [scale, whole] = [row[`s${at}`] ?? 0, row[`w${at}`] ?? 0];
      const fits = allowed.find(
        (form) => form.scale >= scale && form.precision - form.scale >= whole,
      );
      return [name, fits === undefined ? longestSql(scale) : decimalSql(fits)];
    }),
  );
}

/** @param from SQL of the rows of Postgres */
async function viewSql(
  duck: DuckSession,
  kind: SeriesKind,
  { cold, types }: Pick<Parts, 'cold' | 'types'>,
  from: string | null,
) {
  const others = from === null ? [] : [{ from: `(${from})`, types, isText: true as const }];
  return await relationSql(duck, kind, { cold, others }, {});
}

/** No rows, in the types of those of Postgres. */
function emptySql(kind: SeriesKind): string {
  const columns = seriesColumns(kind).map(({ name, type }) => {
    const text = type === 'decimals' ? 'VARCHAR[]' : 'VARCHAR';
    return `NULL::${FORM_NAMES[type].duck ?? text} AS ${identifier(name)}`;
  });
  return `SELECT NULL::VARCHAR AS market, ${columns.join(', ')} WHERE false`;
}
