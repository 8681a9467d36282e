import { SECOND_US } from '../../kernel/durations.js';
import type { SeriesColumn } from '../../model/kinds.js';
import {
  castText,
  type Digits,
  digitsSql,
  longestSql,
  SMALL_PRECISION,
} from '../parquet/columns.js';
import { NUMBERS } from './columns.js';
import type { ImportSource } from './source.js';

/** Values of the columns of a series, as SQL over the rows of a source. */

const hasTotal = ({ facts }: ImportSource) => facts.recognised.has('total');

/** Most digits of each of the decimals; of a total that is not in the file at least as many as it has. */
export async function readDigits(source: ImportSource): Promise<Map<string, Digits>> {
  const { kind } = source.options;
  const names = NUMBERS[kind].filter((name) => name !== 'total' || hasTotal(source));
  const columns = names.map((name): SeriesColumn => {
    return { name, type: 'decimal', isNullable: false, about: '' };
  });
  const [found = []] = await source.session.rows(
    'measuring the decimals',
    `SELECT ${columns.flatMap(digitsSql).join(', ')} FROM ${source.relation}`,
  );
  const digits = new Map<string, Digits>();
  for (const [at, name] of names.entries()) {
    const [integer, fraction] = [found[at * 2], found[at * 2 + 1]].map(Number);
    digits.set(name, { integer: integer ?? 0, fraction: fraction ?? 0 });
  }
  const [price, amount] = [digits.get('price'), digits.get('amount')];
  if (digits.has('total') || price === undefined || amount === undefined) return digits;
  const integer = price.integer + amount.integer;
  return digits.set('total', { integer, fraction: price.fraction + amount.fraction });
}

/**
 * SQL of the value of each column of the series; decimals are text, but for a total that is worked out.
 *
 * @param receivedAtMs clock of this machine
 */
export function valuesSql(
  source: ImportSource,
  receivedAtMs: number,
  digits: ReadonlyMap<string, Digits>,
): ReadonlyMap<string, string> {
  const { kind, intervalS } = source.options;
  const second = `make_timestamptz(at_us // ${SECOND_US} * ${SECOND_US})`;
  const given = ['tid', 'side', ...NUMBERS[kind]].map((name): [string, string] => [name, name]);
  const values = new Map(given).set(
    'received_at',
    `make_timestamptz(${receivedAtMs * 1000}::BIGINT)`,
  );
  if (kind === 'candles') {
    const interval = `${Math.trunc(intervalS)}::BIGINT`;
    return values.set('open_at', second).set('interval_s', interval).set('revision', '0::BIGINT');
  }
  if (!hasTotal(source)) values.set('total', productSql(digits));
  const exact = source.isExact ? 'make_timestamptz(at_us)' : 'NULL::TIMESTAMPTZ';
  return values.set('traded_at', second).set('executed_at', exact);
}

/** SQL for price times amount, to the last digit. */
function productSql(digits: ReadonlyMap<string, Digits>): string {
  const factors = ['price', 'amount'].map((name) => {
    const { integer, fraction: scale } = digits.get(name) ?? { integer: 0, fraction: 0 };
    return { name, precision: Math.max(1, integer + scale), scale };
  });
  const isShort = factors.reduce((sum, one) => sum + one.precision, 0) <= SMALL_PRECISION;
  const [price, amount] = factors.map(({ name, ...form }) => {
    // Or DuckDB makes a product of 18 digits of two that have as many.
    const wide = isShort ? '' : `::${longestSql(form.scale)}`;
    return `${castText(name, form)}${wide}`;
  });
  return `(${price} * ${amount})`;
}
