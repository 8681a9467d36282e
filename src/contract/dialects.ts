import { DAY_S } from '../kernel/durations.js';
import { isObject } from '../kernel/json.js';
import type { EndpointName } from './endpoints.js';
import { type Endpoint, endpoints } from './endpoints.js';
import { KLINE_PAGE_MAX, PAGE_LIMIT } from './limits.js';
import type { RealtimeWords } from './realtime.js';
import type { Asked, ResultShape } from './shape.js';

/**
 * Exchanges of the family whose questions differ from the contract's. Only what is asked needs a table:
 * an answer is recognised by its form (tolerance.ts). What an exchange tells is brought into the
 * contract's form here and judged by the contract's schemas afterwards, so that a wrong row of this table
 * is refused, never stored. The sandbox speaks each dialect by the same rows, read the other way.
 */

/** Parameters, by the names of the contract or of a dialect. */
export type Params = Readonly<Record<string, unknown>>;

/** The parameters of one endpoint: the contract's, and how the exchange wants them. */
interface QuestionForm {
  /** @param nowS the exchange's time, UNIX seconds */
  readonly ask: (params: Params, nowS: number) => Params;
  /** The way back. What cannot be read stays as it came, and is refused by the contract's schema. */
  readonly read: (query: Params, nowS: number) => Params;
}

/** The result of one endpoint: the contract's, and how the exchange tells it. */
interface ResultForm {
  readonly adopt: (result: unknown, asked: Asked) => unknown;
  readonly tell: (result: unknown) => unknown;
}

/** An endpoint as an exchange has it; what is left out is the contract's. */
interface EndpointForm {
  readonly path?: string;
  readonly envelope?: boolean;
  readonly question?: QuestionForm;
  readonly result?: ResultForm;
}

/** Requests to one endpoint, at most. */
export interface EndpointLimit {
  readonly perSecond: number;
  readonly perMinute: number;
}

/** A pace that stays below a limit in every second and every minute, however the server cuts them. */
export function paceWithin({ perSecond, perMinute }: EndpointLimit): {
  readonly ratePerS: number;
  readonly burst: number;
} {
  const burst = Math.max(1, Math.floor(perSecond / 2));
  return { ratePerS: Math.min(perSecond / 2, (0.95 * perMinute - burst) / 60), burst };
}

interface DialectRow {
  /** Differences; null: the exchange has no such endpoint, or none that this program speaks. */
  readonly endpoints: { readonly [N in EndpointName]?: EndpointForm | null };
  /** Candles that may be asked for at once. */
  readonly candlesMax: number;
  /** Price levels of each side that are known to be answered; left out: all that the contract has. */
  readonly levelsMax?: number;
  /** Lengths of candles, seconds; left out: all of the contract. */
  readonly intervalsS?: readonly number[];
  readonly realtime: RealtimeWords;
  /** How often one endpoint may be asked before the exchange blocks the address; left out: no such limit. */
  readonly endpointLimit?: EndpointLimit;
  /** Answers that only this exchange gives, by the endpoint of the contract that was asked. */
  readonly signs?: { readonly [N in EndpointName]?: (payload: unknown) => boolean };
}

type Row = Readonly<Record<string, unknown>>;

/** Each row of a list, as far as it is one; what is no list or row stays, to be refused. */
const eachRow = (change: (row: Row) => unknown) => (result: unknown) =>
  Array.isArray(result)
    ? result.map((row: unknown) => (isObject(row) ? change(row) : row))
    : result;

const number = (value: unknown): number => (value === undefined ? Number.NaN : Number(value));

/** Largest pages that are known to be answered whole. */
const SMALL_PAGE = 100;

const smallPage = (params: Params): Params =>
  params.limit === undefined
    ? params
    : { ...params, limit: Math.min(Number(params.limit), SMALL_PAGE) };

/** A page of at most a hundred rows. */
const SMALL: QuestionForm = { ask: smallPage, read: smallPage };

/** Trades newer than an id; it must be given, and no id is below 1. */
const HISTORY: QuestionForm = {
  ask: (params) => ({ ...smallPage(params), lastId: Math.max(1, Number(params.lastId)) }),
  read: smallPage,
};

/** Names of lengths of candles, as `1m`, `4h`, `1d`, `1w`. */
const UNITS = { m: 60, h: 3600, d: DAY_S, w: 7 * DAY_S } as const;

function intervalName(seconds: unknown): unknown {
  const unit = Object.entries(UNITS).findLast(([, length]) => Number(seconds) % length === 0);
  return unit === undefined ? seconds : `${Number(seconds) / unit[1]}${unit[0]}`;
}

/** Seconds, or what the contract's schema refuses: a number is no name. */
function intervalOf(name: unknown): unknown {
  const [, count, unit] = /^(\d{1,3})([mhdw])$/.exec(String(name)) ?? [];
  return unit === undefined ? 'no name' : Number(count) * UNITS[unit as keyof typeof UNITS];
}

/** Time, open, close, high, low, volume, amount, and the market in some: the order of the engine. */
const CANDLE_FIELDS = ['time', 'open', 'close', 'highest', 'lowest', 'volume', 'amount'] as const;

function candleOf(values: unknown, market: unknown): unknown {
  if (!Array.isArray(values)) return values;
  const fields = CANDLE_FIELDS.map((name, at) => [name, values[at] as unknown] as const);
  return {
    ...Object.fromEntries(fields),
    market: (values[CANDLE_FIELDS.length] ?? market) as unknown,
  };
}

type CandleSpan = Readonly<Record<'start' | 'end', number>>;

/**
 * Candles as arrays, without the question.
 *
 * @param isNamed whether each ends with its market
 * @param spanShown what of the span that was asked for a page speaks of, by the times of its rows
 */
function candleArrays(
  isNamed: boolean,
  spanShown: (asked: CandleSpan, times: readonly number[], query: Params) => CandleSpan,
): ResultForm {
  return {
    adopt: (result, { market, start, end, interval, query = {} }) => {
      if (!Array.isArray(result)) return result;
      const asked = { start: Number(start), end: Number(end) };
      const rows = result.map((values: unknown) => candleOf(values, market));
      const times = rows.flatMap((row) =>
        isObject(row) && typeof row.time === 'number' ? [row.time] : [],
      );
      // Whole pages are asked for, which may begin before what is wanted.
      const kline = rows.filter(
        (row) =>
          !isObject(row) ||
          typeof row.time !== 'number' ||
          (row.time >= asked.start && row.time <= asked.end),
      );
      return { market, ...spanShown(asked, times, query), interval, kline };
    },
    tell: (result) => {
      const { kline } = result as { readonly kline: readonly Row[] };
      return kline.map((candle) => [
        ...CANDLE_FIELDS.map((name) => candle[name]),
        ...(isNamed ? [candle.market] : []),
      ]);
    },
  };
}

const WHITEBIT_CANDLES = 1440;

/** Candles between two times, the end not after now. */
const CANDLES_BY_TIME: QuestionForm = {
  ask: ({ interval, start, end, ...params }, nowS) => ({
    ...params,
    start,
    end: Math.max(Number(start), Math.min(Number(end), Math.floor(nowS))),
    interval: intervalName(interval),
    limit: WHITEBIT_CANDLES,
  }),
  read: ({ interval, limit, ...query }) => {
    const [length, count] = [intervalOf(interval ?? '1h'), Number(limit ?? WHITEBIT_CANDLES)];
    // More than the limit: the start moves.
    const leastS = number(query.end) - (count - 1) * Number(length);
    const start = Number.isFinite(leastS) ? Math.max(number(query.start), leastS) : query.start;
    return { ...query, start, interval: length };
  },
};

const P2B_CANDLES = 500;
/** Candles come in pages of a multiple of so many, and are counted from a multiple of it: what is not is raised to one. */
const P2B_STEP = 50;
/** Candles requested in addition on either side: a candle may close on the way, and a cache be as old as one. */
const P2B_SPARE = 2;

const stepped = (count: number) => Math.ceil(count / P2B_STEP) * P2B_STEP;

/** Candles counted back from the one that is open now. */
const CANDLES_BY_OFFSET: QuestionForm = {
  ask: ({ market, interval, start, end }, nowS) => {
    const slot = (atS: unknown) => Math.floor(Number(atS) / Number(interval));
    const back = Math.max(0, slot(nowS) - slot(end) - P2B_SPARE);
    const offset = Math.floor(back / P2B_STEP) * P2B_STEP;
    const count = slot(nowS) - slot(start) - offset + 1 + P2B_SPARE;
    const limit = Math.min(P2B_CANDLES, stepped(Math.max(1, count)));
    return { market, interval: intervalName(interval), offset, limit };
  },
  read: ({ market, interval, offset, limit }, nowS) => {
    const length = intervalOf(interval ?? '1m');
    const count = Math.min(P2B_CANDLES, stepped(number(limit ?? P2B_STEP)));
    const back = stepped(number(offset ?? 0));
    const lastS = (Math.floor(nowS / Number(length)) - back) * Number(length);
    const end = lastS >= 0 ? lastS : 'before all time';
    const start = lastS >= 0 ? Math.max(0, lastS - (count - 1) * Number(length)) : end;
    return { market, interval: length, start, end };
  },
};

/**
 * Nobody knows whether the offset counts existing candles or lengths of time where nothing was traded. So
 * a page covers what lies between its rows; up to now where it is the newest, and down from its oldest row where it
 * ends within a step, as only history does.
 */
function spanOfOffset(
  { start, end }: CandleSpan,
  times: readonly number[],
  { offset, limit }: Params,
): CandleSpan {
  if (times.length === 0) return { start, end };
  const isEndOfHistory = times.length < Number(limit) && times.length % P2B_STEP !== 0;
  return {
    start: isEndOfHistory ? start : Math.max(start, Math.min(...times)),
    end: offset === 0 ? end : Math.min(end, Math.max(...times)),
  };
}

/** Figures of a day that these exchanges do not send. */
const withoutOpen = ({ open: _open, name: _name, ...ticker }: Row) => ticker;

const TICKERS: ResultForm = {
  adopt: (result) => result,
  tell: (result) => {
    const sent = Object.entries(result as Readonly<Record<string, Row>>).map(
      ([market, { at, ticker }]) => [market, { ticker: withoutOpen(ticker as Row), at }] as const,
    );
    return Object.fromEntries(sent);
  },
};

const P2B = '/api/v2';

const NESTED_MARKETS: ResultForm = {
  adopt: eachRow(({ precision, limits, ...row }) => {
    if (!isObject(precision) || !isObject(limits)) return row;
    const { stock, money, fee } = precision;
    return {
      ...row,
      stockPrec: stock,
      moneyPrec: money,
      feePrec: fee,
      minAmount: limits.min_amount,
    };
  }),
  tell: eachRow(({ stockPrec, moneyPrec, feePrec, minAmount, ...row }) => ({
    ...row,
    precision: { money: String(moneyPrec), stock: String(stockPrec), fee: String(feePrec) },
    limits: { min_amount: minAmount },
  })),
};

const LISTS_OF_MARKETS = { isList: true } as const;

const ROWS = {
  // Its trades are pushed by servers of the family, EarnBIT among them (field notes, Real-time).
  contract: {
    endpoints: {},
    candlesMax: KLINE_PAGE_MAX,
    realtime: { trades: { subscribe: 'deals.subscribe', update: 'deals.update' } },
  },
  // Its v1 paths. Orders and balances have another interface there, with other rules for signing.
  whitebit: {
    endpoints: {
      products: null,
      book: null,
      balances: null,
      orderNew: null,
      orders: null,
      tickers: { result: TICKERS },
      kline: { question: CANDLES_BY_TIME, result: candleArrays(false, (asked) => asked) },
      history: { question: HISTORY },
      historyResult: null,
      depth: { question: SMALL },
    },
    candlesMax: WHITEBIT_CANDLES,
    levelsMax: SMALL_PAGE,
    intervalsS: [
      ...[1, 3, 5, 15, 30].map((minutes) => minutes * UNITS.m),
      ...[1, 2, 4, 6, 8, 12].map((hours) => hours * UNITS.h),
      ...[UNITS.d, 3 * UNITS.d, UNITS.w],
    ],
    signs: { kline: Array.isArray },
    realtime: {
      ...LISTS_OF_MARKETS,
      requestsPerMinute: 200,
      methods: {
        'state.query': 'market_request',
        'state.subscribe': 'market_subscribe',
        'state.unsubscribe': 'market_unsubscribe',
        'state.update': 'market_update',
        'server.ping': 'ping',
      },
      trades: {
        subscribe: 'trades_subscribe',
        update: 'trades_update',
        request: 'trades_request',
        requestMax: SMALL_PAGE,
        isAll: true,
        isDocumented: true,
      },
    },
  },
  // Its v2. The answer for active orders has no total, which the contract's has.
  p2b: {
    endpoints: {
      markets: { path: `${P2B}/public/markets`, result: NESTED_MARKETS },
      products: null,
      tickers: { path: `${P2B}/public/tickers`, result: TICKERS },
      ticker: { path: `${P2B}/public/ticker` },
      kline: {
        path: `${P2B}/public/market/kline`,
        question: CANDLES_BY_OFFSET,
        result: candleArrays(true, spanOfOffset),
      },
      history: { path: `${P2B}/public/history`, question: HISTORY },
      historyResult: null,
      depth: { path: `${P2B}/public/depth/result`, envelope: true, question: SMALL },
      book: { path: `${P2B}/public/book`, question: SMALL },
      balances: { path: `${P2B}/account/balances` },
      orderNew: { path: `${P2B}/order/new` },
      orders: null,
    },
    candlesMax: P2B_CANDLES - P2B_STEP - 2 * P2B_SPARE,
    levelsMax: SMALL_PAGE,
    intervalsS: [UNITS.m, UNITS.h, UNITS.d],
    endpointLimit: { perSecond: 5, perMinute: 100 },
    realtime: LISTS_OF_MARKETS,
  },
} as const satisfies Readonly<Record<string, DialectRow>>;

/** The name of a dialect: of the contract, or of an exchange whose questions differ. */
export type DialectName = keyof typeof ROWS;
export const dialectNames = Object.keys(ROWS) as [DialectName, ...DialectName[]];

/** One endpoint in a dialect. */
export interface SpokenEndpoint<R = unknown> extends Endpoint<Endpoint['params'], R> {
  /** The query of a question, at the exchange's time, UNIX seconds. */
  ask(params: Params, nowS: number): Params;
  /** The contract's parameters of a query. */
  read(query: Params, nowS: number): Params;
  /** The contract's result as this exchange tells it; left out where it is the same. */
  readonly tell?: (result: unknown) => unknown;
  /** The way back: {@link Endpoint.result} does it by itself. */
  readonly adopt?: (result: unknown, asked: Asked) => unknown;
}

const asItIs = (params: Params) => params;

function spoken(row: Endpoint, form: EndpointForm): SpokenEndpoint {
  const { path = row.path, envelope = row.envelope, question, result } = form;
  return {
    ...row,
    path,
    envelope,
    result: result === undefined ? row.result : adopting(row.result, result.adopt),
    ask: question?.ask ?? asItIs,
    read: question?.read ?? asItIs,
    ...(result && { tell: result.tell, adopt: result.adopt }),
  };
}

function adopting<R>(shape: ResultShape<R>, adopt: ResultForm['adopt']): ResultShape<R> {
  return {
    ...shape,
    parse: (payload, asked: Asked = {}) => shape.parse(adopt(payload, asked), asked),
  };
}

/** An exchange's way to speak: its endpoints and real-time words. */
export interface Dialect {
  readonly name: DialectName;
  /** Undefined: not offered. */
  readonly endpoints: Readonly<Record<EndpointName, SpokenEndpoint | undefined>>;
  readonly candlesMax: number;
  readonly levelsMax: number;
  readonly intervalsS: readonly number[] | undefined;
  readonly endpointLimit: EndpointLimit | undefined;
  readonly realtime: RealtimeWords;
}

/** A dialect by its name. */
export function dialectOf(name: DialectName): Dialect {
  const row: DialectRow = ROWS[name];
  const made = Object.entries(endpoints).map(([at, endpoint]) => {
    const form = row.endpoints[at as EndpointName];
    return [at, form === null ? undefined : spoken(endpoint as Endpoint, form ?? {})] as const;
  });
  return {
    name,
    endpoints: Object.fromEntries(made) as Dialect['endpoints'],
    candlesMax: row.candlesMax,
    levelsMax: row.levelsMax ?? PAGE_LIMIT.max,
    intervalsS: row.intervalsS,
    endpointLimit: row.endpointLimit,
    realtime: row.realtime,
  };
}

/** The dialect of which alone an answer can be; undefined: it shows none. */
export function dialectShownBy(name: string, payload: unknown): DialectName | undefined {
  return dialectNames.find((one) => {
    const row: DialectRow = ROWS[one];
    return row.signs?.[name as EndpointName]?.(payload) === true;
  });
}
