/**
 * A trader that knows nothing of archives: it follows the market over WebSocket and looks at the book
 * over HTTP, with the same client that it would use at the exchange. Point it to a replay
 * (`tapekeep replay`), to the sandbox (`tapekeep sandbox`) or to the exchange itself.
 *
 *     npm run example -- paper-trader --url http://127.0.0.1:8080 \
 *       --realtime-url ws://127.0.0.1:8080/ws --market BTC_USDT --records 100
 *
 * Its orders stay on paper. A recording cannot answer them: what the others would have done had the
 * order been there is not recorded, and an order book made of snapshots has no queue to stand in. So
 * the trader only takes what the book that it was shown offered, level by level, and nothing that it
 * did changes what it sees next. That is sound for small orders, and for no others.
 */
import {
  addDecimals,
  type CloseReason,
  compareDecimals,
  divideDecimals,
  ExchangeClient,
  multiplyDecimals,
  type StateEvent,
  type StateFeed,
  subtractDecimals,
} from 'tapekeep';
import { readArguments, required } from './arguments.js';
import { wholeNumber } from './whole-number.js';

export interface PaperTraderOptions {
  readonly exchange: Pick<ExchangeClient, 'depth' | 'markets'> & {
    watch(market: string, periodS: number): AsyncIterable<StateEvent> & Pick<StateFeed, 'stop'>;
  };
  readonly market: string;
  readonly periodS: number;
  /** Ends after so many states of the market, or {@link quietMs} after the last that was pushed. */
  readonly records: number;
  /** A minute by default. */
  readonly quietMs?: number;
  /** Of one order, in the base currency. */
  readonly amount: string;
  /** Hears of each order as it is filled, and of connections that fail. */
  readonly tell?: (news: string) => void;
}

export interface PaperTraderResult {
  readonly records: number;
  readonly orders: readonly {
    readonly side: 'buy' | 'sell';
    readonly amount: string;
    /** Mean price of what the book offered, as exact as prices of the market are. */
    readonly price: string;
  }[];
  readonly quote: string;
  readonly base: string;
}

const QUIET_MS = 60_000;
/** What the daemon records unless its settings say otherwise. */
const RECORDED_PERIOD_S = 86_400;

/** What an order takes of the levels of a book at once; the rest of it is cancelled. */
function take(levels: readonly (readonly [string, string])[], amount: string) {
  let [left, quote] = [amount, '0'];
  for (const [price, offered] of levels) {
    if (compareDecimals(left, '0') <= 0) break;
    const taken = compareDecimals(offered, left) < 0 ? offered : left;
    left = subtractDecimals(left, taken);
    quote = addDecimals(quote, multiplyDecimals(price, taken));
  }
  return { taken: subtractDecimals(amount, left), quote };
}

/** Buys after a rise of the last price and sells after a fall. Throws when there are no states to be had. */
export async function paperTrader(options: PaperTraderOptions): Promise<PaperTraderResult> {
  const { exchange, market, periodS, amount, tell, quietMs = QUIET_MS } = options;
  const orders: PaperTraderResult['orders'][number][] = [];
  let [quote, base, records] = ['0', '0', 0];
  let [before, lastNews]: (string | undefined)[] = [];
  let priceDigits: number | undefined;
  let isQuiet = false;
  const feed = exchange.watch(market, periodS);
  let timer: NodeJS.Timeout | undefined;
  // Behind the last recorded state a connection to a replay stays open and reports nothing more.
  const awaitUpdate = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      isQuiet = true;
      tell?.('no update for a minute: a replay at its end, or a market that does not trade');
      void feed.stop();
    }, quietMs);
  };
  try {
    for await (const event of feed) {
      if (event.kind === 'opened') awaitUpdate();
      if (event.kind === 'closed' && !isQuiet) {
        clearTimeout(timer);
        const news = `no states: ${whyNone(event.reason, periodS)}`;
        // What is refused stays refused; all else may pass, and is printed once.
        if (event.reason === 'subscribe_refused') throw new Error(news);
        if (news !== lastNews) tell?.(news);
        lastNews = news;
      }
      if (event.kind !== 'record') continue;
      lastNews = undefined;
      if (event.origin === 'update') awaitUpdate();
      records += 1;
      const { last } = event.record;
      const trend = before === undefined ? 0 : compareDecimals(last, before);
      before = last;
      const isLong = compareDecimals(base, '0') > 0;
      if ((trend > 0 && !isLong) || (trend < 0 && isLong)) {
        const side = trend > 0 ? 'buy' : 'sell';
        const { data: book } = await exchange.depth({ market, limit: 50 });
        const wanted = side === 'buy' ? amount : base;
        const filled = take(side === 'buy' ? book.asks : book.bids, wanted);
        if (compareDecimals(filled.taken, '0') > 0) {
          priceDigits ??= await priceDigitsOf(exchange, market);
          const price = divideDecimals(filled.quote, filled.taken, priceDigits);
          orders.push({ side, amount: filled.taken, price });
          tell?.(`${side} ${filled.taken} at ${price}`);
          const isBuy = side === 'buy';
          base = isBuy ? addDecimals(base, filled.taken) : subtractDecimals(base, filled.taken);
          quote = isBuy ? subtractDecimals(quote, filled.quote) : addDecimals(quote, filled.quote);
        }
      }
      if (records >= options.records) break;
    }
  } finally {
    clearTimeout(timer);
  }
  return { records, orders, quote, base };
}

async function priceDigitsOf(exchange: Pick<ExchangeClient, 'markets'>, market: string) {
  const { data } = await exchange.markets();
  const digits = data.find(({ name }) => name === market)?.moneyPrec;
  if (digits === undefined) throw new Error(`${market} is not listed any more`);
  return Math.max(digits, 0);
}

function whyNone(reason: CloseReason, periodS: number): string {
  if (reason === 'connect_failed') return 'no server answers there yet';
  if (reason === 'query_refused') {
    return 'there are none of this time; a replay has them from where they were first recorded on, and this waits for it';
  }
  if (reason === 'remote') {
    return 'the other side ended the connection, as a replay does when it is stopped; this tries again';
  }
  if (reason !== 'subscribe_refused') return reason;
  return `this market is refused over ${periodS} s; a replay has the periods that were recorded (--period)`;
}

/** Runs it from the command line. */
export async function main(args: readonly string[]): Promise<void> {
  const values = readArguments(args);
  const baseUrl = required(values, 'url');
  const realtimeUrl = required(values, 'realtime-url');
  const exchange = new ExchangeClient({ baseUrl, realtimeUrl });
  try {
    const market = required(values, 'market');
    const records = wholeNumber(values, 'records', 100);
    const periodS = wholeNumber(values, 'period', RECORDED_PERIOD_S);
    const tell = (news: string) => void process.stdout.write(`${news}\n`);
    // The server may not run yet; then it waits.
    const listed = await exchange.markets().catch(() => undefined);
    const names = listed?.data.map(({ name }) => name);
    if (names?.includes(market) === false) {
      throw new Error(`there is no market ${market}; there are ${names.join(', ')}`);
    }
    tell(`following ${market}; states to come: ${records}`);
    const trader = { exchange, market, periodS, records, amount: '0.01', tell };
    const { quote, base, ...found } = await paperTrader(trader);
    process.stdout.write(`states: ${found.records}; quote ${quote}, base ${base}\n`);
  } finally {
    await exchange.close();
  }
}
