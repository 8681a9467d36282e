import { z } from 'zod';
import type { Market } from '../contract/resources.js';
import { onlyKeys, refusalOf, show } from '../contract/shape.js';
import { hashText } from '../kernel/random.js';
import { parseScaled } from './amounts.js';
import { LiveError, TapeError } from './errors.js';

/** A market of a live exchange. Prices in the quote currency, amounts in the base currency. */
export type MarketDescription = Readonly<Omit<z.output<typeof MARKET>, 'stock' | 'money'>>;

/** The markets of a sandbox that was asked for nothing else: busy, middling and quiet ones. */
export const DEFAULT_MARKETS: readonly MarketDescription[] = [
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
/** Share of seconds with trades: the scale of quiet markets, and what the busiest have. */
const QUIET_ACTIVITY = 0.003;
const BUSIEST_ACTIVITY = 0.6;

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

/**
 * A default market by its name; any other name gets a market of its own, derived from the name. How
 * busy markets are is heavy-tailed: half of them trade in less than one second out of 150, one in a
 * hundred all the time.
 */
export function usualMarket(name: string): MarketDescription {
  const known = DEFAULT_MARKETS.find((market) => market.name === name);
  if (known !== undefined) return known;
  splitPair(name);
  const hash = hashText(name);
  const share = (hashText(`${name} activity`) + 1) / 2 ** 32;
  return {
    name,
    stockPrec: 4,
    moneyPrec: 4,
    minAmount: '0.01',
    basePrice: `${1 + (hash % 500)}`,
    usualAmount: `${1 + (hash % 9)}`,
    activity: Math.min(BUSIEST_ACTIVITY, QUIET_ACTIVITY / share),
  };
}

/** Facts about a market for the simulated traders. Prices and amounts are in smallest units. */
export interface FlowShape {
  readonly name: string;
  /** Price that the market swings around, in units of the quote precision. */
  readonly baseTicks: number;
  /** Smallest amount, in units of the base precision. */
  readonly minUnits: number;
  /** Usual amount of one fill, in units of the base precision. */
  readonly usualUnits: number;
  /** Share of seconds with trades in ordinary times: 0.5 is busy, 0.01 quiet. */
  readonly activity: number;
}

export function flowShapeOf(market: MarketDescription): FlowShape {
  const { name, stockPrec, moneyPrec, minAmount, basePrice, usualAmount, activity } = market;
  return {
    name,
    baseTicks: Number(parseScaled(basePrice, moneyPrec)),
    minUnits: Number(parseScaled(minAmount, stockPrec)),
    usualUnits: Number(parseScaled(usualAmount, stockPrec)),
    activity,
  };
}

const PRECISION_MAX = 12;
/** The traders draw up to 400 usual amounts, in floats that must stay exact. */
const AMOUNT_UNITS_MAX = 1e12;
const PRICE_TICKS_MIN = 100;
const PRICE_TICKS_MAX = 1e14;

/** Message of a schema for a refused value, when the text shows the value. */
export const refusing = (show: (value: unknown) => string) => ({
  error: ({ input }: { readonly input?: unknown }) => show(input),
});
const text = (pattern: RegExp, error: string) => z.string({ error }).regex(pattern, { error });
const precision = () => {
  const error = `a whole number from 0 to ${PRECISION_MAX}`;
  return z.int({ error }).min(0, { error }).max(PRECISION_MAX, { error });
};
const decimal = (example: string) =>
  text(/^\d{1,12}(\.\d{1,12})?$/, `a decimal above 0 as text, such as "${example}"`);

const NAME = text(
  /^[^\s\p{Cc}]{3,64}$/u,
  'a text of 3 to 64 characters without spaces, <STOCK>_<MONEY>',
);
export const FEE_FORM =
  'a rate from 0 to below 1 with at most four places, as text such as "0.002"';
export const FEE_RATE_PATTERN = /^0(\.\d{1,4})?$/;
const FEE_RATE = text(FEE_RATE_PATTERN, FEE_FORM);
const ACTIVITY_FORM = { error: 'a number above 0 and up to 1' };

const FIELDS = {
  /** `<STOCK>_<MONEY>` */
  name: NAME,
  stock: z.string().optional(),
  money: z.string().optional(),
  stockPrec: precision(),
  moneyPrec: precision(),
  minAmount: decimal('0.5'),
  /** The price swings around this, by some percent. */
  basePrice: decimal('150'),
  /** Usual amount of one trade. */
  usualAmount: decimal('0.5'),
  /** Share of seconds with trades in ordinary times: 0.5 is busy, 0.01 quiet. */
  activity: z.number(ACTIVITY_FORM).gt(0, ACTIVITY_FORM).max(1, ACTIVITY_FORM),
  /** Fee rates of orders in this market; default: those of the exchange. */
  takerFee: FEE_RATE.optional(),
  makerFee: FEE_RATE.optional(),
};

/** How many units of 10^−digits a decimal text is; 0 when it has more places. */
function unitsOf(amount: string, digits: number): number {
  const places = (amount.split('.')[1] ?? '').length;
  return places <= digits ? Number(amount) * 10 ** digits : 0;
}

const MARKET = onlyKeys(FIELDS).superRefine((market, context) => {
  const check = (field: keyof typeof FIELDS, holds: boolean, message: string) => {
    if (!holds) context.addIssue({ code: 'custom', path: [field], message });
  };
  const { stockPrec, moneyPrec } = market;
  for (const field of ['minAmount', 'usualAmount'] as const) {
    const units = unitsOf(market[field], stockPrec);
    const form = `a decimal above 0 with at most ${stockPrec} places (stockPrec), up to 10^12 units of the last place`;
    check(field, units >= 1 && units <= AMOUNT_UNITS_MAX, form);
  }
  const ticks = unitsOf(market.basePrice, moneyPrec);
  check(
    'basePrice',
    ticks >= PRICE_TICKS_MIN && ticks <= PRICE_TICKS_MAX,
    `a decimal with at most ${moneyPrec} places (moneyPrec), of 100 to 10^14 units of the last place`,
  );
  const pair = splitPair(market.name);
  check('name', pair.stock !== pair.money, 'two different currencies');
  for (const field of ['stock', 'money'] as const) {
    const isSame = market[field] === undefined || market[field] === pair[field];
    check(field, isSame, `${show(pair[field])}, as in the name`);
  }
});

/** @throws LiveError or TapeError naming the field that makes a market impossible */
export function checkMarket(written: { readonly name: string }): MarketDescription {
  const { data, error } = MARKET.safeParse(written);
  if (error !== undefined) {
    throw new LiveError(`market ${show(written.name)}: ${refusalOf(error, written)}`);
  }
  const { stock: _stock, money: _money, ...market } = data;
  return market;
}

const NAMED = z.looseObject({ name: NAME }, { error: 'a name or an object' });

/**
 * Reads a market as people write it: its name alone, or an object with its `name` and whichever of
 * its fields are to be other than usual. `stock` and `money` may be named, and follow from the name.
 *
 * @param usual what is left out; default: what follows from the name
 * @throws LiveError or TapeError naming the field, its value and what is allowed
 */
export function readMarket(
  written: unknown,
  usual: (name: string) => MarketDescription = usualMarket,
): MarketDescription {
  const fields = typeof written === 'string' ? { name: written } : written;
  const named = NAMED.safeParse(fields);
  if (!named.success) throw new LiveError(`market: ${refusalOf(named.error, fields)}`);
  return checkMarket({ ...usual(named.data.name), ...named.data });
}
