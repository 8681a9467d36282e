import type { RowOutcomes } from '../../ledger/batch.js';

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
