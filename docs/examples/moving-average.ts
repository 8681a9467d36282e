/**
 * A backtest on candles: buys when the mean of the last few closes rises above that of many, sells
 * when it falls below. It acts at the close of a candle, when that candle was first known.
 *
 *     npm run example -- moving-average --market BTC_USDT --interval 60 \
 *       --from 2026-01-31T00:00:00Z --to 2026-02-01T00:00:00Z
 */
import {
  type Archive,
  addDecimals,
  compareDecimals,
  divideDecimals,
  isoOf,
  type Moment,
  multiplyDecimals,
  subtractDecimals,
} from 'tapekeep';
import { archiveOf, gapsOf, passedOver, readArguments, required, spanOf } from './arguments.js';
import { wholeNumber } from './whole-number.js';

export interface MovingAverageOptions {
  readonly archive: Archive;
  readonly market: string;
  readonly intervalS: number;
  readonly from: Moment;
  readonly to: Moment;
  /** Candles of the shorter and of the longer mean. */
  readonly fast: number;
  readonly slow: number;
  /** In the quote currency, all of it is put in. */
  readonly quote: string;
  /** Rate of the fee of a trade. */
  readonly fee: string;
  /** `mark` plays over them, and counts them. */
  readonly gaps: 'throw' | 'mark';
}

export interface MovingAverageResult {
  readonly candles: number;
  /** Gaps of candles that it was played over. */
  readonly gaps: number;
  readonly trades: readonly {
    readonly at: string;
    readonly side: 'buy' | 'sell';
    readonly price: string;
  }[];
  /** What it is worth at the last close, in the quote currency. */
  readonly worth: string;
}

const DIGITS = 8;
const sum = (values: readonly string[]) => values.reduce(addDecimals, '0');

/** Plays the strategy. No price becomes a floating-point number on the way. */
export async function movingAverage(options: MovingAverageOptions): Promise<MovingAverageResult> {
  const { archive, market, intervalS, from, to, fast, slow, fee, gaps } = options;
  const keep = subtractDecimals('1', fee);
  const closes: string[] = [];
  const trades: MovingAverageResult['trades'][number][] = [];
  let [quote, base, candles, passed, last] = [options.quote, '0', 0, 0, '0'];
  for await (const candle of archive.candles({ market, intervalS, from, to, gaps })) {
    if (candle.kind === 'gap' && candle.edge === 'begin') passed += 1;
    if (candle.kind !== 'candle') continue;
    candles += 1;
    last = candle.close;
    closes.push(last);
    if (closes.length > slow) closes.shift();
    if (closes.length < slow) continue;
    // The means are compared without dividing: sums, each times the number of the other.
    const ofFast = multiplyDecimals(sum(closes.slice(-fast)), String(slow));
    const ofSlow = multiplyDecimals(sum(closes), String(fast));
    const trend = compareDecimals(ofFast, ofSlow);
    const at = isoOf(candle.atUs);
    if (trend > 0 && quote !== '0') {
      base = divideDecimals(multiplyDecimals(quote, keep), last, DIGITS);
      quote = '0';
      trades.push({ at, side: 'buy', price: last });
    } else if (trend < 0 && base !== '0') {
      quote = multiplyDecimals(multiplyDecimals(base, last), keep);
      base = '0';
      trades.push({ at, side: 'sell', price: last });
    }
  }
  return {
    candles,
    gaps: passed,
    trades,
    worth: addDecimals(quote, multiplyDecimals(base, last)),
  };
}

/** Runs it from the command line. */
export async function main(args: readonly string[]): Promise<void> {
  const values = readArguments(args);
  const archive = await archiveOf(values);
  try {
    const intervalS = wholeNumber(values, 'interval', 60);
    const { candles, gaps, trades, worth } = await movingAverage({
      archive,
      market: required(values, 'market'),
      intervalS,
      ...(await spanOf(archive, values, [{ kind: 'candles', variantS: intervalS }])),
      ...{ fast: 5, slow: 20, quote: '1000', fee: '0.001', gaps: gapsOf(values) },
    });
    for (const { at, side, price } of trades) process.stdout.write(`${at} ${side} at ${price}\n`);
    process.stdout.write(
      `candles: ${candles}, trades: ${trades.length}, 1000 became ${worth}${passedOver(gaps)}\n`,
    );
  } finally {
    await archive.close();
  }
}
