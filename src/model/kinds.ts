import type { ColumnForm } from './columns.js';
import {
  type Column,
  type RowOf,
  SERIES,
  SERIES_TABLES,
  type SeriesTable,
  seriesOf,
  WRITTEN_SERIES,
} from './series.js';

/** The series as people ask for them: by kind, with the columns that files and tables show. */

/** A series, or the former versions of one. */
export type MergedKind = (typeof SERIES)[SeriesTable]['kind'];
/** A series that can be read whole. */
export type SeriesKind = Exclude<
  (typeof SERIES)[keyof typeof SERIES],
  { readonly batch: null }
>['kind'];

/** The series by the names of their rows. */
export const SERIES_KINDS = WRITTEN_SERIES.map((table): SeriesKind => SERIES[table].kind);

/** A word in the form in which names of series are compared: `Kline` is `candle`, as `candles` is. */
const stemOf = (word: string) =>
  word
    .trim()
    .toLowerCase()
    .replace(/s$/, '')
    .replace(/^kline$/, 'candle');

/** The one of the names that a word means, in the singular or the plural. */
export function nameMeant<Name extends string>(
  word: string,
  names: readonly Name[],
): Name | undefined {
  return names.find((name) => stemOf(name) === stemOf(word));
}

type TableNamed<Kind extends MergedKind> = {
  [Table in SeriesTable]: (typeof SERIES)[Table]['kind'] extends Kind ? Table : never;
}[SeriesTable];
/** A row by the name of its series. */
export type RowOfKind<Kind extends MergedKind> = RowOf<TableNamed<Kind>>;

/** A column as files and reports name it. */
export interface SeriesColumn {
  readonly name: string;
  readonly type: ColumnForm;
  readonly isNullable: boolean;
  readonly about: string;
}

/** Names the market in every row of a file; the first column of each. */
export const MARKET_COLUMN: SeriesColumn = {
  ...{ name: 'market', type: 'text', isNullable: false, about: 'name of the market' },
};

/** The columns of a series. */
export function columnsOf(table: SeriesTable): readonly SeriesColumn[] {
  return COLUMNS.get(table) ?? [];
}

const COLUMNS: ReadonlyMap<SeriesTable, readonly SeriesColumn[]> = new Map(
  SERIES_TABLES.map((table) => [
    table,
    seriesOf(table).columns.map(({ name, type, about }): SeriesColumn => {
      return { name, type: type.form, isNullable: type.isNullable === true, about };
    }),
  ]),
);

/** The columns of the primary key after market and variant: the order of the rows of a market. */
export function orderOf(table: SeriesTable): readonly string[] {
  const { key, variant } = seriesOf(table);
  return key.filter((name) => name !== variant);
}

/**
 * The columns of a row as readers get them: its time, its number where it has one, what it says, and
 * when it became known. The variant is the same of all rows that are asked for together.
 */
export function rowColumns(table: SeriesTable): readonly Column[] {
  const { columns, variant, number, received } = seriesOf(table);
  const [time] = columns;
  const named = (name: string | null) => columns.filter((one) => one.name === name);
  const first = new Set([...(time === undefined ? [] : [time]), ...named(number)]);
  const rest = columns.filter(
    (one) => !first.has(one) && one.name !== variant && one.name !== received,
  );
  return [...first, ...rest, ...named(received)];
}

/**
 * SQL for the columns of a row, one text each. Lists become one together, with `|` between: to take
 * many texts over costs more than to take one apart.
 *
 * @param sqlOf of one column; of a list its values with spaces between
 */
export function rowFields(table: SeriesTable, sqlOf: (column: Column) => string): string[] {
  const columns = rowColumns(table);
  const lists = columns.filter(({ type }) => type.form === 'decimals');
  return columns.flatMap((one) => {
    if (one.type.form !== 'decimals') return [sqlOf(one)];
    return one === lists[0] ? [`concat_ws('|', ${lists.map(sqlOf).join(', ')})`] : [];
  });
}

/** Place of the field of a column, the place of the market before all; that of lists is the same. */
export function rowPlaces(table: SeriesTable): ReadonlyMap<string, number> {
  const places = new Map<string, number>();
  let at = 0;
  let hasList = false;
  for (const { name, type } of rowColumns(table)) {
    const isList = type.form === 'decimals';
    if (!(isList && hasList)) at += 1;
    hasList ||= isList;
    places.set(name, at);
  }
  return places;
}

/** The timestamp of a row: the column by which partitions are cut. */
export function timeColumnOf(table: SeriesTable): string {
  return seriesOf(table).columns[0]?.name ?? '';
}

/** The series whose rows are called so. @throws RangeError for a word that is none */
export function tableOfKind(kind: MergedKind): SeriesTable {
  const table = SERIES_TABLES.find((one) => SERIES[one].kind === kind);
  if (table === undefined) throw new RangeError(`no series is called ${kind}`);
  return table;
}

/** {@link columnsOf} by the name of the rows. */
export function seriesColumns(kind: MergedKind): readonly SeriesColumn[] {
  return columnsOf(tableOfKind(kind));
}

/** {@link orderOf} by the name of the rows. */
export function seriesOrder(kind: MergedKind): readonly string[] {
  return orderOf(tableOfKind(kind));
}

/** How tables that are queried show a series: market and variant first, then the rest. */
export function shownColumns(kind: MergedKind): readonly string[] {
  const { columns, variant, received } = seriesOf(tableOfKind(kind));
  const rest = columns.filter(({ name }) => name !== variant && name !== received);
  const named = (isLast: boolean) =>
    rest.filter((one) => (one.isShownLast === true) === isLast).map(({ name }) => name);
  return [
    'market',
    ...(variant === null ? [] : [variant]),
    ...named(false),
    ...named(true),
    received,
  ];
}
