import { SECOND_MS } from '../../kernel/durations.js';
import { hullOf, subtractSpans } from '../../kernel/span.js';
import type { IdEpoch, StreamRef, TradeExposure } from '../../model/batch.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { isState, partitionOf } from '../errors.js';
import { LOCK_MARKETS } from '../locks.js';
import { REOPEN_PARTITION, removedRows } from '../schema/partitions.js';
import { fromMs } from '../sql.js';
import { streamRefSql } from './ledger.js';
import { hasLeft, takeBack } from './revocation.js';

/** Rows that an exchange showed and that never were trades, and where it began its ids anew. */

const STREAMS = `
  SELECT ${streamRefSql('stream')} FROM stream WHERE market_id = $1 AND kind IN ('trades', 'times') ORDER BY stream_id`;
const EXPOSE = `
  SELECT count(expose_trade($1, ${fromMs('at_ms')}, tid, $4)) AS exposed
  FROM unnest($2::float8[], $3::bigint[]) AS given(at_ms, tid)`;
/** What sql/0009 counts them under, whatever the samples say besides. */
export const EXPOSED = 'exposed by later answers';
/** Rows to be exposed lie close together: in two partitions at most. */
const PARTITIONS_MAX = 2;

/**
 * Moves rows to quarantine and takes back what is covered around them, of trades and of exact times
 * alike, in one transaction. A sealed partition is reopened for that.
 *
 * @throws {@link StoreError} `partition_archived` or `partition_expired` where the rows have left the
 *   database
 */
export async function exposeTrades(database: Database, exposure: TradeExposure): Promise<void> {
  for (let reopened = 0; ; reopened += 1) {
    try {
      await database.transaction((runner) => expose(runner, exposure));
      return;
    } catch (error) {
      const partition = isState(error, 'partition sealed') ? partitionOf(error) : undefined;
      if (partition === undefined || reopened >= PARTITIONS_MAX) throw error;
      await database.rows(REOPEN_PARTITION, [partition]);
    }
  }
}

async function expose(runner: Runner, exposure: TradeExposure): Promise<void> {
  const { marketId, rows, span, note, atMs } = exposure;
  await runner.rows(LOCK_MARKETS, [[marketId]]);
  const streams = await runner.rows<StreamRef>(STREAMS, [marketId]);
  const removed = await removedRows(runner, 'trade', marketId);
  const gone = removed.map((one) => one.span);
  const seconds = rows.map(({ tradedAtS }) => ({
    fromMs: tradedAtS * SECOND_MS,
    toMs: (tradedAtS + 1) * SECOND_MS,
  }));
  // No row may leave a second that is still covered.
  const hull = hullOf([span, ...seconds]);
  for (const stream of streams) {
    for (const second of seconds) {
      if (subtractSpans(second, gone).length === 0) throw hasLeft(stream, removed, second);
    }
    for (const part of subtractSpans(hull, gone)) {
      await takeBack(runner, stream, part, { reason: 'suspect', note, atMs }, removed);
    }
  }
  const secondsMs = rows.map(({ tradedAtS }) => tradedAtS * SECOND_MS);
  const ids = rows.map(({ tid }) => tid);
  await runner.rows(EXPOSE, [marketId, secondsMs, ids, `${EXPOSED}: ${note}`]);
}

const RECORD_EPOCH = `
  INSERT INTO trade_epoch (market_id, begins_at, first_id, last_before_at, last_id_before, endpoint, seen_at)
  VALUES ($1, ${fromMs('$2')}, $3, ${fromMs('$4')}, $5, $6, ${fromMs('$7')})
  ON CONFLICT DO NOTHING RETURNING market_id`;

/** @returns whether it was not known before */
export async function recordIdEpoch(runner: Runner, epoch: IdEpoch): Promise<boolean> {
  const { marketId, beginsMs, firstId, lastBeforeMs, lastIdBefore, endpoint, atMs } = epoch;
  const values = [marketId, beginsMs, firstId, lastBeforeMs, lastIdBefore, endpoint, atMs];
  return (await runner.rows(RECORD_EPOCH, values)).length > 0;
}
