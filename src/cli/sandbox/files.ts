import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readYamlFile } from '../../config/yaml-file.js';
import { isDecimalText } from '../../kernel/decimal.js';
import { messageOf } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import { readMarket } from '../../sandbox/live/live-markets.js';
import type { LiveMarketDescription } from '../../sandbox/live/market-description.js';
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

function readFile(path: string): { readonly rules: unknown } {
  let document: unknown;
  try {
    document = readYamlFile(path);
  } catch (error) {
    throw new UsageError('--faults', path, `it cannot be read: ${messageOf(error)}`);
  }
  if (Array.isArray(document)) return { rules: document };
  if (document !== null && typeof document === 'object' && 'rules' in document) return document;
  throw new UsageError('--faults', path, 'it must hold a list of rules, or {seed, rules}');
}

/**
 * Puts the rules of a file and those of the command line into one script, which is not checked yet:
 * the file's rules come first.
 *
 * @throws UsageError when the file is not readable, or a rule is no list of `key=value`.
 */
export function gatherFaultScript(file: string | undefined, rules: readonly string[]): object {
  const own = rules.map(readRule);
  if (file === undefined) return { rules: own };
  const script = readFile(file);
  return Array.isArray(script.rules) ? { ...script, rules: [...script.rules, ...own] } : script;
}

const OPTION = '--markets-file';

function listOf(document: unknown): readonly unknown[] | undefined {
  if (Array.isArray(document)) return document;
  if (document === null || typeof document !== 'object') return undefined;
  const { markets, ...others } = document as { readonly markets?: unknown };
  return Array.isArray(markets) && Object.keys(others).length === 0 ? markets : undefined;
}

/**
 * Reads a YAML or JSON file of markets: a list of names and of descriptions, or the same below the
 * key `markets`.
 *
 * @throws UsageError naming the entry, the field, its value and what is allowed
 */
export function readMarketsFile(path: string): LiveMarketDescription[] {
  let document: unknown;
  try {
    document = readYamlFile(path);
  } catch (error) {
    throw new UsageError(OPTION, path, `it cannot be read: ${messageOf(error)}`);
  }
  const list = listOf(document);
  if (list === undefined || list.length === 0) {
    throw new UsageError(OPTION, path, 'it must hold a list of markets, or {markets: [...]}');
  }
  return list.map((entry, index) => {
    try {
      return readMarket(entry);
    } catch (error) {
      throw new UsageError(OPTION, path, `entry ${index + 1}: ${messageOf(error)}`);
    }
  });
}

/** An API key of the sandbox, with the name that people know it by. */
export interface NamedKey {
  readonly name: string;
  readonly key: string;
  readonly secret: string;
  /** Left out: the exchange's default. */
  readonly balances?: Readonly<Record<string, string>>;
  /** Whether signed calls with it are served; left out: they are. */
  readonly isActive?: boolean;
}

/** The keys of the options: those made just now, not known to any client, and those of a file. */
export interface GatheredKeys {
  readonly made: readonly NamedKey[];
  readonly read: readonly NamedKey[];
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const CURRENCY = /^[^\s:,=]{1,32}$/;
/** As headers carry them. */
const KEY_TEXT = /^[\x21-\x7e]{1,200}$/;
const KEY_BYTES = 16;
const SECRET_BYTES = 32;
/** What an entry of a file may hold. */
const FIELDS = ['name', 'key', 'secret', 'balances', 'active'] as const;

/**
 * The keys of `--key` and `--keys`. Deposits go by names, so each belongs to one key only.
 *
 * @throws UsageError naming the option, what is wrong with it, and what is allowed
 */
export function gatherKeys(texts: readonly string[], file: string | undefined): GatheredKeys {
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
  if (!NAME.test(name) || more.length > 0) {
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
  const fault = faultOfBalances(Object.fromEntries(entries));
  if (fault !== undefined) throw new UsageError('--key', text, fault);
  return { name, key, secret, balances: Object.fromEntries(entries) };
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
    content = parseJson(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UsageError('--keys', path, `it cannot be read as JSON (${messageOf(error)})`);
  }
  if (!Array.isArray(content)) throw new UsageError('--keys', path, 'it must hold a JSON array');
  return content.map((entry: unknown, index) => {
    const written = entry as WrittenKey | null;
    const fault = faultOfKey(written);
    if (fault !== undefined) throw new UsageError('--keys', path, `entry ${index + 1}: ${fault}`);
    const { name, key, secret, balances, active } = written as Omit<NamedKey, 'isActive'> & {
      readonly active?: boolean;
    };
    return {
      ...{ name, key, secret },
      ...(balances === undefined ? {} : { balances }),
      ...(active === undefined ? {} : { isActive: active }),
    };
  });
}

type WrittenKey = Partial<Record<(typeof FIELDS)[number], unknown>>;

function faultOfKey(entry: WrittenKey | null): string | undefined {
  if (entry === null || typeof entry !== 'object' || Array.isArray(entry)) {
    return 'must be an object';
  }
  const unknown = Object.keys(entry).find((field) => !FIELDS.some((known) => known === field));
  if (unknown !== undefined) {
    return `the field ${JSON.stringify(unknown.slice(0, 80))} is unknown; expected ${FIELDS.join(', ')}`;
  }
  const { name, key, secret, balances, active } = entry;
  if (active !== undefined && typeof active !== 'boolean') return 'active must be true or false';
  if (typeof name !== 'string' || !NAME.test(name)) {
    return 'name must be 1 to 64 letters, digits, hyphens or underscores';
  }
  const isText = (value: unknown) => typeof value === 'string' && KEY_TEXT.test(value);
  if (!isText(key) || !isText(secret)) {
    return 'key and secret must be 1 to 200 visible characters';
  }
  if (balances === undefined) return undefined;
  if (balances === null || typeof balances !== 'object') return 'balances must be an object';
  return faultOfBalances(balances as Record<string, unknown>);
}

function faultOfBalances(balances: Readonly<Record<string, unknown>>): string | undefined {
  for (const [currency, amount] of Object.entries(balances)) {
    const isAmount = typeof amount === 'string' && isDecimalText(amount) && /^[\d.]+$/.test(amount);
    if (!CURRENCY.test(currency) || !isAmount) {
      return `${currency}=${String(amount)}: an amount is a decimal such as 100000 or 0.5, as text`;
    }
  }
  return undefined;
}
