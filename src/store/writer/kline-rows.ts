import type { KlineRow } from '../../ledger/batch.js';
import type { Connection } from '../connection.js';
import type { Candidate, Outcome } from './candidate.js';
import { doubtRevisedCandles } from './doubts.js';
import { KLINE } from './series.js';
import {
  insertStaged,
  probeSql,
  sameContentSql,
  sameKeyWithin,
  stageRows,
  timeBounds,
} from './staging.js';

const FIND_KNOWN = `
  SELECT s.ord, ${sameContentSql(KLINE)} AS same, s.received_at < t.received_at AS stale
  FROM ${probeSql(KLINE, '*', sameKeyWithin(KLINE))}`;

const KEEP_OLD_VERSION = `
  INSERT INTO kline_revision (market_id, interval_s, open_at, revision, known_from, known_to,
                              open, close, high, low, volume, amount)
  SELECT t.market_id, t.interval_s, t.open_at, t.revision, t.received_at, s.received_at,
         t.open, t.close, t.high, t.low, t.volume, t.amount
  FROM ${probeSql(KLINE, '*', sameKeyWithin(KLINE))}
  WHERE s.ord = ANY ($3::int[])
  ORDER BY t.market_id, t.interval_s, t.open_at`;

/** All of these keys are there: nothing is inserted, and each is found by its key. */
const SET_NEW_VERSION = `
  INSERT INTO kline AS t (${KLINE.columns.join(', ')})
  SELECT ${KLINE.columns.join(', ')} FROM stage_kline WHERE ord = ANY ($1::int[])
  ORDER BY ${KLINE.key.join(', ')}
  ON CONFLICT (${KLINE.key.join(', ')}) DO UPDATE SET
    open = excluded.open, close = excluded.close, high = excluded.high, low = excluded.low,
    volume = excluded.volume, amount = excluded.amount, received_at = excluded.received_at,
    revision = t.revision + 1`;

const EMPTY_STAGE = 'DELETE FROM stage_kline';

/**
 * Stores candles: a changed one replaces the stored version, which moves to `kline_revision`. A
 * version received before the stored one, and different, is a conflict: it is not news any more.
 *
 * @returns what became of each candidate, in their order.
 */
export async function storeKlines(
  connection: Connection,
  candidates: readonly Candidate<KlineRow>[],
): Promise<Outcome[]> {
  const outcomes = candidates.map((): Outcome => 'stored');
  if (candidates.length === 0) return outcomes;
  const bounds = timeBounds(KLINE, candidates);
  await connection.query(EMPTY_STAGE);
  await stageRows(connection, KLINE, candidates);
  const known = await connection.query<{ ord: number; same: boolean; stale: boolean }>(FIND_KNOWN, [
    ...bounds,
  ]);
  for (const { ord, same, stale } of known) {
    outcomes[ord] = same ? 'duplicate' : stale ? 'conflict' : 'updated';
  }
  const changed = known.filter(({ ord }) => outcomes[ord] === 'updated').map(({ ord }) => ord);
  if (changed.length > 0) {
    await connection.query(KEEP_OLD_VERSION, [...bounds, changed]);
    await connection.query(SET_NEW_VERSION, [changed]);
    await doubtRevisedCandles(connection, changed);
  }
  await insertStaged(connection, KLINE, candidates.length - known.length);
  return outcomes;
}
