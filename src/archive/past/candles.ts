import { addDecimals, compareDecimals } from '../../kernel/decimal.js';
import type { TradeRow } from '../../ledger/batch.js';

/** A candle as far as its trades have come. */
export interface BuiltCandle {
  readonly openAtS: number;
  readonly open: string;
  readonly close: string;
  readonly high: string;
  readonly low: string;
  readonly volume: string;
  readonly amount: string;
}

/** Two parts of one candle, the earlier first, as one. */
export function joinCandles(earlier: BuiltCandle, later: BuiltCandle): BuiltCandle {
  return {
    openAtS: earlier.openAtS,
    open: earlier.open,
    close: later.close,
    high: compareDecimals(later.high, earlier.high) > 0 ? later.high : earlier.high,
    low: compareDecimals(later.low, earlier.low) < 0 ? later.low : earlier.low,
    volume: addDecimals(earlier.volume, later.volume),
    amount: addDecimals(earlier.amount, later.amount),
  };
}

/** Adds a trade to candles of one length, which come in the order of time. */
export function addTrade(candles: BuiltCandle[], trade: TradeRow, intervalS: number): void {
  const openAtS = Math.floor(trade.tradedAtS / intervalS) * intervalS;
  const { price, amount: volume, total: amount } = trade;
  const alone = { openAtS, open: price, close: price, high: price, low: price, volume, amount };
  const last = candles.at(-1);
  if (last?.openAtS !== openAtS) candles.push(alone);
  else candles[candles.length - 1] = joinCandles(last, alone);
}

/** Candles of pieces of time that follow each other: one that both hold a part of is one. */
export function appendCandles(candles: BuiltCandle[], later: readonly BuiltCandle[]): void {
  const [first, ...rest] = later;
  const last = candles.at(-1);
  if (first === undefined) return;
  if (last?.openAtS === first.openAtS) {
    candles[candles.length - 1] = joinCandles(last, first);
    candles.push(...rest);
  } else candles.push(...later);
}
