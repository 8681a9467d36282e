import type { Market } from '../../contract/resources.js';
import { compareDecimals } from '../../kernel/decimal.js';

/** What was asked for, as far as it says about a market. */
export interface AskedOfMarket {
  readonly market: string;
  readonly price?: string;
  readonly amount?: string;
}

/** Markets that are named where one is unknown. */
const NAMED_MARKETS = 10;

/** Places after the point that count: zeros at the end say nothing. */
function placesOf(text: string): number {
  const [, places = ''] = text.split('.');
  return places.replace(/0+$/, '').length;
}

/**
 * Why an exchange that says no more than `invalid input` may have refused, by its own list of
 * markets. Undefined when the list shows nothing wrong.
 */
export function likelyCause(
  { market, price, amount }: AskedOfMarket,
  markets: readonly Market[],
): string | undefined {
  const found = markets.find(({ name }) => name === market);
  if (found === undefined) {
    const names = markets.slice(0, NAMED_MARKETS).map(({ name }) => name);
    const more = markets.length > names.length ? ', …' : '';
    return `${market} is not among its ${markets.length} markets: ${names.join(', ')}${more}`;
  }
  const { stock, money, stockPrec, moneyPrec, minAmount } = found;
  const tooFine = (name: string, text: string, places: number, currency: string) =>
    `the ${name} ${text} has more decimal places than the ${places} of ${currency} in ${market}`;
  if (price !== undefined && placesOf(price) > moneyPrec) {
    return tooFine('price', price, moneyPrec, money);
  }
  if (amount === undefined) return undefined;
  if (placesOf(amount) > stockPrec) return tooFine('amount', amount, stockPrec, stock);
  if (compareDecimals(amount, minAmount) < 0) {
    return `the amount ${amount} is below ${minAmount} ${stock}, the least in ${market}`;
  }
  return price === undefined
    ? undefined
    : 'funds may be short: "tapekeep api balances" shows what is available';
}
