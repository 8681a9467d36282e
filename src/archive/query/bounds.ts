import { nearestName } from '../../kernel/nearest.js';
import type { DuckSession } from '../parquet/session.js';
import { StatementRefusedError } from './errors.js';
import type { Need } from './needs.js';
import { isQuestion } from './questions.js';
import type { Syntax } from './syntax.js';

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
/** What a moment that depends on now may be off by when the statement runs, some seconds later. */
const LATER_MS = 2 * 86_400_000;
const DEPENDS_ON_NOW = /now\(|current_|today\(/;

/**
 * Rows of a market that there is not were asked for by mistake: "none" would be no answer.
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

/** Works out what a need comes to now. Of a moment that can not be worked out nothing is concluded. */
export async function boundsOf(
  duck: DuckSession,
  need: Need,
  { markets, fromMs, toMs }: Selection,
): Promise<Bounds> {
  const from = await momentsMs(duck, need.from, -1);
  const to = await momentsMs(duck, need.to, 1);
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

/** The moments, a little earlier (-1) or later (1) than they are: rows beside them do no harm. */
async function momentsMs(
  duck: DuckSession,
  moments: readonly string[] | null,
  direction: -1 | 1,
): Promise<readonly number[] | null> {
  if (moments === null) return null;
  const found: number[] = [];
  for (const sql of new Set(moments)) {
    const ms = await momentMs(duck, sql);
    if (ms === null) return null;
    found.push(ms + direction * (DEPENDS_ON_NOW.test(sql) ? LATER_MS : 1));
  }
  return found;
}

async function momentMs(duck: DuckSession, sql: string): Promise<number | null> {
  const question = `SELECT epoch_ms(TRY(CAST(${sql} AS TIMESTAMPTZ)))::DOUBLE`;
  // What is wrong with it the statement itself will tell, in its own words.
  const [row] = await duck.rows('working out a moment', question).catch(() => []);
  const ms = row?.[0];
  return typeof ms === 'number' && Number.isFinite(ms) ? ms : null;
}
