import type { CandleCollector } from './candles.js';

/** Pages of candles that one turn may fetch of each interval. */
const ROUNDS_MAX = 20;

/**
 * Polls the intervals of one market page by page in turn, so that one interval's long history does
 * not hold up the others.
 */
export async function pollByTurns(
  collectors: readonly CandleCollector[],
  signal: AbortSignal,
): Promise<void> {
  let open = collectors;
  for (let round = 0; round < ROUNDS_MAX && open.length > 0; round += 1) {
    const unfinished: CandleCollector[] = [];
    for (const collector of open) {
      if (await collector.poll(signal)) unfinished.push(collector);
    }
    open = unfinished;
  }
}
