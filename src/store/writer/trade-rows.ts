import { isEmptySpan, overlapOf, type Span } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { Connection } from '../connection.js';
import { byPartition, withinSql } from '../schema/partitions.js';
import { executeSql, fromMs, type NamedStatement } from '../sql.js';
import { type Outcome, TRADE } from './series.js';
import { sameContentSql, stageLines } from './staging.js';
import { allPlaces, BESIDE_S, denseLines, type TradeColumnSet } from './trade-columns.js';

export const BESIDE_MS = BESIDE_S * 1_000;

/**
 * What is stored near the trades of each market that are to be stored: its oldest and its newest second,
 * and the ids in the seconds next to these.
 *
 * A writer of trades holds the lock of their market, so what lies outside of it is new for sure.
 */
const FIND_STORED_SQL = (() => {
  const near = (from: string, to: string) => `
    FROM trade t
    WHERE t.market_id = q.market_id AND t.traded_at BETWEEN ${from} AND ${to}
      AND t.traded_at BETWEEN $4 AND $5`;
  const edge = (direction: string) => `(
    SELECT t.traded_at ${near(fromMs('q.from_ms'), fromMs('q.to_ms'))}
    ORDER BY t.traded_at ${direction} LIMIT 1)`;
  const reach = `interval '${2 * BESIDE_MS} ms'`;
  return `
    SELECT ord - 1 AS run, oldest, newest,
           (SELECT min(t.tid) ${near('oldest', `oldest + ${reach}`)}) AS low_id,
           (SELECT max(t.tid) ${near(`newest - ${reach}`, 'newest')}) AS high_id
    FROM (
      SELECT q.*, ${edge('')} AS oldest, ${edge('DESC')} AS newest
      FROM unnest($1, $2, $3)
        WITH ORDINALITY AS q(market_id, from_ms, to_ms, ord) OFFSET 0) q
    WHERE oldest IS NOT NULL ORDER BY ord`;
})();

export const FIND_STORED: NamedStatement = {
  name: 'find_stored_trades',
  types: ['int[]', 'float8[]', 'float8[]', 'timestamptz', 'timestamptz'],
  sql: FIND_STORED_SQL,
};

/**
 * Whether two rows are one trade. A server may leave the total out at one of the two endpoints, where
 * it is then the exact product, and round it at the other: that is no contradiction.
 */
const SAME_TRADE = (() => {
  const without = TRADE.content.filter((name) => name !== 'total');
  const digits = 'least(scale(t.total), scale(s.total))';
  return `${sameContentSql({ content: without })} AND (t.total = s.total OR
    abs(t.total - s.total) < 10::numeric ^ -${digits}
      AND s.price * s.amount IN (s.total, t.total))`;
})();

const LOOKED_AT = TRADE.content.concat('traded_at', 'executed_at').map((name) => `k.${name}`);

/**
 * Finds staged trades that are stored already, and where there is none looks one second to either
 * side as well: the same id there is the same trade, reported with another time, and must not be stored
 * twice. OFFSET 0 for the reason given at probeSql.
 */
const findKnownSql = (isNear: string) => `
  SELECT found, learns, string_agg(ord::text, ',') AS ords
  FROM (
    SELECT s.ord,
      t.traded_at IS NOT NULL AND s.executed_at IS NOT NULL AND t.executed_at IS NULL AS learns,
      CASE
      WHEN t.traded_at IS NULL THEN 'beside'
      WHEN NOT (${SAME_TRADE}) OR coalesce(s.executed_at <> t.executed_at, false)
        THEN 'conflict'
      WHEN s.executed_at IS NOT NULL AND t.executed_at IS NULL THEN 'updated'
      ELSE 'duplicate' END AS found
    FROM stage_trade s
    LEFT JOIN LATERAL (
      SELECT ${LOOKED_AT.join(', ')} FROM trade k
      WHERE k.market_id = s.market_id AND k.tid = s.tid AND k.traded_at = s.traded_at
        AND ${isNear} OFFSET 0) t ON true
    LEFT JOIN LATERAL (
      SELECT k.tid FROM trade k
      WHERE t.traded_at IS NULL AND k.market_id = s.market_id AND k.tid = s.tid
        AND k.traded_at = ANY (ARRAY[
          s.traded_at - interval '1 second', s.traded_at + interval '1 second'])
        AND ${isNear} OFFSET 0) b ON true
    WHERE t.traded_at IS NOT NULL OR b.tid IS NOT NULL) known
  GROUP BY found, learns`;

/** All of these keys are there: nothing is inserted, and each is found by its key. */
const setExactTimeSql = (partition: string) => `
  INSERT INTO ${partition} (${TRADE.columns.join(', ')})
  SELECT ${TRADE.columns.join(', ')} FROM stage_trade WHERE ord = ANY ($1::int[])
  ORDER BY ${TRADE.key.join(', ')}
  ON CONFLICT (${TRADE.key.join(', ')}) DO UPDATE SET executed_at = excluded.executed_at`;

export interface StoredTrades {
  /** What becomes of those that are not stored as new, by place. */
  readonly outcomes: ReadonlyMap<number, Outcome>;
  /** Those whose exact time the stored row did not have, and has now, by place. */
  readonly learnt: ReadonlySet<number>;
  /** The new ones that are still to be copied. */
  readonly copyText: Buffer | undefined;
}

/**
 * Finds out what becomes of trades; a known trade may learn its exact time, and nothing else of it ever
 * changes. A row in conflict gives its time too, which is that of the id: a claim of exact times
 * covers the stored row, whatever else the two do not agree on. New ones are left to be copied. The caller holds the locks of their markets.
 *
 * @param stored from {@link joinStored}
 * @param spans in which the stored ones are looked for, see {@link nearSpans}
 * @param whenSent called when the server has got the larger part of its work and is busy with it
 */
export async function sortOutTrades(
  connection: Connection,
  columns: TradeColumnSet,
  stored: readonly Stored[],
  spans: readonly Span[],
  whenSent: () => void,
): Promise<StoredTrades> {
  const outcomes = new Map<number, Outcome>();
  const learnt = new Set<number>();
  if (columns.length === 0) return { outcomes, learnt, copyText: undefined };
  const staged = placesToLookUp(columns, stored);
  if (staged.length > 0) {
    const numbers = staged.map((place) => columns.lineNumbers[place] ?? 0);
    await stageLines(connection, TRADE, columns.encoder.pickNumbered(numbers));
    const timeOf = (number: number) => columns.ms[staged[number] ?? 0] ?? 0;
    const finding = findKnown(connection, spans, timeOf);
    if (2 * staged.length > columns.length) whenSent();
    for (const { numbers, outcome, learns } of await finding) {
      for (const number of numbers) {
        outcomes.set(staged[number] ?? 0, outcome);
        if (learns) learnt.add(staged[number] ?? 0);
      }
    }
  }
  if (outcomes.size === columns.length) return { outcomes, learnt, copyText: undefined };
  const copyText =
    outcomes.size === 0
      ? columns.denseLines
      : denseLines(
          columns,
          allPlaces(columns.length).filter((place) => !outcomes.has(place)),
        );
  return { outcomes, learnt, copyText };
}

/**
 * The time in which what is stored of these trades can be, with room for those that are reported a second beside.
 *
 * @param stretches time of the partitions in the database that hold the trades
 */
export function nearSpans({ ms, runs }: TradeColumnSet, stretches: readonly Span[]): Span[] {
  const oldest = runs.reduce((low, { start }) => Math.min(low, ms[start] ?? low), Infinity);
  const newest = runs.reduce((high, { end }) => Math.max(high, ms[end - 1] ?? high), -Infinity);
  const reach = { fromMs: oldest - BESIDE_MS, toMs: newest + BESIDE_MS + 1 };
  return stretches.map((one) => overlapOf(one, reach)).filter((one) => !isEmptySpan(one));
}

/** Statements that ask what is stored near trades, one for each span. */
export function findStoredSql({ ms, runs }: TradeColumnSet, spans: readonly Span[]): string[] {
  const ofRuns = [
    runs.map(({ marketId }) => marketId),
    runs.map(({ start }) => (ms[start] ?? 0) - BESIDE_MS),
    runs.map(({ end }) => (ms[end - 1] ?? 0) + BESIDE_MS),
  ];
  return spans.map(({ fromMs, toMs }) =>
    executeSql(FIND_STORED, [...ofRuns, isoMs(fromMs), isoMs(toMs - 1)]),
  );
}

/** Joins answers of several spans, oldest first: one for each market. */
export function joinStored(answers: readonly (readonly Stored[])[]): Stored[] {
  const joined = new Map<number, Stored>();
  for (const found of answers.flat()) {
    const older = joined.get(found.run);
    const { newestMs, highId } = found;
    joined.set(found.run, older === undefined ? found : { ...older, newestMs, highId });
  }
  return [...joined.values()];
}

/** What was found of one market; ids of the seconds at its edges. */
export interface Stored {
  readonly run: number;
  readonly oldestMs: number;
  readonly newestMs: number;
  readonly lowId: number;
  readonly highId: number;
}

/** Those that may be stored already, in order. */
function placesToLookUp(
  { ms, tids, runs }: TradeColumnSet,
  stored: readonly Stored[],
): Uint32Array {
  const places: number[] = [];
  for (const { run, oldestMs, newestMs, lowId, highId } of stored) {
    const { start = 0, end = 0 } = runs[run] ?? {};
    for (let place = start; place < end; place += 1) {
      const [at, tid] = [ms[place] ?? 0, tids[place] ?? 0];
      // At an edge the same trade, reported a second beside, would be among those whose ids are known.
      const isAfter = at > newestMs + BESIDE_MS || (at >= newestMs - BESIDE_MS && tid > highId);
      const isBefore = at < oldestMs - BESIDE_MS || (at <= oldestMs + BESIDE_MS && tid < lowId);
      if (!isAfter && !isBefore) places.push(place);
    }
  }
  return Uint32Array.from(places);
}

/** Staged trades that are known, by their numbers in the stage. */
interface Known {
  readonly numbers: readonly number[];
  readonly outcome: Outcome;
  readonly learns: boolean;
}

/** Looks up the staged trades; those that are known learn their exact time. */
async function findKnown(
  connection: Connection,
  spans: readonly Span[],
  timeOf: (number: number) => number,
): Promise<Known[]> {
  const rows = await connection.rows<{
    readonly found: Outcome | 'beside';
    readonly learns: boolean;
    readonly ords: string;
  }>(findKnownSql(withinSql('k.traded_at', spans)));
  const known = rows.map(
    ({ found, learns, ords }): Known => ({
      numbers: ords.split(',').map(Number),
      outcome: found === 'beside' ? 'conflict' : found,
      learns,
    }),
  );
  for (const { numbers, learns } of known) {
    if (!learns) continue;
    for (const [name, own] of await byPartition(connection, 'trade', numbers, timeOf)) {
      await connection.rows(setExactTimeSql(name), [own]);
    }
  }
  return known;
}
