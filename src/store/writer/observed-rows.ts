import type {
  ActiveOrderRow,
  BalanceRow,
  DepthRow,
  StateRow,
  TickerRow,
} from '../../ledger/batch.js';
import type { Connection } from '../connection.js';
import type { Candidate, Outcome } from './candidate.js';
import type { SeriesShape } from './series.js';
import { findKnown, insertStaged, stageRows, timeBounds } from './staging.js';

/**
 * Stores tickers, depths, states, balances or orders: what is known stays as it is.
 *
 * @returns what became of each candidate, in their order.
 */
export async function storeObserved<
  Row extends ActiveOrderRow | BalanceRow | DepthRow | StateRow | TickerRow,
>(
  connection: Connection,
  shape: SeriesShape<Row>,
  candidates: readonly Candidate<Row>[],
): Promise<Outcome[]> {
  const outcomes = candidates.map((): Outcome => 'stored');
  if (candidates.length === 0) return outcomes;
  await stageRows(connection, shape, candidates);
  const known = await findKnown(connection, shape, timeBounds(shape, candidates));
  for (const { ord, same } of known) outcomes[ord] = same ? 'duplicate' : 'conflict';
  await insertStaged(connection, shape, candidates.length - known.length);
  return outcomes;
}
