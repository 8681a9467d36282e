import type { Balance } from '../../contract/resources.js';
import { obtain } from '../../kernel/bounded.js';
import { formatTrimmed, parseUnits, placesOf, powerOfTen, unitBound } from '../amounts.js';
import { Rejection } from '../errors.js';

/** Most places of a deposit. */
const MAX_TRANSFER_PLACES = 18;

/** What one account holds of one currency, in units of the currency. */
export class Holding {
  /** Not bound in orders. */
  available = 0n;
  /** Bound in open orders. */
  freeze = 0n;
}

/** A currency and everything that exists of it. */
export class Currency {
  readonly name: string;
  readonly holdings = new Map<string, Holding>();
  /** The exchange's own account: all fees ever paid. */
  readonly fees = new Holding();
  /** All that was ever deposited. */
  deposited = 0n;
  /** A unit is 10^−digits. Grows when a market or a deposit needs more. */
  digits = 0;

  constructor(name: string) {
    this.name = name;
  }

  holding(account: string): Holding {
    return obtain(this.holdings, account, () => new Holding());
  }

  /** Makes room for `digits` places, at most MAX_PLACES: everything is counted in smaller units from now on. */
  widen(digits: number): void {
    if (digits <= this.digits) return;
    const factor = powerOfTen(digits - this.digits);
    for (const holding of [this.fees, ...this.holdings.values()]) {
      holding.available *= factor;
      holding.freeze *= factor;
    }
    this.deposited *= factor;
    this.digits = digits;
  }
}

/** All accounts of the exchange, by currency. An account begins with its first deposit. */
export class Accounts {
  readonly #currencies = new Map<string, Currency>();

  /** The currency of this name, made if there is none. */
  currency(name: string): Currency {
    return obtain(this.#currencies, name, () => new Currency(name));
  }

  currencies(): Iterable<Currency> {
    return this.#currencies.values();
  }

  /** Adds funds from outside; `amount` is plain decimal text. May widen the currency. */
  deposit(account: string, name: string, amount: string): Rejection | undefined {
    const currency = this.currency(name);
    const units = unitsOf(currency, amount);
    if (units instanceof Rejection) return units;
    if (currency.deposited + units >= unitBound(currency.digits)) {
      return new Rejection('tooManyDigits', `deposit of ${amount} ${name}: more than can be held`);
    }
    currency.holding(account).available += units;
    currency.deposited += units;
    return undefined;
  }

  /** What an account holds of every currency there is. */
  balances(account: string): Record<string, Balance> {
    const entries = [...this.#currencies.values()].map((currency) => {
      const holding = currency.holdings.get(account);
      const text = (units = 0n) => formatTrimmed(units, currency.digits);
      const balance = { available: text(holding?.available), freeze: text(holding?.freeze) };
      return [currency.name, balance] as const;
    });
    return Object.fromEntries(entries);
  }
}

export function fundsShort(account: string, currency: string): Rejection {
  return new Rejection('fundsShort', `${account} has not enough ${currency} available`);
}

function unitsOf(currency: Currency, amount: string): bigint | Rejection {
  const places = placesOf(amount);
  const units = parseUnits(amount, Math.max(places, currency.digits), 'amount');
  if (typeof units === 'bigint' && places > Math.max(currency.digits, MAX_TRANSFER_PLACES)) {
    return new Rejection('precisionExceeded', `${amount} ${currency.name} has too many places`);
  }
  if (typeof units === 'bigint') currency.widen(places);
  return units;
}
