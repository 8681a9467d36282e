import { hashText } from '../../kernel/random.js';
import { DEFAULT_MARKETS, type GeneratedMarket, generatedMarketOf } from '../markets.js';
import { LiveError } from './live-error.js';

const PRECISION_MAX = 12;
const NAME = /^[^\s\p{Cc}]{3,64}$/u;
const DECIMAL = /^\d{1,12}(\.\d{1,12})?$/;
/** Share of seconds with trades: the scale of quiet markets, and what the busiest have. */
const QUIET_ACTIVITY = 0.003;
const BUSIEST_ACTIVITY = 0.6;

/**
 * A default market by its name; any other name gets a market of its own, derived from the name. How
 * busy markets are is heavy-tailed: half of them trade in less than one second out of 150, one in a
 * hundred all the time.
 */
export function liveMarketOf(name: string): GeneratedMarket {
  const market = generatedMarketOf(name);
  if (DEFAULT_MARKETS.includes(market)) return market;
  const share = (hashText(`${name} activity`) + 1) / 2 ** 32;
  return { ...market, activity: Math.min(BUSIEST_ACTIVITY, QUIET_ACTIVITY / share) };
}

/** @throws LiveError when a market can not be traded as described */
export function checkMarket(market: GeneratedMarket): void {
  const { name, stockPrec, moneyPrec, minAmount, basePrice, usualAmount, activity } = market;
  const check = (holds: boolean, what: string) => {
    if (!holds) throw new LiveError(`market ${JSON.stringify(name.slice(0, 80))}: ${what}`);
  };
  const isPrecision = (digits: number) =>
    Number.isInteger(digits) && digits >= 0 && digits <= PRECISION_MAX;
  const units = (text: string, digits: number) => Number(text) * 10 ** digits;
  const isWhole = (text: string, digits: number) =>
    DECIMAL.test(text) && (text.split('.')[1] ?? '').length <= digits;
  check(NAME.test(name), 'its name must be 3 to 64 characters without spaces');
  check(
    isPrecision(stockPrec) && isPrecision(moneyPrec),
    `its precisions must be whole numbers from 0 to ${PRECISION_MAX}`,
  );
  for (const amount of [minAmount, usualAmount]) {
    const isFit = isWhole(amount, stockPrec) && units(amount, stockPrec) >= 1;
    // The traders draw up to 400 usual amounts, in floats that must stay exact.
    check(
      isFit && units(amount, stockPrec) <= 1e12,
      `amount ${amount} does not fit its stockPrec of ${stockPrec}`,
    );
  }
  const ticks = units(basePrice, moneyPrec);
  check(
    isWhole(basePrice, moneyPrec) && ticks >= 100 && ticks <= 1e14,
    `price ${basePrice} must be 100 to 10^14 units of its moneyPrec of ${moneyPrec}`,
  );
  check(activity > 0 && activity <= 1, 'its activity must be above 0 and up to 1');
}
