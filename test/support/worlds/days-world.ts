import type {
  DepthRow,
  KlineRow,
  StateRow,
  StreamRef,
  TradeRow,
} from '../../../src/model/batch.js';
import type { SeriesKind } from '../../../src/model/kinds.js';
import { makeDatabase, openTestStore, runSql } from '../postgres/postgres.js';
import { marketOf, ticker } from '../postgres/postgres-rows.js';
import type { ColdPlace } from './cold-world.js';

/**
 * Two markets over three whole days with rows at the very edges of each, several of them in one
 * time, and decimals of all lengths: what goes wrong where hot and cold meet shows here.
 */
export const DAYS = ['2026-01-14', '2026-01-15', '2026-01-16'] as const;
const MARKETS = ['BTC_USD', "it's/odd"] as const;
export const KINDS: readonly SeriesKind[] = ['trades', 'candles', 'tickers', 'depth', 'states'];
/** Interval of the candles and period of the states, of which there are two each. */
export const VARIANTS: Readonly<Record<SeriesKind, readonly number[]>> = {
  ...{ trades: [0], candles: [60, 3600], tickers: [0], depth: [0], states: [60, 86_400] },
};

const DAY_S = 86_400;
const START_S = Date.parse(`${DAYS[0]}T00:00:00Z`) / 1000;
export const WHOLE = { fromMs: START_S * 1000, toMs: (START_S + 3 * DAY_S) * 1000 };

const PRICES = ['61837.63000000', '0.000000000000000001', '100', '99.5', '12345678901234567.5'];
const AMOUNTS = ['2', '0.00100', '3.5', '10'];
/** Seconds of a day at which things happen. */
const SECONDS = [0, 0, 0, 1, 59, 60, 3599, 3600, 43_200, 43_200, 86_399, 86_399];

const pick = (list: readonly string[], index: number) => list[index % list.length] ?? '1';

function tradesOf(marketId: number): TradeRow[] {
  return DAYS.flatMap((_, day) =>
    SECONDS.map((second, index): TradeRow => {
      const n = day * SECONDS.length + index;
      const tradedAtS = START_S + day * DAY_S + second;
      const isProduct = index % 3 !== 0;
      return {
        ...{ marketId, tid: 1000 + n * 3, tradedAtS },
        executedAtUs: n % 4 === 0 ? null : tradedAtS * 1_000_000 + (n % 5) * 100_001,
        price: isProduct ? '99.50' : pick(PRICES, n),
        amount: isProduct ? '2.0' : pick(AMOUNTS, n),
        total: isProduct ? '199.000' : '7.10',
        side: n % 2 === 0 ? 'buy' : 'sell',
        receivedAtMs: tradedAtS * 1000 + 1234,
      };
    }),
  );
}

function klinesOf(marketId: number): KlineRow[] {
  return DAYS.flatMap((_, day) =>
    [60, 3600].flatMap((intervalS) =>
      [0, 3600, 7200, DAY_S - 3600].map((second, index): KlineRow => {
        const openAtS = START_S + day * DAY_S + second;
        const prices = { open: '1.10', high: pick(PRICES, index), low: '0.5', close: '1' };
        const receivedAtMs = (openAtS + intervalS) * 1000;
        return {
          ...{ marketId, intervalS, openAtS, ...prices, receivedAtMs },
          ...{ volume: '12.00', quoteVolume: pick(AMOUNTS, index) },
        };
      }),
    ),
  );
}

function depthsOf(marketId: number): DepthRow[] {
  return DAYS.flatMap((_, day) =>
    [0, 0.001, 30_000, DAY_S - 0.001].map((second, index): DepthRow => {
      const observedAtMs = Math.round((START_S + day * DAY_S + second) * 1000);
      const bids = Array.from({ length: index }, (_one, level) => pick(PRICES, level));
      return {
        ...{ marketId, observedAtMs, receivedAtMs: observedAtMs + 7 },
        ...{ bidPrices: bids, bidAmounts: bids.map((_one, level) => pick(AMOUNTS, level)) },
        ...{ askPrices: ['61838.10'], askAmounts: ['0.50'] },
      };
    }),
  );
}

function statesOf(marketId: number): StateRow[] {
  return DAYS.flatMap((_, day) =>
    [60, 86_400].flatMap((periodS) =>
      [0, 0, 1800.5, DAY_S - 1].map((second, seq): StateRow => {
        const observedAtMs = (START_S + day * DAY_S + second) * 1000;
        const prices = { last: '1.0', open: '2', close: '1.0', high: '3', low: '0.1' };
        return {
          ...{ marketId, periodS, observedAtMs, seq, sessionId: 1, ...prices },
          ...{ quoteVolume: '5.5', volume: '10', receivedAtMs: observedAtMs + 3 },
          ...(seq % 2 === 0
            ? { origin: 'query', change: '-1.50' }
            : { origin: 'update', change: null }),
        };
      }),
    ),
  );
}

/**
 * A store that holds all of it, each partition a day, covered whole.
 *
 * @param givenUrl a migrated database; left out: one of its own
 */
export async function openDaysWorld(coldDir: string, givenUrl?: string): Promise<ColdPlace> {
  const databaseUrl = givenUrl ?? (await makeDatabase());
  await runSql(databaseUrl, `UPDATE partition_policy SET width = 'day'`);
  const { store, url } = await openTestStore({ databaseUrl });
  const currencies = { stock: 'A', money: 'B', moneyPrec: 8, minAmount: '0' };
  const listed = MARKETS.map((name) => marketOf(name, currencies));
  const { ids } = await store.ensureMarkets(listed, WHOLE.fromMs);
  const marketIds = [...ids.values()];
  const streams: StreamRef[] = [];
  for (const marketId of marketIds) {
    for (const [kind, variant] of [
      ...([
        ['trades', 0],
        ['depth', 0],
        ['tickers', 0],
        ['candles', 60],
        ['candles', 3600],
      ] as const),
      ...([
        ['states', 60],
        ['states', 86_400],
      ] as const),
    ] as const) {
      streams.push(await store.ensureStream({ kind, marketId, variant }));
    }
  }
  await store.commit({
    trades: marketIds.flatMap(tradesOf),
    klines: marketIds.flatMap(klinesOf),
    depths: marketIds.flatMap(depthsOf),
    states: marketIds.flatMap(statesOf),
    tickers: marketIds.flatMap((marketId) =>
      DAYS.flatMap((_, day) =>
        [0, 1, DAY_S - 1].map((second) => {
          const observedAtMs = (START_S + day * DAY_S + second) * 1000;
          const times = { observedAtMs, atMs: observedAtMs, receivedAtMs: observedAtMs };
          return ticker(marketId, 0, { ...times, last: '1.2300' });
        }),
      ),
    ),
    claims: streams.map((stream) => ({ stream, span: WHOLE, evidence: {} })),
  });
  return { store, url, coldDir };
}
