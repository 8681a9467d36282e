import type { TradeRow } from '../../ledger/batch.js';
import type { Connection } from '../connection.js';
import { toMs } from '../instants.js';
import type { Candidate, Outcome } from './prepared.js';
import { TRADE } from './series.js';
import {
  copyRows,
  insertStaged,
  sameContentSql,
  stageRows,
  timeBounds,
  unstage,
} from './staging.js';

/**
 * Finds staged trades that are stored already, looking one second to either side as well: the
 * same id there is the same trade, told with another time, and must not be stored twice.
 */
const FIND_KNOWN = `
  SELECT s.ord, t.traded_at = s.traded_at AS same_key,
         ${sameContentSql(TRADE)} AS same,
         s.executed_at IS NOT NULL AND t.executed_at IS NULL AS gains_time,
         coalesce(s.executed_at <> t.executed_at, false) AS other_time
  FROM stage_trade s JOIN trade t
    ON t.market_id = s.market_id AND t.tid = s.tid AND t.traded_at = ANY (ARRAY[
      s.traded_at - interval '1 second', s.traded_at, s.traded_at + interval '1 second'])
  WHERE t.traded_at BETWEEN $1::timestamptz AND $2::timestamptz`;

const SET_EXACT_TIME = `
  UPDATE trade t SET executed_at = s.executed_at FROM stage_trade s
  WHERE s.ord = ANY ($3::int[]) AND t.market_id = s.market_id AND t.traded_at = s.traded_at
    AND t.tid = s.tid AND t.traded_at BETWEEN $1::timestamptz AND $2::timestamptz`;

const NEWEST_SECONDS = `
  SELECT m.market_id, ${toMs('n.traded_at')} / 1000 AS second
  FROM unnest($1::int[]) AS m(market_id) LEFT JOIN LATERAL (
    SELECT traded_at FROM trade t WHERE t.market_id = m.market_id
    ORDER BY traded_at DESC LIMIT 1) n ON true`;

interface Known {
  readonly ord: number;
  readonly same_key: boolean;
  readonly same: boolean;
  readonly gains_time: boolean;
  readonly other_time: boolean;
}

function outcomeOf(known: Known): Outcome {
  if (!known.same_key || !known.same || known.other_time) return 'conflict';
  return known.gains_time ? 'updated' : 'duplicate';
}

/**
 * What this writer knows about the newest second of each market. Trades after it (and one second
 * more) are new for sure and skip the stage. Another writer may prove that wrong; then COPY meets
 * a known key, the transaction fails, and it is repeated without the short cut.
 */
export class NewestSeconds {
  readonly #seconds = new Map<number, number>();

  async learn(connection: Connection, marketIds: Iterable<number>): Promise<void> {
    const unknown = [...new Set(marketIds)].filter((id) => !this.#seconds.has(id));
    if (unknown.length === 0) return;
    const rows = await connection.query<{ market_id: number; second: number | null }>(
      NEWEST_SECONDS,
      [unknown],
    );
    for (const { market_id, second } of rows) {
      this.#seconds.set(market_id, second ?? Number.NEGATIVE_INFINITY);
    }
  }

  isSurelyNew(row: TradeRow): boolean {
    const second = this.#seconds.get(row.marketId);
    return second !== undefined && row.tradedAtS > second + 1;
  }

  /** After COMMIT, never before. */
  advance(rows: readonly TradeRow[]): void {
    for (const { marketId, tradedAtS } of rows) {
      const second = this.#seconds.get(marketId);
      if (second !== undefined && tradedAtS > second) this.#seconds.set(marketId, tradedAtS);
    }
  }

  forget(): void {
    this.#seconds.clear();
  }
}

/**
 * Stores trades; a known trade may learn its exact time, and nothing else of it ever changes.
 *
 * @param newest undefined takes the stage for every row.
 * @returns what became of each candidate, in their order.
 */
export async function storeTrades(
  connection: Connection,
  candidates: readonly Candidate<TradeRow>[],
  newest: NewestSeconds | undefined,
): Promise<Outcome[]> {
  const outcomes = candidates.map((): Outcome => 'stored');
  await newest?.learn(
    connection,
    candidates.map(({ row }) => row.marketId),
  );
  const direct: Candidate<TradeRow>[] = [];
  const staged: Candidate<TradeRow>[] = [];
  const positions: number[] = [];
  for (const [position, candidate] of candidates.entries()) {
    if (newest?.isSurelyNew(candidate.row) === true) {
      direct.push(candidate);
    } else {
      staged.push(candidate);
      positions.push(position);
    }
  }
  if (direct.length > 0) await copyRows(connection, TRADE, direct);
  if (staged.length === 0) return outcomes;
  const stagedOutcomes = await storeStaged(connection, staged);
  for (const [index, outcome] of stagedOutcomes) outcomes[positions[index] ?? 0] = outcome;
  return outcomes;
}

/** The outcomes other than `stored`, by position. */
async function storeStaged(
  connection: Connection,
  staged: readonly Candidate<TradeRow>[],
): Promise<Map<number, Outcome>> {
  const bounds = timeBounds(TRADE, staged, 1_000);
  await stageRows(connection, TRADE, staged);
  const outcomes = new Map<number, Outcome>();
  const elsewhere: number[] = [];
  for (const known of await connection.query<Known>(FIND_KNOWN, [...bounds])) {
    // A hit on the key itself says more than one a second beside it.
    if (known.same_key || !outcomes.has(known.ord)) outcomes.set(known.ord, outcomeOf(known));
    if (!known.same_key) elsewhere.push(known.ord);
  }
  const updated = [...outcomes].filter(([, outcome]) => outcome === 'updated').map(([ord]) => ord);
  if (updated.length > 0) await connection.query(SET_EXACT_TIME, [...bounds, updated]);
  await unstage(connection, TRADE, elsewhere);
  await insertStaged(connection, TRADE, staged.length - outcomes.size);
  return outcomes;
}
