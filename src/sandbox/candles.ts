import { z } from 'zod';
import type { Candle } from '../contract/resources.js';
import { CANDLE_CHOICES } from '../contract/variants.js';
import { SECOND_US } from '../kernel/durations.js';
import type { KlineQuery } from '../server/backend.js';
import { formatScaled, formatTrimmed } from './amounts.js';
import type { MarketTape } from './market-tape.js';

/** How an exchange makes its candles, as fields of its options. */
export const CANDLE_RULES = {
  emptyCandles: z.enum(CANDLE_CHOICES.emptyCandles.words).default('omitted'),
  candleOpen: z.enum(CANDLE_CHOICES.candleOpen.words).default('first'),
};
export type CandleRules = Readonly<z.output<z.ZodObject<typeof CANDLE_RULES>>>;

/**
 * The candles of one market, from its trades; the first is the one that the start lies in. A candle
 * that began before the served history does is left out, because its sums would be too small and
 * look whole; the candle of the present is always there, as far as it has come.
 */
export function candlesOf(
  tape: MarketTape,
  nowMs: number,
  { startS, endS, intervalS }: Omit<KlineQuery, 'market'>,
  rules: CandleRules,
): Candle[] {
  const { columns } = tape;
  const visible = tape.visible(nowMs);
  const floor = (second: number) => Math.floor(second / intervalS) * intervalS;
  const openCandleS = floor(nowMs / 1000);
  const completeFromS = Math.ceil(tape.completeFromUs(visible) / SECOND_US);
  const firstWholeS = Math.ceil(completeFromS / intervalS) * intervalS;
  const fromS = Math.max(floor(startS), Math.min(firstWholeS, openCandleS));
  const toS = Math.min(endS, openCandleS);
  const candles: Candle[] = [];
  let position = Math.max(visible.first, columns.firstAtOrAfter(fromS * SECOND_US));
  let timeS = fromS;
  while (timeS <= toS) {
    if (rules.emptyCandles === 'omitted') {
      if (position >= visible.end) break;
      timeS = floor(columns.timeUsAt(position) / SECOND_US);
      if (timeS > toS) break;
    }
    const next = Math.min(visible.end, columns.firstAtOrAfter((timeS + intervalS) * SECOND_US));
    const made = candle(tape, timeS, position, next, rules.candleOpen);
    if (made !== undefined) candles.push(made);
    position = next;
    timeS += intervalS;
  }
  return candles;
}

/** The candle of the positions `[from, to)`; undefined before the first trade. */
function candle(
  { columns, market }: MarketTape,
  timeS: number,
  from: number,
  to: number,
  candleOpen: CandleRules['candleOpen'],
): Candle | undefined {
  const previous = from > columns.base ? columns.priceAt(from - 1) : undefined;
  const isEmpty = from === to;
  if (isEmpty && previous === undefined) return undefined;
  const first = columns.priceAt(from);
  // The only price of an empty one is that of the last trade before it.
  const open = isEmpty || candleOpen === 'previous' ? (previous ?? first) : first;
  const { amount, quoteVolume, high, low } = columns.figures(from, to);
  const price = (value: bigint) => formatScaled(value, columns.priceDigits);
  return {
    time: timeS,
    open: price(open),
    close: price(isEmpty ? open : columns.priceAt(to - 1)),
    highest: price(isEmpty || open > high ? open : high),
    lowest: price(isEmpty || open < low ? open : low),
    volume: formatTrimmed(amount, columns.amountDigits),
    amount: formatTrimmed(quoteVolume, columns.amountDigits + columns.priceDigits),
    market: market.name,
  };
}
