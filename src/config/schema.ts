import { z } from 'zod';
import { dialectNames } from '../contract/dialects.js';
import { isKlineInterval, PAGE_LIMIT } from '../contract/limits.js';
import {
  CANDLE_CHOICES,
  knownExchanges,
  ofChoices,
  type VARIANT_CHOICES,
} from '../contract/variants.js';
import { withUrlHost } from '../kernel/tls.js';
import { SERIES, type Series, WRITTEN_SERIES } from '../model/series.js';
import {
  credentialOrNull,
  duration,
  flag,
  keptFor,
  line,
  lineOrNull,
  loginNameOrNull,
  marketNames,
  oneOf,
  pastAllOrNone,
  pastOrNone,
  positive,
  schedule,
  secondsList,
  tokenOrNull,
  urlOrNull,
  whole,
  wholeOr,
  wholeOrNull,
} from './values.js';

/**
 * Every setting with its bounds and its default. `config/default.yaml` documents them in prose and
 * a test holds the two together. Durations are read into milliseconds ({@link DurationMs}).
 */

/** A section may be left out as a whole: each of its keys has a default. */
function section<T extends z.core.$ZodShape>(shape: T) {
  const keys = z.strictObject(shape);
  return keys.prefault({} as z.input<typeof keys>);
}

const exchange = section({
  name: lineOrNull(200).prefault(null),
  url: urlOrNull(['http', 'https']).prefault(null),
  dialect: oneOf(...dialectNames).prefault('contract'),
  requestsPerS: positive(10_000).prefault(5),
  burst: whole(1, 10_000).prefault(10),
  timeout: duration('100ms', '5m').prefault('10s'),
  maxBodyBytes: whole(65_536, 268_435_456).prefault(4_194_304),
  connections: whole(1, 256).prefault(8),
  signedContent: oneOf('payload', 'body').prefault('payload'),
});

const realtime = section({
  url: urlOrNull(['ws', 'wss']).prefault(null),
  queryEvery: duration('1s', '1h').prefault('20s'),
  acknowledgeTimeout: duration('100ms', '5m').prefault('10s'),
  reconnectBase: duration('10ms', '1m').prefault('500ms'),
  reconnectCap: duration('10ms', '1h').prefault('60s'),
  connectsPerS: positive(1000).prefault(5),
});

const width = (standard: 'day' | 'month') => oneOf('day', 'month').prefault(standard);
const PARTITION_WIDTHS = Object.fromEntries(
  WRITTEN_SERIES.map((table) => [table, width(SERIES[table].partition)]),
) as Record<Series, ReturnType<typeof width>>;

const PERCENT_ENCODED = ' (# / ? @ of a password are written %23 %2F %3F %40)';
const database = section({
  url: urlOrNull(['postgres', 'postgresql'], PERCENT_ENCODED, withUrlHost).prefault(null),
  embeddedPort: whole(0, 65_535).prefault(0),
  readerName: loginNameOrNull().prefault(null),
  readerPassword: credentialOrNull().prefault(null),
  poolSize: whole(2, 100).prefault(5),
  commitLatency: duration('0ms', '10s').prefault('100ms'),
  statementTimeout: duration('1s', '1h').prefault('30s'),
  startWait: duration('0s', '1d').prefault('2m'),
  partitionsAheadDays: whole(1, 366).prefault(3),
  quarantineMax: whole(0, 10_000_000).prefault(10_000),
  partitionWidth: section(PARTITION_WIDTHS),
});

const enabled = flag().prefault(true);
const INTERVALS =
  'seconds that divide a minute, minutes that divide an hour, hours that divide a day, up to 6 days, or a week';

const streams = section({
  markets: section({
    schedule: schedule().prefault('*/30 * * * * *'),
    max: whole(1, 10_000).prefault(1_000),
  }),
  trades: section({
    enabled,
    schedule: schedule().prefault('*/5 * * * * *'),
    exactTimes: flag().prefault(true),
    feed: oneOf('auto', 'always', 'never').prefault('auto'),
    history: pastAllOrNone().prefault('all'),
    cacheMargin: duration('0s', '10m').prefault('2s'),
    keptAtLeast: duration('1s', '7d').prefault('15m'),
  }),
  depth: section({
    enabled,
    schedule: schedule().prefault('*/5 * * * * *'),
    levels: whole(PAGE_LIMIT.min, PAGE_LIMIT.max).prefault(100),
  }),
  tickers: section({ enabled, schedule: schedule().prefault('*/2 * * * * *') }),
  candles: section({
    enabled,
    schedule: schedule().prefault('*/15 * * * * *'),
    intervalsS: secondsList(isKlineInterval, INTERVALS).prefault([60, 3600, 86_400]),
    history: pastOrNone().prefault('7d'),
    grace: duration('0s', '1h').prefault('10s'),
    rereads: whole(0, 100).prefault(3),
  }),
  states: section({
    enabled,
    periodsS: secondsList(isKlineInterval, INTERVALS).prefault([86_400]),
  }),
});

const verification = section({
  enabled,
  every: duration('1s', '1h').prefault('15s'),
});

/** What becomes of partitions after their time; ages count from the end of a partition. */
const partitions = section({
  seal: flag().prefault(true),
  sealAfter: duration('1h', '3650d').prefault('2d'),
  every: duration('1s', '1d').prefault('10m'),
});
const cold = section({
  enabled: flag().prefault(false),
  dir: lineOrNull(1000).prefault(null),
  after: duration('1h', '3650d').prefault('30d'),
});
const kept = () => keptFor('1d').prefault('forever');
const retention = section({
  trades: kept(),
  candles: kept(),
  tickers: kept(),
  depth: kept(),
  states: kept(),
});

const port = (standard: number) => whole(0, 65_535).prefault(standard);

type Words = typeof VARIANT_CHOICES;

/** What servers of the family do differently, as the built-in exchange can. */
const variants = section({
  like: oneOf(...knownExchanges).prefault('contract'),
  ...(ofChoices((_name, _about, words) => oneOf(...words).prefault(words[0] ?? '')) as unknown as {
    readonly [Name in keyof Words]: z.ZodPrefault<z.ZodType<Words[Name]['words'][number]>>;
  }),
  sinceMin: whole(0, 1).prefault(0),
  pageCap: wholeOrNull(1, 1_000_000).prefault(null),
  rateLimit: wholeOr(1, 1_000_000, 'none', 'headers').prefault('none'),
  updateInterval: duration('1ms', '1h').prefault('1s'),
  idleTimeout: duration('1s', '24h').prefault('60s'),
});

/** The whole tree of settings. */
export const configSchema = section({
  dataDir: line(1000).prefault('./data'),
  markets: marketNames().prefault([]),
  exchange,
  realtime,
  database,
  streams,
  verification,
  partitions,
  cold,
  retention,
  account: section({
    key: credentialOrNull().prefault(null),
    secret: credentialOrNull().prefault(null),
  }),
  http: section({
    enabled,
    host: line(253).prefault('127.0.0.1'),
    port: port(9464),
    token: tokenOrNull().prefault(null),
    notReadyAfter: duration('1s', '1d').prefault('5m'),
  }),
  log: section({
    level: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent').prefault('info'),
    format: oneOf('auto', 'json', 'pretty').prefault('auto'),
  }),
  sandbox: section({
    seed: whole(0, 4_294_967_295).prefault(7),
    speed: positive(1000).prefault(1),
    requestsPerS: positive(10_000).prefault(50),
    markets: marketNames().prefault([]),
    history: pastOrNone().prefault('15m'),
    emptyCandles: oneOf(...CANDLE_CHOICES.emptyCandles.words).prefault('omitted'),
    candleOpen: oneOf(...CANDLE_CHOICES.candleOpen.words).prefault('first'),
    variants,
    port: port(0),
    control: flag().prefault(false),
    keepAll: flag().prefault(false),
  }),
});

type DeepReadonly<T> = T extends readonly (infer M)[]
  ? readonly DeepReadonly<M>[]
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T;

/** The settings as the program uses them: checked, complete, frozen; durations in milliseconds. */
export type Config = DeepReadonly<z.output<typeof configSchema>>;

/**
 * Keys whose value must never be shown. Each can also come from a file, which a variable that ends
 * in `_FILE` names, or in the settings' file a key that ends in `File`.
 */
export const SECRET_KEYS: ReadonlySet<string> = new Set([
  'database.url',
  'database.readerPassword',
  'http.token',
  'account.key',
  'account.secret',
]);
