import { decimalSql, MAX_PRECISION } from '../parquet/columns.js';
import { refused } from './errors.js';
import { asDouble, asNumeric, type Sql, shownSql, strip } from './numbers.js';
import { compute, constantOf, within } from './operators.js';
import { DAY_IN_US, INT_TYPES, NUMBER_TYPES, type PgType, readInterval } from './values.js';

/** Functions and casts of Postgres that have the same meaning here. */

const isInt = (type: PgType): type is 'int4' | 'int8' => INT_TYPES.has(type);

/** A whole constant among arguments. */
function wholeOf(one: Sql | undefined): number | undefined {
  const value = Number(one?.constant ?? Number.NaN);
  return Number.isInteger(value) ? value : undefined;
}

/** Casts a value as Postgres does. @param modifiers of `numeric(p, s)` */
export function cast(one: Sql, type: PgType, modifiers: readonly number[] = []): Sql {
  const made = castPlain(one, type);
  const [precision, scale = 0] = modifiers;
  if (precision === undefined) return made;
  if (type !== 'numeric' || scale < 0 || precision > MAX_PRECISION || scale > precision) {
    throw refused(`cast to ${type}(${modifiers.join(', ')})`);
  }
  const form = { precision, scale };
  const { isAggregate, sql } = asNumeric(made);
  const cut = `CAST(${sql} AS ${decimalSql(form)})`;
  return { sql: cut, type, form, shown: scale, ...(isAggregate === true ? { isAggregate } : {}) };
}

function castPlain(one: Sql, type: PgType): Sql {
  if (one.type === type) return one;
  if (one.type === 'unknown' || one.constant === null) {
    return constantOf(one.constant ?? null, type);
  }
  const made = (sql: string): Sql => ({ sql, type, isAggregate: one.isAggregate ?? false });
  if (type === 'numeric' && isInt(one.type)) return asNumeric(one);
  if (type === 'float8' && NUMBER_TYPES.has(one.type)) {
    if (one.constant !== undefined) return constantOf(one.constant, type);
    return made(asDouble(one));
  }
  if (isInt(type)) {
    if (one.constant !== undefined && isInt(one.type)) return constantOf(one.constant, type);
    if (isInt(one.type)) return made(type === 'int4' ? within(type, one.sql) : one.sql);
    if (one.type === 'numeric') return made(within(type, `round(${asNumeric(one).sql}, 0)`));
  }
  throw refused(`cast from ${one.type} to ${type}`);
}

type Maker = (args: readonly Sql[], name: string) => Sql | undefined;

/** Rounds a number at the point. Postgres shows no digits after it then. */
function atPoint(duck: string): Maker {
  return ([one, places, ...more]) => {
    if (one?.type !== 'numeric' || more.length > 0) return undefined;
    // Postgres writes trunc(x) as trunc(x, 0).
    if (places !== undefined && (duck !== 'trunc' || wholeOf(places) !== 0)) return undefined;
    const { sql, form, isAggregate = false } = asNumeric(one);
    // One digit more before the point, which the next number may need.
    const whole = { precision: Math.min(MAX_PRECISION, form.precision + 1), scale: form.scale };
    const cut = { precision: whole.precision, scale: 0 };
    const made = `CAST(${duck}(CAST(${sql} AS ${decimalSql(whole)})) AS ${decimalSql(cut)})`;
    return { sql: made, type: 'numeric', form: cut, shown: 0, isAggregate };
  };
}

const round: Maker = ([one, places, ...more]) => {
  if (one === undefined || more.length > 0 || !isNumberExact(one)) return undefined;
  const to = places === undefined ? 0 : wholeOf(places);
  if (to === undefined || Math.abs(to) > MAX_PRECISION) return undefined;
  const { sql, form, isAggregate = false } = asNumeric(one);
  const scale = Math.max(0, Math.min(to, form.scale));
  const precision = Math.min(MAX_PRECISION, form.precision + 1);
  const wide = decimalSql({ precision, scale: form.scale });
  const cut = { precision, scale };
  const made = `CAST(round(CAST(${sql} AS ${wide}), ${Math.min(to, form.scale)}) AS ${decimalSql(cut)})`;
  return { sql: made, type: 'numeric', form: cut, shown: Math.max(0, to), isAggregate };
};

const isNumberExact = ({ type }: Sql) => type === 'numeric' || isInt(type);

const abs: Maker = ([one, ...more]) => {
  if (one === undefined || more.length > 0 || !NUMBER_TYPES.has(one.type)) return undefined;
  if (one.type === 'numeric') return { ...strip(one), sql: `abs(${asNumeric(one).sql})` };
  if (one.type === 'float8') return { ...strip(one), sql: `abs(${one.sql})` };
  return { ...strip(one), sql: `abs(CAST(${one.sql} AS BIGINT))` };
};

const dateBin: Maker = ([stride, time, origin, ...more]) => {
  if (time?.type !== 'timestamptz') return undefined;
  if (typeof stride?.constant !== 'string' || origin === undefined || more.length > 0) {
    return undefined;
  }
  const from = castPlain(origin, time.type);
  const { months, days, us } = readInterval(stride.constant);
  const width = days * DAY_IN_US + us;
  if (months !== 0n || width <= 0n) return undefined;
  const [at, start] = [`epoch_us(${time.sql})`, `epoch_us(${from.sql})`];
  const past = `((${at} - ${start}) % ${width})`;
  const sql = `make_timestamptz(${at} - ${past} - CASE WHEN ${past} < 0 THEN ${width} ELSE 0 END)`;
  return { sql, type: time.type, isAggregate: time.isAggregate ?? false };
};

const count: Maker = ([list, ...more]) => {
  const isFlat = more.length === 0 || (more.length === 1 && wholeOf(more[0]) === 1);
  if (list?.type !== 'numeric[]' || !isFlat) return undefined;
  return { sql: `len(${list.sql})`, type: 'int4' };
};

const MAKERS: Readonly<Record<string, Maker>> = {
  abs,
  round,
  ceil: atPoint('ceil'),
  ceiling: atPoint('ceil'),
  floor: atPoint('floor'),
  trunc: atPoint('trunc'),
  sign: atPoint('sign'),
  mod: ([a, b]) => (a === undefined || b === undefined ? undefined : compute('%', a, b)),
  date_bin: dateBin,
  cardinality: (args) => (args.length === 1 ? count(args, '') : undefined),
  array_length: (args) => {
    const made = args.length === 2 ? count(args, '') : undefined;
    return made === undefined ? undefined : { ...made, sql: `nullif(${made.sql}, 0)` };
  },
};

/** Calls a function of the allow-list. @throws EndpointError for any other */
export function call(name: string, args: readonly Sql[]): Sql {
  const made = Object.hasOwn(MAKERS, name) ? MAKERS[name]?.(args, name) : undefined;
  if (made !== undefined) return made;
  const types = args.map(({ type, constant }) => constant ?? type);
  throw refused(`function ${name}(${types.join(', ')})`);
}

/** A value of a list by its place, from 1; NULL where there is none. */
export function element(list: Sql, place: Sql): Sql {
  const at = wholeOf(place);
  if (list.type !== 'numeric[]' || at === undefined || list.form === undefined) {
    throw refused(`${list.type}[${place.constant ?? place.type}]`);
  }
  const { sql } = numericNull(list);
  // Negative places count from the end in DuckDB.
  return { sql: at >= 1 ? `${list.sql}[${at}]` : sql, type: 'numeric', form: list.form };
}

const numericNull = ({ form }: Sql): Sql => {
  const type = decimalSql(form ?? { precision: 1, scale: 0 });
  return { sql: `CAST(NULL AS ${type})`, type: 'numeric' };
};

/** `CASE` over conditions. Values become one type, as in Postgres. */
export function choose(branches: readonly (readonly [Sql, Sql])[], otherwise: Sql): Sql {
  const all = [...branches.map(([, value]) => value), otherwise];
  const type = caseType(all);
  const values = all.map((one) =>
    type === 'numeric' ? asNumeric(cast(one, type)) : cast(one, type),
  );
  const isAggregate = [...all, ...branches.map(([when]) => when)].some((one) => one.isAggregate);
  if (type !== 'numeric') {
    return {
      sql: caseSql(
        branches,
        values.map(({ sql }) => sql),
      ),
      type,
      isAggregate,
    };
  }
  const forms = values.map(({ form }) => form ?? { precision: 1, scale: 0 });
  const scale = Math.max(...forms.map((one) => one.scale));
  const precision = scale + Math.max(...forms.map((one) => one.precision - one.scale));
  if (precision > MAX_PRECISION) throw refused(`a number of more than ${MAX_PRECISION} digits`);
  const form = { precision, scale };
  const sql = caseSql(
    branches,
    values.map((one) => `CAST(${one.sql} AS ${decimalSql(form)})`),
  );
  const shown = values.every((one) => one.shown === undefined)
    ? undefined
    : caseSql(
        branches,
        values.map((one) => `CAST(${shownSql(one)} AS BIGINT)`),
      );
  return { sql, type, form, isAggregate, ...(shown === undefined ? {} : { shown }) };
}

function caseSql(branches: readonly (readonly [Sql, Sql])[], values: readonly string[]): string {
  const whens = branches.map(([when], at) => `WHEN ${when.sql} THEN ${values[at]}`);
  return `(CASE ${whens.join(' ')} ELSE ${values.at(-1)} END)`;
}

/** Types that values of CASE may have; an interval shows how it was written, which is not kept here. */
const CASE_TYPES: ReadonlySet<PgType> = new Set([
  ...(['bool', 'int4', 'int8', 'numeric', 'float8', 'timestamptz'] as const),
]);

function caseType(all: readonly Sql[]): PgType {
  const types = new Set(all.filter(({ type }) => type !== 'unknown').map(({ type }) => type));
  const widest = (['float8', 'numeric', 'int8'] as const).find((one) => types.has(one));
  const isNumbers = [...types].every((one) => NUMBER_TYPES.has(one));
  const [only] = types;
  const type = types.size <= 1 ? only : isNumbers ? widest : undefined;
  if (type === undefined || !CASE_TYPES.has(type))
    throw refused(`CASE of ${[...types].join(', ')}`);
  return type;
}
