import type { TradeRow } from '../../ledger/batch.js';
import type { Connection } from '../connection.js';
import { toMs } from '../instants.js';
import type { Candidate, Outcome } from './candidate.js';
import { denseOrder } from './dense-order.js';
import { TRADE } from './series.js';
import {
  copyLines,
  insertStaged,
  probeSql,
  sameContentSql,
  stageLines,
  timeBounds,
  unstage,
} from './staging.js';
import { linesAt, numberedLinesAt, type TradeLines } from './trade-lines.js';

/**
 * Finds staged trades that are stored already, looking one second to either side as well: the
 * same id there is the same trade, told with another time, and must not be stored twice.
 */
const FIND_KNOWN = `
  SELECT s.ord, t.traded_at = s.traded_at AS same_key,
         ${sameContentSql(TRADE)} AS same,
         s.executed_at IS NOT NULL AND t.executed_at IS NULL AS gains_time,
         coalesce(s.executed_at <> t.executed_at, false) AS other_time
  FROM ${probeSql(
    TRADE,
    'traded_at, executed_at, side, price, amount, total',
    `t.market_id = s.market_id AND t.tid = s.tid AND t.traded_at = ANY (ARRAY[
      s.traded_at - interval '1 second', s.traded_at, s.traded_at + interval '1 second'])
     AND t.traded_at BETWEEN $1::timestamptz AND $2::timestamptz`,
  )}`;

/** All of these keys are there: nothing is inserted, and each is found by its key. */
const SET_EXACT_TIME = `
  INSERT INTO trade (${TRADE.columns.join(', ')})
  SELECT ${TRADE.columns.join(', ')} FROM stage_trade WHERE ord = ANY ($1::int[])
  ORDER BY ${TRADE.key.join(', ')}
  ON CONFLICT (${TRADE.key.join(', ')}) DO UPDATE SET executed_at = excluded.executed_at`;

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

  /** @param trades in the order of their markets */
  async learn(connection: Connection, trades: readonly Candidate<TradeRow>[]): Promise<void> {
    const unknown: number[] = [];
    for (const { row } of trades) {
      const isNext = row.marketId !== unknown.at(-1);
      if (isNext && !this.#seconds.has(row.marketId)) unknown.push(row.marketId);
    }
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

  /**
   * After COMMIT, never before.
   *
   * @param trades in the order of the key: the last of a market is its newest
   */
  advance(trades: readonly Candidate<TradeRow>[]): void {
    for (const [index, { row }] of trades.entries()) {
      if (trades[index + 1]?.row.marketId === row.marketId) continue;
      const second = this.#seconds.get(row.marketId);
      if (second !== undefined && row.tradedAtS > second) {
        this.#seconds.set(row.marketId, row.tradedAtS);
      }
    }
  }

  forget(): void {
    this.#seconds.clear();
  }
}

/** The trades of a group, in the order of the key, and how COPY takes them. */
interface GroupTrades {
  readonly trades: readonly Candidate<TradeRow>[];
  readonly tradeLines: TradeLines;
}

/**
 * Stores trades; a known trade may learn its exact time, and nothing else of it ever changes.
 *
 * @param newest undefined takes the stage and the INSERT that passes over known keys for every row.
 * @param whenSent called when rows were sent and the server is busy with them
 * @returns what became of each candidate, in their order.
 */
export async function storeTrades(
  connection: Connection,
  group: GroupTrades,
  newest: NewestSeconds | undefined,
  whenSent: () => void,
): Promise<Outcome[]> {
  const { trades } = group;
  const outcomes = trades.map((): Outcome => 'stored');
  await newest?.learn(connection, trades);
  const direct: number[] = [];
  const staged: number[] = [];
  for (const [position, { row }] of trades.entries()) {
    if (newest?.isSurelyNew(row) === true) direct.push(position);
    else staged.push(position);
  }
  if (staged.length > 0) {
    const known = await stageAndCompare(connection, group, staged, whenSent);
    for (const [ord, outcome] of known) outcomes[staged[ord] ?? 0] = outcome;
    // The markets are locked, so what was not found is new. It goes the straight way with the others.
    if (newest === undefined) await insertStaged(connection, TRADE, staged.length - known.size);
    else for (const [ord, position] of staged.entries()) if (!known.has(ord)) direct.push(position);
  }
  if (direct.length > 0) {
    direct.sort((a, b) => a - b);
    const lines = linesAt(group.tradeLines, denseOrder(trades, direct));
    await copyLines(connection, TRADE, lines, whenSent);
  }
  return outcomes;
}

/**
 * Looks up the trades at some positions; those that are known learn their exact time.
 *
 * @returns the outcomes of the known ones, by their number among the staged. The stage holds all, less
 * those that must not be inserted.
 */
async function stageAndCompare(
  connection: Connection,
  { trades, tradeLines }: GroupTrades,
  positions: readonly number[],
  whenSent: () => void,
): Promise<Map<number, Outcome>> {
  const candidates = positions.flatMap((position) => trades[position] ?? []);
  const bounds = timeBounds(TRADE, candidates, 1_000);
  await stageLines(connection, TRADE, numberedLinesAt(tradeLines, positions), whenSent);
  const outcomes = new Map<number, Outcome>();
  const elsewhere: number[] = [];
  for (const known of await connection.query<Known>(FIND_KNOWN, [...bounds])) {
    // A hit on the key itself says more than one a second beside it.
    if (known.same_key || !outcomes.has(known.ord)) outcomes.set(known.ord, outcomeOf(known));
    if (!known.same_key) elsewhere.push(known.ord);
  }
  const updated = [...outcomes].filter(([, outcome]) => outcome === 'updated').map(([ord]) => ord);
  if (updated.length > 0) await connection.query(SET_EXACT_TIME, [updated]);
  await unstage(connection, TRADE, elsewhere);
  return outcomes;
}
