import { eventColumns, type MergedKind, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import { type Column, type SeriesTable, seriesOf } from '../../model/series.js';
import { identifier, literal, type RowVectors } from '../parquet/session.js';
import { shortest } from '../parquet/texts.js';
import { levels, product } from './decimals.js';
import type { ArchiveEvent } from './event.js';
import { SECOND_END_US } from './hot-lines.js';
import { isoOf } from './moments.js';

/** What is read of a column: moments and ids as numbers, decimals as text. */
function selectedSql({ name, type }: Column): string {
  const column = identifier(name);
  if (type.form === 'timestamp') return `epoch_us(${column})::DOUBLE`;
  if (type.form === 'integer') return `${column}::DOUBLE`;
  if (type.form === 'decimals') return `array_to_string(${column}::VARCHAR[], ' ')`;
  return type.form === 'text' ? column : `${column}::VARCHAR`;
}

/** Lists become one text: each that is longer than a few letters is a call out of the engine. */
function selectedColumns(table: SeriesTable): string[] {
  const columns = eventColumns(table);
  const lists = columns.filter(({ type }) => type.form === 'decimals');
  const joined = `concat_ws('|', ${lists.map(selectedSql).join(', ')})`;
  return columns.flatMap((one) => {
    if (one.type.form !== 'decimals') return [selectedSql(one)];
    return one === lists[0] ? [joined] : [];
  });
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
  const selected = selectedColumns(table);
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
  const selected = selectedColumns(tableOfKind(query.kind));
  const all = markets.map((files) => branchSql(query, files)).join(' UNION ALL ');
  return `${all} ORDER BY ${isByReceipt ? `c${selected.length}, c0, c1, c2` : 'c1, c0, c2'}`;
}

/** The columns of some rows; a value is made when it is asked for. */
type Columns = RowVectors['columns'];

/** Makes the event of a row of columns; the first is the place of its market, the second its time. */
export type ColumnReader = (columns: Columns, row: number) => ArchiveEvent;

const us = (c: Columns, at: number, row: number) => c[at]?.getItem(row) as number;
const raw = (c: Columns, at: number, row: number) => c[at]?.getItem(row) as string;
const nullable = (c: Columns, at: number, row: number) => c[at]?.getItem(row) ?? null;
const of = (c: Columns, at: number, row: number) => shortest(c[at]?.getItem(row) as string);

/** The time of a row, UNIX microseconds. */
export const timeOfRow = (columns: Columns, row: number): number => us(columns, 1, row);

/** What columns are read with. */
export function columnReader(
  kind: MergedKind,
  markets: readonly string[],
  variantS: number,
): ColumnReader {
  const marketOf = (c: Columns, row: number) => markets[us(c, 0, row)] ?? '';
  switch (kind) {
    case 'trades':
      return (c, row) => {
        const executed = nullable(c, 3, row) as number | null;
        const price = of(c, 5, row);
        const amount = of(c, 6, row);
        const total = nullable(c, 7, row) as string | null;
        return {
          kind: 'trade',
          market: marketOf(c, row),
          atUs: executed ?? us(c, 1, row) + SECOND_END_US,
          receivedAtUs: us(c, 8, row),
          id: us(c, 2, row),
          price,
          amount,
          total: total === null ? product(price, amount) : shortest(total),
          side: raw(c, 4, row) === 'buy' ? 'buy' : 'sell',
          isExactTime: executed !== null,
        };
      };
    case 'klines':
    case 'kline_revisions':
      return (c, row) => ({
        kind: 'kline',
        market: marketOf(c, row),
        atUs: us(c, 1, row) + variantS * 1_000_000,
        receivedAtUs: us(c, 9, row),
        openAtUs: us(c, 1, row),
        intervalS: variantS,
        open: of(c, 3, row),
        high: of(c, 4, row),
        low: of(c, 5, row),
        close: of(c, 6, row),
        volume: of(c, 7, row),
        amount: of(c, 8, row),
        revision: us(c, 2, row),
      });
    case 'tickers':
      return (c, row) => ({
        kind: 'ticker',
        market: marketOf(c, row),
        atUs: us(c, 1, row),
        receivedAtUs: us(c, 12, row),
        tickerAtUs: us(c, 2, row),
        bid: of(c, 3, row),
        ask: of(c, 4, row),
        open: of(c, 5, row),
        high: of(c, 6, row),
        low: of(c, 7, row),
        last: of(c, 8, row),
        volume: of(c, 9, row),
        deal: of(c, 10, row),
        change: of(c, 11, row),
      });
    case 'depth':
      return (c, row) => {
        const [bidPrices = '', bidAmounts = '', askPrices = '', askAmounts = ''] = raw(
          c,
          2,
          row,
        ).split('|');
        return {
          kind: 'depth',
          market: marketOf(c, row),
          atUs: us(c, 1, row),
          receivedAtUs: us(c, 3, row),
          bids: levels(bidPrices, bidAmounts),
          asks: levels(askPrices, askAmounts),
        };
      };
    case 'states':
      return (c, row) => {
        const change = nullable(c, 11, row) as string | null;
        return {
          kind: 'state',
          market: marketOf(c, row),
          atUs: us(c, 1, row),
          receivedAtUs: us(c, 13, row),
          periodS: variantS,
          origin: raw(c, 3, row) === 'query' ? 'query' : 'update',
          last: of(c, 4, row),
          open: of(c, 5, row),
          close: of(c, 6, row),
          high: of(c, 7, row),
          low: of(c, 8, row),
          deal: of(c, 9, row),
          volume: of(c, 10, row),
          change: change === null ? null : shortest(change),
          seq: us(c, 2, row),
          sessionId: us(c, 12, row),
        };
      };
  }
}
