import { createHash } from 'node:crypto';
import type { PartitionInfo, PartitionMarket, SealFacts, SealingDesk } from '../../store/index.js';
import { ColdError } from '../cold/errors.js';
import { countLines } from '../parquet/texts.js';

/** What was read of the rows of a partition so far. */
export type RowsProgress = (rows: number) => void;

/** Says how a checksum was made; another way of making it gets another name. */
const CHECKSUM_FORM = 'rows1-sha256';

/** Gets the lines of a market, piece by piece; pieces may end anywhere. */
export type MarketSink = (market: PartitionMarket, lines: AsyncIterable<Buffer>) => Promise<void>;

/**
 * Reads all rows of a partition once: counts them and sums them up. The sum is over the canonical lines
 * of each market in the order of ids, so that it is the same for the same values, in whatever way they
 * are stored. Memory does not grow with the rows.
 *
 * @param sink is given what is read, market by market
 */
export async function sumRows(
  desk: SealingDesk,
  place: PartitionInfo,
  onProgress: RowsProgress,
  sink?: MarketSink,
): Promise<SealFacts> {
  const hash = createHash('sha256');
  let rows = 0;
  for (const market of await desk.markets(place)) {
    hash.update(`market ${market.marketId}\n`);
    const pieces = desk.marketRows(place, market.marketId);
    const counted = async function* () {
      for await (const piece of pieces) {
        hash.update(piece);
        rows += countLines(piece);
        onProgress(rows);
        yield piece;
      }
    };
    if (sink !== undefined) await sink(market, counted());
    else for await (const _ of counted());
  }
  return { rows, checksum: `${CHECKSUM_FORM}:${hash.digest('hex')}` };
}

/** @throws ColdError `cold_mismatch` unless the rows are those that a partition was sealed with */
export function assertSealed(partition: PartitionInfo, facts: SealFacts, stays: string): void {
  if (facts.checksum === partition.checksum && facts.rows === partition.rows) return;
  throw new ColdError(
    'cold_mismatch',
    'fatal',
    `the rows of ${partition.name} do not add up to the checksum that it was sealed with (${facts.rows} rows now, ${partition.rows ?? 0} then): ${stays}. Somebody changed them; check them, then seal it again after "SELECT reopen_partition('${partition.name}')"`,
  );
}
