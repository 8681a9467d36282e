import { ALL_MARKETS_ID } from '../ledger/batch.js';
import type { CollectContext } from './market-unit.js';
import type { PollDispatcher } from './polling/dispatcher.js';
import { TickerSweep } from './polling/signs.js';
import { toleranceMs } from './schedule.js';
import { TickerCollector } from './tickers.js';

/**
 * Prepares the one stream of tickers: what it holds already, and who is told which markets moved.
 *
 * @param periodMs how often it is polled
 */
export async function openTickers(
  context: Omit<CollectContext, 'depthToleranceMs'>,
  options: {
    readonly periodMs: number;
    readonly marketIds: () => ReadonlyMap<string, number>;
    readonly dispatcher: Pick<PollDispatcher, 'swept'>;
  },
): Promise<TickerCollector> {
  const { archive, time } = context;
  const { periodMs, marketIds, dispatcher } = options;
  const key = { kind: 'ticker', marketId: ALL_MARKETS_ID, variant: 0 } as const;
  const stream = await archive.ensureStream({ ...key, collectFromMs: Math.floor(time.nowMs()) });
  const [newest] = await archive.islands(stream, 1);
  const sweep = new TickerSweep();
  return new TickerCollector({
    ...context,
    market: '*',
    stream,
    toleranceMs: toleranceMs(periodMs),
    coveredUntilMs: newest?.span.toMs ?? stream.collectFromMs ?? undefined,
    marketIds,
    onTickers: (entries, sentAtMs) => {
      dispatcher.swept(sweep.compare(entries));
      for (const market of marketIds().keys()) {
        const { ticker } = entries[market] ?? {};
        if (ticker === undefined) continue;
        const figures = { last: ticker.last, volume: ticker.vol, deal: ticker.deal };
        context.evidenceOf(market).looked('tickers', figures, sentAtMs);
      }
    },
  });
}
