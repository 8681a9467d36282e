import { nearestName } from '../../kernel/nearest.js';
import { type SeriesKind, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import { StatementRefusedError } from '../errors.js';
import { type DuckSession, literal } from '../parquet/session.js';
import {
  isNode,
  listOf,
  namedFunction,
  namedTable,
  nodesOf,
  type Syntax,
  type SyntaxNode,
  textOf,
} from './statement.js';
import { isQueryTable, isQuestion, seriesBehind } from './tables.js';

/**
 * Which rows of a series a statement can need at most. Rows are left out only where the statement
 * itself throws them away whatever else it does: by a condition on the whole of WHERE, joined by AND,
 * of one table, against constants. Everything that is not understood for certain needs all.
 */
export interface Need {
  /** Null for all. */
  readonly markets: ReadonlySet<string> | null;
  /** SQL of times; the earliest of the first list and the latest of the second bound it. Null: none. */
  readonly from: readonly string[] | null;
  readonly to: readonly string[] | null;
}

const ALL: Need = { markets: null, from: null, to: null };
/** For what is only described. */
const NONE: Need = { ...ALL, markets: new Set() };

/** What a reader by name in a text could see is not known before it runs. */
const KNOWN_TABLE_FUNCTIONS: ReadonlySet<string> = new Set([
  ...['unnest', 'range', 'generate_series', 'repeat', 'repeat_row'],
]);

/** What a statement needs of each series that it names. */
export function needsOf(root: SyntaxNode): Map<SeriesKind, Need> {
  const bounds = new Map<SyntaxNode, Need>();
  let isKnown = true;
  for (const node of nodesOf(root)) {
    if (node.type === 'SELECT_NODE') noteSelect(node, bounds);
    const called = namedFunction(node);
    if (called !== undefined) {
      isKnown &&= KNOWN_TABLE_FUNCTIONS.has(called.name) || isQuestion(called.name);
    }
    isKnown &&= node.type !== 'SHOW_REF';
  }
  const needs = new Map<SeriesKind, Need>();
  const isDescribed = [...nodesOf(root)].some((node) => node.show_type === 'DESCRIBE');
  for (const node of nodesOf(root)) {
    const kind = kindOf(node);
    if (kind === undefined) continue;
    const need = isDescribed ? NONE : isKnown ? (bounds.get(node) ?? askedOf(node)) : ALL;
    const earlier = needs.get(kind);
    needs.set(kind, earlier === undefined ? need : unite(earlier, need));
  }
  return needs;
}

/** The series behind a table or a question. */
function kindOf(node: SyntaxNode): SeriesKind | undefined {
  const called = namedFunction(node);
  if (called !== undefined) return isQuestion(called.name) ? 'trades' : undefined;
  if (node.type !== 'BASE_TABLE') return undefined;
  const { name } = namedTable(node);
  return isQueryTable(name) ? seriesBehind(name) : undefined;
}

/** What a question needs, by its arguments; all of what is no question. */
function askedOf(node: SyntaxNode): Need {
  if (node.type !== 'TABLE_FUNCTION' || !isNode(node.function)) return ALL;
  const [market, step, from, to] = listOf(node.function, 'children');
  // Named arguments may come in any order.
  const inOrder = [market, step, from, to].filter((one) => one && textOf(one, 'alias') === '');
  if (!market || !step || !from || !to || inOrder.length < 4) return ALL;
  const names = namesOf([market]);
  const [lengthSql, fromSql, toSql] = [step, from, to].map(timeSql);
  return {
    markets: names === null ? null : new Set(names),
    from: fromSql ? [fromSql] : null,
    // A slot that opens within the span may end after it.
    to:
      toSql && lengthSql
        ? [`CAST(${toSql} AS TIMESTAMPTZ) + CAST(CAST(${lengthSql} AS VARCHAR) AS INTERVAL)`]
        : null,
  };
}

function unite(a: Need, b: Need): Need {
  const both = (one: readonly string[] | null, other: readonly string[] | null) =>
    one === null || other === null ? null : [...one, ...other];
  return {
    markets:
      a.markets === null || b.markets === null ? null : new Set([...a.markets, ...b.markets]),
    from: both(a.from, b.from),
    to: both(a.to, b.to),
  };
}

/** Tables whose rows FROM brings together one by one; null where it does anything else. */
function plainTables(from: SyntaxNode): SyntaxNode[] | null {
  if (from.sample !== undefined) return null;
  if (from.type === 'BASE_TABLE') return [from];
  if (from.type !== 'JOIN') return from.type === 'EMPTY' ? [] : [from];
  const isPlain = ['REGULAR', 'CROSS', 'NATURAL'].includes(textOf(from, 'ref_type'));
  const isSimple = ['INNER', 'LEFT'].includes(textOf(from, 'join_type'));
  if (!isPlain || !isSimple || !isNode(from.left) || !isNode(from.right)) return null;
  const [left, right] = [plainTables(from.left), plainTables(from.right)];
  return left === null || right === null ? null : [...left, ...right];
}

function noteSelect(select: SyntaxNode, bounds: Map<SyntaxNode, Need>): void {
  const { from_table: from, where_clause: where } = select;
  if (!isNode(from) || !isNode(where) || select.sample !== undefined) return;
  const tables = plainTables(from);
  if (tables === null) return;
  for (const table of tables) {
    const kind = table.type === 'BASE_TABLE' ? kindOf(table) : undefined;
    if (kind === undefined || listHas(table.column_name_alias)) continue;
    const alias = (textOf(table, 'alias') || textOf(table, 'table_name')).toLowerCase();
    const isColumn = (node: SyntaxNode, column: string) => {
      const names = (Array.isArray(node.column_names) ? node.column_names : []).map((name) =>
        String(name).toLowerCase(),
      );
      if (node.class !== 'COLUMN_REF' || names.at(-1) !== column) return false;
      return names.length === 1 ? tables.length === 1 : names.length === 2 && names[0] === alias;
    };
    bounds.set(table, conditionsOf(where, timeColumnOf(tableOfKind(kind)), isColumn));
  }
}

const listHas = (value: unknown) => Array.isArray(value) && value.length > 0;

type IsColumn = (node: SyntaxNode, column: string) => boolean;

function conditionsOf(where: SyntaxNode, time: string, isColumn: IsColumn): Need {
  let markets: ReadonlySet<string> | null = null;
  let from: string[] | null = null;
  let to: string[] | null = null;
  const setMarkets = (names: readonly string[] | null) => {
    if (names === null) return;
    const earlier: ReadonlySet<string> | null = markets;
    markets = new Set(names.filter((name) => earlier?.has(name) ?? true));
  };
  // Of several bounds any one will do; the first is taken.
  const bound = (type: string, value: SyntaxNode) => {
    const sql = timeSql(value);
    if (sql === null) return;
    if (/GREATERTHAN|EQUAL$/.test(type)) from ??= [sql];
    if (/LESSTHAN|EQUAL$/.test(type) && !type.includes('GREATERTHAN')) to ??= [sql];
  };
  for (const one of conjuncts(where)) {
    const type = textOf(one, 'type');
    if (one.class === 'COMPARISON' && isNode(one.left) && isNode(one.right)) {
      const isTurned = !(isColumn(one.left, time) || isColumn(one.left, 'market'));
      const [column, value] = isTurned ? [one.right, one.left] : [one.left, one.right];
      if (isColumn(column, 'market') && type === 'COMPARE_EQUAL') setMarkets(namesOf([value]));
      const side = TURNED[type];
      if (isColumn(column, time) && side !== undefined) bound(isTurned ? side : type, value);
    } else if (one.class === 'BETWEEN' && isNode(one.input) && isColumn(one.input, time)) {
      if (isNode(one.lower)) bound('COMPARE_GREATERTHANOREQUALTO', one.lower);
      if (isNode(one.upper)) bound('COMPARE_LESSTHANOREQUALTO', one.upper);
    } else if (type === 'COMPARE_IN') {
      const [column, ...values] = listOf(one, 'children');
      if (column !== undefined && isColumn(column, 'market')) setMarkets(namesOf(values));
    }
  }
  return { markets, from, to };
}

/** Comparisons, and what each becomes when its sides change places. */
const TURNED: Readonly<Record<string, string>> = {
  COMPARE_EQUAL: 'COMPARE_EQUAL',
  COMPARE_GREATERTHAN: 'COMPARE_LESSTHAN',
  COMPARE_GREATERTHANOREQUALTO: 'COMPARE_LESSTHANOREQUALTO',
  COMPARE_LESSTHAN: 'COMPARE_GREATERTHAN',
  COMPARE_LESSTHANOREQUALTO: 'COMPARE_GREATERTHANOREQUALTO',
};

function conjuncts(where: SyntaxNode): SyntaxNode[] {
  if (where.type !== 'CONJUNCTION_AND') return [where];
  return listOf(where, 'children').flatMap(conjuncts);
}

function constantOf(node: SyntaxNode): { readonly id: string; readonly value: unknown } | null {
  const { value } = node;
  if (node.class !== 'CONSTANT' || !isNode(value) || !isNode(value.type)) return null;
  return value.is_null === true ? null : { id: textOf(value.type, 'id'), value: value.value };
}

function namesOf(nodes: readonly SyntaxNode[]): string[] | null {
  const names: string[] = [];
  for (const node of nodes) {
    const constant = constantOf(node);
    if (constant?.id !== 'VARCHAR' || typeof constant.value !== 'string') return null;
    names.push(constant.value);
  }
  return names;
}

const CAST_TYPES: Readonly<Record<string, string>> = {
  'TIMESTAMP WITH TIME ZONE': 'TIMESTAMPTZ',
  ...{ TIMESTAMP: 'TIMESTAMP', DATE: 'DATE', INTERVAL: 'INTERVAL' },
  ...{ INTEGER: 'INTEGER', BIGINT: 'BIGINT', DOUBLE: 'DOUBLE', VARCHAR: 'VARCHAR' },
};
const WHOLE_TYPES: ReadonlySet<string> = new Set(['INTEGER', 'BIGINT']);
const OPERATORS: ReadonlySet<string> = new Set(['+', '-']);
/** Functions that answer the same throughout a transaction. */
const FUNCTIONS: ReadonlySet<string> = new Set([
  ...[
    'now',
    'today',
    'get_current_timestamp',
    'trunc',
    'date_trunc',
    'make_date',
    'make_timestamp',
  ],
  ...['make_timestamptz', 'to_seconds', 'to_minutes', 'to_hours', 'to_days', 'to_weeks'],
  ...['to_months', 'to_years', 'to_milliseconds', 'to_microseconds'],
]);
const NOW_WORDS: ReadonlySet<string> = new Set(['current_timestamp', 'current_date']);

/** SQL of the same constant instant; null for what is not known to be one. */
function timeSql(node: SyntaxNode): string | null {
  const constant = constantOf(node);
  if (constant !== null) {
    const { id, value } = constant;
    if (id === 'VARCHAR') return literal(String(value));
    // Of a decimal the tree has the digits without their point, of a large number only a part.
    return WHOLE_TYPES.has(id) && Number.isSafeInteger(value) ? String(value) : null;
  }
  if (node.class === 'COLUMN_REF' && Array.isArray(node.column_names)) {
    const [name, ...more] = node.column_names.map((one) => String(one).toLowerCase());
    return name !== undefined && more.length === 0 && NOW_WORDS.has(name) ? name : null;
  }
  if (node.class === 'CAST' && isNode(node.child) && isNode(node.cast_type)) {
    if (node.try_cast === true) return null;
    const type = CAST_TYPES[textOf(node.cast_type, 'id')];
    const child = timeSql(node.child);
    return type === undefined || child === null ? null : `CAST(${child} AS ${type})`;
  }
  if (node.class !== 'FUNCTION') return null;
  const name = textOf(node, 'function_name').toLowerCase();
  const values = listOf(node, 'children').map(timeSql);
  const known = values.filter((value) => value !== null);
  if (known.length < values.length) return null;
  if (OPERATORS.has(name) && known.length === 2) return `(${known.join(` ${name} `)})`;
  return FUNCTIONS.has(name) ? `${name}(${known.join(', ')})` : null;
}

/** Rows that are made ready for a statement. */
export interface Bounds {
  /** Null for all. */
  readonly markets: ReadonlySet<string> | null;
  readonly fromMs: number;
  readonly toMs: number;
}

/** What the asker has left out by hand, whatever the statement says. */
export interface Selection {
  readonly markets?: readonly string[];
  readonly fromMs?: number;
  readonly toMs?: number;
}

/** Before and after everything that is stored. */
const EVER = { fromMs: 0, toMs: Date.UTC(9999, 0) };
/** What an instant that depends on now may be off by when the statement runs, some seconds later. */
const LATER_MS = 2 * 86_400_000;
const DEPENDS_ON_NOW = /now\(|current_|today\(/;

/**
 * Rows of an unknown market were asked for by mistake: "none" would be no answer.
 *
 * @param known markets by their names
 * @throws StatementRefusedError naming the nearest one
 */
export function assertMarkets(
  { markets = [] }: Selection,
  known: ReadonlyMap<string, unknown>,
): void {
  const unknown = markets.find((name) => !known.has(name));
  if (unknown === undefined) return;
  const nearest = nearestName(unknown, known.keys());
  const advice =
    nearest === undefined
      ? '; SELECT market FROM markets lists what there is'
      : `. Did you mean ${nearest}?`;
  throw new StatementRefusedError(`there is nothing of a market ${unknown} here${advice}`);
}

/**
 * Questions know of themselves which rows they need, and call a slot complete by what is covered: with
 * rows left out by hand that would be wrong.
 *
 * @throws StatementRefusedError
 */
export function assertWhole({ functions }: Syntax, { markets, fromMs, toMs }: Selection): void {
  const asked = functions.find(({ name }) => isQuestion(name));
  if (asked === undefined || (markets ?? fromMs ?? toMs) === undefined) return;
  throw new StatementRefusedError(
    `${asked.name}(…) takes its market and its span as arguments: leave --market, --from and --to out`,
  );
}

/** Works out what a need comes to now. Of an instant that cannot be worked out nothing is concluded. */
export async function boundsOf(
  duck: DuckSession,
  need: Need,
  { markets, fromMs, toMs }: Selection,
): Promise<Bounds> {
  const from = await timesMs(duck, need.from, -1);
  const to = await timesMs(duck, need.to, 1);
  const chosen = markets === undefined ? null : new Set(markets);
  return {
    markets:
      need.markets === null
        ? chosen
        : new Set([...need.markets].filter((name) => chosen?.has(name) ?? true)),
    fromMs: Math.max(EVER.fromMs, fromMs ?? EVER.fromMs, Math.min(...(from ?? [EVER.fromMs]))),
    toMs: Math.min(EVER.toMs, toMs ?? EVER.toMs, Math.max(...(to ?? [EVER.toMs]))),
  };
}

/** The times, a little earlier (-1) or later (1) than they are: rows beside them do no harm. */
async function timesMs(
  duck: DuckSession,
  times: readonly string[] | null,
  direction: -1 | 1,
): Promise<readonly number[] | null> {
  if (times === null) return null;
  const found: number[] = [];
  for (const sql of new Set(times)) {
    const ms = await timeMs(duck, sql);
    if (ms === null) return null;
    found.push(ms + direction * (DEPENDS_ON_NOW.test(sql) ? LATER_MS : 1));
  }
  return found;
}

async function timeMs(duck: DuckSession, sql: string): Promise<number | null> {
  const question = `SELECT epoch_ms(TRY(CAST(${sql} AS TIMESTAMPTZ)))::DOUBLE`;
  // What is wrong with it the statement itself will report, in its own words.
  const [row] = await duck.rows('working out a time', question).catch(() => []);
  const ms = row?.[0];
  return typeof ms === 'number' && Number.isFinite(ms) ? ms : null;
}
