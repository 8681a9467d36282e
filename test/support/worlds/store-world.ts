import type { Market } from '../../../src/contract/resources.js';
import type { StreamRef } from '../../../src/model/batch.js';
import type { Store } from '../../../src/store/index.js';
import { openTestStore } from '../postgres/postgres.js';
import { NOON_S } from '../postgres/postgres-rows.js';

/** A market as the exchange lists it. */
export const BTC: Market = {
  name: 'BTC_USDT',
  stock: 'BTC',
  money: 'USDT',
  stockPrec: 8,
  moneyPrec: 2,
  feePrec: 4,
  minAmount: '0.001',
};

/** A store with two markets, and the stream of the first one's trades. */
export async function openWithStreams(databaseUrl?: string): Promise<{
  store: Store;
  url: string;
  trades: StreamRef;
}> {
  const { store, url } = await openTestStore(databaseUrl === undefined ? {} : { databaseUrl });
  await store.ensureMarkets([BTC, { ...BTC, name: 'ETH_USDT', stock: 'ETH' }], NOON_S * 1_000);
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  return { store, url, trades };
}
