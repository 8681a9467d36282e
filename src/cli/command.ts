import { readFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import type { ConfigTree, LoadOptions } from '../config/load.js';
import type { ExitCode } from './failure.js';

const manifest = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { version: string };

/** The version of this program, from its package. */
export const VERSION = manifest.version;

/** Options that every command takes. */
export interface CommonOptions {
  readonly config?: string;
  readonly logLevel?: string;
  readonly logFormat?: string;
}

/** What they set, as sources of the settings. @param more what options of one command set */
export function sourcesOf(
  { config: file, logLevel: level, logFormat: format }: CommonOptions,
  more: ConfigTree = {},
): Pick<LoadOptions, 'file' | 'overrides'> {
  const log = { ...(level && { level }), ...(format && { format }) };
  return { file, overrides: { ...more, log: log as NonNullable<ConfigTree['log']> } };
}

/** Reader of a value; gets what a repeated option gave before. Throws InvalidArgumentError. */
type Read<T> = ((text: string, earlier: never) => T) & {
  /** All words that it accepts, where they are few: help lists them. */
  readonly words?: readonly string[];
};

/** A reader of a few words, or of lists of them, that tells which these are. */
export function ofWords<F extends Read<unknown>>(words: readonly string[], read: F) {
  return Object.assign(read, { words });
}

/** One option, or a pair that sets and denies it, with the type of its value. */
export interface Input<T> {
  readonly options: readonly Option[];
  /** Stands in where it is not given, and is not shown as a default. */
  readonly unset?: T;
  /** For the compiler alone. */
  readonly gives?: T;
}

/** A positional argument; its name and form stand in the usage. */
export interface Argument<T> {
  readonly description: string;
  readonly read?: Read<T> | undefined;
  /** For the compiler alone. */
  readonly gives?: T;
}

type Gives<I> = I extends { readonly gives?: infer T } ? T : never;
export type Values<I> = { readonly [K in keyof I]: Gives<I[K]> };

/** An option without a value: whether it is given. */
export function flag(flags: string, description: string): Input<boolean> {
  return { options: [new Option(flags, description)], unset: false };
}

/** An option with a value; `standard` stands in where it is not given. */
export function option<T = string, S extends T | undefined = undefined>(
  flags: string,
  description: string,
  read?: Read<T>,
  standard?: S,
  shown?: string,
): Input<NoInfer<T | S>> {
  const made = new Option(flags, description).default(standard, shown);
  if (read?.words !== undefined) made.choices(read.words);
  return { options: [read === undefined ? made : made.argParser(read as (text: string) => T)] };
}

/** An option that must be given. */
export function required<T>(flags: string, description: string, read: Read<T>): Input<T> {
  const { options } = option(flags, description, read);
  return { options: options.map((one) => one.makeOptionMandatory()) };
}

/** An option whose value is one of a few words. */
export function choice<const W extends string, S extends W | undefined = undefined>(
  flags: string,
  description: string,
  words: readonly W[],
  standard?: S,
): Input<NoInfer<W | S>> {
  return { options: [new Option(flags, description).choices(words).default(standard)] };
}

export function argument<T extends string | readonly string[] | undefined>(
  description: string,
): Argument<T>;
export function argument<T>(description: string, read: Read<T>): Argument<T>;
export function argument<T>(description: string, read?: Read<T>): Argument<T> {
  return { description, read };
}

/** Opens what a command needs, hands it over, and closes it whatever happens. */
export type Need<C> = (
  common: CommonOptions,
  use: (context: C) => Promise<ExitCode | undefined>,
) => Promise<ExitCode | undefined>;

/** For commands that open by themselves what they use. */
export const nothing: Need<CommonOptions> = (common, use) => use(common);

/** Commands by their usage, each with the line that lists it. */
export type Commands = Readonly<Record<string, readonly [string, Loading | Declared]>>;
type Loading = () => Promise<{ readonly default: Declared }>;

/** Parts of a command that its help shows. */
interface Shown {
  /** Default: the line that lists it. */
  readonly description?: string;
  /** Text below the options in its help. */
  readonly help?: string;
  /** The line after a mistake, in place of the program's. */
  readonly hint?: string;
}

/** The commands below a command that does nothing by itself. */
interface Below {
  readonly commands: Commands;
  /** Name of the command that runs where none is named. */
  readonly standard?: string;
}

/** A command as the program takes it. */
export interface Declared extends Shown, Partial<Below> {
  readonly args: readonly Argument<unknown>[];
  readonly options: readonly Option[];
  /** Left out by a command that only has others below it. */
  readonly run?: (
    common: CommonOptions,
    given: readonly unknown[],
    command: Command,
  ) => Promise<ExitCode | undefined>;
}

/** Declares a command: its options, what it needs, and what it does with them. */
export function command<
  C,
  A extends Readonly<Record<string, Argument<unknown>>> = Record<never, never>,
  O extends Readonly<Record<string, Input<unknown>>> = Record<never, never>,
>(
  spec: Shown & {
    /** In the order of the usage. */
    readonly args?: A;
    /** By the name of their value, which may be another than the option's. */
    readonly options?: O;
    readonly needs: Need<C>;
    /** @returns the exit code; undefined when all went well */
    readonly run: (
      context: C,
      values: Values<A> & Values<O>,
      command: Command,
    ) => Promise<ExitCode | undefined>;
  },
): Declared {
  const { args = {}, options = {}, needs, run, ...shown } = spec;
  const names = Object.keys(args);
  const inputs = Object.entries<Input<unknown>>(options);
  return {
    ...shown,
    args: Object.values<Argument<unknown>>(args),
    options: inputs.flatMap(([, input]) => input.options),
    run: (common, given, made) => {
      const optionValues = made.opts<Record<string, unknown>>();
      const values = Object.fromEntries([
        ...names.map((name, at) => [name, given[at]] as const),
        ...inputs.map(([name, input]) => {
          const given = optionValues[input.options[0]?.attributeName() ?? ''];
          return [name, given ?? input.unset] as const;
        }),
      ]) as Values<A> & Values<O>;
      return needs(common, (context) => run(context, values, made));
    },
  };
}

/** Declares a command that only has others below it. */
export function group(shown: Shown & Below): Declared {
  return { ...shown, args: [], options: [] };
}

interface Listed {
  readonly line: string;
  load(): Promise<void>;
}

/** What is known of commands before they are named: how they are listed, and how to load the rest. */
export const LISTED = new WeakMap<Command, Listed>();

/** Loads all commands below one, for what shows everything. */
export async function loadCommands(command: Command): Promise<Command> {
  for (const child of command.commands) {
    await LISTED.get(child)?.load();
    await loadCommands(child);
  }
  return command;
}
