import { ceilToMs, floorToMs, hullOf, type Span } from '../../kernel/span.js';
import type { StreamRef } from '../../model/batch.js';
import {
  ABSENT_CANDLE,
  type CheckRow,
  invalidateRows,
  mergeChecks,
  type SlotCheck,
} from '../../model/check-results.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { lockRowsSql } from '../locks.js';
import {
  fromMs,
  type NamedCall,
  type NamedStatement,
  rangeSql,
  touchingSql,
  unnested,
} from '../sql.js';

/** Reading and writing of check results. Every change reads, merges and replaces under a lock. */

/** A recorded mismatch. */
export interface Mismatch extends CheckRow {
  readonly marketId: number;
  readonly intervalS: number;
}

/** Two programs may check at once; their changes to one market follow each other. */
const LOCK = lockRowsSql('checks', 'ARRAY[$1::int]');

const COLUMNS = `
  v.span, v.outcome, coalesce(v.detail -> 'differences', '[]') AS differences,
  v.tries, v.next_try_at, v.is_exact`;

/** {@link isAbsentCandle} of a check result `v`, as SQL. */
export const IS_ABSENT_CANDLE = `coalesce(v.detail @> '${JSON.stringify({ differences: [ABSENT_CANDLE] })}', false)`;

/** SQL: whether something that a check result `v` of one slot speaks of is never to be had. */
export const IS_GIVEN_UP = `EXISTS (
  SELECT FROM stream s JOIN gap g ON g.market_id = s.market_id AND g.stream_id = s.stream_id
  WHERE s.market_id = v.market_id AND g.state = 'unfillable' AND g.span && v.span
    AND (s.kind = 'candles' AND s.variant = v.interval_s OR s.kind = 'trades' AND NOT ${IS_ABSENT_CANDLE})
    AND NOT EXISTS (SELECT FROM coverage c WHERE c.market_id = s.market_id
                      AND c.stream_id = s.stream_id AND c.span @> g.span * v.span))`;

/** Touching rows too, because they may become one. */
const IS_AROUND = `
  v.market_id = $1 AND v.interval_s = $2 AND v.span && ${touchingSql('$3', '$4')}`;
const AROUND = `SELECT ${COLUMNS} FROM candle_check v WHERE ${IS_AROUND} ORDER BY lower(v.span)`;
const DELETE_AROUND = `DELETE FROM candle_check v WHERE ${IS_AROUND}`;

const INSERT = `
  INSERT INTO candle_check (market_id, interval_s, span, outcome, detail, tries, next_try_at, is_exact)
  SELECT $1, $2, ${rangeSql('from_ms', 'to_ms')}, outcome, detail, tries,
         ${fromMs('next_try_ms')}, is_exact
  FROM unnest($3::float8[], $4::float8[], $5::text[], $6::jsonb[], $7::int[], $8::float8[], $9::boolean[])
    AS q(from_ms, to_ms, outcome, detail, tries, next_try_ms, is_exact)`;

/** Replaces the rows around `hull` by what `change` makes of them. */
async function changeRows(
  runner: Runner,
  marketId: number,
  intervalS: number,
  hull: Span,
  change: (known: readonly CheckRow[]) => readonly CheckRow[],
): Promise<void> {
  const where = [marketId, intervalS, hull.fromMs, hull.toMs];
  const known = await runner.rows<CheckRow>(AROUND, where);
  const rows = change(known);
  if (known.length > 0) await runner.rows(DELETE_AROUND, where);
  if (rows.length === 0) return;
  const flat = rows.map(({ span, differences, ...rest }) => ({
    ...{ ...rest, ...span },
    detail: JSON.stringify(differences.length === 0 ? {} : { differences }),
  }));
  await runner.rows(INSERT, [
    marketId,
    intervalS,
    ...unnested(flat, 'fromMs', 'toMs', 'outcome', 'detail', 'tries', 'nextTryAtMs', 'isExact'),
  ]);
}

/** Does that in a transaction of its own, around some results. */
async function changeAround(
  database: Database,
  marketId: number,
  intervalS: number,
  results: readonly { readonly span: Span }[],
  change: (known: readonly CheckRow[]) => readonly CheckRow[],
): Promise<void> {
  if (results.length === 0) return;
  await database.transaction(async (runner) => {
    await runner.rows(LOCK, [marketId]);
    const hull = hullOf(results.map(({ span }) => span));
    await changeRows(runner, marketId, intervalS, hull, change);
  });
}

/** Records check results; a later one of the same slot replaces the earlier. */
export async function recordCheckResults(
  database: Database,
  marketId: number,
  intervalS: number,
  rows: readonly CheckRow[],
): Promise<void> {
  await changeAround(database, marketId, intervalS, rows, (known) => mergeChecks(known, rows));
}

/**
 * Records results of a partial check: mismatches, and what does not
 * hold any more. The continuous verification goes on from there.
 *
 * A mismatch that is known already keeps its tries; one that has gone is to be looked at again.
 */
export async function reportCheckResults(
  database: Database,
  marketId: number,
  intervalS: number,
  results: readonly SlotCheck[],
  nowMs: number,
): Promise<void> {
  await changeAround(database, marketId, intervalS, results, (known) => {
    const knownAt = new Map(
      known.filter(({ outcome }) => outcome === 'mismatch').map((row) => [row.span.fromMs, row]),
    );
    const later = results.flatMap(({ span, outcome, differences }): CheckRow[] => {
      const earlier = knownAt.get(span.fromMs);
      if (outcome === 'mismatch' && earlier === undefined) {
        return [{ span, outcome, differences, tries: 0, nextTryAtMs: nowMs, isExact: false }];
      }
      if (outcome === 'match' && earlier !== undefined) {
        return [{ ...earlier, nextTryAtMs: nowMs }];
      }
      return [];
    });
    return mergeChecks(known, later);
  });
}

/**
 * Marks what changes after it may have been checked. A mark commits with the change itself, so that
 * no check result outlives its rows; the verification removes the marks.
 */
export const MARK_SUSPECTS: NamedStatement = {
  name: 'mark_suspects',
  types: ['int[]', 'int[]', 'float8[]', 'float8[]'],
  sql: `
    INSERT INTO candle_recheck (market_id, interval_s, span)
    SELECT market_id, interval_s, ${rangeSql('from_ms', 'to_ms')}
    FROM unnest($1::int[], $2::int[], $3::float8[], $4::float8[])
      AS q(market_id, interval_s, from_ms, to_ms)`,
};

/** A span whose check results are to be made again; the interval 0 stands for trades, and so for all intervals. */
export interface SuspectSpan extends Span {
  readonly marketId: number;
  readonly intervalS: number;
}

export function suspectsCall(marks: readonly SuspectSpan[]): NamedCall {
  return [MARK_SUSPECTS, unnested(marks, 'marketId', 'intervalS', 'fromMs', 'toMs')];
}

/** Marks results of a span that has to be fetched again as suspect, within the same transaction. */
export async function invalidateChecks(
  runner: Runner,
  { kind, marketId, variant }: StreamRef,
  span: Span,
): Promise<void> {
  if (kind !== 'trades' && kind !== 'candles') return;
  const intervalS = kind === 'candles' ? variant : 0;
  const [{ sql }, values] = suspectsCall([{ marketId, intervalS, ...span }]);
  await runner.rows(sql, values);
}

const SUSPECTS = `
  SELECT recheck_id, market_id, interval_s, span FROM candle_recheck ORDER BY recheck_id LIMIT $1`;
const DELETE_SUSPECTS =
  'DELETE FROM candle_recheck WHERE market_id = $1 AND recheck_id = ANY ($2::bigint[])';
const CHECKED_INTERVALS = 'SELECT DISTINCT interval_s FROM candle_check WHERE market_id = $1';

interface SuspectRow extends Pick<Mismatch, 'marketId' | 'intervalS' | 'span'> {
  readonly recheckId: number;
}

/**
 * Invalidates results of spans whose rows have changed since. Each market is one
 * transaction, marks and results together, so that a crash loses no mark.
 *
 * @returns how many changes there were
 */
export async function applySuspects(
  database: Database,
  nowMs: number,
  limit: number,
): Promise<number> {
  const suspects = await database.rows<SuspectRow>(SUSPECTS, [limit]);
  for (const marketId of new Set(suspects.map((one) => one.marketId))) {
    const rows = suspects.filter((one) => one.marketId === marketId);
    await database.transaction(async (runner) => {
      await runner.rows(LOCK, [marketId]);
      const checked = await runner.rows<{ intervalS: number }>(CHECKED_INTERVALS, [marketId]);
      for (const { intervalS } of checked) {
        for (const suspect of rows) {
          if (suspect.intervalS !== 0 && suspect.intervalS !== intervalS) continue;
          const stepMs = intervalS * 1000;
          const changed = {
            fromMs: floorToMs(suspect.span.fromMs, stepMs),
            toMs: ceilToMs(suspect.span.toMs, stepMs),
          };
          await changeRows(runner, marketId, intervalS, changed, (known) =>
            invalidateRows(known, changed, nowMs),
          );
        }
      }
      await runner.rows(DELETE_SUSPECTS, [marketId, rows.map(({ recheckId }) => recheckId)]);
    });
  }
  return suspects.length;
}

const MISMATCHES = (condition: string) => `
  SELECT v.market_id, v.interval_s, ${COLUMNS} FROM candle_check v
  WHERE v.outcome = 'mismatch' AND ${condition}
  ORDER BY lower(v.span) DESC, v.interval_s LIMIT $1`;
const DUE = MISMATCHES(`v.next_try_at <= ${fromMs('$2')}`);
const ALL = MISMATCHES(`
  ($2::int IS NULL OR v.market_id = $2)
  AND ($3::float8 IS NULL OR v.span && ${rangeSql('$3', '$4')})`);

/** Mismatches whose next try has come, newest first. */
export async function readDueMismatches(
  runner: Runner,
  nowMs: number,
  limit: number,
): Promise<Mismatch[]> {
  return await runner.rows<Mismatch>(DUE, [limit, nowMs]);
}

/** Recorded mismatches, newest first. */
export async function readMismatches(
  runner: Runner,
  { marketId, span }: { readonly marketId?: number; readonly span?: Span },
  limit: number,
): Promise<Mismatch[]> {
  const values = [limit, marketId ?? null, span?.fromMs ?? null, span?.toMs ?? null];
  return await runner.rows<Mismatch>(ALL, values);
}
