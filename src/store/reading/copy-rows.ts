import { timestampTextMs } from '../../kernel/timestamp.js';
import {
  columnsOf,
  leanSql,
  orderOf,
  type SeriesColumn,
  tableOfKind,
  timeColumnOf,
} from '../../model/kinds.js';
import { seriesOf } from '../../model/series.js';
import type { RowForm, SeriesSlice } from '../api-series.js';

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
  const moment = timeColumnOf(table);
  const conditions = [
    `market_id = ${Math.trunc(marketId)}`,
    ...(variant === null ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
    `${moment} >= timestamptz '${timestampTextMs(span.fromMs)}'`,
    `${moment} < timestamptz '${timestampTextMs(span.toMs)}'`,
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
