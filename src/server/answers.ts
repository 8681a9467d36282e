import type { EndpointName, FilledParamsOf, ResultOf } from '../contract/endpoints.js';
import type { Backend, BackendTrade } from './backend.js';
import type { ServerVariants } from './variants.js';

/** Everything an answer may depend on. */
export interface AnswerContext {
  readonly backend: Backend;
  readonly variants: ServerVariants;
  /** The sender of a signed request; empty on the open GET form. */
  readonly apiKey: string;
}

type Answer<N extends EndpointName> = (
  context: AnswerContext,
  params: FilledParamsOf<N>,
) => ResultOf<N> | Promise<ResultOf<N>>;

const US_PER_S = 1_000_000;

/**
 * One page of trades, newest first. Under `skip` the number counts trades to leave out; under `id`
 * it is the id that all returned trades exceed, and what does not fit the page is out of reach
 * (field notes, since / lastId).
 */
async function tradePage(
  { backend, variants }: AnswerContext,
  market: string,
  since: number,
  limit: number,
): Promise<readonly BackendTrade[]> {
  const size = Math.min(limit, variants.pageCap ?? limit);
  if (variants.sinceMode === 'skip') return backend.trades(market, since, size);
  const newest = await backend.trades(market, 0, size);
  return newest.filter(({ id }) => id > since);
}

/** How each endpoint gets its result from the backend. The envelope is put around it elsewhere. */
export const answers: { readonly [N in EndpointName]: Answer<N> } = {
  markets: ({ backend }) => backend.markets(),
  async products({ backend }) {
    const markets = await backend.markets();
    return markets.map(({ name, stock, money }) => ({
      id: name,
      fromSymbol: stock,
      toSymbol: money,
    }));
  },
  tickers: ({ backend }) => backend.tickers(),
  ticker: ({ backend }, { market }) => backend.ticker(market),
  async kline({ backend }, { market, start, end, interval }) {
    const query = { market, startS: start, endS: end, intervalS: interval };
    return { market, start, end, interval, kline: await backend.kline(query) };
  },
  async history(context, { market, lastId, limit }) {
    const trades = await tradePage(context, market, lastId, limit);
    return trades.map(({ id, timeUs, price, side, amount, total }) => {
      return { id, time: timeUs / US_PER_S, price, type: side, amount, total };
    });
  },
  async historyResult(context, { market, since, limit }) {
    const trades = await tradePage(context, market, since, limit);
    return trades.map(({ id, timeUs, price, side, amount, total }) => {
      return { tid: id, date: Math.floor(timeUs / US_PER_S), price, type: side, amount, total };
    });
  },
  async depth({ backend, variants }, { market, limit }) {
    const { asks, bids } = await backend.depth(market, limit);
    return { asks, bids: variants.bidsOrder === 'best' ? bids : [...bids].reverse() };
  },
  async book({ backend }, { market, side, offset, limit }) {
    const { total, rows } = await backend.book(market, side, offset, limit);
    return { offset, limit, total, orders: [...rows] };
  },
  balances: ({ backend, apiKey }) => backend.balances(apiKey),
  orderNew: ({ backend, apiKey }, order) => backend.placeOrder(apiKey, order),
  async orders({ backend, apiKey }, { market, offset, limit }) {
    const { total, rows } = await backend.activeOrders(apiKey, market, offset, limit);
    return { limit, offset, total, result: [...rows] };
  },
};
