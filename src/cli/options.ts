import { InvalidArgumentError, Option } from 'commander';
import { DURATION_FORM, parseDuration } from '../kernel/durations.js';
import { type Instant, readInstant } from '../kernel/instants.js';
import { nearestName } from '../kernel/nearest.js';
import { GAP_REASONS, reasonLabel } from '../model/gap-reasons.js';
import { nameMeant } from '../model/kinds.js';
import {
  SERIES,
  STREAM_KINDS,
  type StreamKind,
  streamsOf,
  WRITTEN_SERIES,
} from '../model/series.js';
import { flag, type Input, ofWords, option } from './command.js';

/** Readers of option values; each refusal says what is allowed. Commander adds option and value. */

export function durationArgument(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError(`Write ${DURATION_FORM}.`);
  return ms;
}

const LONGEST_TIMEOUT_MS = 86_400_000;

/** A time limit: there is none without an end. */
export function timeoutArgument(text: string): number {
  const ms = durationArgument(text);
  if (ms >= 1 && ms <= LONGEST_TIMEOUT_MS) return ms;
  throw new InvalidArgumentError('Write a duration above 0 and up to 24h.');
}

/** A duration, or 0. */
export function waitArgument(text: string): number {
  return text === '0' ? 0 : durationArgument(text);
}

const wholeArgument = (min: number, max: number) => (text: string) => {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new InvalidArgumentError(`Write a whole number from ${min} to ${max}.`);
};

const portArgument = wholeArgument(0, 65_535);
/** Memory in megabytes. */
export const cacheArgument = wholeArgument(64, 1_000_000);
export const seedArgument = wholeArgument(0, 4_294_967_295);
export const countArgument = wholeArgument(1, 1_000_000);
export const limitOrNoneArgument = wholeArgument(0, 999_999);
/** A period in seconds, up to a week. */
export const periodArgument = wholeArgument(1, 604_800);

function factorArgument(text: string, advice: string): number {
  const value = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (value > 0 && value <= 100_000) return value;
  throw new InvalidArgumentError(`Write a factor such as ${advice}.`);
}

export function speedArgument(text: string): number | 'instant' {
  return text === 'instant' ? text : factorArgument(text, '1, 20 or 0.5, or "instant"');
}

/** How fast a recording plays: a factor, as fast as it is read, or by hand. */
export function playSpeedArgument(text: string): number | 'max' | 'step' {
  if (text === 'max' || text === 'step') return text;
  return factorArgument(text, '1, 100 or 0.5, or "max" or "step"');
}

export function utcInstantArgument(text: string): number {
  const ms = Date.parse(text);
  if (!/^\d{4}-\d\d-\d\dT.*Z$/.test(text) || Number.isNaN(ms)) {
    throw new InvalidArgumentError('Write a UTC time such as 2026-01-31T12:00:00Z.');
  }
  return ms;
}

/** Names as people type them: `historyResult` is `history-result`. */
export function kebabCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Gathers a repeatable option. */
export function gather(text: string, earlier: readonly string[] = []): string[] {
  return [...earlier, text];
}

/** Value of an option beside its text: a refusal shows what was typed. */
export interface Typed<T> {
  readonly value: T;
  readonly text: string;
}

/**
 * Reads a time of an option, as {@link readInstant}.
 *
 * @throws InvalidArgumentError saying what is allowed; commander adds option and value
 */
export function instantArgument(text: string): Instant {
  const instant = readInstant(text);
  if (instant !== undefined) return instant;
  throw new InvalidArgumentError(
    `Write a day such as 2026-01-31, a time such as 2026-01-31T12:00:00Z (UTC unless a zone follows), ${DURATION_FORM} back from now, or now.`,
  );
}

/**
 * Reads where a span begins: as {@link instantArgument}, or `start`, which is the same as to leave it out.
 *
 * @throws InvalidArgumentError saying what is allowed
 */
export function spanStartArgument(text: string): Instant {
  return text.trim() === 'start' ? START : instantArgument(text);
}

/** Before all time. A parser of options cannot give nothing. */
const START: Instant = { atMs: Number.NEGATIVE_INFINITY, text: 'start' };

/** Without it a span that reaches beyond coverage is refused. */
export const CLAMP = flag('--clamp', 'move --from and --to in to where coverage starts and ends');

/** What can be asked for again later. */
const FETCHABLE = WRITTEN_SERIES.filter((table) => SERIES[table].isFetchable).map(
  (table) => SERIES[table].kind,
);
/** What can be asked for again by itself. */
export const FILLED_KINDS = ['trades', 'candles'] as const;

/** A stream's kind as people call it, in singular or plural or as its table; undefined for what is none. */
export function kindOf(word: string): StreamKind | undefined {
  const table = WRITTEN_SERIES.find((one) => one === word.trim().toLowerCase());
  return table === undefined ? nameMeant(word, STREAM_KINDS) : streamsOf(table)[0];
}

/** Reads and gathers a list of kinds with commas. */
export const kindsArgument = listArgument(STREAM_KINDS, (word) => readKind(word, STREAM_KINDS));

/** Argument that takes kinds which can be fetched later. */
export const fetchedKindsArgument = listArgument(FILLED_KINDS, (word): StreamKind => {
  const kind = readKind(word, FETCHABLE);
  if (kind === 'trades' || kind === 'candles') return kind;
  throw new InvalidArgumentError(
    `"${word}" cannot be filled: it exists only while it happens. Write trades, candles or both.`,
  );
});

/** Makes a reader that gathers the words of a list with commas. */
export function listArgument<T>(words: readonly string[], read: (word: string) => T) {
  return ofWords(words, (text: string, earlier: readonly T[] = []): T[] => {
    const given = text.split(',').filter((word) => word.trim() !== '');
    return [...new Set([...earlier, ...given.map(read)])];
  });
}

function readKind(word: string, allowed: readonly string[]): StreamKind {
  const kind = kindOf(word);
  if (kind !== undefined) return kind;
  throw unknownWord(word, 'kind', allowed);
}

function unknownWord(word: string, what: string, allowed: readonly string[]) {
  const nearest = nearestName(word, allowed);
  const advice = nearest === undefined ? '' : ` Did you mean "${nearest}"?`;
  return new InvalidArgumentError(
    `There is no ${what} "${word}".${advice} Allowed: ${allowed.join(', ')}.`,
  );
}

/** Reads one of a few words, in whatever case. */
export function oneOf<const T extends string>(
  word: string,
  what: string,
  allowed: readonly T[],
): T {
  const found = allowed.find((one) => one === word.trim().toLowerCase());
  if (found === undefined) throw unknownWord(word, what, allowed);
  return found;
}

/** Makes a reader of one of a few words. */
export function wordArgument<const T extends string>(what: string, allowed: readonly T[]) {
  return ofWords(allowed, (word: string) => oneOf(word, what, allowed));
}

const STATES = ['open', 'filling', 'unfillable'] as const;

/** Reads and gathers a list of states of gaps with commas. */
export const statesArgument = listArgument(STATES, (word) => oneOf(word, 'state', STATES));

const REASONS = Object.keys(GAP_REASONS);

/** Reads and gathers a list of reasons with commas; underscores as in the metrics are spaces. */
export const reasonsArgument = listArgument(REASONS.map(reasonLabel), (word) => {
  const reason = word.trim().toLowerCase().replaceAll('_', ' ');
  if (!REASONS.includes(reason)) throw unknownWord(word, 'reason', REASONS);
  return reason;
});

/** Options that several commands have. */
export const JSON_DOCUMENT = flag('--json', 'one JSON document');
export const MARKETS = option('-m, --market <name>', 'only this market; repeatable', gather);
/** A span of time, as far as it is given. */
export const SPAN = {
  from: option(
    '--from <time>',
    'start, such as 2026-01-31 or 2h ago as 2h; start: no limit',
    spanStartArgument,
  ),
  to: option('--to <time>', 'end', instantArgument),
};

/** Options of the commands that serve an exchange. */
export const HOST = option('--host <address>', 'address to listen on', undefined, '127.0.0.1');
export const PORT = option(
  '--port <number>',
  'port to listen on; 0 takes a free one',
  portArgument,
  0,
);
export const FOR = option('--for <duration>', 'stop after this time', durationArgument);
export const READY_AS_JSON = flag('--json', 'print the ready line as JSON');
/** Whether the paths that steer what is served are there; undefined where nothing is said. */
export function controlOption(paths: string, denied: string): Input<boolean | undefined> {
  const about = `serve the paths below ${paths} (default: on loopback)`;
  return { options: [new Option('--control', about), new Option('--no-control', denied)] };
}
