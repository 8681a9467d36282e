import type { ExchangeApi } from './exchange-api.js';
import type { ExchangeClientOptions } from './exchange-client.js';
import { EndpointCaller } from './rest-client.js';

/**
 * A client for one exchange, see {@link ExchangeApi}.
 *
 * @throws InvalidAddressError when `baseUrl` is not a plain http or https address
 */
export function createExchangeClient(options: ExchangeClientOptions): ExchangeApi {
  const caller = new EndpointCaller(options);
  const call: ExchangeApi['call'] = (name, params, callOptions) =>
    caller.call(name, params, callOptions);
  return {
    reserve: (priority, signal) => caller.reserve(priority, signal),
    call,
    markets: (callOptions) => call('markets', {}, callOptions),
    products: (callOptions) => call('products', {}, callOptions),
    tickers: (callOptions) => caller.tickers(callOptions),
    ticker: (market, callOptions) => call('ticker', { market }, callOptions),
    kline: (query, callOptions) => call('kline', query, callOptions),
    history: (query, callOptions) => call('history', query, callOptions),
    historyResult: (query, callOptions) => call('historyResult', query, callOptions),
    depth: (query, callOptions) => call('depth', query, callOptions),
    book: (query, callOptions) => call('book', query, callOptions),
    balances: (callOptions) => call('balances', {}, callOptions),
    placeOrder: (order, callOptions) => call('orderNew', order, callOptions),
    activeOrders: (query, callOptions) => call('orders', query, callOptions),
    close: () => caller.close(),
  };
}
