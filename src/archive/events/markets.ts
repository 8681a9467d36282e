import { ALL_MARKETS_ID } from '../../model/batch.js';
import type { SeriesKind } from '../../model/kinds.js';
import type { Store } from '../../store/index.js';
import { EVENT_KINDS } from './event.js';
import { type KnownMarket, marketStreams } from './plan.js';

/** A series that is collected of a market. */
export interface CollectedSeries {
  /** Kind of the series. */
  readonly kind: SeriesKind;
  /** Interval of klines or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** First instant that is covered, UNIX microseconds; null while nothing is. */
  readonly oldestUs: number | null;
  /** End of what is covered, UNIX microseconds; null while nothing is. */
  readonly newestUs: number | null;
}

/** A market, and what the archive has of it. */
export interface MarketContents {
  /** Name of the market. */
  readonly market: string;
  /** What is collected of it, by kind and then by length. */
  readonly series: readonly CollectedSeries[];
}

const MARKETS = `
  SELECT name AS market, market_id AS "marketId" FROM market WHERE market_id <> $1
  ORDER BY name COLLATE "C"`;

/** All markets that the archive ever saw, by name. */
export async function readMarkets(store: Pick<Store, 'query'>): Promise<KnownMarket[]> {
  return await store.query<KnownMarket>(MARKETS, [ALL_MARKETS_ID]);
}

const micros = (ms: number | null) => (ms === null ? null : ms * 1000);

/** All markets with what is collected of each. */
export async function describeMarkets(
  store: Pick<Store, 'query' | 'inspection'>,
): Promise<MarketContents[]> {
  const streams = await store.inspection.streams();
  return (await readMarkets(store)).map(({ market, marketId }) => ({
    market,
    series: EVENT_KINDS.flatMap((kind) =>
      marketStreams(streams, kind, marketId).map((stream) => ({
        kind,
        variantS: stream.variant,
        oldestUs: micros(stream.oldestCoveredMs),
        newestUs: micros(stream.newestCoveredMs),
      })),
    ),
  }));
}
