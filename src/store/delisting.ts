import type { GapReason } from '../model/gap-reasons.js';
import { rememberGap } from './completeness/gap-memories.js';
import { listGaps } from './completeness/gaps.js';
import type { Runner } from './connection.js';
import { fromMs, toMs } from './sql.js';

/**
 * Ledger of a market that leaves the exchange's list, or comes back to it. While it is
 * not listed it cannot be asked about: what is missing then is given up, until it is listed again.
 */

const REASON: GapReason = 'delisted';
const OPEN_REASON: GapReason = 'not collected';
/** Gaps of one market that are given up at once, newest first; any others stay open. */
const GIVEN_UP_MAX = 1000;

/** @param marketIds markets that are marked as delisted already */
export async function giveUpMissing(
  runner: Runner,
  marketIds: readonly number[],
  atMs: number,
): Promise<void> {
  const note = `missing when the market was found delisted, at ${new Date(atMs).toISOString()}`;
  for (const marketId of [...marketIds].sort((a, b) => a - b)) {
    const filter = { marketIds: [marketId], states: ['open', 'filling'] as const };
    for (const gap of await listGaps(runner, { ...filter, limit: GIVEN_UP_MAX }, atMs)) {
      await rememberGap(runner, gap, {
        ...{ span: gap.span, state: 'unfillable', reason: REASON, note },
        ...{ atMs, nextAttemptAtMs: null, isAttempt: false },
      });
    }
  }
}

/** Of what can be fetched later the exchange may return the time between after all. */
const REOPEN = `
  UPDATE gap SET state = 'open', reason = '${OPEN_REASON}', closed_at = NULL, next_attempt_at = NULL
  FROM stream s
  WHERE s.stream_id = gap.stream_id AND s.kind IN ('trades', 'times', 'kline')
    AND gap.market_id = ANY ($1::int[]) AND gap.state = 'unfillable' AND gap.reason = '${REASON}'`;

/** What can only be seen at its instant: from the end of its coverage on there was nothing to see. */
const UNSEEN = `
  SELECT s.stream_id AS "streamId", s.market_id AS "marketId", ${toMs('c.until')} AS "fromMs",
         ${toMs('m.last_seen_at')} AS "lastSeenMs"
  FROM stream s JOIN market m USING (market_id), LATERAL (
    SELECT upper(span) AS until FROM coverage
    WHERE market_id = s.market_id AND stream_id = s.stream_id
    ORDER BY lower(span) DESC LIMIT 1) c
  WHERE s.kind IN ('depth', 'state') AND s.market_id = ANY ($1::int[]) AND c.until < ${fromMs('$2')}
  ORDER BY s.market_id, s.stream_id`;

/** @param marketIds markets that are still marked as delisted, and listed again at `atMs` */
export async function resumeListed(
  runner: Runner,
  marketIds: readonly number[],
  atMs: number,
): Promise<void> {
  if (marketIds.length === 0) return;
  const unseen = await runner.rows<
    Record<'streamId' | 'marketId' | 'fromMs' | 'lastSeenMs', number>
  >(UNSEEN, [marketIds, atMs]);
  for (const { streamId, marketId, fromMs: from, lastSeenMs } of unseen) {
    const [left, back] = [lastSeenMs, atMs].map((ms) => new Date(ms).toISOString());
    const note = `the market was not listed between ${left} and ${back}: there was nothing to observe`;
    await rememberGap(
      runner,
      { streamId, marketId },
      {
        ...{ span: { fromMs: from, toMs: atMs }, state: 'unfillable', reason: REASON, note },
        ...{ atMs, nextAttemptAtMs: null, isAttempt: false },
      },
    );
  }
  await runner.rows(REOPEN, [marketIds]);
}
