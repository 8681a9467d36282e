import { headerText, parseHttpDate } from '../../../src/client/reply-reader.js';
import {
  compareDecimals,
  decimalSign,
  divideDecimals,
  equalDecimals,
  multiplyDecimals,
  subtractDecimals,
} from '../../../src/kernel/decimal.js';
import { type Case, type Context, fresh, known } from '../context.js';
import { Skip } from '../outcome.js';

/** How far the exchange's time in tickers may be from its Date header. */
const MAX_CLOCK_DIFFERENCE_S = 86_400;
/** Rounding of a change in percent. */
const CHANGE_TOLERANCE = '0.02';

async function entryOf(context: Context) {
  const tickers = await fresh(context, 'tickers', {});
  const entry = tickers[context.market];
  if (entry === undefined) throw new Error(`tickers have no ${context.market}`);
  const { vol, ...rest } = entry.ticker;
  return { ...rest, volume: vol };
}

export const tickerCases: readonly Case[] = [
  {
    id: 'markets.names',
    title: 'a market is named for its stock and its money, each name once',
    async run(context, findings) {
      const markets = await known(context, 'markets', {});
      for (const { name, stock, money } of markets) {
        findings.check(name === `${stock}_${money}`, `${name} trades ${stock} for ${money}`);
      }
      findings.check(
        new Set(markets.map(({ name }) => name)).size === markets.length,
        'names repeat',
      );
    },
  },
  {
    id: 'products.markets',
    title: 'products are the markets with their two currencies',
    async run(context, findings) {
      const markets = await known(context, 'markets', {});
      const products = new Map((await known(context, 'products', {})).map((row) => [row.id, row]));
      for (const { name, stock, money } of markets) {
        const product = products.get(name);
        if (!findings.check(product !== undefined, `no product ${name}`)) continue;
        findings.check(product?.fromSymbol === stock, `${name}: from ${product?.fromSymbol}`);
        findings.check(product?.toSymbol === money, `${name}: to ${product?.toSymbol}`);
      }
      findings.check(products.size === markets.length, `${products.size} products`);
    },
  },
  {
    id: 'tickers.keys',
    title: 'tickers are keyed by the names of markets',
    async run(context, findings) {
      const names = new Set((await known(context, 'markets', {})).map(({ name }) => name));
      for (const [key, { ticker }] of Object.entries(await known(context, 'tickers', {}))) {
        findings.check(names.has(key), `${key} is no market`);
        findings.check(ticker.name === key, `${key} holds ${ticker.name}`);
      }
    },
  },
  {
    id: 'tickers.at',
    title: 'at is a time in seconds, near that of the answer',
    async run(context, findings) {
      const answer = await context.probe.get('tickers');
      const dateMs = parseHttpDate(headerText(answer.headers, 'date'));
      if (dateMs === null) throw new Skip('the answer has no Date header');
      for (const [key, { at }] of Object.entries(await known(context, 'tickers', {}))) {
        const offS = Math.abs(at - dateMs / 1000);
        findings.check(offS < MAX_CLOCK_DIFFERENCE_S, `${key}: at is ${at}, ${offS} s away`);
      }
    },
  },
  {
    id: 'ticker.tickers',
    title: 'the ticker of one market is its entry in tickers, with volume for vol',
    async run(context, findings) {
      const { market } = context;
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const before = await entryOf(context);
        const alone = await fresh(context, 'ticker', { market });
        const after = await entryOf(context);
        const fields = Object.keys(alone) as (keyof typeof alone)[];
        if (fields.some((field) => before[field] !== after[field])) continue;
        for (const field of fields) {
          const [one, other] = [alone[field], after[field]];
          const isText = field === 'name' || one === null || other === null;
          const isSame = isText ? one === other : equalDecimals(one, other);
          findings.check(isSame, `${field}: ${one} alone, ${other} among all`);
        }
        return;
      }
      throw new Skip('the market moved too fast to compare two answers');
    },
  },
  {
    id: 'ticker.prices',
    title: 'low and high enclose the last price, the bid is below the ask',
    async run(context, findings) {
      const { low, high, last, bid, ask } = await known(context, 'ticker', {
        market: context.market,
      });
      if (decimalSign(high) === 0) throw new Skip('no trades in 24 hours');
      const isInside = compareDecimals(low, last) <= 0 && compareDecimals(last, high) <= 0;
      findings.check(isInside, `last ${last} is not in ${low} to ${high}`);
      const isOneSided = decimalSign(bid) === 0 || decimalSign(ask) === 0;
      findings.check(isOneSided || compareDecimals(bid, ask) < 0, `bid ${bid}, ask ${ask}`);
    },
  },
  {
    id: 'ticker.change',
    title: 'change is the way from open to last, in percent',
    async run(context, findings) {
      const { open, last, change } = await known(context, 'ticker', { market: context.market });
      const isTold = open !== null && change !== null;
      if (!isTold || decimalSign(open) === 0) throw new Skip('there is no open price');
      const way = multiplyDecimals(subtractDecimals(last, open), '100');
      const percent = divideDecimals(way, open, 8);
      const off = subtractDecimals(percent, change).replace('-', '');
      const isRight = compareDecimals(off, CHANGE_TOLERANCE) <= 0;
      findings.check(isRight, `change ${change}, from open ${open} to last ${last} are ${percent}`);
    },
  },
];
