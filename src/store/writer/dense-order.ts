import type { TradeRow } from '../../ledger/batch.js';
import type { Candidate } from './candidate.js';

/**
 * The order in which new trades fill their index.
 *
 * A full page of an index is split in two halves, and trades that only ever follow each other never
 * come back to the left one: it stays half empty, 67 bytes a trade instead of 40. (Postgres fills up
 * the last page of an index, where the market with the highest id is, and pages of keys of up to 16
 * bytes; ours are 24: market, time and id.) So of many trades of one market a little more than every
 * second one goes first. That leaves pages half full all over their span, and the others fill
 * them up.
 *
 * It takes effect from several hundred trades of a market at once, as a walk through history brings
 * them. What comes in drops stays half empty until its partition is sealed.
 */

/** Share that goes first. At one half the others fit in exactly, or just not: that costs a split. */
const FIRST_SHARE = 0.53;
/** Below, all of them fit into a page or two. */
const LEAST_RUN = 256;

/** @returns the same positions of `candidates`, which are in the order of the key. */
export function denseOrder(
  candidates: readonly Candidate<TradeRow>[],
  positions: readonly number[],
): readonly number[] {
  if (positions.length < LEAST_RUN) return positions;
  const ordered: number[] = [];
  const marketAt = (index: number) => candidates[positions[index] ?? -1]?.row.marketId;
  let start = 0;
  while (start < positions.length) {
    let end = start + 1;
    while (end < positions.length && marketAt(end) === marketAt(start)) end += 1;
    const run = positions.slice(start, end);
    if (run.length < LEAST_RUN) {
      ordered.push(...run);
    } else {
      const isFirst = (index: number) =>
        Math.floor((index + 1) * FIRST_SHARE) > Math.floor(index * FIRST_SHARE);
      for (const [index, position] of run.entries()) if (isFirst(index)) ordered.push(position);
      for (const [index, position] of run.entries()) if (!isFirst(index)) ordered.push(position);
    }
    start = end;
  }
  return ordered;
}
