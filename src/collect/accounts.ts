import type { ActiveOrder, Balance } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import { equalDecimals } from '../kernel/decimal.js';
import { TapekeepError } from '../kernel/errors.js';
import { type ActiveOrderRow, ALL_MARKETS_ID, type BalanceRow } from '../model/batch.js';
import { type CollectContext, listedAgainMs } from './market-unit.js';
import { type ExchangePort, type ExchangeTime, PRIORITY } from './ports.js';
import { quarantineRows } from './reports.js';
import { toleranceMs } from './schedule.js';
import { type SnapshotOptions, SnapshotRecorder } from './snapshot.js';

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

type AccountContext = Pick<
  CollectContext,
  'exchange' | 'archive' | 'clock' | 'telemetry' | 'unproven'
> & { readonly time: ExchangeTime };

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
      ...(await this.#openStream('balances', ALL_MARKETS_ID)),
      market: '*',
    });
    await this.#balances.poll(signal);
  }

  async pollOrders(market: string, marketId: number, signal: AbortSignal): Promise<void> {
    const orders =
      this.#orders.get(marketId) ??
      new OrderCollector({ ...(await this.#openStream('orders', marketId)), market, marketId });
    this.#orders.set(marketId, orders);
    await orders.poll(signal);
  }

  /**
   * The orders of a market are followed no more: what is seen of them when it is back does not go on from before.
   *
   * @throws the errors of the archive
   */
  async forget(marketId: number): Promise<void> {
    const orders = this.#orders.get(marketId);
    this.#orders.delete(marketId);
    await orders?.flush();
  }

  async #openStream(kind: 'balances' | 'orders', marketId: number) {
    const { archive, time } = this.#context;
    const stream = await archive.ensureStream({ kind, marketId, variant: 0 });
    const [newest] = await archive.coveredRanges(stream, 1);
    const backMs = await listedAgainMs(archive, stream, Math.floor(time.nowMs()));
    const coveredUntilMs = newest && Math.max(newest.span.toMs, backMs);
    return { ...this.#context, account: this.#account, stream, coveredUntilMs };
  }
}

/** What unread rows leave unproven. */
function unreadRows({ length }: readonly RejectedRow[]): string | undefined {
  return length === 0
    ? undefined
    : `rows of its answers could not be read and are in quarantine (${length} of the newest)`;
}

interface PartOptions extends SnapshotOptions {
  readonly exchange: ExchangePort;
  readonly account: AccountArchive;
}

/**
 * Follows what the account holds: a row for each currency that changed, appeared or is listed no
 * longer. What the archive knows from before a restart is not stored again.
 */
class BalanceCollector {
  readonly #options: PartOptions;
  readonly #recorder: SnapshotRecorder;
  #known: ReadonlyMap<string, BalanceRow> | undefined;

  constructor(options: PartOptions) {
    this.#options = options;
    this.#recorder = new SnapshotRecorder(options);
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { exchange, account } = this.#options;
    this.#known ??= new Map((await account.knownBalances()).map((row) => [row.currency, row]));
    const known = this.#known;
    const asked = exchange.call('balances', {}, { priority: PRIORITY.snapshot, signal });
    const reply = await this.#recorder.answers.receive(asked);
    const { answeredAtMs: observedAtMs, receivedAtMs, rejected } = reply;
    const seen = { marketId: ALL_MARKETS_ID, observedAtMs, receivedAtMs };
    const listed = Object.entries(reply.data);
    const changed: BalanceRow[] = listed
      .filter(([currency, balance]) => !isSameBalance(known.get(currency), balance))
      .map(([currency, { available, freeze }]) => ({ ...seen, currency, available, freeze }));
    // An unreadable entry does not prove that the currency is gone.
    const gone: BalanceRow[] = [...known.keys()]
      .filter((currency) => rejected.length === 0 && reply.data[currency] === undefined)
      .map((currency) => ({ ...seen, currency, available: null, freeze: null }));
    await this.#recorder.record({
      observedAtMs,
      batch: {
        balances: [...changed, ...gone],
        quarantine: quarantineRows('balances', null, rejected, receivedAtMs),
      },
      evidence: { endpoint: 'balances', currencies: listed.length },
      received: listed.length + gone.length + rejected.length,
      rejected: rejected.length,
      unchanged: listed.length - changed.length,
      unproven: unreadRows(rejected),
    });
    const next = new Map(known);
    for (const row of changed) next.set(row.currency, row);
    for (const { currency } of gone) next.delete(currency);
    this.#known = next;
  }
}

function isSameBalance(known: BalanceRow | undefined, { available, freeze }: Balance): boolean {
  const [a, f] = [known?.available ?? null, known?.freeze ?? null];
  return a !== null && f !== null && equalDecimals(a, available) && equalDecimals(f, freeze);
}

interface OrderOptions extends PartOptions {
  readonly marketId: number;
}

/** Orders asked for at once; the contract names no maximum, and servers of the family take this. */
const PAGE_SIZE = 100;
/** Pages of one look: far more orders than any exchange lets an account have open. */
const PAGES_MAX = 1000;
const TRIES = 3;
const US_PER_S = 1_000_000;

/** All active orders of one market at one time. */
interface OrderBook {
  readonly orders: ReadonlyMap<number, ActiveOrder>;
  readonly rejected: readonly RejectedRow[];
  readonly observedAtMs: number;
  readonly receivedAtMs: number;
  readonly pages: number;
}

/**
 * Follows the account's active orders in one market: a row for each order that appeared, changed or
 * is active no longer. What the archive knows from before a restart is not stored again, and orders
 * that ended meanwhile are noted as gone.
 */
class OrderCollector {
  readonly #options: OrderOptions;
  readonly #recorder: SnapshotRecorder;
  #known: ReadonlyMap<number, ActiveOrderRow> | undefined;

  constructor(options: OrderOptions) {
    this.#options = options;
    this.#recorder = new SnapshotRecorder(options);
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { market, marketId, account } = this.#options;
    this.#known ??= new Map((await account.openOrders(marketId)).map((row) => [row.orderId, row]));
    const known = this.#known;
    const { orders, rejected, observedAtMs, receivedAtMs, pages } = await this.#recorder.receive(
      this.#readAll(signal),
    );
    const seen = { marketId, observedAtMs, receivedAtMs };
    const changed = [...orders.values()]
      .map((order): ActiveOrderRow => ({ ...seen, isGone: false, ...fieldsOf(order) }))
      .filter((row) => !isSameOrder(known.get(row.orderId), row));
    // An unreadable order is not proven gone.
    const gone = [...known.values()]
      .filter(({ orderId }) => rejected.length === 0 && !orders.has(orderId))
      .map((row): ActiveOrderRow => ({ ...row, ...seen, isGone: true }));
    await this.#recorder.record({
      observedAtMs,
      batch: {
        orders: [...changed, ...gone],
        quarantine: quarantineRows('orders', market, rejected, receivedAtMs),
      },
      evidence: { endpoint: 'orders', orders: orders.size, pages },
      received: orders.size + gone.length + rejected.length,
      rejected: rejected.length,
      unchanged: orders.size - changed.length,
      unproven: unreadRows(rejected),
    });
    const next = new Map(known);
    for (const row of changed) next.set(row.orderId, row);
    for (const { orderId } of gone) next.delete(orderId);
    this.#known = next;
  }

  /** Writes what was observed, for the end. @throws the errors of the archive */
  async flush(): Promise<void> {
    await this.#recorder.flush();
  }

  /** @throws TapekeepError `orders_moving` */
  async #readAll(signal: AbortSignal): Promise<OrderBook> {
    for (let tried = 0; tried < TRIES; tried += 1) {
      const book = await this.#readOnce(signal);
      if (book !== undefined) return book;
    }
    throw new TapekeepError(
      'orders_moving',
      `${this.#options.market}: the active orders changed while their pages were read, ${TRIES} times in a row; they are read again at the next schedule`,
    );
  }

  /**
   * Reads page by page with an overlap of one: the last order of a page must be the first of the
   * next, or an order ended meanwhile and another slipped past between the pages.
   *
   * @returns undefined when the pages do not belong together
   */
  async #readOnce(signal: AbortSignal): Promise<OrderBook | undefined> {
    const { exchange, market } = this.#options;
    const orders = new Map<number, ActiveOrder>();
    const rejected: RejectedRow[] = [];
    let offset = 0;
    let lastId: number | undefined;
    for (let pages = 1; pages <= PAGES_MAX; pages += 1) {
      const params = { market, offset, limit: PAGE_SIZE };
      const reply = await exchange.call('orders', params, {
        priority: PRIORITY.snapshot,
        signal,
      });
      const { result, total } = reply.data;
      if (lastId !== undefined && result[0]?.id !== lastId) return undefined;
      for (const [at, order] of result.entries()) {
        if (order.market === market) orders.set(order.id, order);
        else rejected.push({ at, reason: 'market: not the one asked for', payload: order });
      }
      rejected.push(...reply.rejected);
      const received = result.length + reply.rejected.length;
      const end = offset + received;
      const isLast = received < PAGE_SIZE && end >= total;
      if (isLast || received <= (lastId === undefined ? 0 : 1)) {
        const { answeredAtMs: observedAtMs, receivedAtMs } = reply;
        const book = { orders, rejected, observedAtMs, receivedAtMs, pages };
        return end >= total ? book : undefined;
      }
      // A page with rows that could not be read proves nothing anyway: no overlap is asked of it.
      lastId = received > 1 && reply.rejected.length === 0 ? result.at(-1)?.id : undefined;
      offset = lastId === undefined ? end : end - 1;
    }
    return undefined;
  }
}

function fieldsOf({ id, timestamp, market: _market, ...order }: ActiveOrder) {
  return { orderId: id, createdAtUs: Math.round(timestamp * US_PER_S), ...order };
}

const DECIMALS = [
  'price',
  'amount',
  'left',
  'dealStock',
  'dealMoney',
  'takerFee',
  'makerFee',
] as const;

function isSameOrder(known: ActiveOrderRow | undefined, row: ActiveOrderRow): boolean {
  if (known === undefined || known.side !== row.side || known.type !== row.type) return false;
  return DECIMALS.every((name) => equalDecimals(known[name], row[name]));
}
