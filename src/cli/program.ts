import { Command, Option } from 'commander';
import { nearestName } from '../kernel/nearest.js';
import { type Commands, type CommonOptions, type Declared, LISTED, VERSION } from './command.js';
import { EXIT_CODE_HELP, type ExitCode } from './failure.js';

/** Every command. Its code is loaded when it is named, so that help and mistakes answer at once. */
const COMMANDS: Commands = {
  'start [options]': ['collect until stopped', () => import('./commands/start.js')],
  'sandbox [options]': [
    'run an exchange: simulated traders, or a recorded tape',
    () => import('./commands/sandbox.js'),
  ],
  api: [
    "call the exchange's API, and watch its states: tapekeep api --help",
    () => import('./commands/api.js'),
  ],
  handover: ['hand collecting over to a standby', () => import('./commands/handover.js')],
  'migrate [options]': [
    'bring the schema of the database up to date',
    () => import('./commands/migrate.js'),
  ],
  config: [
    'show the settings and where each comes from, and check them',
    () => import('./commands/config.js'),
  ],
  'doctor [options]': [
    'check the configuration, database, disk and exchange',
    () => import('./commands/doctor.js'),
  ],
  'status [options]': [
    'show what the archive holds and how complete it is',
    () => import('./commands/status.js'),
  ],
  'verify [options]': [
    'compare stored trades with stored candles and list mismatches',
    () => import('./commands/verify.js'),
  ],
  'report [options]': [
    'write a sheet of data quality for a month',
    () => import('./commands/report.js'),
  ],
  gaps: ['list, explain, note and fill what is missing', () => import('./commands/gaps.js')],
  'backfill [options]': [
    'download a past time range, independent of regular collection',
    () => import('./commands/backfill.js'),
  ],
  quarantine: ['show refused rows of the exchange', () => import('./commands/quarantine.js')],
  'export [options]': [
    'write rows into a file: csv, ndjson or parquet',
    () => import('./commands/export.js'),
  ],
  'import [options] <file>': [
    'store trades or candles of a file: csv or parquet',
    () => import('./commands/import.js'),
  ],
  'duckdb-views [options]': [
    'print a script that gives any DuckDB the tables of the archive',
    () => import('./commands/duckdb-views.js'),
  ],
  'db [options]': [
    'keep the embedded Postgres up, without collecting',
    () => import('./commands/db.js'),
  ],
  'psql [options] [arguments...]': [
    'open psql as the read-only user',
    () => import('./commands/psql.js'),
  ],
  'url [options]': [
    'print the address of the database for other programs',
    () => import('./commands/url.js'),
  ],
  'partitions [options]': [
    'list the partitions with state, rows and size',
    () => import('./commands/partitions.js'),
  ],
  'seal [options]': [
    'seal partitions whose time is over; with --archive move them into files',
    () => import('./commands/seal.js'),
  ],
  'restore [options]': [
    'bring archived partitions back into the database',
    () => import('./commands/restore.js'),
  ],
  'backup [options] <dir>': [
    'copy the archive into a folder while it is in use',
    () => import('./commands/backup.js'),
  ],
  'recover [options] <dir>': [
    'make an archive of a backup and check it',
    () => import('./commands/recover.js'),
  ],
  cold: ['move cold files to another folder or bucket', () => import('./commands/cold.js')],
  adopt: ['give the folder of cold files to this database', () => import('./commands/adopt.js')],
  'replay [options]': [
    'serve the archive as an exchange of the past',
    () => import('./commands/replay.js'),
  ],
  'query [options] [sql]': [
    'run one SQL statement over rows in the database and in files',
    () => import('./commands/query.js'),
  ],
};

const INVALID = /^error: option '(?:-\w, )?(--[\w-]+)[^']*' argument '([^']*)' is invalid\. */;

/** Errors of the parser, in the words of {@link UsageError}. */
function inOneVoice(text: string): string {
  return text
    .replace(INVALID, 'tapekeep: $1: "$2" is not allowed. ')
    .replace(/^error: /, 'tapekeep: ');
}

/** Tasks, each with the commands that serve it and an example. */
const TASKS: ReadonlyMap<string, readonly [names: string, example: string]> = new Map([
  ['Collect', ['start handover sandbox config doctor migrate', 'tapekeep start']],
  ['Look', ['status gaps verify report quarantine', 'tapekeep gaps --market BTC_USDT']],
  ['Fill', ['backfill import', 'tapekeep backfill --market BTC_USDT --kinds trades --from 2d']],
  [
    'Use',
    ['query export replay psql url duckdb-views', 'tapekeep query "select count(*) from trades"'],
  ],
  ['Keep', ['partitions seal restore cold backup recover adopt db', 'tapekeep seal --archive']],
  ['Call the exchange', ['api', 'tapekeep api --help']],
]);

function headingOf(name: string): string {
  const found = [...TASKS].find(([, [names]]) => names.split(' ').includes(name));
  return found === undefined ? 'Other:' : `${found[0]}, such as: ${found[1][1]}`;
}

type Finish = (code: ExitCode) => void;

const termOf = (one: Command) => LISTED.get(one)?.line ?? `${one.name()} ${one.usage()}`;

/**
 * The command line.
 *
 * @param finish receives the exit code of the command that ran
 */
export function buildProgram(finish: Finish): Command {
  const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];
  const program = new Command('tapekeep')
    .description('Collects market data of a spot exchange and proves what is complete.')
    .version(VERSION)
    .exitOverride()
    .optionsGroup('Options, taken by every command:')
    .addHelpText('after', EXIT_CODE_HELP)
    .configureOutput({ outputError: (text, write) => write(inOneVoice(text)) })
    .configureHelp({ subcommandTerm: termOf })
    .option('-c, --config <file>', 'settings in YAML (default: ./tapekeep.yaml if it exists)')
    .addOption(
      new Option('--log-level <level>', 'least important lines that are logged').choices(levels),
    )
    .addOption(
      new Option('--log-format <format>', 'how the log on stderr looks').choices([
        'auto',
        'json',
        'pretty',
      ]),
    );
  addCommands(program, COMMANDS, { finish, common: () => program.opts<CommonOptions>() });
  for (const one of program.commands) one.helpGroup(headingOf(one.name()));
  addHelpCommand(program);
  return program;
}

interface Running {
  readonly finish: Finish;
  readonly common: () => CommonOptions;
}

/** Adds commands that are loaded when they are named. */
function addCommands(parent: Command, commands: Commands, running: Running, standard?: string) {
  for (const [line, [about, source]] of Object.entries(commands)) {
    const [name = '', ...usage] = line.split(' ');
    const child = parent.command(name, { isDefault: name === standard }).description(about);
    let loading: Promise<void> | undefined;
    const declareIt = async () => {
      const declared = typeof source === 'function' ? (await source()).default : source;
      declare(child, usage, declared, running);
    };
    const load = () => {
      loading ??= declareIt();
      return loading;
    };
    LISTED.set(child, { line, load });
  }
  parent.hook('preSubcommand', async (_, child) => {
    await LISTED.get(child)?.load();
    if (child.name() === standard) refuseUnknown(parent);
  });
}

/** A word in place of a command would be taken for an argument of the one that runs where none is named. */
function refuseUnknown(parent: Command): void {
  const [word] = parent.args;
  const names = parent.commands.map((one) => one.name());
  if (word === undefined || word.startsWith('-') || names.includes(word)) return;
  const nearest = nearestName(word, names);
  const advice =
    nearest === undefined ? `there are ${names.join(', ')}` : `did you mean ${nearest}?`;
  parent.error(`error: unknown command '${word}': ${advice}`);
}

/** Commander's own would show the help of a command that is not loaded. */
function addHelpCommand(parent: Command): void {
  parent
    .command('help')
    .usage('[command]')
    .helpOption(false)
    .description('display help for command')
    .argument('[command]')
    .action(async (name?: string) => {
      if (name === undefined) parent.help();
      if (parent.commands.every((one) => one.name() !== name)) parent.help({ error: true });
      await parent.parseAsync([name, '--help'], { from: 'user' });
    });
}

/** Makes of a named command what its file declares. */
function declare(
  command: Command,
  usage: readonly string[],
  { description, help, hint, args, options, commands, standard, run }: Declared,
  running: Running,
): void {
  for (const [at, form] of usage.filter((word) => word !== '[options]').entries()) {
    const argument = command.createArgument(form, args[at]?.description);
    const read = args[at]?.read;
    if (read?.words !== undefined) argument.choices(read.words);
    command.addArgument(
      read === undefined ? argument : argument.argParser(read as (text: string) => unknown),
    );
  }
  for (const option of options) command.addOption(option);
  if (description !== undefined) command.description(description);
  if (help !== undefined) command.addHelpText('after', help);
  if (hint !== undefined) {
    command.showHelpAfterError(hint);
    // What is as good as a program of its own does not list the options of this one.
    if (commands !== undefined) command.configureHelp({ subcommandTerm: termOf });
  }
  if (commands !== undefined) addCommands(command, commands, running, standard);
  if (run === undefined) {
    addHelpCommand(command);
    return;
  }
  command.action(async (...given: unknown[]) => {
    const code = await run(running.common(), given, command);
    if (code !== undefined) running.finish(code);
  });
}
