import type { DepthRow, KlineRow, StateRow } from '../../../src/model/batch.js';
import type { Store } from '../../../src/store/index.js';
import { type Life, openTestStore } from '../postgres/postgres.js';
import { claim, marketOf, NOON_S, ticker, trade } from '../postgres/postgres-rows.js';

/**
 * A small archive whose answers are worked out by hand. Times are seconds after noon of 2026-01-15:
 *
 * - trades of BTC_USDT, with nothing known between 14:10 and 14:30, and nothing traded after 15:00;
 * - its hourly candles: that of 13:00 was corrected at 14:31, that of 15:00 does not exist, and
 *   nobody asked for that of 16:00;
 * - its order book, unwatched from 12:30 to 12:40 and from 14:00 on;
 * - ETH_USDT, which must not show up where it was not asked for.
 */
export interface AnalystWorld {
  readonly store: Store;
  readonly url: string;
}

const DAY_S = 86_400;
const HOUR_S = 3600;
const MARKETS = ['BTC_USDT', 'ETH_USDT'].map((name) => marketOf(name));

type TradeTuple = readonly [
  atS: number,
  price: string,
  amount: string,
  total: string,
  'buy' | 'sell',
];
const TRADES: readonly TradeTuple[] = [
  [0, '100', '1', '100', 'buy'],
  [0, '101', '2', '202', 'sell'],
  [1800, '102', '1', '102', 'buy'],
  [3599, '103', '4', '412', 'buy'],
  [3660, '104', '1.5', '156', 'sell'],
  [3660, '104.1', '0.1', '10.41', 'buy'],
  [3660, '103.9', '0.2', '20.78', 'sell'],
  [7300, '105', '2', '210', 'buy'],
  [9000, '106', '1', '106', 'sell'],
];

function candle(openS: number, receivedS: number, values: Partial<KlineRow>): KlineRow {
  return {
    ...{ marketId: 1, intervalS: HOUR_S, openAtS: NOON_S + openS },
    ...{ open: '100', high: '103', low: '100', close: '103', volume: '8', quoteVolume: '816' },
    receivedAtMs: (NOON_S + receivedS) * 1000,
    ...values,
  };
}

type Levels = readonly (readonly [price: string, amount: string])[];
function book(atS: number, bids: Levels, asks: Levels): DepthRow {
  const observedAtMs = (NOON_S + atS) * 1000;
  return {
    ...{ marketId: 1, observedAtMs, receivedAtMs: observedAtMs + 200 },
    bidPrices: bids.map(([price]) => price),
    bidAmounts: bids.map(([, amount]) => amount),
    askPrices: asks.map(([price]) => price),
    askAmounts: asks.map(([, amount]) => amount),
  };
}

const state: StateRow = {
  ...{ marketId: 1, periodS: DAY_S, observedAtMs: NOON_S * 1000, seq: 0, sessionId: 1 },
  ...{ receivedAtMs: NOON_S * 1000, origin: 'query', change: '1.5' },
  ...{
    last: '100',
    open: '99',
    close: '100',
    high: '101',
    low: '98',
    quoteVolume: '1000',
    volume: '10',
  },
};

/** Fills an archive with the world above. */
export async function openAnalystWorld(life?: Life): Promise<AnalystWorld> {
  const { store, url } = await openTestStore({}, life);
  await store.ensureMarkets(MARKETS, NOON_S * 1000);
  const stream = (
    kind: 'trades' | 'depth' | 'tickers' | 'candles' | 'states',
    marketId: number,
    variant = 0,
  ) => store.ensureStream({ kind, marketId, variant });
  const trades = await stream('trades', 1);
  const candles = await stream('candles', 1, HOUR_S);
  const depth = await stream('depth', 1);
  const tickers = await stream('tickers', 1);
  const states = await stream('states', 1, DAY_S);
  const others = await stream('trades', 2);
  const begin = { streamId: trades.streamId, fromMs: (NOON_S - HOUR_S) * 1000 };
  await store.commit({ begins: [begin] });
  await store.commit({
    trades: [
      ...TRADES.map(([atS, price, amount, total, side], index) =>
        trade(index + 1, atS, { price, amount, total, side }),
      ),
      trade(50, 10, { marketId: 2, price: '7', amount: '1000', total: '7000' }),
    ],
    klines: [
      candle(0, 3670, {}),
      candle(3600, 7260, {
        open: '104',
        close: '103.9',
        high: '104.1',
        low: '103.9',
        volume: '1.7',
        quoteVolume: '177',
      }),
      candle(7200, 10_900, {
        open: '105',
        close: '106',
        high: '106',
        low: '105',
        volume: '5',
        quoteVolume: '527',
      }),
    ],
    depths: [
      book(
        0,
        [
          ['99', '1'],
          ['98', '2'],
        ],
        [
          ['101', '3'],
          ['102', '1'],
        ],
      ),
      book(
        600,
        [['100', '2']],
        [
          ['101', '1'],
          ['102', '1'],
          ['103', '9'],
        ],
      ),
      book(2400, [['100', '1']], [['100.5', '4']]),
      // Nobody sells.
      book(5400, [['100', '1']], []),
    ],
    tickers: [ticker(1, 0, { bid: '99', ask: '101' }), ticker(1, 60, { bid: '100', ask: '101' })],
    states: [state],
    claims: [
      ...[claim(trades, 0, 7800), claim(trades, 9000, 14_400), claim(others, 0, 60)],
      ...[claim(candles, 0, 14_400), claim(depth, 0, 1800), claim(depth, 2400, 7200)],
      claim(tickers, 0, 3600),
      // The exchange's clock has come to the 17th, so that the 15th is a whole day of the past.
      claim(states, 0, 36 * HOUR_S),
    ],
  });
  const corrected = {
    open: '104',
    close: '103.9',
    high: '104.1',
    low: '103.9',
    volume: '1.8',
    quoteVolume: '187.2',
  };
  await store.commit({ klines: [candle(3600, 9060, corrected)] });
  const seconds = (fromS: number, toS: number) => ({
    fromMs: (NOON_S + fromS) * 1000,
    toMs: (NOON_S + toS) * 1000,
  });
  await store.want(trades, seconds(-7200, -7000));
  await store.recordGap({
    ...{ stream: trades, span: seconds(7800, 8400), state: 'unfillable', reason: 'beyond history' },
    ...{ note: 'the exchange has no more', atMs: (NOON_S + 9000) * 1000 },
  });
  return { store, url };
}
