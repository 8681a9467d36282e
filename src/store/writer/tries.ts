import type { Backoff } from '../../kernel/retry.js';
import type { CommitResult } from '../../ledger/batch.js';
import { sqlstateOf } from '../sqlstate.js';
import { newTally } from './prepared.js';

/** What one group has tried so far. */
export class Tries {
  readonly backoff: Backoff;
  mayBeDirect = true;
  partition = 0;
  ways = 0;

  constructor(backoff: Backoff) {
    this.backoff = backoff;
  }
}

/** Failures of the server as a whole; a deadlock or a lock held is none. */
export function isOutage(error: unknown): boolean {
  const sqlstate = sqlstateOf(error);
  return sqlstate === undefined || /^(08|25|53|57|58|XX)/.test(sqlstate);
}

/** Outcomes of all batches of a group, by table. */
export function sumOutcomes(
  results: readonly CommitResult[],
): Record<string, Record<string, number>> {
  const sums: Record<string, Record<string, number>> = newTally();
  for (const { outcomes } of results) {
    for (const [table, counts] of Object.entries(outcomes)) {
      for (const [outcome, count] of Object.entries(counts)) {
        const sum = sums[table];
        if (sum !== undefined) sum[outcome] = (sum[outcome] ?? 0) + count;
      }
    }
  }
  return sums;
}
