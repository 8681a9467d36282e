import { lineOfFile, loadSettings } from '../../config/load.js';
import {
  argument,
  type CommonOptions,
  command,
  flag,
  group,
  nothing,
  sourcesOf,
} from '../command.js';
import { UsageError } from '../failure.js';
import { JSON_DOCUMENT } from '../options.js';
import { type Column, formatTable, printReport, writeOut } from '../output.js';

const settingsOf = (common: CommonOptions) =>
  loadSettings({ env: process.env, ...sourcesOf(common) }).shown();

const show = command({
  args: { names: argument<readonly string[]>('keys or sections (default: all)') },
  options: {
    isSet: flag('--set', 'without defaults'),
    json: JSON_DOCUMENT,
  },
  needs: nothing,
  async run(common, { names, isSet, json }) {
    const all = settingsOf(common);
    const isOf = (key: string, name: string) => key === name || key.startsWith(`${name}.`);
    const unknown = names.find((name) => !all.some((one) => isOf(one.name, name)));
    if (unknown !== undefined) {
      const allowed = 'no setting or section has this name ("tapekeep config show" lists all)';
      throw new UsageError('<key>', unknown, allowed);
    }
    const chosen = all.filter(
      (one) =>
        (names.length === 0 || names.some((name) => isOf(one.name, name))) &&
        !(isSet && one.isDefault),
    );
    const columns: Column<(typeof chosen)[number]>[] = [
      { title: 'setting', text: ({ name }) => name },
      { title: 'value', text: ({ value }) => lineOfFile(value) },
      { title: 'from', text: ({ source }) => source },
    ];
    printReport(json, { settings: chosen }, () =>
      chosen.length === 0 ? 'Nothing is set.' : formatTable(columns, chosen),
    );
  },
});

const VARIABLE = /^environment variable /;

const check = command({
  needs: nothing,
  async run(common) {
    const all = settingsOf(common);
    const set = all.filter(({ isDefault }) => !isDefault);
    const from = [...new Set(set.map(({ source }) => source.replace(/:\d+$/, '')))];
    const names = from.filter((source) => VARIABLE.test(source));
    const sources = from.filter((source) => !VARIABLE.test(source));
    if (names.length > 0) {
      const variables = names.map((source) => source.replace(VARIABLE, '')).join(', ');
      sources.push(`environment variable${names.length === 1 ? '' : 's'} ${variables}`);
    }
    const where = sources.length === 0 ? '' : `, by ${sources.join(', ')}`;
    await writeOut(`The settings are right: ${set.length} of ${all.length} are set${where}.\n`);
  },
});

export default group({
  help: `
Sources, later ones win: defaults, file (--config, TAPEKEEP_CONFIG or ./tapekeep.yaml), environment, options.
Secrets are shown as ***.

  tapekeep config show --set
  tapekeep config show exchange database.url
  tapekeep config check --config tapekeep.yaml`,
  commands: {
    'show [options] [names...]': ['print every setting, its value and where that is from', show],
    check: ['look for mistakes in file and environment; exit code 2 names each', check],
  },
});
