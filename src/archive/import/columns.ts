import { nearestName } from '../../kernel/nearest.js';
import { ImportRefusedError } from '../errors.js';
import { identifier, literal } from '../parquet/session.js';

/**
 * Columns of files of other makers: how their names are recognised, and the SQL that makes our values of them. All of it
 * goes by text, so that no number passes through a float.
 */

const IMPORTED_KINDS = ['trades', 'candles'] as const;
export type ImportedKind = (typeof IMPORTED_KINDS)[number];

interface Field {
  readonly name: string;
  /** Names that files have for it, without case, spaces and underscores. */
  readonly aliases: readonly string[];
  readonly isOptional?: true;
}

const TIME = ['time', 'timestamp', 'ts', 'datetime', 'date', 'datems', 't'];
const field = (name: string, ...aliases: string[]): Field => ({ name, aliases });
const optional = (name: string, ...aliases: string[]): Field => ({
  name,
  aliases,
  isOptional: true,
});

const MARKET = optional('market', 'market', 'symbol', 'pair', 'instrument', 'product');

/** Fields by kind; of several columns that could be one, the first alias wins. */
const FIELDS: Readonly<Record<ImportedKind, readonly Field[]>> = {
  trades: [
    field('tid', 'tid', 'tradeid', 'id', 'aggtradeid', 'aggregatetradeid', 'a'),
    field('time', 'executedat', 'tradedat', 'tradetime', 'transacttime', ...TIME),
    field('price', 'price', 'p'),
    field('amount', 'amount', 'qty', 'quantity', 'size', 'baseqty', 'volume', 'vol', 'q'),
    optional('total', 'total', 'quoteqty', 'quotequantity', 'quotevolume', 'funds', 'cost'),
    field('side', 'side', 'takerside', 'type', 'isbuyermaker', 'm'),
    MARKET,
  ],
  candles: [
    field('time', 'openat', 'opentime', ...TIME),
    field('open', 'open', 'o'),
    field('high', 'high', 'h'),
    field('low', 'low', 'l'),
    field('close', 'close', 'c'),
    field('volume', 'volume', 'basevolume', 'vol', 'v'),
    field('quote_volume', 'quotevolume', 'quoteassetvolume', 'quotequantity', 'turnover', 'amount'),
    MARKET,
  ],
};

/** Names for the fields of a kind, as --columns takes them. */
function fieldNames(kind: ImportedKind): string[] {
  return FIELDS[kind].map(({ name }) => name);
}

/** Fields that are numbers, by kind. */
export const NUMBERS = {
  trades: ['price', 'amount', 'total'],
  candles: ['open', 'high', 'low', 'close', 'volume', 'quote_volume'],
} as const satisfies Readonly<Record<ImportedKind, readonly string[]>>;

const plain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');

/** Column of the file by field. */
export type Recognised = ReadonlyMap<string, string>;

/**
 * Finds the columns of a file.
 *
 * @param columns names in the file
 * @param given field → column, as the user has it; these go first
 * @throws ImportRefusedError naming what is missing, and the columns that there are
 */
export function recognise(
  kind: ImportedKind,
  columns: readonly string[],
  given: ReadonlyMap<string, string>,
): Recognised {
  for (const [name, column] of given) {
    if (!fieldNames(kind).includes(name)) {
      throw new ImportRefusedError(
        `--columns: there is no field "${name}" of ${kind}; fields: ${fieldNames(kind).join(', ')}`,
      );
    }
    if (!columns.includes(column)) {
      const nearest = nearestName(column, columns);
      const advice =
        nearest === undefined ? `it has ${columns.join(', ')}` : `did you mean "${nearest}"?`;
      throw new ImportRefusedError(`--columns: the file has no column "${column}"; ${advice}`);
    }
  }
  const found = new Map(given);
  for (const { name, aliases } of FIELDS[kind]) {
    if (found.has(name)) continue;
    const taken = new Set(found.values());
    const free = columns.filter((column) => !taken.has(column));
    const column = aliases
      .map((alias) => free.find((one) => plain(one) === alias))
      .find((one) => one !== undefined);
    if (column !== undefined) found.set(name, column);
  }
  const missing = FIELDS[kind].filter((one) => !one.isOptional && !found.has(one.name));
  if (missing.length === 0) return found;
  const names = missing.map(({ name }) => name).join(', ');
  throw new ImportRefusedError(
    `no column of the file is recognised as ${names} (it has ${columns.join(', ')}): name them, as in --columns ${missing[0]?.name}=${columns[0] ?? 'COLUMN'}`,
  );
}

const PLAIN_NUMBER = '\\d{1,40}(\\.\\d{1,40})?';

/** Exact text of a number, without an exponent; null for what is none. @param raw with what stands around it */
function numberSql(raw: string, text: string): string {
  // Trimming takes as long as looking.
  return `CASE WHEN regexp_full_match(${raw}, '${PLAIN_NUMBER}') THEN ${raw}
    WHEN regexp_full_match(${text}, '${PLAIN_NUMBER}') THEN ${text}
    WHEN regexp_full_match(${text}, '\\d+(\\.\\d+)?[eE][+-]?\\d{1,2}') THEN
      regexp_replace(TRY_CAST(${text} AS DECIMAL(38,18))::VARCHAR, '\\.?0+$', '') END`;
}

/** Most digits of seconds, milliseconds and microseconds since 1970, which last to the year 5138; with more: nanoseconds. */
const DIGITS = { s: 11, ms: 14, us: 17 };

/**
 * UNIX microseconds of a time: ISO 8601 (UTC where it names no zone), or a number of seconds, milliseconds, microseconds
 * or nanoseconds, which its digits before the point tell apart.
 */
function timeSql(raw: string, text: string): string {
  const bySize = (digits: string, value: string) => `CASE
      WHEN ${digits} <= ${DIGITS.s} THEN ${value} * 1000000 WHEN ${digits} <= ${DIGITS.ms} THEN ${value} * 1000
      WHEN ${digits} <= ${DIGITS.us} THEN ${value} ELSE ${value} // 1000 END`;
  // Decimals take thirty times as long to read.
  return `CASE
    WHEN regexp_full_match(${raw}, '\\d{1,19}') THEN ${bySize(`length(${raw})`, `TRY_CAST(${raw} AS BIGINT)`)}
    WHEN regexp_full_match(${text}, '\\d{1,19}') THEN ${bySize(`length(${text})`, `TRY_CAST(${text} AS BIGINT)`)}
    WHEN regexp_full_match(${text}, '\\d{1,18}\\.\\d{1,9}') THEN
      TRY_CAST(floor(${bySize(`strpos(${text}, '.') - 1`, `${text}::DECIMAL(38,9)`).replace('//', '/')}) AS BIGINT)
    ELSE epoch_us(TRY_CAST(${text} AS TIMESTAMPTZ)) END`;
}

/** Side of the taker; a flag says whether the buyer was the maker. */
function sideSql(raw: string, text: string, column: string): string {
  const isFlag = ['isbuyermaker', 'm'].includes(plain(column));
  const [buy, sell] = isFlag
    ? [
        ['false', '0', 'f'],
        ['true', '1', 't'],
      ]
    : [
        ['buy', 'b', 'bid', 'buyer', '1'],
        ['sell', 's', 'ask', 'seller', '2', '-1'],
      ];
  const among = (words: readonly string[]) => words.map(literal).join(', ');
  return `CASE WHEN ${raw} IN (${among(buy)}) THEN 'buy' WHEN ${raw} IN (${among(sell)}) THEN 'sell'
    WHEN lower(${text}) IN (${among(buy)}) THEN 'buy' WHEN lower(${text}) IN (${among(sell)}) THEN 'sell' END`;
}

/** Before 2009 there was no exchange of this kind: such a time is read in a wrong unit. */
const LEAST_US = '1230768000000000';

/**
 * SQL of the typed rows of a source, in its order: `market`, `at_us`, the fields, and `fault`: the field that cannot be
 * read, or null.
 *
 * @param from SQL of the source
 * @param market its name where no column has it
 */
export function typedRowsSql(
  kind: ImportedKind,
  recognised: Recognised,
  from: string,
  market: string | undefined,
): string {
  const raw = (name: string) => `${identifier(recognised.get(name) ?? '')}::VARCHAR`;
  const text = (name: string) => `trim(${raw(name)})`;
  const has = (name: string) => recognised.has(name);
  const numbers: readonly string[] = NUMBERS[kind];
  const columns = [
    `${has('market') ? text('market') : literal(market ?? '')} AS market`,
    `${timeSql(raw('time'), text('time'))} AS at_us`,
    ...(kind === 'trades'
      ? [
          `TRY_CAST(${raw('tid')} AS BIGINT) AS tid`,
          `${sideSql(raw('side'), text('side'), recognised.get('side') ?? '')} AS side`,
        ]
      : []),
    ...numbers.map(
      (name) => `${has(name) ? numberSql(raw(name), text(name)) : 'NULL::VARCHAR'} AS ${name}`,
    ),
  ];
  const faults = [
    ['time', `at_us IS NULL OR at_us < ${LEAST_US}`],
    ...(kind === 'trades'
      ? [
          ['tid', `tid IS NULL OR tid NOT BETWEEN 1 AND ${Number.MAX_SAFE_INTEGER}`],
          ['side', 'side IS NULL'],
        ]
      : []),
    ...numbers.filter(has).map((name) => [name, `${name} IS NULL`]),
    ...(kind === 'trades'
      ? [
          ['price', `NOT regexp_matches(price, '[1-9]')`],
          ['amount', `NOT regexp_matches(amount, '[1-9]')`],
        ]
      : []),
  ].map(([name, condition]) => `WHEN ${condition} THEN ${literal(name ?? '')}`);
  return `SELECT *, CASE ${faults.join(' ')} END AS fault
    FROM (SELECT ${columns.join(', ')} FROM ${from})`;
}
