import type { EndpointName } from '../../contract/endpoints.js';
import type { ServerVariants } from '../variants.js';

type Fields = Readonly<Record<string, unknown>>;

function without(row: unknown, ...names: readonly string[]): Fields {
  const entries = Object.entries(row as Fields).filter(([name]) => !names.includes(name));
  return Object.fromEntries(entries);
}

const PRECISIONS: ReadonlySet<string> = new Set(['stockPrec', 'moneyPrec', 'feePrec']);

function asText(market: unknown): Fields {
  return Object.fromEntries(
    Object.entries(market as Fields).map(([name, value]) => [
      name,
      PRECISIONS.has(name) ? String(value) : value,
    ]),
  );
}

const rowsOf = (result: unknown) => result as readonly unknown[];

/** The result of an endpoint as a server of these variants sends it. */
export function varied(name: EndpointName, result: unknown, variants: ServerVariants): unknown {
  switch (name) {
    case 'history':
      return variants.historyTotal === 'told'
        ? result
        : rowsOf(result).map((trade) => without(trade, 'total'));
    case 'markets':
      return variants.precisions === 'number' ? result : rowsOf(result).map(asText);
    case 'ticker':
      return variants.tickerName === 'told' ? result : without(result, 'name');
    case 'tickers':
      return variants.tickerName === 'told'
        ? result
        : Object.fromEntries(
            Object.entries(result as Readonly<Record<string, Fields>>).map(([market, entry]) => [
              market,
              { ...entry, ticker: without(entry.ticker, 'name') },
            ]),
          );
    case 'book': {
      const { orders, ...header } = result as Fields;
      return variants.bookFees === 'told'
        ? result
        : { ...header, orders: rowsOf(orders).map((one) => without(one, 'takerFee', 'makerFee')) };
    }
    default:
      return result;
  }
}
