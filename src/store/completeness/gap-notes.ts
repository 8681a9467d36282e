import type { Gap } from '../api-completeness.js';
import type { Database } from '../database.js';
import { fromMs } from '../instants.js';
import { lockGaps, rememberGap } from './gap-memories.js';

const ADD_REMARK = `
  UPDATE gap SET remarks = left(concat_ws(E'\\n', remarks, $5::text), 10000)
  WHERE market_id = $1 AND stream_id = $2 AND state <> 'filled'
    AND span && tstzrange(${fromMs('$3')}, ${fromMs('$4')})
  RETURNING gap_id`;

/**
 * Appends a person's words to the memories of exactly these gaps, with a memory for each that had
 * none.
 *
 * @param atMs exchange time
 * @returns how many memories have the words now
 */
export async function noteTheseGaps(
  database: Database,
  gaps: readonly Pick<Gap, 'streamId' | 'marketId' | 'span'>[],
  note: string,
  atMs: number,
): Promise<number> {
  return await database.transaction(async (runner) => {
    await lockGaps(
      runner,
      gaps.map(({ marketId }) => marketId),
    );
    let noted = 0;
    for (const { marketId, streamId, span } of gaps) {
      const values = [marketId, streamId, span.fromMs, span.toMs, note];
      const known = await runner.rows(ADD_REMARK, values);
      noted += Math.max(1, known.length);
      if (known.length > 0) continue;
      const fresh = { state: 'open', reason: 'not collected', note: null, remarks: note } as const;
      const unplanned = { atMs, nextAttemptAtMs: null, isAttempt: false };
      await rememberGap(runner, { streamId, marketId }, { span, ...fresh, ...unplanned });
    }
    return noted;
  });
}
