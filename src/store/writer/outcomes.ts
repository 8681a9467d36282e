import { type CommitResult, NO_OUTCOMES, type RowOutcomes } from '../../ledger/batch.js';
import { type Series, WRITTEN_SERIES } from '../../model/series.js';

/** A row that goes to the database, and the batch that it came with. */
export interface Candidate<Row> {
  readonly row: Row;
  readonly batch: number;
}

/** What became of a row. */
export type Outcome = keyof RowOutcomes;

/** The trades of one market: those at `start` up to before `end`. */
export interface TradeRun {
  readonly marketId: number;
  readonly start: number;
  readonly end: number;
}

/** Counts by outcome that can still change. */
export type Tally = Record<Series, Record<Outcome, number>>;

export function newTally(): Tally {
  const tally = {} as Tally;
  for (const series of WRITTEN_SERIES) tally[series] = { ...NO_OUTCOMES };
  return tally;
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
