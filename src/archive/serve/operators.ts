import { literal } from '../parquet/session.js';
import { EndpointError, refused, SQLSTATE } from './errors.js';
import {
  aligned,
  asDouble,
  asNumeric,
  compareWithConstant,
  computeNumeric,
  constantDigits,
  isNumeric,
  numericConstant,
  type Sql,
  strip,
} from './numbers.js';
import {
  comparedUs,
  INT_TYPES,
  NUMBER_TYPES,
  type PgType,
  readInterval,
  readTimestamp,
} from './values.js';

/** Operators of Postgres that have the same meaning here, by the types of their sides. */

export const COMPARISONS: ReadonlySet<string> = new Set(['=', '<>', '<', '<=', '>', '>=']);
/** The operator with its sides exchanged. */
const FLIPPED: Readonly<Record<string, string>> = {
  ...{ '<': '>', '<=': '>=', '>': '<', '>=': '<=' },
};
const INT = /^[+-]?\d{1,19}$/;
const INT_LIMITS = { int4: 2n ** 31n, int8: 2n ** 63n } as const;
/** Years that DuckDB and Postgres write alike. */
const [YEAR_1_US, YEAR_10000_US] = [-62_135_596_800_000_000n, 253_402_300_800_000_000n];

/** A constant of a type from its text as Postgres writes it. @throws EndpointError */
export function constantOf(text: string | null, type: PgType): Sql {
  if (type === 'numeric') return numericConstant(text);
  return { sql: constantSql(text, type), type, constant: text };
}

const DUCK_TYPES: Readonly<Partial<Record<PgType, string>>> = {
  ...{ bool: 'BOOLEAN', int4: 'BIGINT', int8: 'BIGINT', float8: 'DOUBLE' },
  ...{ timestamptz: 'TIMESTAMPTZ', interval: 'BIGINT' },
};

function constantSql(text: string | null, type: PgType): string {
  const duck = DUCK_TYPES[type];
  if (duck === undefined) {
    // Its type comes from the other side.
    if (type === 'unknown') return text === null ? 'NULL' : literal(text);
    throw refused(`a constant of type ${type}`);
  }
  if (text === null) return `CAST(NULL AS ${duck})`;
  const invalid = () => new EndpointError(SQLSTATE.badValue, `invalid ${type}: "${text}"`);
  switch (type) {
    case 'int4':
    case 'int8': {
      if (!INT.test(text.trim())) throw invalid();
      const value = BigInt(text.trim());
      if (value < -INT_LIMITS[type] || value >= INT_LIMITS[type]) throw invalid();
      return `CAST(${value} AS BIGINT)`;
    }
    case 'bool':
      if (!['t', 'f', 'true', 'false'].includes(text)) throw invalid();
      return text.startsWith('t') ? 'true' : 'false';
    case 'float8':
      if (!Number.isFinite(Number(text)) && !/^(NaN|-?Infinity)$/.test(text)) throw invalid();
      return `CAST(${literal(text)} AS DOUBLE)`;
    case 'interval':
      return `CAST(${comparedUs(readInterval(text))} AS HUGEINT)`;
    default:
      return timeSql(text);
  }
}

function timeSql(text: string): string {
  const us = readTimestamp(text);
  if (typeof us === 'string') return `CAST('${us}' AS TIMESTAMPTZ)`;
  if (us < YEAR_1_US || us >= YEAR_10000_US) throw refused(`the timestamp ${literal(text)}`);
  return `TIMESTAMPTZ ${literal(isoOf(us))}`;
}

/** ISO 8601 of microseconds, exact beyond what a float holds. */
function isoOf(us: bigint): string {
  const second = us >= 0n ? us / 1_000_000n : -((999_999n - us) / 1_000_000n);
  const fraction = String(us - second * 1_000_000n).padStart(6, '0');
  const seconds = new Date(Number(second) * 1000).toISOString();
  return `${seconds.slice(0, 19)}.${fraction}Z`;
}

/** Gives a text without a type the type of the other side, as Postgres does. */
function resolved(a: Sql, b: Sql): [Sql, Sql] {
  const [isA, isB] = [a.type === 'unknown', b.type === 'unknown'];
  if (isA) return [constantOf(a.constant ?? null, b.type), b];
  return isB ? [a, constantOf(b.constant ?? null, a.type)] : [a, b];
}

const anyAggregate = (...all: readonly Sql[]) => all.some((one) => one.isAggregate === true);
const nameOf = (op: string, a: Sql, b: Sql) => `operator ${a.type} ${op} ${b.type}`;
/** Types that are compared with themselves alone. */
const ORDERED: ReadonlySet<PgType> = new Set(['bool', 'timestamptz', 'interval']);

/** Compares two values as Postgres does. @throws EndpointError for types that cannot be */
export function compare(op: string, left: Sql, right: Sql): Sql {
  const [a, b] = resolved(left, right);
  const made = (sql: string): Sql => ({ sql, type: 'bool', isAggregate: anyAggregate(a, b) });
  if (NUMBER_TYPES.has(a.type) && NUMBER_TYPES.has(b.type)) return made(compareNumbers(op, a, b));
  if (a.type !== b.type || !ORDERED.has(a.type)) throw refused(nameOf(op, a, b));
  return made(`(${a.sql} ${op} ${b.sql})`);
}

function compareNumbers(op: string, a: Sql, b: Sql): string {
  if (a.type === 'float8' || b.type === 'float8') return `(${asDouble(a)} ${op} ${asDouble(b)})`;
  if (!isNumeric(a, b)) return `(${a.sql} ${op} ${b.sql})`;
  if (a.constant === null || b.constant === null) return 'CAST(NULL AS BOOLEAN)';
  if (b.constant !== undefined && a.form !== undefined)
    return compareWithConstant(op, a, b.constant);
  if (b.constant !== undefined && a.type !== 'numeric')
    return compareWithConstant(op, a, b.constant);
  if (a.constant !== undefined) return compareWithConstant(FLIPPED[op] ?? op, b, a.constant);
  const { sql } = aligned(a, b);
  return `(${sql[0]} ${op} ${sql[1]})`;
}

/** `IS DISTINCT FROM`. */
export function distinct(left: Sql, right: Sql): Sql {
  const [a, b] = resolved(left, right);
  const equal = compare('=', a, b);
  const same = `coalesce(${equal.sql}, (${nullSql(a)}) AND (${nullSql(b)}))`;
  return { sql: `(NOT ${same})`, type: 'bool', isAggregate: anyAggregate(a, b) };
}

function nullSql(one: Sql): string {
  if (one.constant === undefined) return `${one.sql} IS NULL`;
  return one.constant === null ? 'true' : 'false';
}

/** `+`, `-`, `*`, `/` and `%` of numbers, and differences of times. */
export function compute(op: string, left: Sql, right: Sql): Sql {
  const [a, b] = resolved(left, right);
  const isAggregate = anyAggregate(a, b);
  const unknown = refused(nameOf(op, a, b));
  if (op === '-' && a.type === 'timestamptz' && b.type === 'timestamptz') {
    return { sql: `(epoch_us(${a.sql}) - epoch_us(${b.sql}))`, type: 'interval', isAggregate };
  }
  if (INT_TYPES.has(a.type) && INT_TYPES.has(b.type)) return computeInt(op, a, b);
  if (isNumeric(a, b) && (op === '+' || op === '-' || op === '*')) return computeNumeric(op, a, b);
  throw unknown;
}

function computeInt(op: string, a: Sql, b: Sql): Sql {
  const type = a.type === 'int8' || b.type === 'int8' ? 'int8' : 'int4';
  const isAggregate = anyAggregate(a, b);
  const made = (sql: string): Sql => {
    return { sql: type === 'int4' ? within('int4', sql) : sql, type, isAggregate };
  };
  const [one, other] = [a, b].map(({ sql }) => `CAST(${sql} AS BIGINT)`);
  if (op === '+' || op === '-' || op === '*') return made(`(${one} ${op} ${other})`);
  if (op !== '/' && op !== '%') throw refused(nameOf(op, a, b));
  const units = constantDigits(b)?.units;
  // By zero DuckDB makes NULL, and the least number has no quotient by −1.
  if (units === undefined || units === 0n || units === -1n) {
    throw refused(
      `${a.type} ${op} ${b.constant ?? b.type}: all but a constant other than 0 and -1`,
    );
  }
  return made(`(${one} ${op === '/' ? '//' : '%'} ${other})`);
}

/**
 * A whole number, or the error of Postgres where its type does not hold it. A cast would not do: DuckDB leaves out
 * one that it does not need for a comparison.
 */
export function within(type: 'int4' | 'int8', sql: string): string {
  const limit = INT_LIMITS[type];
  const isHeld = `${sql} IS NULL OR ${sql} BETWEEN ${-limit} AND ${limit - 1n}`;
  const value = `CAST(${sql} AS BIGINT)`;
  return `(CASE WHEN ${isHeld} THEN ${value} ELSE error('${NAMES[type]} out of range') END)`;
}

const NAMES = { int4: 'integer', int8: 'bigint' } as const;

/** `-x` */
export function negate(one: Sql): Sql {
  if (typeof one.constant === 'string' && NUMBER_TYPES.has(one.type)) {
    const { constant } = one;
    return constantOf(constant.startsWith('-') ? constant.slice(1) : `-${constant}`, one.type);
  }
  if (INT_TYPES.has(one.type)) return computeInt('-', constantOf('0', 'int4'), one);
  if (one.type === 'numeric') return { ...strip(one), sql: `(-${asNumeric(one).sql})` };
  if (one.type === 'float8') return { ...strip(one), sql: `(-${one.sql})` };
  throw refused(`operator -${one.type}`);
}
