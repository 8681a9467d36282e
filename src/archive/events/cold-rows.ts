import { eventFields, type MergedKind, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import { type Column, seriesOf } from '../../model/series.js';
import { identifier, literal } from '../parquet/session.js';
import { isoOf } from './moments.js';

/** What is read of a column: moments and ids as numbers, decimals as text. */
function selectedSql({ name, type }: Column): string {
  const column = identifier(name);
  if (type.form === 'timestamp') return `epoch_us(${column})::DOUBLE`;
  if (type.form === 'integer') return `${column}::DOUBLE`;
  if (type.form === 'decimals') return `array_to_string(${column}::VARCHAR[], ' ')`;
  return type.form === 'text' ? column : `${column}::VARCHAR`;
}

/** The files of one market, in the order of their days. */
export interface MarketFiles {
  /** The market's place in the slice. */
  readonly place: number;
  readonly paths: readonly string[];
}

/** What is read of files. */
export interface ColdQuery {
  readonly kind: MergedKind;
  readonly variantS: number;
  /** Of the rows' own time, UNIX microseconds, half-open. */
  readonly fromUs: number;
  readonly toUs: number;
}

function branchSql({ kind, variantS, fromUs, toUs }: ColdQuery, files: MarketFiles): string {
  const table = tableOfKind(kind);
  const { variant } = seriesOf(table);
  const time = timeColumnOf(table);
  const selected = eventFields(table, selectedSql);
  // Files may differ in the digits of a decimal; the widest holds all of them.
  const paths = files.paths.map(literal).join(', ');
  const conditions = [
    `${time} >= TIMESTAMPTZ ${literal(isoOf(fromUs))}`,
    `${time} < TIMESTAMPTZ ${literal(isoOf(toUs))}`,
    ...(variant === null ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
  ];
  const names = selected.map((one, index) => `${one} AS c${index + 1}`);
  return `SELECT ${files.place}::DOUBLE AS c0, ${names.join(', ')}
    FROM read_parquet([${paths}], hive_partitioning = false, union_by_name = ${files.paths.length > 1})
    WHERE ${conditions.join(' AND ')}`;
}

/** Rows of one market in the order of its files, which is that of its key: nothing is sorted. */
export function inFileOrderSql(query: ColdQuery, files: MarketFiles): string {
  return branchSql(query, files);
}

/**
 * Rows of several markets, sorted by their time or by their receipt; what does not fit into memory
 * goes to the scratch folder.
 */
export function sortedSql(
  query: ColdQuery,
  markets: readonly MarketFiles[],
  isByReceipt: boolean,
): string {
  const selected = eventFields(tableOfKind(query.kind), selectedSql);
  const all = markets.map((files) => branchSql(query, files)).join(' UNION ALL ');
  return `${all} ORDER BY ${isByReceipt ? `c${selected.length}, c0, c1, c2` : 'c1, c0, c2'}`;
}
