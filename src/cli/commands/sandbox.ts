import { randomBytes } from 'node:crypto';
import { Option } from 'commander';
import { isLoopback } from '../../config/load.js';
import {
  CANDLE_CHOICES,
  type ChosenVariants,
  knownExchanges,
  ofChoices,
  type ServerVariants,
  variantsLike,
} from '../../contract/variants.js';
import { systemClock } from '../../kernel/clock.js';
import { TapekeepError } from '../../kernel/errors.js';
import { BoundedOutput } from '../../observe/bounded-output.js';
import { createLogger } from '../../observe/logger.js';
import { createTelemetry } from '../../observe/telemetry.js';
import { LiveError } from '../../sandbox/errors.js';
import { Faults } from '../../sandbox/faults/faults.js';
import { type LiveOptions, openLive } from '../../sandbox/live/open-live.js';
import { openTape, type TapeOptions } from '../../sandbox/tape/tape-backend.js';
import { marketsForGood } from '../../server/control/control.js';
import { startExchangeServer } from '../../server/exchange-server.js';
import { choice, command, flag, type Input, nothing, option, type Values } from '../command.js';
import { waitForStop } from '../ending.js';
import { UsageError } from '../failure.js';
import {
  controlOption,
  countArgument,
  durationArgument,
  FOR,
  gather,
  HOST,
  kebabCase,
  PORT,
  READY_AS_JSON,
  seedArgument,
  speedArgument,
  utcInstantArgument,
} from '../options.js';
import { countOf, printReport } from '../output.js';
import { Progress } from '../progress.js';
import { gatherFaultScript, gatherKeys, type NamedKey, readMarketsFile } from '../sandbox/files.js';

const RATE_WINDOW_MS = 60_000;
const { emptyCandles, candleOpen } = CANDLE_CHOICES;

const OPTIONS = {
  host: HOST,
  port: PORT,
  tape: option('--tape <file>', 'CSV of recorded trades; repeatable', gather),
  market: option(
    '--market <name>',
    'market of the preceding tape, or a market to trade; repeatable',
    gather,
  ),
  marketsFile: option('--markets-file <file>', 'markets to trade, YAML or JSON'),
  speed: option('--speed <factor>', 'speed: 1, 20, instant', speedArgument, 1),
  seed: option('--seed <number>', 'seed of traders and books', seedArgument, 7),
  time: choice('--time <mode>', "keep the tape's time, or move it to now", ['tape', 'now']),
  startOffsetMs: option(
    '--start-offset <duration>',
    'history before the start (default: 15m; tape: none)',
    durationArgument,
  ),
  historyMax: option(
    '--history <trades>',
    'newest trades served of a market (default: 100,000; tape: all)',
    countArgument,
  ),
  originMs: option('--origin <time>', 'start of the history, UTC', utcInstantArgument),
  forMs: FOR,
  json: READY_AS_JSON,
  key: option(
    '--key <name[:balances]>',
    'API key, such as alice:USDT=100000,BTC=2; repeatable',
    gather,
  ),
  keys: option('--keys <file>', 'JSON file of keys: [{name, key, secret, balances, active}]'),
  /** True without a name: it is random then, as with keys. */
  runId: option(
    '--run [name]',
    'allow changes of markets and funds, in a run of this name',
    (name): string | true => name,
  ),
  takerFee: option('--fee-taker <rate>', 'fee rate of takers (default: 0.002)'),
  makerFee: option('--fee-maker <rate>', 'fee rate of makers (default: 0.001)'),
  emptyCandles: choice('--empty-candles <how>', emptyCandles.about, emptyCandles.words),
  candleOpen: choice('--candle-open <price>', candleOpen.about, candleOpen.words),
  like: choice('--like <exchange>', 'behave as this exchange of the family', knownExchanges),
};

/** Behaviours in which servers of the family differ. */
const VARIANTS = {
  ...(ofChoices((name, about, words) =>
    choice(`--${kebabCase(name)} <how>`, about, words),
  ) as unknown as {
    readonly [Name in keyof ChosenVariants]: Input<ChosenVariants[Name] | undefined>;
  }),
  sinceMin: choice('--since-min <offset>', 'smallest since and lastId', ['0', '1']),
  pageCap: option('--page-cap <rows>', 'largest page of trades', countArgument),
  updateIntervalMs: option(
    '--update-interval <duration>',
    'minimum time between updates',
    durationArgument,
  ),
  idleTimeoutMs: option(
    '--idle-timeout <duration>',
    'close silent real-time connections',
    durationArgument,
  ),
};

/** Refusing requests, or sending no headers about it. */
const RATE_LIMIT: Input<number | boolean | undefined> = {
  options: [
    new Option('--rate-limit <requests>', 'refuse more than this in a minute').argParser(
      countArgument,
    ),
    new Option('--no-rate-limit', 'send no rate-limit headers'),
  ],
};

const STEERING = {
  faults: option('--faults <file>', 'rules of what goes wrong, YAML or JSON'),
  fault: option('--fault <rule>', 'one rule, kind=...,key=value,...; repeatable', gather),
  control: controlOption('/sandbox/ that steer it', 'do not serve them'),
  keepAll: flag('--keep-all', 'forget no trade, so that /sandbox/truth stays whole; memory grows'),
};

interface Sandbox extends Values<typeof OPTIONS>, Values<typeof STEERING> {}

/** Runs an exchange with simulated traders, or one that plays trades, until a signal. */
export default command({
  options: { ...OPTIONS, ...VARIANTS, rateLimit: RATE_LIMIT, ...STEERING },
  help: `
Simulated traders on a matching engine; the same seed and markets are the same exchange. With --key others can
trade, with --run its markets can be changed over HTTP; such a run is an exchange of its own.

  tapekeep sandbox --port 8080 --seed 7
  tapekeep sandbox --port 8080 --key alice:USDT=100000,BTC=2 --json
  tapekeep sandbox --port 8080 --tape trades.csv --market BTC_USDT --speed 20 --start-offset 60s
  tapekeep sandbox --tape a.csv --market BTC_USDT --tape b.csv --market ETH_USDT --time now

A tape is a CSV file with the columns id,time_ms,price,amount,side. Options beside --like and --dialect win over
them. One line says when it is ready, with addresses and new keys.`,
  needs: nothing,
  async run(_, options) {
    const clock = systemClock;
    const interference = new Faults({ rules: [], seed: options.seed, clock });
    const faultScript = gatherFaultScript(options.faults, options.fault ?? []);
    interference.control.replace(faultScript);
    const { made, read } = gatherKeys(options.key ?? [], options.keys);
    const progress = new Progress();
    const onPast = (share: number) => progress.show(share, 'simulating the past');
    const opening =
      options.tape === undefined
        ? openLive(liveOptions(options, [...made, ...read]), clock, onPast)
        : openTape(tapeOptions(options, options.tape), clock);
    const backend = await opening
      .catch((error: unknown) => {
        throw namingOption(error, made.length);
      })
      .finally(() => progress.end());
    interference.control.replace(faultScript, marketsForGood(backend));
    for (const market of interference.markets()) {
      if (backend.hasMarket(market)) continue;
      process.stderr.write(
        `tapekeep: a fault rule is for ${JSON.stringify(market)}, which is no market yet; it waits until one of this name is created\n`,
      );
    }
    const stderr = new BoundedOutput('stderr', process.stderr);
    const logger = createLogger({ level: 'warn', format: 'auto', clock, destination: stderr });
    const telemetry = createTelemetry({ logger, exchangeNowMs: () => backend.nowMs() });
    stderr.reportTo(telemetry.daemon);
    const { host, port } = options;
    const server = await startExchangeServer({
      ...{ backend, clock, host, port, interference, variants: variantsOf(options) },
      telemetry: telemetry.server,
      control: options.control ?? isLoopback(host),
    });
    const markets = backend.markets().map((market) => market.name);
    const { url, realtimeUrl } = server;
    const keys = made.map(({ name, key, secret }) => ({ name, key, secret }));
    const ready = { url, realtimeUrl, markets, identity: backend.identity, keys };
    printReport(options.json, { ready: true, ...ready, pid: process.pid }, () => [
      `sandbox ready: ${url} (real-time ${realtimeUrl}) trades ${markets.join(', ')}`,
      ...keys.map(({ name, key, secret }) => `  ${name}: key ${key} secret ${secret}`),
    ]);
    await waitForStop(clock, options.forMs, () => undefined);
    await server.stop();
    backend.stop();
  },
});

interface Variants extends Values<typeof VARIANTS> {
  readonly like: Sandbox['like'];
  readonly rateLimit: number | boolean | undefined;
}

function variantsOf({ like, rateLimit, sinceMin, ...options }: Variants): Partial<ServerVariants> {
  const given = Object.entries(options).filter(
    ([name, value]) => Object.hasOwn(VARIANTS, name) && value !== undefined,
  );
  return {
    ...variantsLike(like, Object.fromEntries(given)),
    ...(sinceMin !== undefined && { sinceMin: sinceMin === '0' ? 0 : 1 }),
    ...(rateLimit === false && { rateLimit }),
    ...(typeof rateLimit === 'number' && {
      rateLimit: { limit: rateLimit, windowMs: RATE_WINDOW_MS, enforce: true },
    }),
  };
}

const OPTION_NAMES: Readonly<Partial<Record<keyof LiveOptions, string>>> = {
  pace: '--speed',
  startOffsetS: '--start-offset',
  takerFee: '--fee-taker',
  makerFee: '--fee-maker',
  runId: '--run',
  markets: '--market',
  keys: '--key',
};

/** The option of the command line that an error is about, if it is about one. */
function optionOf(error: TapekeepError, madeKeys: number): string | undefined {
  if (error instanceof LiveError && error.option !== undefined) {
    const [option = '', at] = error.option.split('.');
    if (at !== undefined) return Number(at) < madeKeys ? '--key' : '--keys';
    return OPTION_NAMES[option as keyof LiveOptions];
  }
  if (error.message.startsWith('market name')) return '--market';
  return error.code === 'tape_invalid' ? '--tape' : undefined;
}

/** Errors of an exchange speak of what they are; here it is an option that is wrong. */
function namingOption(error: unknown, madeKeys: number): unknown {
  if (!(error instanceof TapekeepError)) return error;
  const option = optionOf(error, madeKeys);
  if (option === undefined) return error;
  const { code, action, message } = error;
  return new TapekeepError(code, `${option}: ${message}`, { action, cause: error });
}

const RUN_ID_BYTES = 6;

function liveOptions(options: Sandbox, keys: readonly NamedKey[]): LiveOptions {
  const { market = [], speed, time, startOffsetMs = 0, originMs, marketsFile } = options;
  if (speed === 'instant') {
    throw new UsageError(
      '--speed',
      speed,
      'a live exchange has no end; only a tape can be instant',
    );
  }
  if (time === 'tape' && originMs === undefined) {
    throw new UsageError('--time', time, 'without a tape it needs --origin to start from');
  }
  const { takerFee, makerFee, keepAll } = options;
  const { runId: named = keys.length > 0 ? true : undefined } = options;
  const runId = named === true ? randomBytes(RUN_ID_BYTES).toString('hex') : named;
  const described = marketsFile === undefined ? [] : readMarketsFile(marketsFile);
  const markets = [...described, ...market];
  return {
    ...{ pace: speed, keys, keepAll, originMs, takerFee, makerFee, runId },
    ...rulesOf(options),
    markets: markets.length === 0 ? undefined : markets,
    startMs: time === 'tape' && originMs !== undefined ? originMs + startOffsetMs : undefined,
  };
}

/** What is said of a live exchange and of a tape alike. */
function rulesOf({ seed, historyMax, emptyCandles, candleOpen, startOffsetMs: ms }: Sandbox) {
  const startOffsetS = ms === undefined ? undefined : ms / 1000;
  return { seed, historyMax, emptyCandles, candleOpen, startOffsetS };
}

function tapeOptions(options: Sandbox, tape: readonly string[]): TapeOptions {
  const { market = [], speed, time } = options;
  const noOrders = 'a tape takes no orders; leave out --tape';
  for (const [option, value, allowed] of [
    ['--key', options.key?.[0], noOrders],
    ['--keys', options.keys, noOrders],
    ['--run', options.runId === true ? '' : options.runId, noOrders],
    ['--markets-file', options.marketsFile, 'the markets of a tape are named by --market'],
  ] as const) {
    if (value !== undefined) throw new UsageError(option, value, allowed);
  }
  if (tape.length !== market.length) {
    throw new UsageError(
      '--market',
      market.join(' '),
      `each --tape needs its own --market, in the same order (${countOf(tape.length, 'tape')}, ${countOf(market.length, 'market')})`,
    );
  }
  return {
    tapes: tape.map((path, index) => ({ path, market: market[index] ?? '' })),
    ...{ pace: speed, time, ...rulesOf(options) },
  };
}
