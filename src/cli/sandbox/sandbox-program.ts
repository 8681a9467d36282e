import { type Command, Option } from 'commander';
import type { CandleOpen, EmptyCandles } from '../../sandbox/candles.js';
import {
  KNOWN_EXCHANGES,
  type KnownExchange,
  knownExchanges,
} from '../../server/known-exchanges.js';
import type { ServerVariants } from '../../server/variants.js';
import type { SandboxOptions } from '../commands/sandbox.js';
import type { ExitCode } from '../exit-codes.js';
import {
  countArgument,
  durationArgument,
  gather,
  instantArgument,
  portArgument,
  seedArgument,
  speedArgument,
} from '../options/arguments.js';
import { sandboxCtl } from './sandbox-ctl-program.js';

const SANDBOX_HELP = `
Without --tape it is a working exchange: simulated traders, seeded, on a matching engine. The same
seed and markets are the same exchange after every start. With --key or --keys others can trade too,
and with --run its markets can be changed while it runs (tapekeep sandbox ctl); what is done to it lasts
as long as the process, and each such run is an exchange of its own.

A tape is a CSV file with the columns id,time_ms,price,amount,side.

  tapekeep sandbox --port 8080 --seed 7
  tapekeep sandbox --port 8080 --key alice:USDT=100000,BTC=2 --json
  tapekeep sandbox --port 8080 --tape trades.csv --market BTC_USDT --speed 20 --start-offset 60s
  tapekeep sandbox --tape a.csv --market BTC_USDT --tape b.csv --market ETH_USDT --time now

The one line it prints when ready names its addresses and new keys (with --json for programs).`;

/** What commander makes of the options below. */
interface SandboxFlags {
  readonly host: string;
  readonly port: number;
  readonly backend?: 'live' | 'tape';
  readonly tape?: string[];
  readonly market?: string[];
  readonly speed: number | 'instant';
  readonly seed: number;
  readonly time?: 'tape' | 'now';
  readonly startOffset?: number;
  readonly origin?: number;
  readonly for?: number;
  readonly json?: boolean;
  readonly key?: string[];
  readonly keys?: string;
  /** True without a name. */
  readonly run?: string | true;
  readonly feeTaker?: string;
  readonly feeMaker?: string;
  readonly emptyCandles?: EmptyCandles;
  readonly candleOpen?: CandleOpen;
  readonly pageCap?: number;
  readonly like?: KnownExchange;
  readonly sinceMode?: ServerVariants['sinceMode'];
  readonly sinceMin?: '0' | '1';
  readonly historyTotal?: ServerVariants['historyTotal'];
  readonly tickerName?: ServerVariants['tickerName'];
  readonly envelopes?: ServerVariants['envelopes'];
  readonly precisions?: ServerVariants['precisions'];
  readonly bookFees?: ServerVariants['bookFees'];
  readonly subscribeForm?: ServerVariants['subscribeForm'];
  readonly errorShapes?: ServerVariants['errorShapes'];
  readonly updateShape?: ServerVariants['updateShape'];
  readonly bidsOrder?: ServerVariants['bidsOrder'];
  readonly signedContent?: ServerVariants['signedContent'];
  readonly unknownMethod?: ServerVariants['unknownMethod'];
  readonly badJson?: ServerVariants['badJson'];
  readonly updateInterval?: number;
  readonly idleTimeout?: number;
  /** False by --no-rate-limit; true when neither form is given. */
  readonly rateLimit: number | boolean;
  readonly faults?: string;
  readonly fault?: string[];
  readonly control?: boolean;
  readonly keepAll?: boolean;
  readonly marketsFile?: string;
}

/** Adds `tapekeep sandbox`. */
export function addSandbox(program: Command, finish: (code: ExitCode) => void): void {
  const command = program
    .command('sandbox')
    .description('run an exchange: simulated traders, or a recorded tape')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <number>', 'port to listen on; 0 takes a free one', portArgument, 0)
    .addOption(
      choice('--backend <kind>', 'a working exchange, or played trades', 'live', 'tape').default(
        undefined,
        'live without --tape',
      ),
    )
    .option('--tape <file>', 'CSV of recorded trades; repeat it for more markets', gather)
    .option('--market <name>', 'market of the tape before it, or to trade; repeatable', gather)
    .option('--markets-file <file>', 'markets to trade, by name or described, YAML or JSON')
    .option('--speed <factor>', 'how fast time passes: 1, 20, instant', speedArgument, 1)
    .option('--seed <number>', 'seed of traders and books', seedArgument, 7)
    .addOption(choice('--time <mode>', "the tape's own time, or moved to now", 'tape', 'now'))
    .option('--start-offset <duration>', 'history before the start', durationArgument)
    .option('--origin <time>', 'begin of the history, UTC', instantArgument)
    .option('--for <duration>', 'stop by itself after this time', durationArgument)
    .option('--json', 'print the ready line as JSON');
  addAccounts(command);
  addVariants(command);
  command
    .option('--faults <file>', 'rules of what goes wrong, YAML or JSON')
    .option('--fault <rule>', 'one rule, kind=...,key=value,...; repeatable', gather)
    .option('--control', 'serve the paths below /sandbox/ that steer it (default: on loopback)')
    .option('--no-control', 'do not serve them')
    .option('--keep-all', 'forget no trade, so that /sandbox/truth stays whole; memory grows')
    .enablePositionalOptions()
    .addCommand(sandboxCtl(finish))
    .addHelpText('after', SANDBOX_HELP)
    .action(async (flags: SandboxFlags) => {
      const { sandboxCommand } = await import('../commands/sandbox.js');
      finish(await sandboxCommand(toOptions(flags)));
    });
}

function choice(flags: string, description: string, ...choices: string[]): Option {
  return new Option(flags, description).choices(choices);
}

function addAccounts(command: Command): void {
  command
    .option('--key <name[:balances]>', 'an API key, as alice:USDT=100000,BTC=2; repeatable', gather)
    .option('--keys <file>', 'API keys from a JSON file: [{name, key, secret, balances, active}]')
    .option('--run [name]', 'let markets and funds be changed, in a run of this or a random name')
    .option('--fee-taker <rate>', 'fee rate of takers (default: 0.002)')
    .option('--fee-maker <rate>', 'fee rate of makers (default: 0.001)');
}

/** Behaviours in which servers of the family differ. */
function addVariants(command: Command): void {
  command
    .addOption(choice('--empty-candles <how>', 'where nobody traded', 'omitted', 'filled'))
    .addOption(choice('--candle-open <price>', 'what candles open with', 'first', 'previous'))
    .addOption(choice('--like <exchange>', 'as this one of the family does', ...knownExchanges))
    .addOption(choice('--since-mode <mode>', 'what since and lastId mean', 'skip', 'id'))
    .addOption(choice('--since-min <offset>', 'smallest since and lastId', '0', '1'))
    .addOption(choice('--history-total <how>', 'total of trades in history', 'told', 'omitted'))
    .addOption(choice('--ticker-name <how>', 'name in tickers', 'told', 'omitted'))
    .addOption(choice('--envelopes <how>', 'which answers have one', 'contract', 'swapped'))
    .addOption(choice('--precisions <form>', 'how markets tell them', 'number', 'text'))
    .addOption(choice('--book-fees <how>', 'fees of orders in the book', 'told', 'omitted'))
    .option('--page-cap <rows>', 'return pages of at most this many trades', countArgument)
    .addOption(choice('--error-shapes <kind>', 'bodies of errors', 'contract', 'family', 'ok'))
    .addOption(choice('--subscribe-form <what>', 'one market, or a list', 'market', 'markets'))
    .addOption(choice('--update-shape <kind>', 'form of state.update', 'contract', 'family'))
    .option('--update-interval <duration>', 'shortest time between updates', durationArgument)
    .addOption(choice('--bids-order <order>', 'order of bids in the depth', 'best', 'ascending'))
    .addOption(choice('--signed-content <what>', 'what is signed', 'payload', 'body'))
    .option('--idle-timeout <duration>', 'close silent real-time connections', durationArgument)
    .addOption(choice('--unknown-method <reaction>', 'of the real-time side', 'error', 'silent'))
    .addOption(choice('--bad-json <reaction>', 'of the real-time side', 'ignore', 'close'))
    .option('--rate-limit <requests>', 'refuse more than this in a minute', countArgument)
    .option('--no-rate-limit', 'send no rate-limit headers');
}

const RATE_WINDOW_MS = 60_000;

/** The same without what was not given. */
function given<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

function rateLimitOf(flag: number | boolean): ServerVariants['rateLimit'] | undefined {
  if (flag === false) return false;
  if (typeof flag !== 'number') return undefined;
  return { limit: flag, windowMs: RATE_WINDOW_MS, enforce: true };
}

function toOptions(flags: SandboxFlags): SandboxOptions {
  const { host, port, speed, seed, tape = [], market = [], fault = [], key = [] } = flags;
  return {
    ...{ host, port, speed, seed, tape, market, fault, key },
    backend: flags.backend ?? (tape.length > 0 ? 'tape' : 'live'),
    ...given({
      time: flags.time,
      startOffsetMs: flags.startOffset,
      originMs: flags.origin,
      forMs: flags.for,
      json: flags.json,
      keys: flags.keys,
      runId: flags.run,
      marketsFile: flags.marketsFile,
      keepAll: flags.keepAll,
      takerFee: flags.feeTaker,
      makerFee: flags.feeMaker,
      emptyCandles: flags.emptyCandles,
      candleOpen: flags.candleOpen,
      faults: flags.faults,
      control: flags.control,
    }),
    variants: {
      ...KNOWN_EXCHANGES[flags.like ?? 'contract'],
      ...variantsOf(flags),
    },
  };
}

/** The variants that were given by themselves. */
function variantsOf(flags: SandboxFlags): Partial<ServerVariants> {
  const { sinceMin } = flags;
  return {
    ...(sinceMin !== undefined && { sinceMin: sinceMin === '0' ? 0 : 1 }),
    ...given({
      sinceMode: flags.sinceMode,
      historyTotal: flags.historyTotal,
      tickerName: flags.tickerName,
      envelopes: flags.envelopes,
      precisions: flags.precisions,
      bookFees: flags.bookFees,
      subscribeForm: flags.subscribeForm,
      pageCap: flags.pageCap,
      errorShapes: flags.errorShapes,
      updateShape: flags.updateShape,
      updateIntervalMs: flags.updateInterval,
      bidsOrder: flags.bidsOrder,
      signedContent: flags.signedContent,
      idleTimeoutMs: flags.idleTimeout,
      unknownMethod: flags.unknownMethod,
      badJson: flags.badJson,
      rateLimit: rateLimitOf(flags.rateLimit),
    }),
  };
}
