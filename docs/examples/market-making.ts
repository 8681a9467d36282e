/**
 * A backtest on the order book and trades, merged in time: keeps an order at the best bid and one at
 * the best ask, and counts one as filled only when a trade went through its price. It is not known who
 * would have been first at the price itself, so that fills there are not claimed.
 *
 *     npm run example -- market-making --market BTC_USDT \
 *       --from 2026-01-31T00:00:00Z --to 2026-01-31T01:00:00Z
 */
import {
  type Archive,
  addDecimals,
  compareDecimals,
  divideDecimals,
  type Moment,
  multiplyDecimals,
  subtractDecimals,
} from 'tapekeep';
import { archiveOf, gapsOf, passedOver, readArguments, required, spanOf } from './arguments.js';

export interface MarketMakingOptions {
  readonly archive: Archive;
  readonly market: string;
  readonly from: Moment;
  readonly to: Moment;
  /** Of each order, in the base currency. */
  readonly amount: string;
  /** Most that is held, long or short. */
  readonly most: string;
  /** `mark` plays over them, and counts them. */
  readonly gaps: 'throw' | 'mark';
}

export interface MarketMakingResult {
  readonly books: number;
  readonly trades: number;
  readonly bought: number;
  readonly sold: number;
  /** Gaps of books or trades that it was played over. */
  readonly gaps: number;
  /** Held at the end, in the base currency; negative when more was sold than bought. */
  readonly base: string;
  /** Gained or lost, with what is held at the last middle of the book. */
  readonly gain: string;
}

const DIGITS = 8;

/** Plays the strategy. */
export async function marketMaking(options: MarketMakingOptions): Promise<MarketMakingResult> {
  const { archive, market, from, to, amount, most, gaps } = options;
  const least = multiplyDecimals(most, '-1');
  let [books, trades, bought, sold, passed] = [0, 0, 0, 0, 0];
  let [quote, base, middle] = ['0', '0', '0'];
  let bid: string | undefined;
  let ask: string | undefined;
  const kinds = ['depth', 'trades'] as const;
  for await (const event of archive.events({ markets: [market], kinds, from, to, gaps })) {
    if (event.kind === 'depth') {
      books += 1;
      [bid, ask] = [event.bids[0]?.[0], event.asks[0]?.[0]];
      if (bid !== undefined && ask !== undefined) {
        middle = divideDecimals(addDecimals(bid, ask), '2', DIGITS);
      }
    } else if (event.kind === 'trade') {
      trades += 1;
      const { price, side } = event;
      if (side === 'sell' && bid !== undefined && compareDecimals(price, bid) < 0) {
        if (compareDecimals(addDecimals(base, amount), most) > 0) continue;
        base = addDecimals(base, amount);
        quote = subtractDecimals(quote, multiplyDecimals(bid, amount));
        bought += 1;
        // The next order waits for the next look at the book.
        bid = undefined;
      } else if (side === 'buy' && ask !== undefined && compareDecimals(price, ask) > 0) {
        if (compareDecimals(subtractDecimals(base, amount), least) < 0) continue;
        base = subtractDecimals(base, amount);
        quote = addDecimals(quote, multiplyDecimals(ask, amount));
        sold += 1;
        ask = undefined;
      }
    } else if (event.kind === 'gap' && event.edge === 'begin') passed += 1;
  }
  const gain = addDecimals(quote, multiplyDecimals(base, middle));
  return { books, trades, bought, sold, gaps: passed, base, gain };
}

/** Runs it from the command line. */
export async function main(args: readonly string[]): Promise<void> {
  const values = readArguments(args);
  const archive = await archiveOf(values);
  try {
    const found = await marketMaking({
      archive,
      market: required(values, 'market'),
      ...(await spanOf(archive, values, [
        { kind: 'depth', variantS: 0 },
        { kind: 'trades', variantS: 0 },
      ])),
      ...{ amount: '0.01', most: '0.1', gaps: gapsOf(values) },
    });
    const { books, trades, bought, sold, gaps, base, gain } = found;
    process.stdout.write(`books: ${books}, trades: ${trades}${passedOver(gaps)}\n`);
    process.stdout.write(`bought: ${bought}, sold: ${sold}; holds ${base}\n`);
    process.stdout.write(`gained ${gain} in the quote currency\n`);
  } finally {
    await archive.close();
  }
}
