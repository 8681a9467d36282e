import { intervalText } from '../kernel/durations.js';
import {
  type ColumnType,
  decimal,
  int4,
  int8,
  levels,
  type Measure,
  micros,
  millis,
  nullable,
  oneOf,
  positiveInt4,
  positiveInt8,
  seconds,
} from './columns.js';

/**
 * Every series that is archived, declared once. What differs by series elsewhere (statements, files, rows,
 * names on the command line) comes from here. To add one: an entry here, a migration that makes its table,
 * and a collector.
 */

/** One column of a series. */
export interface Column<Field extends string | null = string | null, Value = unknown> {
  readonly name: string;
  /** Field that holds it in a row of this program; null for what the database alone keeps. */
  readonly field: Field;
  readonly type: ColumnType<Value>;
  readonly about: string;
  /** True if two rows of one key that differ in it contradict each other. */
  readonly isContent: boolean;
  /** Stands behind the figures where a table shows its columns. */
  readonly isShownLast?: true;
  /** A row may learn it after it was stored. */
  readonly isLearned?: true;
}

/** Properties of a series beside its columns. */
export interface SeriesEntry {
  /** The word for its rows and its stream, wherever a kind is read or written. */
  readonly kind: string;
  /** Its name in SQL views, cold files and manifests, where another one than its kind is kept. */
  readonly view?: string;
  /** The field of a batch that brings its rows; null where storing others makes them. */
  readonly batch: string | null;
  /** The key of the setting `retention` that its rows go by. */
  readonly retention: string;
  /** The streams whose coverage its rows prove; the first claims for the rows themselves. */
  readonly streams: readonly [string, ...string[]];
  /** True if what is missing can be asked for again, so that it is worth waiting for. */
  readonly isFetchable: boolean;
  /** The length of time that a partition holds, unless the settings name another. */
  readonly partition: 'day' | 'month';
  /** The primary key after the market. */
  readonly key: readonly string[];
  /** The column of the key that holds an interval or a period in seconds. */
  readonly variant: string | null;
  /** The column that tells rows of one market and time apart. */
  readonly number: string | null;
  /** When a row became known. */
  readonly received: string;
  /** The table that keeps former versions, where a later one takes the place of a row. */
  readonly versions: string | null;
  /** Reason that keeps a row from being stored though each of its columns could be. */
  faultOf?(row: unknown): string | undefined;
  /** The first is the timestamp by which rows are partitioned and asked for. */
  readonly columns: readonly Column[];
}

const columnMaker =
  (isContent: boolean) =>
  <const Field extends string | null, Value>(
    name: string,
    field: Field,
    type: ColumnType<Value>,
    about: string,
  ): Column<Field, Value> => ({ name, field, type, about, isContent });

const content = columnMaker(true);
/** A part of the key, something that two sightings of one row may differ in, or that the database alone keeps. */
const uncompared = columnMaker(false);

const figure = <const Field extends string>(
  columnName: string,
  field: Field,
  measure: Measure,
  about: string,
) => content(columnName, field, decimal(measure), about);

const QUOTE = 'in the quote currency';
const BASE = 'in the base currency';
const OBSERVED = uncompared(
  'observed_at',
  'observedAtMs',
  millis,
  'when it was looked at, exchange time',
);
const RECEIVED = uncompared(
  'received_at',
  'receivedAtMs',
  millis,
  'when it came, clock of the collecting machine',
);
/** Prices in the quote currency, each under the name of its field. */
function prices<const Names extends readonly string[]>(...names: Names) {
  return names.map((one) => figure(one, one, 'price', QUOTE)) as unknown as {
    readonly [At in keyof Names]: Column<Names[At], string>;
  };
}

const SIDE = oneOf('buy', 'sell');
const UNTOLD = 'null where the exchange does not tell it';
const OF_PAIR = `${BASE}, in the order of their prices`;

const CANDLE_PRICES = [
  ...prices('open', 'high', 'low', 'close'),
  figure('volume', 'volume', 'sum', BASE),
  figure('quote_volume', 'quoteVolume', 'sum', 'volume in the quote currency'),
] as const;
const OPEN_AT = uncompared('open_at', 'openAtS', seconds, 'begin of the candle');
const INTERVAL = uncompared(
  'interval_s',
  'intervalS',
  positiveInt4,
  'length of the candle in seconds',
);

interface ExactTime {
  readonly tradedAtS: number;
  readonly executedAtUs: number | null;
}
interface Book {
  readonly bidPrices: readonly string[];
  readonly bidAmounts: readonly string[];
  readonly askPrices: readonly string[];
  readonly askAmounts: readonly string[];
}
/** Properties of most series: gone when it was not looked at. */
const OBSERVED_SERIES = {
  isFetchable: false,
  partition: 'day',
  variant: null,
  number: null,
  received: 'received_at',
  versions: null,
} as const;

/** Candles and their former versions. */
const OF_CANDLES = {
  ...OBSERVED_SERIES,
  retention: 'candles',
  streams: ['candles'],
  isFetchable: true,
  partition: 'month',
  variant: 'interval_s',
  number: 'revision',
} as const;

/** The series by the tables that hold them; what hangs on another one stands after it. */
export const SERIES = {
  trade: {
    ...OBSERVED_SERIES,
    kind: 'trades',
    batch: 'trades',
    retention: 'trades',
    streams: ['trades'],
    isFetchable: true,
    key: ['traded_at', 'tid'],
    number: 'tid',
    faultOf: ({ tradedAtS, executedAtUs }: ExactTime) =>
      executedAtUs === null || Math.floor(executedAtUs / 1e6) === tradedAtS
        ? undefined
        : 'executed_at is not within its second',
    columns: [
      uncompared('traded_at', 'tradedAtS', seconds, 'whole second of the execution, exchange time'),
      uncompared('tid', 'tid', positiveInt8, 'id that the exchange gave'),
      {
        ...uncompared(
          'executed_at',
          'executedAtUs',
          nullable(micros),
          'exact time of the execution; null while unknown',
        ),
        isLearned: true,
      },
      content('side', 'side', SIDE, 'side of the taker'),
      content('price', 'price', decimal('price', 1), QUOTE),
      content('amount', 'amount', decimal('amount', 1), BASE),
      figure('total', 'total', 'product', QUOTE),
      RECEIVED,
    ],
  },
  kline: {
    ...OF_CANDLES,
    kind: 'candles',
    view: 'klines',
    batch: 'klines',
    key: ['interval_s', 'open_at'],
    versions: 'kline_revision',
    columns: [
      OPEN_AT,
      INTERVAL,
      ...CANDLE_PRICES,
      uncompared(
        'revision',
        null,
        int4,
        'how often the exchange changed it; this is the newest version',
      ),
      RECEIVED,
    ],
  },
  kline_revision: {
    ...OF_CANDLES,
    kind: 'candle_revisions',
    view: 'kline_revisions',
    batch: null,
    key: ['interval_s', 'open_at', 'revision'],
    received: 'known_from',
    columns: [
      OPEN_AT,
      INTERVAL,
      uncompared('revision', null, int4, 'how often the exchange had changed it by then'),
      uncompared(
        'known_from',
        'knownFromMs',
        millis,
        'when this version came, clock of the collecting machine',
      ),
      uncompared('known_to', 'knownToMs', millis, 'when the next one came, same clock'),
      ...CANDLE_PRICES,
    ],
  },
  ticker: {
    ...OBSERVED_SERIES,
    kind: 'tickers',
    batch: 'tickers',
    retention: 'tickers',
    streams: ['tickers'],
    key: ['observed_at'],
    columns: [
      OBSERVED,
      {
        ...content('at', 'atMs', millis, 'the time that the exchange wrote into it'),
        isShownLast: true,
      },
      ...prices('bid', 'ask'),
      content('open', 'open', nullable(decimal('price')), `${QUOTE}; ${UNTOLD}`),
      ...prices('high', 'low', 'last'),
      figure('volume', 'volume', 'sum', 'of 24 hours, in the base currency'),
      content(
        'quote_volume',
        'quoteVolume',
        nullable(decimal('sum')),
        `volume in the quote currency; ${UNTOLD}`,
      ),
      content(
        'change',
        'change',
        nullable(decimal('price', -1)),
        `per cent, from open to last; ${UNTOLD}`,
      ),
      RECEIVED,
    ],
  },
  depth: {
    ...OBSERVED_SERIES,
    kind: 'depth',
    batch: 'depths',
    retention: 'depth',
    streams: ['depth'],
    key: ['observed_at'],
    faultOf: ({ bidPrices, bidAmounts, askPrices, askAmounts }: Book) =>
      bidPrices.length === bidAmounts.length && askPrices.length === askAmounts.length
        ? undefined
        : 'prices and amounts are not paired',
    columns: [
      OBSERVED,
      content('bid_prices', 'bidPrices', levels('price'), 'best first'),
      content('bid_amounts', 'bidAmounts', levels('amount'), OF_PAIR),
      content('ask_prices', 'askPrices', levels('price'), 'best first'),
      content('ask_amounts', 'askAmounts', levels('amount'), OF_PAIR),
      RECEIVED,
    ],
  },
  market_state: {
    ...OBSERVED_SERIES,
    kind: 'states',
    batch: 'states',
    retention: 'states',
    streams: ['states'],
    key: ['period_s', 'observed_at', 'seq'],
    variant: 'period_s',
    number: 'seq',
    columns: [
      OBSERVED,
      uncompared('seq', 'seq', int4, 'orders records of the same millisecond'),
      uncompared(
        'period_s',
        'periodS',
        positiveInt4,
        'length of the time that it sums up, in seconds',
      ),
      content(
        'origin',
        'origin',
        oneOf('update', 'query'),
        'pushed by the exchange (update), or its answer (query)',
      ),
      ...prices('last', 'open', 'close', 'high', 'low'),
      figure('quote_volume', 'quoteVolume', 'sum', 'volume in the quote currency'),
      figure('volume', 'volume', 'sum', BASE),
      content('change', 'change', nullable(decimal('price', -1)), 'per cent; updates carry none'),
      uncompared('session_id', 'sessionId', int8, 'the connection that brought it'),
      RECEIVED,
    ],
  },
} as const satisfies Readonly<Record<string, SeriesEntry>>;

/** The name of a table that holds a series. */
export type SeriesTable = keyof typeof SERIES;
/** A series that batches bring rows of. */
export type Series = {
  [Table in SeriesTable]: (typeof SERIES)[Table]['batch'] extends string ? Table : never;
}[SeriesTable];

type ColumnOf<Table extends SeriesTable> = (typeof SERIES)[Table]['columns'][number];
type ValueOf<One> = One extends { readonly type: ColumnType<infer Value> } ? Value : never;

/**
 * A row of a series. Decimals are text in plain notation. Times carry their unit in their name and are in
 * exchange time, except `receivedAtMs`, which is this machine's clock.
 */
export type RowOf<Table extends SeriesTable> = {
  readonly marketId: number;
} & {
  readonly [One in ColumnOf<Table> as One['field'] extends string
    ? One['field']
    : never]: ValueOf<One>;
};

/** A row of any series that batches bring. */
export interface SeriesRow {
  readonly marketId: number;
  readonly receivedAtMs: number;
}

/** Entry of {@link SERIES} for a table, whichever it is. */
export function seriesOf(table: SeriesTable): SeriesEntry {
  return SERIES[table];
}

/** The kinds of stream. One covers what its series claims. */
export type StreamKind = (typeof SERIES)[SeriesTable]['streams'][number];

/** The names of the series in SQL views, cold files and manifests. */
export type SeriesView = {
  [Table in SeriesTable]: (typeof SERIES)[Table] extends {
    readonly view: infer View extends string;
  }
    ? View
    : (typeof SERIES)[Table]['kind'];
}[SeriesTable];

/** The name of a series where names stay: in SQL views, cold files and manifests. */
export function viewOf(table: SeriesTable): SeriesView {
  const { view, kind } = seriesOf(table);
  return (view ?? kind) as SeriesView;
}

export const SERIES_TABLES = Object.keys(SERIES) as SeriesTable[];

/** The series that batches bring rows of. */
export const WRITTEN_SERIES = SERIES_TABLES.filter(
  (table): table is Series => SERIES[table].batch !== null,
);

/** The streams of what can only be observed live. */
export const MOMENT_STREAMS: ReadonlySet<StreamKind> = new Set(
  SERIES_TABLES.filter((table) => !SERIES[table].isFetchable).flatMap(streamsOf),
);

export const STREAM_KINDS = [...new Set(SERIES_TABLES.flatMap(streamsOf))];

/** The streams whose coverage the rows of a series prove; the first claims for the rows themselves. */
export function streamsOf(table: SeriesTable): readonly [StreamKind, ...StreamKind[]] {
  return SERIES[table].streams;
}

/** The series that a stream covers. */
export function tableOfStream(kind: StreamKind): Series {
  const table = WRITTEN_SERIES.find((one) => streamsOf(one).includes(kind));
  if (table === undefined) throw new RangeError(`no series has streams of ${kind}`);
  return table;
}

/** `candles 1m`: a stream as people read it. */
export function streamName({ kind, variant }: { kind: string; variant: number }): string {
  return variant === 0 ? kind : `${kind} ${intervalText(variant)}`;
}
