import { hashText } from '../../kernel/random.js';
import { DEFAULT_MARKETS, type GeneratedMarket, generatedMarketOf, splitPair } from '../markets.js';
import { LiveError } from './live-error.js';
import type { LiveMarketDescription } from './market-description.js';

const PRECISION_MAX = 12;
/** The traders draw up to 400 usual amounts, in floats that must stay exact. */
const AMOUNT_UNITS_MAX = 1e12;
const PRICE_TICKS_MIN = 100;
const PRICE_TICKS_MAX = 1e14;
const NAME = /^[^\s\p{Cc}]{3,64}$/u;
const DECIMAL = /^\d{1,12}(\.\d{1,12})?$/;
const FEE = /^0(\.\d{1,4})?$/;
export const FEE_FORM =
  'a rate from 0 to below 1 with at most four places, as text such as "0.002"';
/** Share of seconds with trades: the scale of quiet markets, and what the busiest have. */
const QUIET_ACTIVITY = 0.003;
const BUSIEST_ACTIVITY = 0.6;

/** Whether a text is a fee rate from 0 to below 1. */
export function isFee(text: unknown): boolean {
  return typeof text === 'string' && FEE.test(text);
}

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

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** How many units of 10^−digits a decimal text is; undefined when it is none, or has more places. */
function unitsOf(text: unknown, digits: number): number | undefined {
  if (typeof text !== 'string' || !DECIMAL.test(text)) return undefined;
  const places = (text.split('.')[1] ?? '').length;
  return places <= digits ? Number(text) * 10 ** digits : undefined;
}

/** Checks each field by itself; says which does not fit, its value, and what is allowed. */
function checkFields(market: Readonly<Record<keyof LiveMarketDescription, unknown>>): void {
  const { name, stockPrec, moneyPrec, activity } = market;
  const check = (field: keyof LiveMarketDescription, holds: boolean, allowed: string) => {
    if (holds) return;
    const which = field === 'name' ? 'market' : `market ${show(name)}`;
    const value = show(market[field]);
    throw new LiveError(`${which}: ${field} ${value} is not allowed; expected ${allowed}`);
  };
  check(
    'name',
    typeof name === 'string' && NAME.test(name),
    'a text of 3 to 64 characters without spaces, <STOCK>_<MONEY>',
  );
  for (const field of ['stockPrec', 'moneyPrec'] as const) {
    const digits = market[field];
    const fits = Number.isInteger(digits) && Number(digits) >= 0 && Number(digits) <= PRECISION_MAX;
    check(field, fits, `a whole number from 0 to ${PRECISION_MAX}`);
  }
  for (const field of ['minAmount', 'usualAmount'] as const) {
    const units = unitsOf(market[field], Number(stockPrec)) ?? 0;
    const form = `a decimal above 0 as text, such as "0.5", with at most ${String(stockPrec)} places (stockPrec), up to 10^12 units of the last place`;
    check(field, units >= 1 && units <= AMOUNT_UNITS_MAX, form);
  }
  const ticks = unitsOf(market.basePrice, Number(moneyPrec)) ?? 0;
  check(
    'basePrice',
    ticks >= PRICE_TICKS_MIN && ticks <= PRICE_TICKS_MAX,
    `a decimal as text, such as "150", with at most ${String(moneyPrec)} places (moneyPrec), of 100 to 10^14 units of the last place`,
  );
  const isShare = typeof activity === 'number' && activity > 0 && activity <= 1;
  check('activity', isShare, 'a number above 0 and up to 1');
  for (const field of ['takerFee', 'makerFee'] as const) {
    check(field, market[field] === undefined || isFee(market[field]), FEE_FORM);
  }
}

/** @throws LiveError or TapeError naming the field that makes a market impossible */
export function checkMarket(market: LiveMarketDescription): void {
  const { takerFee, makerFee } = market;
  checkFields({ ...market, takerFee, makerFee });
  const { stock, money } = splitPair(market.name);
  if (stock === money) {
    const shown = show(market.name);
    throw new LiveError(`market: name ${shown} is not allowed; expected two different currencies`);
  }
}

const FIELDS = [
  'name',
  'stock',
  'money',
  'stockPrec',
  'moneyPrec',
  'minAmount',
  'basePrice',
  'usualAmount',
  'activity',
  'takerFee',
  'makerFee',
] as const;

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/**
 * Reads a market as people write it: its name alone, or an object with its `name` and whichever of
 * its fields are to be other than usual. `stock` and `money` may be named, and follow from the name.
 *
 * @param usual what is left out; default: what follows from the name
 * @throws LiveError or TapeError naming the field, its value and what is allowed
 */
export function readMarket(
  written: unknown,
  usual: (name: string) => LiveMarketDescription = liveMarketOf,
): LiveMarketDescription {
  const fields = typeof written === 'string' ? { name: written } : written;
  if (!isObject(fields)) {
    throw new LiveError(`market: ${show(written)} is not allowed; expected a name or an object`);
  }
  const { name, stock, money } = fields;
  const unknown = Object.keys(fields).find((field) => !FIELDS.some((known) => known === field));
  if (unknown !== undefined) {
    throw new LiveError(
      `market ${show(name)}: ${show(unknown)} is not allowed; expected only ${FIELDS.join(', ')}`,
    );
  }
  if (typeof name !== 'string' || !NAME.test(name)) {
    const form = 'a text of 3 to 64 characters without spaces, <STOCK>_<MONEY>';
    throw new LiveError(`market: name ${show(name)} is not allowed; expected ${form}`);
  }
  const pair = splitPair(name);
  for (const [field, value, part] of [
    ['stock', stock, pair.stock],
    ['money', money, pair.money],
  ] as const) {
    if (value !== undefined && value !== part) {
      throw new LiveError(
        `market ${show(name)}: ${field} ${show(value)} is not allowed; expected ${show(part)}, as in the name`,
      );
    }
  }
  const { stock: _stock, money: _money, ...others } = fields;
  const market = { ...usual(name), ...others } as LiveMarketDescription;
  checkMarket(market);
  return market;
}
