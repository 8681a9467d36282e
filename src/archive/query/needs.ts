import { messageOf } from '../../kernel/errors.js';
import { nearestName } from '../../kernel/nearest.js';
import type { Span } from '../../kernel/span.js';
import { type SeriesKind, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import { StatementRefusedError } from '../errors.js';
import type { DuckSession } from '../parquet/session.js';
import type { Syntax } from './statement.js';
import { isQuestion, seriesBehind } from './tables.js';

/** Rows of a series that a statement can need at most. */
export interface Bounds extends Span {
  /** Null for all. */
  readonly markets: ReadonlySet<string> | null;
}

/** Limits that were given by hand, whatever the statement says. */
export interface Selection {
  readonly markets?: readonly string[];
  readonly fromMs?: number;
  readonly toMs?: number;
}

/** Before and after everything that is stored. */
export const EVER: Bounds = { markets: null, fromMs: 0, toMs: Date.UTC(9999, 0) };
/** For what is only described, or thrown away whole. */
const NOTHING: Bounds = { markets: new Set(), fromMs: 0, toMs: 0 };

/** The schema of empty tables over which a statement is planned. */
export const PLANNED = 'planned';
const PLANNED_TABLE = new RegExp(`\\.${PLANNED}\\.(\\w+)$`);

/** Parts of the optimizer that move conditions; the rest concludes from rows, and there are none. */
const OPTIMIZERS = [
  ...['expression_rewriter', 'filter_pullup', 'filter_pushdown', 'cte_filter_pusher'],
  ...['in_clause', 'cte_inlining', 'empty_result_pullup', 'unused_columns'],
];

/** Table functions that read nothing when they are planned; files must not be opened by a plan. */
const HARMLESS: ReadonlySet<string> = new Set([
  ...['unnest', 'range', 'generate_series', 'repeat', 'repeat_row'],
]);

/** A node of a plan, as EXPLAIN writes it. */
interface PlanNode {
  readonly name: string;
  readonly extra_info?: { readonly Table?: string; readonly Filters?: string | string[] };
  readonly children?: readonly PlanNode[];
}

/**
 * Finds what a statement needs of each series: DuckDB plans it over empty tables, and the conditions that its
 * optimizer moves down to a table hold for every row that the statement does not throw away. What
 * cannot be planned, or is not understood for certain, needs all.
 *
 * Within the transaction in which the statement will run, so that now() is the same.
 *
 * @param makeTables makes the tables of {@link PLANNED}, and all that the statement names over them
 * @throws ParquetError for names that there are not
 */
export async function planBounds(
  duck: DuckSession,
  { sql, syntax }: { readonly sql: string; readonly syntax: Syntax },
  makeTables: () => Promise<void>,
): Promise<(kind: SeriesKind) => Bounds> {
  if (!syntax.functions.every(({ name }) => HARMLESS.has(name) || isQuestion(name))) {
    return () => EVER;
  }
  const run = async (text: string) => await duck.run('planning the statement', text);
  const others = `SELECT string_agg(name) FROM duckdb_optimizers() WHERE name NOT IN ('${OPTIMIZERS.join("', '")}')`;
  const [names] = await duck.rows('planning the statement', others);
  await run('BEGIN');
  try {
    await run(`CREATE SCHEMA ${PLANNED}`);
    await makeTables();
    await run(`SET disabled_optimizers = '${String(names?.[0])}'`);
    await run("SET explain_output = 'optimized_only'");
    const [row] = await duck.rows('planning the statement', `EXPLAIN (FORMAT json) ${sql}`);
    const bounds = boundsOf(JSON.parse(String(row?.[1])) as PlanNode[]);
    return (kind) => bounds.get(kind) ?? NOTHING;
  } catch (error) {
    // Other errors may come from the types of the columns may be the cause, which are not known yet.
    const isOfAuthor = (one: unknown) => /(Binder|Catalog) Error/.test(messageOf(one));
    // The author has not written EXPLAIN: what is wrong is shown in the statement as it was given.
    const shown = await duck.check('planning the statement', sql).then(
      () => error,
      (own: unknown) => (isOfAuthor(own) ? own : error),
    );
    await run('ROLLBACK');
    if (isOfAuthor(error)) throw shown;
    return () => EVER;
  } finally {
    await run('RESET disabled_optimizers');
    await run('RESET explain_output');
  }
}

/** The rows that the scans of a plan let through, by series. */
function boundsOf(plan: readonly PlanNode[]): ReadonlyMap<SeriesKind, Bounds> {
  const bounds = new Map<SeriesKind, Bounds>();
  const waiting = [...plan];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    waiting.push(...(node.children ?? []));
    const [, name = ''] = PLANNED_TABLE.exec(node.extra_info?.Table ?? '') ?? [];
    const kind = seriesBehind(name);
    if (kind === undefined) continue;
    const one = scanBounds(kind, [node.extra_info?.Filters ?? []].flat());
    const known = bounds.get(kind);
    bounds.set(kind, known === undefined ? one : unite(known, one));
  }
  return bounds;
}

function unite(a: Bounds, b: Bounds): Bounds {
  const isAll = a.markets === null || b.markets === null;
  return {
    markets: isAll ? null : new Set([...(a.markets ?? []), ...(b.markets ?? [])]),
    fromMs: Math.min(a.fromMs, b.fromMs),
    toMs: Math.max(a.toMs, b.toMs),
  };
}

const TEXT = "'(?:[^']|'')*'";
/** Rows of one market, or of one of several. */
const OF_MARKETS = new RegExp(
  `^market(?:=${TEXT}(?: OR market=${TEXT})*| IN \\(${TEXT}(?:, ${TEXT})*\\))$`,
);
const TEXTS = new RegExp(TEXT, 'g');
/** A comparison with an instant. */
const COMPARED = /^(\w+)([<>]?=?)'([^']+)'::TIMESTAMP WITH TIME ZONE$/;
/** Outside of texts. */
const AND = / AND (?=(?:[^']*'[^']*')*[^']*$)/;

/** The conditions of a scan; those that are not understood leave nothing out. */
function scanBounds(kind: SeriesKind, filters: readonly string[]): Bounds {
  // Conditions stand on lines. A text with a quote of its own cannot be separated from them.
  if (filters.some((one) => one.split("'").length % 2 === 0)) return EVER;
  const time = timeColumnOf(tableOfKind(kind));
  let { markets, fromMs, toMs } = EVER;
  const conditions = filters.flatMap((one) => {
    const all = one.split(AND);
    // Parts that belong together are not written where both stand.
    return all.length > 1 && one.includes(' OR ') ? [] : all;
  });
  for (const one of conditions.map((text) => text.replace(/^optional: /, ''))) {
    if (OF_MARKETS.test(one)) {
      const names = (one.match(TEXTS) ?? []).map((text) => text.slice(1, -1).replaceAll("''", "'"));
      markets = both(markets, new Set(names));
    }
    const [, column, comparison = '', text = ''] = COMPARED.exec(one) ?? [];
    const ms = Date.parse(text.replace(' ', 'T').replace(/\+00$/, 'Z'));
    if (column !== time || Number.isNaN(ms)) continue;
    // For an instant with microseconds, `ms` is the millisecond that it lies in.
    const isBefore = comparison === '<' && !/\.\d{4}/.test(text);
    if (!comparison.includes('<')) fromMs = Math.max(fromMs, ms);
    if (!comparison.includes('>')) toMs = Math.min(toMs, isBefore ? ms : ms + 1);
  }
  return { markets, fromMs, toMs };
}

/** Markets of both; null for all. */
function both(one: Bounds['markets'], other: Bounds['markets']): Bounds['markets'] {
  if (one === null || other === null) return one ?? other;
  return new Set([...one].filter((name) => other.has(name)));
}

/** The rows that are both needed and chosen by hand. */
export function narrowed(needed: Bounds, { markets, fromMs = 0, toMs }: Selection): Bounds {
  return {
    markets: both(needed.markets, markets === undefined ? null : new Set(markets)),
    fromMs: Math.max(needed.fromMs, fromMs),
    toMs: Math.min(needed.toMs, toMs ?? needed.toMs),
  };
}

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
  throw new StatementRefusedError(`unknown market ${unknown}${advice}`);
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
