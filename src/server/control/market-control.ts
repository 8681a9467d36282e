import type { Backend } from '../backend.js';

/**
 * Changes of a served exchange from outside its contract. What is handed in is as it was written, in
 * JSON; what comes back is shown as JSON.
 *
 * Each method but `describe` throws a TapekeepError, naming field, value and what is allowed, when
 * it cannot do what is asked for; then nothing has changed.
 */
export interface MarketControl {
  /** Whether anything can be changed at all. */
  readonly isOpen: boolean;
  /** The markets that are listed, and those that were, with all that describes them. */
  describe(): object;
  /** Lists a market, a new one or one that was delisted. */
  create(description: unknown): object;
  delist(market: string): object;
  /** Blocks the creation of orders in a market, or allows it again. */
  block(market: string, isBlocked: boolean): object;
  /** Gives funds to the account of an API key, by the key or by its name. */
  deposit(account: string, currency: string, amount: string): object;
}

/** A backend whose markets can be changed while it is served. */
export interface ChangeableBackend extends Backend {
  readonly marketControl: MarketControl;
}
