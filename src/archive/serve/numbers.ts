import { type DecimalForm, decimalSql, MAX_PRECISION } from '../parquet/columns.js';
import { EndpointError, refused, SQLSTATE } from './errors.js';
import { type Digits, decimalLiteral, digitsOf, formOf, INT_TYPES, type PgType } from './values.js';

/**
 * Numbers of Postgres in SQL of DuckDB: `numeric` as DECIMAL wide enough for every digit, refused where none
 * is.
 */

/** An expression in SQL of DuckDB, with its type in Postgres. */
export interface Sql {
  readonly sql: string;
  readonly type: PgType;
  /** Digits of a `numeric`. */
  readonly form?: DecimalForm;
  /** Digits after the point that Postgres shows, or SQL for them; undefined for as few as the value needs. */
  readonly shown?: number | string;
  /** Text of a constant; null for NULL. */
  readonly constant?: string | null;
  /** Text of a column that files keep as text. */
  readonly raw?: string;
  /** True if it holds an aggregate. */
  readonly isAggregate?: boolean;
  /** A division, which is done after DuckDB, by the rule of Postgres; `sql` is empty. */
  readonly quotient?: Quotient;
}

/** A quotient of two numbers, perhaps rounded. It can only be a result. */
export interface Quotient {
  readonly over: Sql;
  readonly under: Sql;
  readonly places?: number;
}

const INT_FORM: DecimalForm = { precision: 19, scale: 0 };
const NULL_FORM: DecimalForm = { precision: 1, scale: 0 };

/** An expression that is no constant, whatever it is made of. */
export function strip({ sql, type, form, shown, isAggregate = false }: Sql): Sql {
  const digits = {
    ...(form === undefined ? {} : { form }),
    ...(shown === undefined ? {} : { shown }),
  };
  return { sql, type, isAggregate, ...digits };
}

/** True if two numbers of these types are compared and computed as `numeric`. */
export function isNumeric(a: Sql, b: Sql): boolean {
  const types = new Set([a.type, b.type]);
  return types.has('numeric') && !types.has('float8');
}

/** Digits of a constant; undefined for NULL, NaN and what is infinite. */
export function constantDigits({ constant }: Sql): Digits | undefined {
  return typeof constant === 'string' ? digitsOf(constant) : undefined;
}

/** Numbers that have no digits, as Postgres writes them. */
const WITHOUT_DIGITS: ReadonlySet<string> = new Set(['NaN', 'Infinity', '-Infinity']);

/** The constant `numeric` of a text. NaN and infinities can only be compared. */
export function numericConstant(text: string | null): Sql {
  if (text === null) {
    const sql = `CAST(NULL AS ${decimalSql(NULL_FORM)})`;
    return { sql, type: 'numeric', form: NULL_FORM, shown: 0, constant: null };
  }
  const digits = digitsOf(text);
  if (digits === undefined && !WITHOUT_DIGITS.has(text)) {
    throw new EndpointError(SQLSTATE.badValue, `invalid number "${text}"`);
  }
  const form = digits === undefined ? undefined : formOf(digits);
  if (digits === undefined || form === undefined) {
    return { sql: '', type: 'numeric', constant: text };
  }
  const sql = decimalLiteral(digits, form);
  return { sql, type: 'numeric', form, shown: digits.shown, constant: text };
}

/** A number as `numeric`, as Postgres casts it. */
export function asNumeric(one: Sql): Sql & { readonly form: DecimalForm } {
  if (one.type === 'numeric') {
    if (one.form === undefined) {
      throw refused(
        one.quotient ? 'numeric / numeric within an expression' : `${one.constant} in arithmetic`,
      );
    }
    return { ...one, form: one.form };
  }
  if (!INT_TYPES.has(one.type)) throw refused(`${one.type} as numeric`);
  const { form, ...constant } = numericConstant(one.constant ?? null);
  if (one.constant !== undefined && form !== undefined) return { ...constant, form };
  const sql = `CAST(${one.sql} AS ${decimalSql(INT_FORM)})`;
  return { ...one, sql, type: 'numeric', form: INT_FORM, shown: 0 };
}

/** A number as `double precision`. A DECIMAL goes through its text: DuckDB's own cast rounds twice. */
export function asDouble(one: Sql): string {
  if (one.type === 'float8') return one.sql;
  if (one.type !== 'numeric') return `CAST(${one.sql} AS DOUBLE)`;
  if (typeof one.constant === 'string') return `CAST('${one.constant}' AS DOUBLE)`;
  return `CAST(CAST(${asNumeric(one).sql} AS VARCHAR) AS DOUBLE)`;
}

/** Least form that holds all numbers of two. @param more digits before the point */
function unionOf(a: DecimalForm, b: DecimalForm, more = 0): DecimalForm {
  const scale = Math.max(a.scale, b.scale);
  const whole = Math.max(a.precision - a.scale, b.precision - b.scale);
  if (whole + scale > MAX_PRECISION) {
    throw refused(`a number of more than ${MAX_PRECISION} digits`);
  }
  return { precision: Math.min(MAX_PRECISION, whole + scale + more), scale };
}

/** Widens a number. Its digits stay. */
export function widen({ sql, form }: Sql, to: DecimalForm): string {
  if (form?.precision === to.precision && form.scale === to.scale) return sql;
  return `CAST(${sql} AS ${decimalSql(to)})`;
}

/** Two numbers in one form. */
export function aligned(a: Sql, b: Sql): { readonly sql: [string, string]; form: DecimalForm } {
  const [one, other] = [asNumeric(a), asNumeric(b)];
  const form = unionOf(one.form, other.form);
  return { sql: [widen(one, form), widen(other, form)], form };
}

/** SQL of the digits that a number shows. */
export function shownSql({ sql, form, shown }: Sql): string {
  if (shown !== undefined) return String(shown);
  if (form?.scale === 0) return '0';
  const text = `CAST(${sql} AS VARCHAR)`;
  return `(length(rtrim(${text}, '0')) - strpos(${text}, '.'))`;
}

function shownOf(a: Sql, b: Sql, op: '+' | '*'): number | string {
  if (typeof a.shown === 'number' && typeof b.shown === 'number') {
    return op === '*' ? a.shown + b.shown : Math.max(a.shown, b.shown);
  }
  const [one, other] = [shownSql(a), shownSql(b)];
  return op === '*' ? `(${one} + ${other})` : `greatest(${one}, ${other})`;
}

/** Sum, difference or product of `numeric`s. DuckDB raises an error where digits do not fit. */
export function computeNumeric(op: '+' | '-' | '*', left: Sql, right: Sql): Sql {
  const [a, b] = [asNumeric(left), asNumeric(right)];
  const isAggregate = a.isAggregate === true || b.isAggregate === true;
  if (op === '*') {
    const scale = a.form.scale + b.form.scale;
    if (scale > MAX_PRECISION) throw refused(`a product of ${scale} digits after the point`);
    // Two that fit into 64 bits would be multiplied in 64 bits.
    const wide = { ...a.form, precision: Math.max(a.form.precision, INT_FORM.precision) };
    const precision = Math.min(MAX_PRECISION, wide.precision + b.form.precision);
    const sql = `(${widen(a, wide)} * ${b.sql})`;
    const form = { precision, scale };
    return { sql, type: 'numeric', form, shown: shownOf(a, b, '*'), isAggregate };
  }
  const common = unionOf(a.form, b.form, 1);
  const form = { ...common, precision: Math.max(common.precision, INT_FORM.precision) };
  const sql = `(${widen(a, form)} ${op} ${widen(b, form)})`;
  // DuckDB adds a digit of its own.
  const made = { ...form, precision: Math.min(MAX_PRECISION, form.precision + 1) };
  return { sql, type: 'numeric', form: made, shown: shownOf(a, b, '+'), isAggregate };
}

/** Result of a comparison that is the same for every number but NULL. */
const always = ({ sql }: Sql, result: boolean) =>
  `(CASE WHEN ${sql} IS NOT NULL THEN ${result} END)`;

/** Results of comparing any number with one that is greater than all. */
const BELOW: ReadonlySet<string> = new Set(['<', '<=', '<>']);
const ABOVE: ReadonlySet<string> = new Set(['>', '>=', '<>']);

/**
 * Compares a number with a constant of any digits. The constant is brought to the digits of the other, so that
 * whole groups of rows can still be passed over by their least and greatest value.
 */
export function compareWithConstant(op: string, left: Sql, text: string): string {
  const a = asNumeric(left);
  const digits = digitsOf(text);
  if (digits === undefined) {
    return always(a, (text === '-Infinity' ? ABOVE : BELOW).has(op));
  }
  const { scale } = a.form;
  const isExact = digits.scale <= scale;
  const units = isExact
    ? digits.units * 10n ** BigInt(scale - digits.scale)
    : floorDivide(digits.units, 10n ** BigInt(digits.scale - scale));
  const form = formOf({ units, scale, shown: scale });
  if (form === undefined) return always(a, (units < 0n ? ABOVE : BELOW).has(op));
  const literal = decimalLiteral({ units, scale, shown: scale }, form);
  if (isExact) return `(${a.sql} ${op} ${literal})`;
  if (op === '=' || op === '<>') return always(a, op === '<>');
  return op.startsWith('<') ? `(${a.sql} <= ${literal})` : `(${a.sql} > ${literal})`;
}

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b !== 0n && a < 0n ? quotient - 1n : quotient;
}

/** Digits after the point of a quotient that Postgres reckons at least. */
const SIGNIFICANT_DIGITS = 16;
const SHOWN_MAX = 1000;
const DIGITS_TOGETHER = 4;

/** Weight and value of the first group of four digits, as Postgres keeps a number. */
function leadingGroup({ units, scale }: Digits): { weight: number; first: number } {
  const digits = (units < 0n ? -units : units).toString();
  if (units === 0n) return { weight: 0, first: 0 };
  // Place of the first digit: 0 for ones.
  const place = digits.length - 1 - scale;
  const weight = Math.floor(place / DIGITS_TOGETHER);
  const length = place - weight * DIGITS_TOGETHER + 1;
  return { weight, first: Number(digits.slice(0, length).padEnd(length, '0')) };
}

/** Divides as Postgres does, with its rule for digits after the point. @throws EndpointError by zero */
export function divide(a: Digits, b: Digits): { units: bigint; scale: number } {
  if (b.units === 0n) throw new EndpointError('22012', 'division by zero');
  const [one, other] = [leadingGroup(a), leadingGroup(b)];
  const weight = one.weight - other.weight - (one.first <= other.first ? 1 : 0);
  const scale = Math.min(
    SHOWN_MAX,
    Math.max(SIGNIFICANT_DIGITS - weight * DIGITS_TOGETHER, a.shown, b.shown, 0),
  );
  const power = scale - a.scale + b.scale;
  const over = a.units * 10n ** BigInt(Math.max(power, 0));
  const under = b.units * 10n ** BigInt(Math.max(-power, 0));
  return { units: roundedQuotient(over, under), scale };
}

/** Half away from zero. */
function roundedQuotient(over: bigint, under: bigint): bigint {
  const abs = (one: bigint) => (one < 0n ? -one : one);
  const units = (2n * abs(over) + abs(under)) / (2n * abs(under));
  return over < 0n === under < 0n ? units : -units;
}

/** Rounds to so many digits after the point; negative for places before it. */
export function roundDigits(units: bigint, scale: number, to: number) {
  if (to >= scale) return { units: units * 10n ** BigInt(to - scale), scale: to };
  const cut = roundedQuotient(units, 10n ** BigInt(scale - to));
  return to >= 0 ? { units: cut, scale: to } : { units: cut * 10n ** BigInt(-to), scale: 0 };
}
