import type { Balance } from '../../contract/resources.js';
import { obtain } from '../../kernel/bounded.js';
import { formatTrimmed, MAX_PLACES, parseUnits, unitBound } from '../amounts.js';
import { Rejection } from '../errors.js';

/** What one account holds of one currency, in units of 10^−MAX_PLACES. */
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

  constructor(name: string) {
    this.name = name;
  }

  holding(account: string): Holding {
    return obtain(this.holdings, account, () => new Holding());
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

  /** Adds funds from outside; `amount` is plain decimal text. */
  deposit(account: string, name: string, amount: string): Rejection | undefined {
    const currency = this.currency(name);
    const units = parseUnits(amount, MAX_PLACES, 'amount');
    if (units instanceof Rejection) return units;
    if (currency.deposited + units >= unitBound(MAX_PLACES)) {
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
      const text = (units = 0n) => formatTrimmed(units, MAX_PLACES);
      const balance = { available: text(holding?.available), freeze: text(holding?.freeze) };
      return [currency.name, balance] as const;
    });
    return Object.fromEntries(entries);
  }
}

export function fundsShort(account: string, currency: string): Rejection {
  return new Rejection('fundsShort', `${account} has not enough ${currency} available`);
}
