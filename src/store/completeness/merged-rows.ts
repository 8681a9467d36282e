import { timestampTextUs } from '../../kernel/timestamp.js';
import { orderOf, rowFields, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';
import type { MergedSlice } from '../api-series.js';

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
