import { z } from 'zod';
import { dialectNames } from '../contract/dialects.js';
import { isKlineInterval, PAGE_LIMIT } from '../contract/limits.js';
import { knownExchanges } from '../contract/variants.js';
import { withUrlHost } from '../kernel/tls.js';
import {
  bucketOrNull,
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
  shareOrNull,
  tokenOrNull,
  urlOrNull,
  whole,
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
  timeout: duration('100ms', '5m').prefault('10s'),
  signedContent: oneOf('payload', 'body').prefault('payload'),
});

const realtime = section({ url: urlOrNull(['ws', 'wss']).prefault(null) });

/** One of several daemons that divide the markets among them. */
const collector = section({ share: shareOrNull().prefault(null) });

const PERCENT_ENCODED = ' (# / ? @ of a password are written %23 %2F %3F %40)';
const database = section({
  url: urlOrNull(['postgres', 'postgresql'], PERCENT_ENCODED, withUrlHost).prefault(null),
  embeddedPort: whole(0, 65_535).prefault(0),
  readerName: loginNameOrNull().prefault(null),
  readerPassword: credentialOrNull().prefault(null),
  poolSize: whole(2, 100).prefault(5),
  statementTimeout: duration('1s', '1h').prefault('30s'),
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
  }),
  states: section({
    enabled,
    periodsS: secondsList(isKlineInterval, INTERVALS).prefault([86_400]),
  }),
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
  url: bucketOrNull().prefault(null),
  endpoint: urlOrNull(['http', 'https']).prefault(null),
  region: lineOrNull(64).prefault(null),
  pathStyle: flag().prefault(false),
  cache: whole(1_000_000, 1_000_000_000_000_000).prefault(10_000_000_000),
  after: duration('1h', '3650d').prefault('30d'),
  serve: section({
    host: lineOrNull(255).prefault(null),
    port: whole(0, 65_535).prefault(0),
  }),
});
/** A file of it begins with some hundred bytes. */
const spool = section({ maxBytes: whole(0, 1_000_000_000_000_000).prefault(1_000_000_000) });
const kept = () => keptFor('1d').prefault('forever');
const retention = section({
  trades: kept(),
  candles: kept(),
  tickers: kept(),
  depth: kept(),
  states: kept(),
});

const port = (standard: number) => whole(0, 65_535).prefault(standard);

/** The whole tree of settings. */
export const configSchema = section({
  dataDir: line(1000).prefault('./data'),
  markets: marketNames().prefault([]),
  exchange,
  realtime,
  database,
  collector,
  spool,
  streams,
  verification: section({ enabled }),
  partitions,
  cold,
  retention,
  account: section({
    key: credentialOrNull().prefault(null),
    secret: credentialOrNull().prefault(null),
  }),
  standby: section({ warm: flag().prefault(true) }),
  http: section({
    enabled,
    host: line(253).prefault('127.0.0.1'),
    port: port(9464),
    token: tokenOrNull().prefault(null),
    viewerToken: tokenOrNull().prefault(null),
    tls: section({
      certFile: lineOrNull(1000).prefault(null),
      keyFile: lineOrNull(1000).prefault(null),
    }),
    notReadyAfter: duration('1s', '1d').prefault('5m'),
  }),
  alerts: section({
    webhook: urlOrNull(['http', 'https']).prefault(null),
    format: oneOf('json', 'slack', 'telegram').prefault('json'),
  }),
  log: section({
    level: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent').prefault('info'),
    format: oneOf('auto', 'json', 'pretty').prefault('auto'),
  }),
  sandbox: section({
    seed: whole(0, 4_294_967_295).prefault(7),
    speed: positive(1000).prefault(1),
    markets: marketNames().prefault([]),
    history: pastOrNone().prefault('15m'),
    like: oneOf(...knownExchanges).prefault('contract'),
    port: port(0),
    control: flag().prefault(false),
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
  'http.viewerToken',
  'alerts.webhook',
  'account.key',
  'account.secret',
]);
