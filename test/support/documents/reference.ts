import type { Argument, Command, Option } from 'commander';
import { Registry } from 'prom-client';
import { loadCommands } from '../../../src/cli/command.js';
import { buildProgram } from '../../../src/cli/program.js';
import { KEY_PATHS, VARIABLES, variableOf } from '../../../src/config/keys.js';
import { describedDefaults } from '../../../src/config/yaml-file.js';
import { statusSchema } from '../../../src/console/status-document.js';
import { ERRORS, EXITS } from '../../../src/kernel/errors.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { analysts } from '../dashboards/analysts.js';
import { operators } from '../dashboards/operators.js';
import { fileOf } from '../dashboards/panels.js';
import { defaultYaml } from '../repository/repository.js';

/** The pages of `docs/reference` that come from the code; the one of SQL comes from a database. */

const ignore = () => undefined;

/** First lines of a generated page. */
export function head(title: string, source: string): string {
  return `# ${title}\n\nGenerated from ${source} by \`npm run docs\`.\n\n`;
}

export function table(names: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cellOf).join(' | ')} |\n`;
  return rows.length === 0
    ? ''
    : `${line(names)}|${'---|'.repeat(names.length)}\n${rows.map(line).join('')}`;
}

function cellOf(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').replaceAll('|', '\\|');
}

/** Text of a comment or help line, so that no character of it is taken for markup. */
export function plain(text: string): string {
  return text.replaceAll('*', '\\*').replaceAll('<', '&lt;');
}

function optionText(option: Option): string {
  const { description, argChoices, defaultValue, defaultValueDescription, mandatory } = option;
  const notes = [
    ...(mandatory ? ['required'] : []),
    ...(argChoices === undefined
      ? []
      : [`one of ${argChoices.map((one) => `\`${one}\``).join(', ')}`]),
    ...(defaultValue === undefined
      ? []
      : [`default \`${defaultValueDescription ?? String(defaultValue)}\``]),
  ];
  return plain(description) + (notes.length === 0 ? '' : ` (${notes.join('; ')})`);
}

function argumentName(argument: Argument): string {
  const name = argument.name() + (argument.variadic ? '...' : '');
  return argument.required ? `<${name}>` : `[${name}]`;
}

/** What stands behind the options in the help of a command. */
function helpBehind(command: Command): string {
  let shown = '';
  command.configureOutput({ writeOut: (text) => (shown += text) });
  command.outputHelp();
  return shown.slice(command.helpInformation().length).replace(/^\n+|\s+$/g, '');
}

/** Commands below one, but for the help that each of these has. */
function below({ commands }: Command): Command[] {
  return commands.filter((one) => one.name() !== 'help');
}

/** Options that most commands of a group share, in the words that all of them have. */
function sharedOptions(group: Command): Map<string, string> {
  const commands = below(group);
  const texts = commands.flatMap(({ options }) =>
    options.map((one) => `\`${one.flags}\`|${optionText(one)}`),
  );
  const count = (text: string) => texts.filter((one) => one === text).length;
  const often = [...new Set(texts)].filter(
    (one) => count(one) > 3 && count(one) * 2 > commands.length,
  );
  return new Map(
    often.map((one) => {
      const flags = one.slice(0, one.indexOf('|'));
      const text = one.slice(flags.length + 1);
      const lacking = commands
        .filter(
          ({ options }) =>
            !options.some((option) => one === `\`${option.flags}\`|${optionText(option)}`),
        )
        .map((command) => `\`${command.name()}\``);
      return [flags, lacking.length === 0 ? text : `${text}; not of ${lacking.join(', ')}`];
    }),
  );
}

function commandPart(command: Command, path: string, shared = new Map<string, string>()): string {
  const given = command.registeredArguments;
  const usage = [path, ...given.map(argumentName), '[options]'].join(' ');
  const rows = [
    ...given
      .filter(({ description }) => description !== '')
      .map((one) => [`\`${argumentName(one)}\``, plain(one.description)]),
    ...command.options
      .filter(({ hidden, flags }) => !hidden && !shared.has(`\`${flags}\``))
      .map((one) => [`\`${one.flags}\``, optionText(one)]),
  ];
  const behind = helpBehind(command);
  const common = sharedOptions(command);
  const own = [
    `## ${path}\n`,
    `${plain(command.description().replace(/^./, (letter) => letter.toUpperCase()))}.\n`.replace(
      '..',
      '.',
    ),
    ...(given.length === 0 ? [] : [`\`\`\`text\n${usage}\n\`\`\`\n`]),
    ...(rows.length === 0 ? [] : [table(['argument or option', 'meaning'], rows)]),
    ...(common.size === 0 ? [] : [table(['option of its commands', 'meaning'], [...common])]),
    ...(behind === '' ? [] : [`\`\`\`text\n${behind}\n\`\`\`\n`]),
  ].join('\n');
  return [
    own,
    ...below(command).map((one) => commandPart(one, `${path} ${one.name()}`, common)),
  ].join('\n');
}

async function commandLinePage(): Promise<string> {
  const program = await loadCommands(buildProgram(ignore));
  const [, codes = ''] = /Exit codes:\n([\s\S]*)/.exec(helpBehind(program)) ?? [];
  const exits = Array.from(codes.matchAll(/^ +(\d+) +(.+)$/gm), ([, code = '', text = '']) => [
    code,
    plain(text),
  ]);
  const parts = below(program).map((command) => commandPart(command, `tapekeep ${command.name()}`));
  return [
    head('Command line', 'the table of commands'),
    'Times are UTC (`2026-01-31`, `2026-01-31T12:00:00Z`), counted back from now (`2h`, `7d`), or `now`. Lengths of time\n',
    'are a number and a unit without a space: `500ms`, `10s`, `5m`, `2h`, `7d`.\n\n## Options of every command\n\n',
    table(
      ['option', 'meaning'],
      program.options.map((one) => [`\`${one.flags}\``, optionText(one)]),
    ),
    '\n## Exit codes\n\n',
    table(['code', 'meaning'], exits),
    `\n${parts.join('\n')}`,
  ].join('');
}

function variablesOf(path: string): string {
  const file = `${variableOf(path)}_FILE`;
  return `\`${variableOf(path)}\`${VARIABLES.has(file) ? `, \`${file}\`` : ''}`;
}

function configurationPage(): string {
  const { intro, sections } = describedDefaults(defaultYaml());
  const listed = sections.flatMap(({ settings }) => settings.map(({ path }) => path));
  if (listed.length !== KEY_PATHS.size) {
    throw new Error(`${listed.length} settings found in default.yaml, not ${KEY_PATHS.size}`);
  }
  const paragraphs = intro.split(/\n\n/).slice(1).map(plain);
  const often = [
    'markets',
    'exchange.requestsPerS',
    'streams.trades.schedule',
    'streams.trades.history',
  ];
  const oftenToo = [
    'streams.candles.intervalsS',
    'cold.enabled',
    'retention',
    'database.url',
    'http.port',
  ];
  return `${[
    head('Configuration', '[`config/default.yaml`](../../config/default.yaml)'),
    `${paragraphs.join('\n\n')}\n\n`,
    `Often changed: ${[...often, ...oftenToo].map((path) => `\`${path}\``).join(', ')}.\n`,
    ...sections.map(({ path, about, settings }) =>
      [
        `\n## ${path === '' ? 'Top level' : path}\n`,
        ...(about === '' ? [] : [`${plain(about)}\n`]),
        table(
          ['key', 'default', 'environment', 'meaning'],
          settings.map((one) => [
            `\`${one.path}\``,
            `\`${one.value.replace(/^"(.*)"$/, '$1')}\``,
            variablesOf(one.path),
            plain(one.about),
          ]),
        ),
      ].join('\n'),
    ),
  ]
    .join('')
    .trimEnd()}\n`;
}

async function metricsPage(): Promise<string> {
  const registry = new Registry();
  const labels = new Metrics(registry).labelNames;
  const metrics = (await registry.getMetricsAsJSON()).sort((a, b) => (a.name < b.name ? -1 : 1));
  const rows = metrics.map(({ name, type, help }) => [
    `\`${name}\``,
    String(type),
    (labels.get(name) ?? []).map((label) => `\`${label}\``).join(', '),
    plain(help),
  ]);
  return [
    head('Metrics', 'the registry of metrics'),
    '`/metrics` serves these and Node’s own (`nodejs_…`, `process_…`). Times are in seconds, sizes in bytes.\n\n'.replace(
      '’',
      "'",
    ),
    table(['metric', 'type', 'labels', 'meaning'], rows),
  ].join('');
}

function errorsPage(): string {
  const rows = Object.entries(ERRORS)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, { meaning, action, exit }]) => [
      `\`${code}\``,
      plain(meaning),
      action,
      String(EXITS[exit][0]),
    ]);
  return [
    head('Errors', 'the catalogue of errors'),
    'Every error that the program throws on purpose has a `code`, which never changes its meaning, a message that\n',
    'names what was wrong, where, and what to do, and an `action`:\n\n',
    table(
      ['action', 'meaning'],
      [
        ['retry', 'the same may succeed later; the daemon repeats it with growing pauses'],
        ['skip', 'this piece cannot succeed, the next one may'],
        ['fatal', 'nothing of this kind can succeed until a person changes something'],
      ],
    ),
    '\nThe exit code is that of a command which ends with the error ([exit codes](command-line.md#exit-codes)).\n\n',
    table(['code', 'meaning', 'action', 'exit code'], rows),
  ].join('');
}

/** Generated files by path, but for the page of SQL: pages, and the dashboards of Grafana. */
export async function referencePages(): Promise<Map<string, string>> {
  return new Map([
    ['docs/reference/command-line.md', await commandLinePage()],
    ['docs/reference/configuration.md', configurationPage()],
    ['docs/reference/errors.md', errorsPage()],
    ['docs/reference/metrics.md', await metricsPage()],
    ['docs/reference/status.schema.json', `${JSON.stringify(statusSchema(), null, 2)}\n`],
    ['config/grafana/dashboards/operators.json', fileOf(operators())],
    ['config/grafana/dashboards/analysts.json', fileOf(analysts())],
  ]);
}
