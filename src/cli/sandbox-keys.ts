import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isDecimalText } from '../kernel/decimal.js';
import { messageOf } from '../kernel/errors.js';
import { UsageError } from './failure.js';

/** An API key of the sandbox, with the name that people know it by. */
export interface NamedKey {
  readonly name: string;
  readonly key: string;
  readonly secret: string;
  /** Left out: the exchange's default. */
  readonly balances?: Readonly<Record<string, string>>;
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const CURRENCY = /^[^\s:,=]{1,32}$/;
/** As headers carry them. */
const KEY_TEXT = /^[\x21-\x7e]{1,200}$/;
const KEY_BYTES = 16;
const SECRET_BYTES = 32;

/**
 * Makes the key of one `--key NAME` or `--key NAME:USDT=100000,BTC=2`; key and secret are random.
 *
 * @throws UsageError saying what is allowed
 */
export function makeKey(text: string): NamedKey {
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
 * "2"}}]`, the balances optional.
 *
 * @throws UsageError naming the entry and what is allowed
 */
export function readKeys(path: string): NamedKey[] {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UsageError('--keys', path, `it can not be read as JSON (${messageOf(error)})`);
  }
  if (!Array.isArray(content)) throw new UsageError('--keys', path, 'it must hold a JSON array');
  return content.map((entry: unknown, index) => {
    const key = entry as Partial<NamedKey> | null;
    const fault = faultOfKey(key);
    if (fault !== undefined) throw new UsageError('--keys', path, `entry ${index + 1}: ${fault}`);
    const { name = '', key: text = '', secret = '', balances } = key ?? {};
    return { name, key: text, secret, ...(balances === undefined ? {} : { balances }) };
  });
}

function faultOfKey(entry: Partial<Record<keyof NamedKey, unknown>> | null): string | undefined {
  if (entry === null || typeof entry !== 'object') return 'must be an object';
  const { name, key, secret, balances } = entry;
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
