import type { Market } from '../contract/resources.js';
import { hashText } from '../kernel/random.js';
import type { FlowShape } from './generator.js';
import { parseScaled } from './scaled.js';
import { TapeError } from './tape-error.js';

/** A market of a generated tape. Prices in the quote currency, amounts in the base currency. */
export interface GeneratedMarket {
  /** `<STOCK>_<MONEY>` */
  readonly name: string;
  readonly stockPrec: number;
  readonly moneyPrec: number;
  readonly minAmount: string;
  /** The price swings around this, by some percent. */
  readonly basePrice: string;
  /** Usual amount of one trade. */
  readonly usualAmount: string;
  /** Share of seconds with trades in ordinary times: 0.5 is busy, 0.01 quiet. */
  readonly activity: number;
}

/** The markets of a sandbox that was asked for nothing else: busy, middling and quiet ones. */
export const DEFAULT_MARKETS: readonly GeneratedMarket[] = [
  {
    name: 'BTC_USDT',
    stockPrec: 6,
    moneyPrec: 2,
    minAmount: '0.0001',
    basePrice: '64000',
    usualAmount: '0.05',
    activity: 0.45,
  },
  {
    name: 'ETH_USDT',
    stockPrec: 5,
    moneyPrec: 2,
    minAmount: '0.001',
    basePrice: '3200',
    usualAmount: '0.8',
    activity: 0.25,
  },
  {
    name: 'ETH_BTC',
    stockPrec: 4,
    moneyPrec: 6,
    minAmount: '0.001',
    basePrice: '0.05',
    usualAmount: '0.5',
    activity: 0.06,
  },
  {
    name: 'LTC_USDT',
    stockPrec: 4,
    moneyPrec: 2,
    minAmount: '0.01',
    basePrice: '85',
    usualAmount: '3',
    activity: 0.01,
  },
];

/** Fee rates are given to this many places. */
const FEE_PREC = 4;

/** The two currencies of a pair (contract, What the service does, rule 5). */
export function splitPair(name: string): { readonly stock: string; readonly money: string } {
  const [stock = '', money = '', ...more] = name.split('_');
  if (stock === '' || money === '' || more.length > 0 || name.length > 64) {
    throw new TapeError(`market name ${JSON.stringify(name)}: expected <STOCK>_<MONEY>`);
  }
  return { stock, money };
}

export function describeMarket(
  name: string,
  stockPrec: number,
  moneyPrec: number,
  minAmount: string,
): Market {
  return { name, ...splitPair(name), stockPrec, moneyPrec, feePrec: FEE_PREC, minAmount };
}

/** A default market by its name; any other name gets a market of its own, derived from the name. */
export function generatedMarketOf(name: string): GeneratedMarket {
  const known = DEFAULT_MARKETS.find((market) => market.name === name);
  if (known !== undefined) return known;
  splitPair(name);
  const hash = hashText(name);
  return {
    name,
    stockPrec: 4,
    moneyPrec: 4,
    minAmount: '0.01',
    basePrice: `${1 + (hash % 500)}`,
    usualAmount: `${1 + (hash % 9)}`,
    activity: 0.01 + (hash % 12) / 100,
  };
}

/** What the traders of a market need to know, in its smallest units. */
export function flowShapeOf(market: GeneratedMarket): FlowShape {
  const { name, stockPrec, moneyPrec, minAmount, basePrice, usualAmount, activity } = market;
  return {
    name,
    baseTicks: Number(parseScaled(basePrice, moneyPrec)),
    minUnits: Number(parseScaled(minAmount, stockPrec)),
    usualUnits: Number(parseScaled(usualAmount, stockPrec)),
    activity,
  };
}
