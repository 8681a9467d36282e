import { TapekeepError } from '../kernel/errors.js';

/** One mistake in the settings. */
export interface ConfigProblem {
  /** Path of the key, `exchange.url`; or the name of a variable or file that is wrong as such. */
  readonly key: string;
  /** Where the value came from: `tapekeep.yaml:7`, an environment variable, the command line. */
  readonly source: string;
  /** The value as given, secrets hidden; undefined when no single value is to blame. */
  readonly value?: string;
  /** What is wrong, or what is allowed. */
  readonly expected: string;
}

function describe({ key, source, value, expected }: ConfigProblem): string {
  const given = value === undefined ? '' : ` is ${value}`;
  return `  ${key}${given} (${source}): ${expected}`;
}

/** The settings cannot be used. Lists every mistake at once, so that one round of edits is enough. */
export class ConfigError extends TapekeepError {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const heading =
      problems.length === 1
        ? 'The configuration has a mistake:'
        : `The configuration has ${problems.length} mistakes:`;
    super('config_invalid', 'fatal', [heading, ...problems.map(describe)].join('\n'));
    this.problems = problems;
  }
}
