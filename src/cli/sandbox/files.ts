import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { readYamlFile } from '../../config/yaml-file.js';
import { onlyKeys, refusalOf } from '../../contract/shape.js';
import { isDecimalText } from '../../kernel/decimal.js';
import { messageOf } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import type { LiveKey } from '../../sandbox/live/live-backend.js';
import { type MarketDescription, readMarket } from '../../sandbox/markets.js';
import { UsageError } from '../failure.js';

const RULE_FORM = 'write kind=…,key=value,…, such as kind=latency,where=history,ms=500';

/** Numbers and flags of a rule on the command line mean what they would in a file. */
function readValue(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d{1,15}(\.\d{1,15})?$/.test(text) ? Number(text) : text;
}

/** Reads one `--fault`, for example `kind=latency,where=history,probability=0.1,ms=500`. */
function readRule(text: string): Readonly<Record<string, unknown>> {
  const rule = new Map<string, unknown>();
  for (const part of text.split(',')) {
    const [key = '', ...rest] = part.split('=');
    const isReadable = key.trim() !== '' && rest.length > 0 && !rule.has(key.trim());
    if (!isReadable) throw new UsageError('--fault', text, RULE_FORM);
    rule.set(key.trim(), readValue(rest.join('=').trim()));
  }
  return Object.fromEntries(rule);
}

/** @throws UsageError when the file is not readable, or no YAML */
function readDocument(option: string, path: string): unknown {
  try {
    return readYamlFile(path);
  } catch (error) {
    throw new UsageError(option, path, `it cannot be read: ${messageOf(error)}`);
  }
}

const RULES = z
  .union([
    z.array(z.unknown()).transform((rules) => ({ rules })),
    z.looseObject({ rules: z.unknown() }),
  ])
  .refine(({ rules }) => rules !== undefined);

/**
 * Puts the rules of a file and those of the command line into one script, which is not checked yet:
 * the file's rules come first.
 *
 * @throws UsageError when the file is not readable, or a rule is no list of `key=value`.
 */
export function gatherFaultScript(file: string | undefined, rules: readonly string[]): object {
  const own = rules.map(readRule);
  if (file === undefined) return { rules: own };
  const script = RULES.safeParse(readDocument('--faults', file)).data;
  if (script === undefined) {
    throw new UsageError('--faults', file, 'it must hold a list of rules, or {seed, rules}');
  }
  return Array.isArray(script.rules) ? { ...script, rules: [...script.rules, ...own] } : script;
}

const MARKETS = z.union([
  z.array(z.unknown()).min(1),
  z.strictObject({ markets: z.array(z.unknown()).min(1) }).transform(({ markets }) => markets),
]);

/**
 * Reads a YAML or JSON file of markets: a list of names and of descriptions, or the same below the
 * key `markets`.
 *
 * @throws UsageError naming the entry, the field, its value and what is allowed
 */
export function readMarketsFile(path: string): MarketDescription[] {
  const option = '--markets-file';
  const list = MARKETS.safeParse(readDocument(option, path)).data;
  if (list === undefined) {
    throw new UsageError(option, path, 'it must hold a list of markets, or {markets: [...]}');
  }
  return list.map((entry, index) => {
    try {
      return readMarket(entry);
    } catch (error) {
      throw new UsageError(option, path, `entry ${index + 1}: ${messageOf(error)}`);
    }
  });
}

/** An API key of the sandbox, with the name that people know it by. */
export type NamedKey = LiveKey & { readonly name: string };

const NAME_FORM = '1 to 64 letters, digits, hyphens or underscores';
const AMOUNT_FORM = 'an amount as decimal text for each currency, such as BTC=0.5';
const BALANCES = z.record(
  z.string().regex(/^[^\s:,=]{1,32}$/),
  z
    .string(AMOUNT_FORM)
    .regex(/^[\d.]+$/, AMOUNT_FORM)
    .refine(isDecimalText, AMOUNT_FORM),
  AMOUNT_FORM,
);
/** As headers carry them. */
const KEY_TEXT = z
  .string('visible text')
  .regex(/^[\x21-\x7e]{1,200}$/, '1 to 200 visible characters');
const FIELDS = {
  name: z.string(NAME_FORM).regex(/^[A-Za-z0-9_-]{1,64}$/, NAME_FORM),
  key: KEY_TEXT,
  secret: KEY_TEXT,
  balances: BALANCES.optional(),
  active: z.boolean('true or false').optional(),
};
const KEY = onlyKeys(FIELDS);
const KEY_BYTES = 16;
const SECRET_BYTES = 32;

/**
 * The keys of `--key`, made just now and not known to any client, and those that are read from the file of
 * `--keys`. Deposits go by names, so each belongs to one key only.
 *
 * @throws UsageError naming the option, what is wrong with it, and what is allowed
 */
export function gatherKeys(texts: readonly string[], file: string | undefined) {
  const names = new Set<string>();
  const claim = (option: string, value: string, { name }: NamedKey) => {
    if (names.has(name)) {
      throw new UsageError(
        option,
        value,
        `the name ${name} is given to two keys; give each its own`,
      );
    }
    names.add(name);
  };
  const made = texts.map((text) => {
    const key = makeKey(text);
    claim('--key', text, key);
    return key;
  });
  const read = file === undefined ? [] : readKeys(file);
  for (const key of read) claim('--keys', file ?? '', key);
  return { made, read };
}

/**
 * Makes the key of one `--key NAME` or `--key NAME:USDT=100000,BTC=2`; key and secret are random.
 *
 * @throws UsageError saying what is allowed
 */
function makeKey(text: string): NamedKey {
  const [name = '', balances, ...more] = text.split(':');
  if (!FIELDS.name.safeParse(name).success || more.length > 0) {
    throw new UsageError('--key', text, 'write NAME or NAME:CURRENCY=AMOUNT,CURRENCY=AMOUNT');
  }
  const key = randomBytes(KEY_BYTES).toString('hex');
  const secret = randomBytes(SECRET_BYTES).toString('hex');
  if (balances === undefined) return { name, key, secret };
  const entries = balances
    .split(',')
    .filter((entry) => entry !== '')
    .map((entry) => {
      const [currency = '', amount = '', ...rest] = entry.split('=');
      if (rest.length > 0) throw new UsageError('--key', text, 'write CURRENCY=AMOUNT');
      return [currency, amount];
    });
  const written = Object.fromEntries(entries);
  const { data, error } = BALANCES.safeParse(written);
  if (error !== undefined) throw new UsageError('--key', text, refusalOf(error, written));
  return { name, key, secret, balances: data };
}

/**
 * Reads a JSON file of keys: `[{"name": "alice", "key": "…", "secret": "…", "balances": {"BTC":
 * "2"}}]`, the balances optional. With `"active": false` the key is known and not activated, so that
 * whatever is signed with it is an authentication failure (contract, Authentication, rule 6).
 *
 * @throws UsageError naming the entry and what is allowed
 */
function readKeys(path: string): NamedKey[] {
  let content: unknown;
  try {
    // No YAML: its errors quote the line, which may hold a secret.
    content = parseJson(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UsageError('--keys', path, `it cannot be read as JSON (${messageOf(error)})`);
  }
  const list = z.array(z.unknown()).safeParse(content).data;
  if (list === undefined) throw new UsageError('--keys', path, 'it must hold a JSON array');
  return list.map((entry, index) => {
    const { data, error } = KEY.safeParse(entry);
    if (error !== undefined) {
      throw new UsageError('--keys', path, `entry ${index + 1}: ${refusalOf(error)}`);
    }
    const { active, ...key } = data;
    return { ...key, isActive: active };
  });
}
