import type { Balance, Market } from '../../contract/resources.js';
import type { MarketControl } from '../../server/control/market-control.js';
import type { LiveExchange, LiveMarket } from './live-exchange.js';
import { readMarket } from './live-markets.js';
import type { LiveMarketDescription } from './market-description.js';

/** What is asked of the backend; each change lets first happen what is due. */
interface Changed {
  usualMarket(name: string): LiveMarketDescription;
  createMarket(market: LiveMarketDescription): Market;
  delistMarket(market: string): void;
  blockOrders(market: string, isBlocked: boolean): void;
  keyOf(name: string): string;
  deposit(apiKey: string, currency: string, amount: string): void;
  balances(apiKey: string): Record<string, Balance>;
}

/** Description of a market: all of it can be read and, but for its state, set. */
function shown({ description, rules, isBlocked }: LiveMarket, isListed: boolean): object {
  const { basePrice, usualAmount, activity } = description;
  return { ...rules, basePrice, usualAmount, activity, listed: isListed, blocked: isBlocked };
}

/**
 * A live exchange as it is steered from outside. A market that was listed before keeps what its new
 * description leaves out.
 */
export function controlOf(
  backend: Changed,
  exchange: LiveExchange,
  isOpen: boolean,
): MarketControl {
  const show = (market: string) => {
    const listed = exchange.market(market);
    const known = listed ?? exchange.anyMarket(market);
    return known === undefined ? {} : shown(known, listed !== undefined);
  };
  return {
    isOpen,
    describe: () => [
      ...Array.from(exchange.markets(), (market) => shown(market, true)),
      ...Array.from(exchange.delistedMarkets(), (market) => shown(market, false)),
    ],
    create(description) {
      const market = readMarket(description, (name) => backend.usualMarket(name));
      return show(backend.createMarket(market).name);
    },
    delist(market) {
      backend.delistMarket(market);
      return show(market);
    },
    block(market, isBlocked) {
      backend.blockOrders(market, isBlocked);
      return show(market);
    },
    deposit(account, currency, amount) {
      const key = backend.keyOf(account);
      backend.deposit(key, currency, amount);
      return { account, balances: backend.balances(key) };
    },
  };
}
