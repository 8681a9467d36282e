import { DAY_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import {
  type Batch,
  type CommitResult,
  NO_OUTCOMES,
  type RowOutcomes,
  rowsIn,
} from '../../model/batch.js';
import { isInt4, isTimestampMs } from '../../model/columns.js';
import {
  type Column,
  type RowOf,
  type Series,
  type SeriesRow,
  seriesOf,
  WRITTEN_SERIES,
} from '../../model/series.js';

/** A row that goes to the database, and the batch that it came with. */
export interface PendingRow<Row> {
  readonly row: Row;
  readonly batch: number;
}

/** What became of a row. */
export type Outcome = keyof RowOutcomes;

/** The rows of all series but trades, by pass over their table. */
export type Passes = ReadonlyMap<Series, readonly (readonly PendingRow<SeriesRow>[])[]>;

/** A row with what became of it. */
export interface SettledRow extends PendingRow<SeriesRow> {
  readonly table: Series;
  readonly outcome: Outcome;
}

/** The trades of one market: those at `start` up to before `end`. */
export interface TradeRun {
  readonly marketId: number;
  readonly start: number;
  readonly end: number;
}

const OUTCOMES = Object.keys(NO_OUTCOMES) as Outcome[];

/** Counts by outcome that can still change. */
export type RowCounts = Record<Series, Record<Outcome, number>>;

export function newRowCounts(): RowCounts {
  const counts = {} as RowCounts;
  for (const series of WRITTEN_SERIES) counts[series] = { ...NO_OUTCOMES };
  return counts;
}

/** Outcomes of all batches of a group, by table. */
export function sumOutcomes(results: readonly CommitResult[]): RowCounts {
  const sums = newRowCounts();
  for (const { outcomes } of results) {
    for (const series of WRITTEN_SERIES) {
      for (const outcome of OUTCOMES) sums[series][outcome] += outcomes[series][outcome];
    }
  }
  return sums;
}

/** How the rows of one table cross into SQL. Column order is that of COPY. */
export interface SeriesShape<Row> {
  readonly table: Series;
  readonly columns: readonly string[];
  /** The primary key. */
  readonly key: readonly string[];
  readonly timeColumn: string;
  /** What two rows of one key must have in common to be the same row. Compared by value. */
  readonly content: readonly string[];
  fields(row: Row): (string | null)[];
  /** Whether two rows have the same content. */
  isSame(a: Row, b: Row): boolean;
  /** Identity within a batch: rows of one market with the same identity compete. */
  identity(row: Row): string | number;
  /** Order of the primary key: writers that sort alike do not deadlock. */
  compare(a: Row, b: Row): number;
  timeMs(row: Row): number;
  /** The interval or period of a row, seconds; 0 where there is one only. */
  variantOf(row: Row): number;
  /** What keeps a row from being stored; undefined when nothing does. */
  faultOf(row: Row, window: SaneWindow): string | undefined;
}

/** Times that may be stored, exchange time, both ends inclusive. */
export type SaneWindow = Span;

/** Why an instant cannot be stored as that of a row. */
export function timeFault(ms: number, { fromMs, toMs }: SaneWindow): string | undefined {
  if (!isTimestampMs(ms)) return 'time not storable';
  return ms < fromMs || ms > toMs ? 'time outside the sane window' : undefined;
}

/** A column with its values in the rows of this program. */
interface RowColumn extends Column {
  readonly field: string;
}

const MARKET = 'market_id';
const valueIn = (row: SeriesRow, { field }: RowColumn) =>
  (row as unknown as Readonly<Record<string, unknown>>)[field];

function textIn(row: SeriesRow, column: RowColumn): string | null {
  const value = valueIn(row, column);
  return value === null ? null : column.type.encode(value);
}

/** Any order will do as long as all writers have the same. */
function compareValues(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}

/** Columns of eight bytes, then of four, then the others, each in their order: no padding between. */
function inWidths(columns: readonly RowColumn[]): string[] {
  const ofWidth = (width: number) =>
    columns.filter(({ type }) => type.width === width).map((one) => one.name);
  return [...ofWidth(8), MARKET, ...ofWidth(4), ...ofWidth(0)];
}

function makeShape(table: Series): SeriesShape<SeriesRow> {
  const entry = seriesOf(table);
  const written = entry.columns.filter((one): one is RowColumn => one.field !== null);
  const named = new Map(written.map((one) => [one.name, one]));
  const columnOf = (name: string): RowColumn => {
    const found = named.get(name);
    if (found === undefined) throw new RangeError(`${table} has no column ${name}`);
    return found;
  };
  const columns = inWidths(written);
  const inOrder = columns.map((one) => (one === MARKET ? null : columnOf(one)));
  const key = entry.key.map(columnOf);
  const time = columnOf(entry.columns[0]?.name ?? '');
  const content = written.filter((one) => one.isContent);
  const checked = written.filter((one) => one !== time);
  const variant = entry.variant === null ? null : columnOf(entry.variant);
  const timeMs = (row: SeriesRow) => time.type.toMs?.(valueIn(row, time)) ?? Number.NaN;
  return {
    table,
    columns,
    key: [MARKET, ...entry.key],
    timeColumn: time.name,
    content: content.map((one) => one.name),
    fields: (row) =>
      inOrder.map((column) => (column === null ? `${row.marketId}` : textIn(row, column))),
    isSame: (a, b) =>
      content.every((column) => {
        const [of, other] = [textIn(a, column), textIn(b, column)];
        return of === other || (of !== null && other !== null && column.type.isSame(of, other));
      }),
    identity: (row) =>
      key.length === 1 && key[0] !== undefined
        ? (valueIn(row, key[0]) as string | number)
        : key.map((column) => String(valueIn(row, column))).join(':'),
    compare: (a, b) => {
      let order = a.marketId - b.marketId;
      for (const column of key) {
        if (order !== 0) return order;
        order = compareValues(valueIn(a, column), valueIn(b, column));
      }
      return order;
    },
    timeMs,
    variantOf: (row) => (variant === null ? 0 : Number(valueIn(row, variant))),
    faultOf: (row, window) => {
      if (!isInt4(row.marketId) || row.marketId === 0) return 'market id not storable';
      const fault = time.type.faultOf(valueIn(row, time));
      if (fault !== undefined) return `${isTimestampMs(timeMs(row)) ? time.name : 'time'} ${fault}`;
      const outside = timeFault(timeMs(row), window);
      if (outside !== undefined) return outside;
      for (const column of checked) {
        const why = column.type.faultOf(valueIn(row, column));
        if (why !== undefined) return `${column.name} ${why}`;
      }
      return entry.faultOf?.(row);
    },
  };
}

/** The shapes of all series that batches bring rows of. */
export const SHAPES: ReadonlyMap<Series, SeriesShape<SeriesRow>> = new Map(
  WRITTEN_SERIES.map((table) => [table, makeShape(table)]),
);

/** That of trades, for rows of their own type. */
export const TRADE = SHAPES.get('trade') as unknown as SeriesShape<RowOf<'trade'>>;

/** Partitions that are made within the turn of a group: a page over midnight needs no more. */
export const SCATTERED_MIN = 2;

export type SeriesTimes = readonly [series: Series, times: readonly number[]];

/**
 * When a batch has rows, of each series whose rows lie days apart, as of a market that trades once a day: a page of
 * them may need a thousand partitions. Rows outside the window are refused, and need none.
 */
export function scatteredTimes(batch: Batch, window: SaneWindow): SeriesTimes[] {
  return [...SHAPES].flatMap(([table, shape]): SeriesTimes[] => {
    const rows = rowsIn(batch, table);
    const [first, last] = [rows[0], rows.at(-1)].map((row) => (row ? shape.timeMs(row) : 0));
    if (Math.abs((last ?? 0) - (first ?? 0)) <= SCATTERED_MIN * DAY_MS) return [];
    const times = rows.map((row) => shape.timeMs(row));
    return [[table, times.filter((ms) => timeFault(ms, window) === undefined)]];
  });
}
