import { columnsOf, leanSql, type SeriesColumn, timeColumnOf } from '../../model/kinds.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';

/**
 * A column in the one form that its value has, whatever digits it was sent with: without zeros at the
 * end of decimals, which no file keeps.
 */
function canonical(table: SeriesTable, { name, type }: SeriesColumn): string {
  if (type === 'decimal') return leanSql(table, name, `trim_scale(${name})`);
  if (type === 'decimals') {
    return `'[' || array_to_string(ARRAY(SELECT trim_scale(v) FROM unnest(${name}) AS v), ',') || ']'`;
  }
  return name;
}

/**
 * The rows of one market in a partition: day by day, within a day by the primary key, a line each as
 * in the forms of the series, decimals shortened to their value. By these lines rows are summed up,
 * and of these lines files are made.
 */
export function marketRowsSql(table: SeriesTable, partition: string, marketId: number): string {
  const { key } = seriesOf(table);
  const columns = columnsOf(table, true);
  const timeColumn = timeColumnOf(table);
  const selected = columns.map((one) => canonical(table, one)).join(', ');
  const isInOrder = key[0] === timeColumn;
  const order = [...(isInOrder ? [] : [`date_trunc('day', ${timeColumn})`]), ...key].join(', ');
  return `COPY (SELECT ${selected} FROM ${partition} WHERE market_id = ${Math.trunc(marketId)}
    ORDER BY ${order}) TO STDOUT (FORMAT csv)`;
}
