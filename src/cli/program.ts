import { Command, Option } from 'commander';
import type { MigrateCommandOptions } from './commands/migrate.js';
import type { StatusOptions } from './commands/status.js';
import type { VerifyOptions } from './commands/verify.js';
import type { ExitCode } from './exit-codes.js';
import { addExport } from './export/export-program.js';
import { addCompleteness } from './gaps/gaps-program.js';
import { addLife } from './life/life-program.js';
import type { CommonOptions } from './opening/session.js';
import { durationArgument, gather, waitArgument } from './options/arguments.js';
import { momentArgument } from './options/moments.js';
import { addQuery } from './query/query-program.js';
import { addReplay } from './replay/replay-program.js';
import { addSandbox } from './sandbox/sandbox-program.js';
import { VERSION } from './version.js';

const EXIT_CODE_HELP = `
Exit codes:
  0    done, or stopped on request after everything received was stored
  1    something failed while running; starting again may help
  2    a wrong option or setting
  3    the database refuses: newer schema, archive of another exchange, another writer
  4    the exchange can not be used, has become another one, or refuses a call
  5    nothing tells whether an order was placed: look before placing it again
  6    verify: something is not proven, or wrong; the output names it
  7    gaps fill, backfill: not all of it could be filled now; the output tells why
  8    export: the span is not complete; nothing was written
  130  ended at once: the daemon on a second signal, other commands on the first`;

const START_HELP = `
Without settings it needs nothing: it boots the Postgres that ships with it below ./data, starts the
built-in sandbox exchange, and collects its trades, depth, tickers, candles and states.

  tapekeep start --for 60s
  TAPEKEEP_EXCHANGE_URL=https://api.example.com TAPEKEEP_REALTIME_URL=wss://ws.example.com \\
    TAPEKEEP_DATABASE_URL=postgres://user@host/db TAPEKEEP_MARKETS=BTC_USDT,ETH_USDT tapekeep start

Every setting is explained in config/default.yaml. Stop with Ctrl-C: what has arrived is stored
first; a second Ctrl-C ends at once, and nothing is lost but time.`;

const VERIFY_HELP = `
Trades and candles are told by the exchange on two roads. Where the archive holds both, their sums
and prices must agree to the last digit. Without a span all that was collected is judged.

  tapekeep verify
  tapekeep verify --market BTC_USDT --from 2h
  tapekeep verify --from 2026-01-31 --to 2026-02-01T12:00:00Z --json

It exits with 0 only when nothing is left in doubt: a mismatch, a gap, or a candle that can not be
judged makes it 6. A running daemon fetches again what does not agree.`;

interface StartArguments {
  readonly for?: number;
  readonly waitForDatabase?: number;
}

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
    .option(
      '--wait-for-database <duration>',
      'while it is down, starting or frozen; 0 for none (default: database.startWait, 2m)',
      waitArgument,
    )
    .addHelpText('after', START_HELP)
    .action(async ({ for: forMs, waitForDatabase: waitMs }: StartArguments) => {
      const { start } = await import('./commands/start.js');
      const given = { ...(forMs === undefined ? {} : { forMs }) };
      finish(await start({ ...common(), ...given, ...(waitMs === undefined ? {} : { waitMs }) }));
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
    .option('--citus', 'not supported yet: refused')
    .action(async (options: MigrateCommandOptions) => {
      const { migrateCommand } = await import('./commands/migrate.js');
      finish(await migrateCommand({ ...common(), ...options }));
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
    .command('verify')
    .description('hold the stored trades against the stored candles, and name every doubt')
    .option('-m, --market <name>', 'only this market; may be repeated', gather)
    .option('--from <time>', 'from this time on, or this long back, such as 2h', momentArgument)
    .option('--to <time>', 'up to this time', momentArgument)
    .option('--json', 'one JSON document')
    .addHelpText('after', VERIFY_HELP)
    .action(async (options: VerifyOptions) => {
      const { verifyCommand } = await import('./commands/verify.js');
      finish(await verifyCommand({ ...common(), ...options }));
    });

  addCompleteness(program, common, finish);
  addExport(program, common, finish);
  addLife(program, common, finish);
  addReplay(program, common, finish);

  addQuery(program, common, finish);

  return program;
}
