import { nearestName } from '../../kernel/nearest.js';
import type { Span } from '../../kernel/span.js';
import { StatementRefusedError } from '../errors.js';
import type { Syntax } from './statement.js';
import { isQuestion } from './tables.js';

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

/** Rows of either. */
export function unite(a: Bounds, b: Bounds): Bounds {
  const isAll = a.markets === null || b.markets === null;
  return {
    markets: isAll ? null : new Set([...(a.markets ?? []), ...(b.markets ?? [])]),
    fromMs: Math.min(a.fromMs, b.fromMs),
    toMs: Math.max(a.toMs, b.toMs),
  };
}

/** Rows of both. */
export function intersect(a: Bounds, b: Bounds): Bounds {
  const { markets: only } = b;
  const isBoth = a.markets !== null && only !== null;
  return {
    markets: isBoth
      ? new Set([...a.markets].filter((name) => only.has(name)))
      : (a.markets ?? only),
    fromMs: Math.max(a.fromMs, b.fromMs),
    toMs: Math.min(a.toMs, b.toMs),
  };
}

/** The rows that are chosen by hand. */
export function selected({ markets, fromMs, toMs }: Selection): Bounds {
  return {
    markets: markets === undefined ? null : new Set(markets),
    fromMs: fromMs ?? EVER.fromMs,
    toMs: toMs ?? EVER.toMs,
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
    `${asked.name}(…) takes its market and its time range as arguments: leave --market, --from and --to out`,
  );
}
