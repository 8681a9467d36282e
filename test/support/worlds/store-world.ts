import type { StreamRef } from '../../../src/model/batch.js';
import type { Store } from '../../../src/store/index.js';
import { openTestStore } from '../postgres/postgres.js';
import { marketOf, NOON_S } from '../postgres/postgres-rows.js';

export const BTC = marketOf('BTC_USDT');

/** A store with two markets, and the stream of the first one's trades. */
export async function openWithStreams(databaseUrl?: string): Promise<{
  store: Store;
  url: string;
  trades: StreamRef;
}> {
  const { store, url } = await openTestStore(databaseUrl === undefined ? {} : { databaseUrl });
  await store.ensureMarkets([BTC, marketOf('ETH_USDT')], NOON_S * 1_000);
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  return { store, url, trades };
}
