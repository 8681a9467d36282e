import { Command, Option } from 'commander';
import type { ServerVariants } from '../server/variants.js';
import {
  countArgument,
  durationArgument,
  gather,
  instantArgument,
  portArgument,
  seedArgument,
  speedArgument,
} from './arguments.js';
import type { QueryOptions } from './commands/query.js';
import type { SandboxOptions } from './commands/sandbox.js';
import type { StatusOptions } from './commands/status.js';
import type { ExitCode } from './exit-codes.js';
import type { CommonOptions } from './session.js';
import { VERSION } from './version.js';

const EXIT_CODE_HELP = `
Exit codes:
  0    done, or stopped on request after everything received was stored
  1    something failed while running; starting again may help
  2    a wrong option or setting
  3    the database refuses: newer schema, archive of another exchange, another writer
  4    the exchange can not be used, has become another one, or refuses a call
  5    nothing tells whether an order was placed: look before placing it again
  130  ended at once on a second signal`;

const START_HELP = `
Without settings it needs nothing: it boots the Postgres that ships with it below ./data, starts the
built-in sandbox exchange, and collects its trades, depth, tickers, candles and states.

  tapekeep start --for 60s
  TAPEKEEP_EXCHANGE_URL=https://api.example.com TAPEKEEP_REALTIME_URL=wss://ws.example.com \\
    TAPEKEEP_DATABASE_URL=postgres://user@host/db TAPEKEEP_MARKETS=BTC_USDT,ETH_USDT tapekeep start

Every setting is explained in config/default.yaml. Stop with Ctrl-C: what has arrived is stored
first; a second Ctrl-C ends at once, and nothing is lost but time.`;

const SANDBOX_HELP = `
A tape is a CSV file with the columns id,time_ms,price,amount,side. Without --tape the trades are
generated from the seed.

  tapekeep sandbox --port 8080 --seed 7
  tapekeep sandbox --port 8080 --tape trades.csv --market BTC_USDT --speed 20 --start-offset 60s
  tapekeep sandbox --tape a.csv --market BTC_USDT --tape b.csv --market ETH_USDT --time now

Faults on demand: rules with a kind and where, when and how often it strikes (see the README).

  tapekeep sandbox --fault kind=latency,where=history,probability=0.1,ms=500 --fault kind=reset,every=50
  tapekeep sandbox --faults rules.yaml

While it runs, GET, PUT and DELETE /sandbox/faults show, replace and end them, with a count of each,
and /sandbox/truth?market=BTC_USDT streams every trade ever issued, one JSON object a line.

The one line it prints when ready names its addresses (with --json for programs).`;

const QUERY_HELP = `
  tapekeep query "select market_id, count(*) from trade group by 1"
  tapekeep query --file spread.sql --json

The statement runs read-only. Tables and columns carry comments; see the README for examples.`;

/**
 * The command line. Each command loads its own code, so that help and mistakes answer at once.
 *
 * `finish` receives the exit code of the command that ran.
 */
export function buildProgram(finish: (code: ExitCode) => void): Command {
  const program = new Command('tapekeep')
    .description(
      'Collects the market data of a spot exchange into Postgres, and knows what is complete.',
    )
    .version(VERSION)
    .addHelpText('after', EXIT_CODE_HELP)
    .showHelpAfterError('(tapekeep --help explains the commands)')
    .configureHelp({ showGlobalOptions: true })
    .option('-c, --config <file>', 'settings in YAML (default: ./tapekeep.yaml if it exists)')
    .addOption(
      new Option('--log-level <level>', 'least important lines that are logged').choices([
        'trace',
        'debug',
        'info',
        'warn',
        'error',
        'fatal',
        'silent',
      ]),
    )
    .addOption(
      new Option('--log-format <format>', 'how the log on stderr looks').choices([
        'auto',
        'json',
        'pretty',
      ]),
    );
  const common = () => program.opts<CommonOptions>();

  program
    .command('start')
    .description('collect until stopped')
    .option('--for <duration>', 'stop by itself after this time, such as 60s', durationArgument)
    .addHelpText('after', START_HELP)
    .action(async ({ for: forMs }: { for?: number }) => {
      const { start } = await import('./commands/start.js');
      finish(await start({ ...common(), ...(forMs === undefined ? {} : { forMs }) }));
    });

  addSandbox(program, finish);

  program
    .command('api')
    .description("call the exchange's API, and watch its states: tapekeep api --help")
    .argument('[args...]', 'an endpoint and its options')
    // What follows belongs to a program of its own, help included; it is read there.
    .allowUnknownOption()
    .helpOption(false)
    .action(async (args: string[]) => {
      const { apiCommand } = await import('./commands/api.js');
      await apiCommand(args, common(), finish);
    });

  program
    .command('migrate')
    .description('bring the schema of the database up to date')
    .action(async () => {
      const { migrateCommand } = await import('./commands/migrate.js');
      finish(await migrateCommand(common()));
    });

  program
    .command('status')
    .description('show what the archive holds: rows, newest, lag, coverage and gaps')
    .option('--json', 'one JSON document')
    .action(async (options: StatusOptions) => {
      const { statusCommand } = await import('./commands/status.js');
      finish(await statusCommand({ ...common(), ...options }));
    });

  program
    .command('query')
    .description('run one read-only SQL statement against the archive')
    .argument('[sql]', 'the statement')
    .option('-f, --file <file>', 'read the statement from a file; - is standard input')
    .option('--json', 'one JSON object a row')
    .addHelpText('after', QUERY_HELP)
    .action(async (sql: string | undefined, options: QueryOptions) => {
      const { queryCommand } = await import('./commands/query.js');
      finish(await queryCommand(sql, { ...common(), ...options }));
    });

  return program;
}

interface SandboxFlags {
  readonly host: string;
  readonly port: number;
  readonly tape?: string[];
  readonly market?: string[];
  readonly speed: number | 'instant';
  readonly seed: number;
  readonly time?: 'tape' | 'now';
  readonly startOffset?: number;
  readonly origin?: number;
  readonly for?: number;
  readonly json?: boolean;
  readonly pageCap?: number;
  readonly errorShapes?: ServerVariants['errorShapes'];
  readonly updateShape?: ServerVariants['updateShape'];
  readonly bidsOrder?: ServerVariants['bidsOrder'];
  readonly rateLimit: boolean;
  readonly faults?: string;
  readonly fault?: string[];
  readonly control?: boolean;
}

function addSandbox(program: Command, finish: (code: ExitCode) => void): void {
  program
    .command('sandbox')
    .description('run an exchange that plays recorded or generated trades')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <number>', 'port to listen on; 0 takes a free one', portArgument, 0)
    .option('--tape <file>', 'CSV of recorded trades; repeat it for more markets', gather)
    .option('--market <name>', 'market of the tape before it, or to generate; repeatable', gather)
    .option('--speed <factor>', 'how fast time passes: 1, 20, instant', speedArgument, 1)
    .option('--seed <number>', 'seed of books and generated trades', seedArgument, 7)
    .addOption(
      new Option('--time <mode>', "the tape's own time, or moved to now").choices(['tape', 'now']),
    )
    .option('--start-offset <duration>', 'history before the start', durationArgument)
    .option('--origin <time>', 'begin of generated history, UTC', instantArgument)
    .option('--for <duration>', 'stop by itself after this time', durationArgument)
    .option('--page-cap <rows>', 'return pages of at most this many trades', countArgument)
    .addOption(new Option('--error-shapes <kind>').choices(['contract', 'family']))
    .addOption(new Option('--update-shape <kind>').choices(['contract', 'family']))
    .addOption(new Option('--bids-order <order>').choices(['best', 'ascending']))
    .option('--no-rate-limit', 'send no rate-limit headers')
    .option('--faults <file>', 'rules of what goes wrong, YAML or JSON')
    .option('--fault <rule>', 'one rule, kind=...,key=value,...; repeatable', gather)
    .option('--control', 'serve /sandbox/faults and /sandbox/truth (default: on loopback)')
    .option('--no-control', 'do not serve them')
    .option('--json', 'print the ready line as JSON')
    .addHelpText('after', SANDBOX_HELP)
    .action(async (flags: SandboxFlags) => {
      const { sandboxCommand } = await import('./commands/sandbox.js');
      finish(await sandboxCommand(toOptions(flags)));
    });
}

function toOptions(flags: SandboxFlags): SandboxOptions {
  const { pageCap, errorShapes, updateShape, bidsOrder } = flags;
  return {
    host: flags.host,
    port: flags.port,
    tape: flags.tape ?? [],
    market: flags.market ?? [],
    speed: flags.speed,
    seed: flags.seed,
    ...(flags.time === undefined ? {} : { time: flags.time }),
    ...(flags.startOffset === undefined ? {} : { startOffsetMs: flags.startOffset }),
    ...(flags.origin === undefined ? {} : { originMs: flags.origin }),
    ...(flags.for === undefined ? {} : { forMs: flags.for }),
    ...(flags.json === undefined ? {} : { json: flags.json }),
    ...(flags.faults === undefined ? {} : { faults: flags.faults }),
    ...(flags.control === undefined ? {} : { control: flags.control }),
    fault: flags.fault ?? [],
    variants: {
      ...(pageCap === undefined ? {} : { pageCap }),
      ...(errorShapes === undefined ? {} : { errorShapes }),
      ...(updateShape === undefined ? {} : { updateShape }),
      ...(bidsOrder === undefined ? {} : { bidsOrder }),
      ...(flags.rateLimit ? {} : { rateLimit: false as const }),
    },
  };
}
