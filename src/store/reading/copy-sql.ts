import type { Span } from '../../kernel/span.js';
import { timestampTextMs, timestampTextUs } from '../../kernel/timestamp.js';
import {
  columnsOf,
  leanSql,
  type MergedKind,
  orderOf,
  rowFields,
  type SeriesColumn,
  type SeriesKind,
  tableOfKind,
  timeColumnOf,
} from '../../model/kinds.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';

/** Rows of one market: those of which the instant lies in the span. */
export interface SeriesSlice {
  readonly kind: MergedKind;
  readonly marketId: number;
  /** Interval of klines or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  readonly span: Span;
}

/**
 * How rows are written, one a line that ends with `\n`; none holds another line break.
 *
 * - `csv`: the columns of {@link SeriesColumn} in their order with commas between, nothing for null.
 *   Lists of decimals are JSON arrays, in quotes where they hold commas. No header.
 * - `lean`: the same, but the total of a trade only where it is not price × amount.
 * - `json`: an object, with decimals as text so that no reader makes floats of them.
 */
export type RowForm = 'csv' | 'lean' | 'json';

function csvExpression({ name, type }: SeriesColumn): string {
  return type === 'decimals' ? `'[' || array_to_string(${name}, ',') || ']'` : name;
}

function jsonExpression({ name, type }: SeriesColumn): string {
  if (type === 'decimals') return `${name}::text[] AS ${name}`;
  return type === 'decimal' ? `${name}::text AS ${name}` : name;
}

/**
 * The statement that reads a slice. COPY takes no parameters; what is written into it here are names
 * of this program and numbers.
 */
export function copyRowsSql(
  { kind, marketId, variantS, span }: SeriesSlice,
  form: RowForm,
): string {
  const table = tableOfKind(kind);
  const { variant } = seriesOf(table);
  const columns = columnsOf(table, false);
  const timeColumn = timeColumnOf(table);
  const conditions = [
    `market_id = ${Math.trunc(marketId)}`,
    ...(variant === null ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
    `${timeColumn} >= timestamptz '${timestampTextMs(span.fromMs)}'`,
    `${timeColumn} < timestamptz '${timestampTextMs(span.toMs)}'`,
  ];
  const rest = `FROM ${table} WHERE ${conditions.join(' AND ')} ORDER BY ${orderOf(table).join(', ')}`;
  if (form === 'json') {
    const query = `SELECT ${columns.map(jsonExpression).join(', ')} ${rest}`;
    // Marks that JSON text never holds, so that every line is the object and nothing else.
    const options = `FORMAT csv, DELIMITER E'\\x02', QUOTE E'\\x01'`;
    return `COPY (SELECT row_to_json(r) FROM (${query}) r) TO STDOUT (${options})`;
  }
  const selected = columns.map((one) =>
    form === 'lean' ? leanSql(table, one.name, csvExpression(one)) : csvExpression(one),
  );
  return `COPY (SELECT ${selected.join(', ')} ${rest}) TO STDOUT (FORMAT csv)`;
}

/** Rows of several markets: those of which the first column of their key lies in the span. */
export interface MergedSlice {
  readonly kind: MergedKind;
  /** At least one; rows hold the place in this list. */
  readonly marketIds: readonly number[];
  /** Interval of klines or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** UNIX microseconds, half-open. */
  readonly fromUs: number;
  readonly toUs: number;
  /** In the order in which they became known, instead of the order of their time. */
  readonly isByReceipt: boolean;
  /** Of one market, in the order of time: only so many, the newest ones, newest first. */
  readonly newest?: number;
}

/** What becomes the fields of a line, after the place of the market. */
function fieldsOf(table: SeriesTable): string[] {
  return rowFields(table, ({ name, type }) =>
    type.form === 'decimals' ? `array_to_string(${name}, ' ')` : name,
  );
}

/** What holds while it is read: sorting is of use only where there is no index to go by. */
export function mergedSettings({ isByReceipt }: MergedSlice): string {
  return isByReceipt
    ? `SET LOCAL enable_sort = on; SET LOCAL work_mem = '64MB'`
    : 'SET LOCAL enable_sort = off; SET LOCAL max_parallel_workers_per_gather = 0';
}

/**
 * The statement that reads rows of several markets in one order. In the order of time each market is
 * read by the order of its index and the database merges them, so that nothing is sorted and the
 * first row costs no more than the last; a flat list of conditions would be sorted whole. In the
 * order of receipt there is no index: the database sorts, on its disk what does not fit its memory.
 */
export function copyMergedSql(slice: MergedSlice): string {
  const { kind, marketIds, variantS, fromUs, toUs, isByReceipt, newest } = slice;
  const table = tableOfKind(kind);
  const { variant, received } = seriesOf(table);
  const [order, fields] = [orderOf(table), fieldsOf(table)];
  const time = timeColumnOf(table);
  const ids = marketIds.map((id) => Math.trunc(id));
  const conditions = [
    ...(variant === null ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
    `${time} >= timestamptz '${timestampTextUs(fromUs)}'`,
    `${time} < timestamptz '${timestampTextUs(toUs)}'`,
  ].join(' AND ');
  const selected = fields.join(', ');
  if (isByReceipt) {
    const places = `'{${ids.join(',')}}'::int[]`;
    return `COPY (
      SELECT array_position(${places}, market_id) - 1 AS place, ${selected} FROM ${table}
      WHERE market_id = ANY (${places}) AND ${conditions}
      ORDER BY ${received}, place, ${order.join(', ')}) TO STDOUT`;
  }
  const names = fields.map((field, index) => `${field} AS f${index}`).join(', ');
  const sorted =
    newest === undefined
      ? order.join(', ')
      : `${order.map((name) => `${name} DESC`).join(', ')} LIMIT ${Math.trunc(newest)}`;
  const branches = ids.map(
    (id, place) => `(SELECT ${place} AS place, ${names} FROM ${table}
      WHERE market_id = ${id} AND ${conditions} ORDER BY ${sorted})`,
  );
  // The first field is the time. One branch alone is in order, and may not be given another.
  const merged = branches.length === 1 ? '' : ' ORDER BY f0';
  return `COPY (${branches.join(' UNION ALL ')}${merged}) TO STDOUT`;
}

/** Rows of some markets, or (null) of all, with all intervals or periods, in no order. */
export interface TableSlice {
  readonly kind: SeriesKind;
  readonly marketIds: readonly number[] | null;
  readonly span: Span;
}

/** Tables of the schema `analytics` that can be had whole. */
export type LedgerTable = 'markets' | 'coverage' | 'gaps';

/**
 * Statements that write rows for a reader who puts them into tables of its own and needs no order.
 * COPY takes no parameters; what is written into them here are names of this program and numbers.
 */

/** Rows of a series with the name of their market before them. */
export function copyTableSql({ kind, marketIds, span }: TableSlice): string {
  const table = tableOfKind(kind);
  const columns = columnsOf(table, false);
  const timeColumn = timeColumnOf(table);
  const selected = columns.map(({ name, type }) =>
    type === 'decimals' ? `'[' || array_to_string(t.${name}, ',') || ']'` : `t.${name}`,
  );
  const ids = marketIds?.map((id) => Math.trunc(id)).join(', ');
  const conditions = [
    `t.${timeColumn} >= timestamptz '${timestampTextMs(span.fromMs)}'`,
    `t.${timeColumn} < timestamptz '${timestampTextMs(span.toMs)}'`,
    ...(ids === undefined ? [] : [`t.market_id IN (${ids === '' ? 'NULL' : ids})`]),
  ];
  return `COPY (SELECT m.name, ${selected.join(', ')} FROM ${table} t
    JOIN market m ON m.market_id = t.market_id WHERE ${conditions.join(' AND ')}) TO STDOUT (FORMAT csv)`;
}

const LEDGER: Readonly<Record<LedgerTable, string>> = {
  markets: `market, stock, money, stock_prec, money_prec, fee_prec, min_amount, first_seen_at,
    last_seen_at, delisted_at, market_id FROM analytics.markets`,
  coverage: `market, kind, variant, starts_at, ends_at, rows, first_id, last_id, updated_at
    FROM analytics.coverage`,
  gaps: `market, kind, variant, starts_at, ends_at, state, reason, is_lag, attempts, first_seen_at,
    next_attempt_at, note FROM analytics.gaps`,
};

/** A table of the ledger as analysts know it. */
export function copyLedgerSql(table: LedgerTable): string {
  return `COPY (SELECT ${LEDGER[table]}) TO STDOUT (FORMAT csv)`;
}
