import { type ActiveOrderRow, ALL_MARKETS_ID, type BalanceRow } from '../../model/batch.js';
import type { CollectContext } from '../market-unit.js';
import type { ExchangeTime } from '../ports.js';
import { toleranceMs } from '../schedule.js';
import { BalanceCollector } from './account-balances.js';
import { OrderCollector } from './account-orders.js';

/** What the archive remembers of an account over restarts. */
export interface AccountArchive {
  knownBalances(): Promise<readonly BalanceRow[]>;
  openOrders(marketId: number): Promise<readonly ActiveOrderRow[]>;
}

/** Given to the collector only where the account is to be followed. */
export interface AccountOptions {
  /** Cron expression. */
  readonly schedule: string;
  readonly archive: AccountArchive;
}

type AccountContext = Pick<CollectContext, 'exchange' | 'archive' | 'clock' | 'telemetry'> & {
  readonly time: ExchangeTime;
};

/**
 * Follows the account behind the client's key: its balances, and its active orders in each market.
 * The streams are opened at their first look.
 */
export class AccountCollector {
  readonly #context: AccountContext & { readonly toleranceMs: number };
  readonly #account: AccountArchive;
  #balances: BalanceCollector | undefined;
  readonly #orders = new Map<number, OrderCollector>();

  /** @param periodMs how often it is polled */
  constructor(context: AccountContext, account: AccountArchive, periodMs: number) {
    this.#context = { ...context, toleranceMs: toleranceMs(periodMs) };
    this.#account = account;
  }

  async pollBalances(signal: AbortSignal): Promise<void> {
    this.#balances ??= new BalanceCollector({
      ...this.#context,
      ...(await this.#openStream('balance', ALL_MARKETS_ID)),
      market: '*',
      knownBalances: () => this.#account.knownBalances(),
    });
    await this.#balances.poll(signal);
  }

  async pollOrders(market: string, marketId: number, signal: AbortSignal): Promise<void> {
    const orders =
      this.#orders.get(marketId) ??
      new OrderCollector({
        ...this.#context,
        ...(await this.#openStream('orders', marketId)),
        market,
        marketId,
        openOrders: (id) => this.#account.openOrders(id),
      });
    this.#orders.set(marketId, orders);
    await orders.poll(signal);
  }

  async #openStream(kind: 'balance' | 'orders', marketId: number) {
    const { archive } = this.#context;
    const stream = await archive.ensureStream({ kind, marketId, variant: 0 });
    const [newest] = await archive.coveredRanges(stream, 1);
    return { stream, coveredUntilMs: newest?.span.toMs };
  }
}
