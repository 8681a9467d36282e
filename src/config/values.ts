import cron from 'node-cron';
import { z } from 'zod';
import {
  DURATION_FORM,
  formatDuration,
  MAX_DURATION_MS,
  parseDuration,
} from '../kernel/durations.js';
import { SHARES_MAX, Share } from '../model/share.js';

/** How a schedule is written, for messages. */
const CRON_FORM =
  'a cron expression of six fields (second minute hour day month weekday) or five (from minute on)';

/**
 * The kinds of value that a key may hold. Each reads both YAML's types and plain text, so that an
 * environment variable means the same as the line in the file, and says in words what it allows.
 */

/** A duration in milliseconds. Keys name durations without a unit, because the value carries it. */
export type DurationMs = number;

const REFUSED = Symbol('refused');

/** Builds a value kind from the words for what is allowed and a reader. */
function value<T>(allowed: string, read: (raw: unknown) => T | typeof REFUSED) {
  return z.unknown().transform((raw, context): T => {
    const result = read(raw);
    if (result !== REFUSED) return result;
    context.issues.push({ code: 'custom', message: `allowed is ${allowed}`, input: raw });
    return z.NEVER;
  });
}

/** The same, or null for "not set". */
function valueOrNull<T>(allowed: string, read: (raw: unknown) => T | typeof REFUSED) {
  return value(`${allowed}, or null`, (raw): T | null | typeof REFUSED =>
    raw === null || raw === 'null' ? null : read(raw),
  );
}

function numberOf(raw: unknown): number | undefined {
  if (typeof raw === 'number') return raw;
  if (typeof raw !== 'string' || !/^-?\d{1,15}(\.\d{1,9})?$/.test(raw.trim())) return undefined;
  return Number(raw);
}

/**
 * What a key holds in the notation of the file: the value that was read, except where a text stands for a
 * length of time (`5m`, `none`, `forever`), whose milliseconds are of the program alone.
 */
export function asWritten(raw: unknown, read: unknown): unknown {
  if (typeof raw !== 'string') return read;
  const isLength =
    (typeof read === 'number' && numberOf(raw) === undefined) || (read === null && raw !== 'null');
  return isLength ? raw.trim() : read;
}

/** A whole number within bounds, both inclusive. */
export const whole = (min: number, max: number) =>
  value(`a whole number from ${min} to ${max}`, (raw) => {
    const number = numberOf(raw);
    const fits = number !== undefined && Number.isInteger(number) && number >= min && number <= max;
    return fits ? number : REFUSED;
  });

/** A number, fractions allowed, above zero and up to `max`. */
export const positive = (max: number) =>
  value(`a number above 0 and up to ${max}`, (raw) => {
    const number = numberOf(raw);
    return number !== undefined && number > 0 && number <= max ? number : REFUSED;
  });

export const flag = () =>
  value('true or false', (raw) => {
    if (typeof raw === 'boolean') return raw;
    return raw === 'true' ? true : raw === 'false' ? false : REFUSED;
  });

export const oneOf = <const T extends string>(...choices: readonly T[]) =>
  value(`one of ${choices.join(', ')}`, (raw) => {
    return choices.find((choice) => choice === raw) ?? REFUSED;
  });

/** Text of one line, trimmed and not empty. */
const lineOf = (raw: unknown, maxLength: number): string | typeof REFUSED => {
  if (typeof raw !== 'string') return REFUSED;
  const text = raw.trim();
  const isLine = text.length >= 1 && text.length <= maxLength && !/\p{Cc}/u.test(text);
  return isLine ? text : REFUSED;
};

export const line = (maxLength: number) =>
  value(`a text of 1 to ${maxLength} characters`, (raw) => lineOf(raw, maxLength));

export const lineOrNull = (maxLength: number) =>
  valueOrNull(`a text of 1 to ${maxLength} characters`, (raw) => lineOf(raw, maxLength));

const matching = (raw: unknown, form: RegExp) =>
  typeof raw === 'string' && form.test(raw) ? raw : REFUSED;

/** A secret for HTTP's Bearer scheme, or null. Short ones can be guessed and are refused. */
export const tokenOrNull = () =>
  valueOrNull('a token of 16 to 512 characters out of A-Z a-z 0-9 - . _ ~ + / =', (raw) =>
    matching(raw, /^[A-Za-z0-9._~+/=-]{16,512}$/),
  );

/** A key or secret that an exchange issued, or null. Shorter ones could not be hidden in texts. */
export const credentialOrNull = () =>
  valueOrNull('a text of 8 to 512 visible ASCII characters without spaces', (raw) =>
    matching(raw, /^[\x21-\x7e]{8,512}$/),
  );

/** A login that the program makes; Postgres' own and the program's have names of these beginnings. */
export const loginNameOrNull = () =>
  valueOrNull(
    'a name of 1 to 63 characters out of a-z 0-9 _ that begins with a letter, and not with pg_ or tapekeep',
    (raw) => matching(raw, /^(?!pg_|tapekeep)[a-z][a-z0-9_]{0,62}$/),
  );

/** `s3://bucket` or `s3://bucket/prefix`. */
export const BUCKET_URL = /^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:\/[A-Za-z0-9!_.=-]+)*\/?$/;

/** A bucket, with a prefix below which everything is, or null. */
export const bucketOrNull = () =>
  valueOrNull('s3://bucket or s3://bucket/prefix, without credentials', (raw) =>
    matching(raw, BUCKET_URL),
  );

function isUrlOf(text: string, schemes: readonly string[]): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hash } = new URL(text);
  return schemes.includes(protocol.slice(0, -1)) && hash === '';
}

/**
 * A URL with one of the schemes, or null. Other schemes (`file:`) could point inward.
 *
 * @param complete makes a URL of other forms of address
 */
export const urlOrNull = (
  schemes: readonly string[],
  form = '',
  complete = (text: string) => text,
) =>
  valueOrNull(
    `a URL beginning with ${schemes.map((name) => `${name}://`).join(' or ')}${form}`,
    (raw) => {
      const line = lineOf(raw, 2000);
      if (line === REFUSED) return REFUSED;
      const text = complete(line);
      return isUrlOf(text, schemes) ? text : REFUSED;
    },
  );

/** A duration within bounds, which are written as durations too; or a word, with what it reads as. */
const durationOr = <const W = never>(
  allowed: string,
  words: Readonly<Record<string, W>>,
  min = '0s',
  max = formatDuration(MAX_DURATION_MS),
) =>
  value(allowed, (raw): DurationMs | W | typeof REFUSED => {
    if (typeof raw !== 'string') return REFUSED;
    const word = Object.entries(words).find(([name]) => name === raw);
    if (word !== undefined) return word[1];
    const ms = parseDuration(raw);
    const fits =
      ms !== undefined && ms >= (parseDuration(min) ?? 0) && ms <= (parseDuration(max) ?? 0);
    return fits ? ms : REFUSED;
  });

export const duration = (min: string, max: string) =>
  durationOr(`${DURATION_FORM}, from ${min} to ${max}`, {}, min, max);

/** How far back to collect. */
export const pastOrNone = () => durationOr(`${DURATION_FORM}, or none`, { none: 0 });
export const pastAllOrNone = () =>
  durationOr(`${DURATION_FORM}, or all, or none`, { all: 'all', none: 0 });

/** How long something is kept. */
export const keptFor = (min: string) =>
  durationOr(`${DURATION_FORM}, from ${min} on, or forever`, { forever: null }, min);

export const schedule = () =>
  value(`${CRON_FORM}, such as '*/5 * * * * *'`, (raw) => {
    return typeof raw === 'string' && cron.validate(raw.trim()) ? raw.trim() : REFUSED;
  });

function membersOf(raw: unknown): readonly unknown[] | undefined {
  if (Array.isArray(raw)) return raw;
  if (typeof raw !== 'string') return undefined;
  return raw.trim() === '' ? [] : raw.split(',').map((member) => member.trim());
}

function hasTwins(members: readonly unknown[]): boolean {
  return new Set(members).size !== members.length;
}

/** Market names in the exchange's spelling, as a list or separated by commas. */
export const marketNames = () =>
  value('a list of different market names such as [BTC_USDT, ETH_USDT], or empty', (raw) => {
    const members = membersOf(raw);
    const isName = (member: unknown): member is string =>
      typeof member === 'string' && /^[^\s,\p{Cc}]{1,64}$/u.test(member);
    if (members === undefined || members.length > 100_000) return REFUSED;
    return members.every(isName) && !hasTwins(members) ? members : REFUSED;
  });

/** A share of the markets, such as 2/3. */
export const shareOrNull = () =>
  value(`a share such as 2/3 of at most ${SHARES_MAX}, or null`, (raw) => {
    if (raw === null || raw === '') return null;
    return typeof raw === 'string' && Share.parse(raw.trim()) !== undefined ? raw.trim() : REFUSED;
  });

/** Lengths in whole seconds that pass `accepts`, as a list or separated by commas. */
export const secondsList = (accepts: (seconds: number) => boolean, allowed: string) =>
  value(`a list of different lengths in seconds: ${allowed}`, (raw) => {
    const members = membersOf(raw)?.map(numberOf);
    const fits = (member: number | undefined): member is number =>
      member !== undefined && accepts(member);
    if (members === undefined || members.length < 1 || members.length > 32) return REFUSED;
    return members.every(fits) && !hasTwins(members) ? members : REFUSED;
  });
