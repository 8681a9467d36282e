import type { PastMarket, PastState } from '../archive/past.js';
import { REPLAY_TIME, type TimeNotice } from '../contract/extensions.js';
import type {
  BookOrder,
  Candle,
  Depth,
  Market,
  StateRecord,
  Ticker,
  TickerEntry,
} from '../contract/resources.js';
import type { Side } from '../contract/values.js';
import { percentChange } from '../kernel/decimal.js';
import { intervalText, SECOND_MS, SECOND_US } from '../kernel/durations.js';
import type { DepthRow, TickerRow } from '../model/batch.js';
import {
  type Backend,
  type BackendTrade,
  type ClientSession,
  type KlineQuery,
  RefusedError,
  type Slice,
  type StateFollower,
} from '../server/backend.js';
import { lastSeen, termsAt } from './catalog.js';
import type { ReplayContext } from './context.js';
import type { ReplaySession } from './sessions.js';

/** Names what single orders are made of where none are recorded. */
const BOOK_HEADER = 'x-tapekeep-book';
const NO_TICKERS: ReadonlyMap<number, TickerRow> = new Map();

export interface ReplayClientParts {
  readonly identity: string;
  readonly context: ReplayContext;
  readonly session: ReplaySession;
  /** Runs a question to the archive when there is room for it. */
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
}

/** The archive as one client sees it, at the time of its session. */
export class ReplayClient implements Backend {
  readonly identity: string;
  readonly #parts: ReplayClientParts;
  readonly #client: ClientSession;
  /** A request sees one instant, however long its answer takes. */
  readonly #frozenMs: number | undefined;
  #isLeft = false;

  constructor(parts: ReplayClientParts, client: ClientSession) {
    this.identity = parts.identity;
    this.#parts = parts;
    this.#client = client;
    this.#frozenMs = client.kind === 'request' ? parts.session.time.nowMs() : undefined;
  }

  nowMs(): number {
    return this.#frozenMs ?? this.#parts.session.time.nowMs();
  }

  get jump(): { readonly toMs: number } | undefined {
    return this.#parts.session.time.jump;
  }

  hasMarket(name: string): boolean {
    const { catalog } = this.#parts.context;
    const market = catalog.market(name);
    return market !== undefined && catalog.isListed(market, this.nowMs());
  }

  hasPeriod(name: string, periodS: number): boolean {
    const { catalog } = this.#parts.context;
    return catalog.stream('states', this.#market(name).marketId, periodS) !== undefined;
  }

  markets(): Promise<Market[]> {
    return this.#parts.ask(async () => {
      const { catalog } = this.#parts.context;
      await catalog.refresh();
      const nowMs = this.nowMs();
      return catalog.listed(nowMs).flatMap((market) => termsAt(market, nowMs) ?? []);
    });
  }

  tickers(): Promise<Record<string, TickerEntry>> {
    return this.#parts.ask(async () => {
      const markets = this.#parts.context.catalog.listed(this.nowMs());
      const rows = await this.#tickersOf(markets);
      const entries = markets.flatMap(({ name, marketId }) => {
        const row = rows.get(marketId);
        return row === undefined ? [] : [[name, tickerEntryOf(name, row)] as const];
      });
      return Object.fromEntries(entries);
    });
  }

  ticker(name: string): Promise<Ticker> {
    return this.#parts.ask(async () => {
      const market = this.#market(name);
      const row = (await this.#tickersOf([market])).get(market.marketId);
      if (row === undefined) throw this.#nothing(`ticker of ${name}`);
      return tickerOf(name, row);
    });
  }

  kline(query: KlineQuery): Promise<Candle[]> {
    return this.#parts.ask(async () => {
      const { candles } = this.#parts.context;
      return await candles.seen(this.#market(query.market), this.nowMs(), query);
    });
  }

  trades(name: string, skip: number, limit: number): Promise<readonly BackendTrade[]> {
    return this.#parts.ask(async () => {
      const { catalog, sight, shownFromMs } = this.#parts.context;
      const { marketId } = this.#market(name);
      const stream = catalog.stream('trades', marketId);
      // An empty page would say that nothing was traded.
      if (stream === undefined && this.#client.kind === 'request') {
        throw new RefusedError('unavailable', `no trades of ${name} were collected`);
      }
      const oldestMs = shownFromMs(stream);
      const { us } = lastSeen(sight, this.nowMs());
      const rows = await sight.past.trades(marketId, us, skip, limit);
      const shown = rows.filter(({ tradedAtS }) => tradedAtS * SECOND_MS >= oldestMs);
      return shown.map(({ tid, tradedAtS, executedAtUs, price, amount, total, side }) => {
        // A time of which only the second is known is shown as the exact time.
        const timeUs = executedAtUs ?? tradedAtS * SECOND_US;
        return { id: tid, timeUs, price, amount, total, side };
      });
    });
  }

  depth(name: string, limit: number): Promise<Depth> {
    return this.#parts.ask(async () => depthOf(await this.#depthRow(name), limit));
  }

  book(name: string, side: Side, offset: number, limit: number): Promise<Slice<BookOrder>> {
    return this.#parts.ask(async () => {
      const orders = ordersOf(await this.#depthRow(name), name, side);
      this.#client.note(BOOK_HEADER, 'each order is a price level of a depth snapshot');
      return { total: orders.length, rows: orders.slice(offset, offset + limit) };
    });
  }

  state(name: string, periodS: number): Promise<StateRecord> {
    return this.#parts.ask(async () => {
      const { sight } = this.#parts.context;
      const { marketId } = this.#market(name);
      const { ms } = lastSeen(sight, this.nowMs());
      const row = await sight.past.lastState(marketId, periodS, ms, false);
      if (row === undefined) throw this.#nothing(`state of ${name} over ${intervalText(periodS)}`);
      return recordOf(row);
    });
  }

  /** Only what was recorded is sent: {@link ReplayClient.follow}. */
  watch(): () => void {
    return () => undefined;
  }

  follow(market: string, periodS: number, follower: StateFollower): () => void {
    return this.#parts.session.follow(market, periodS, follower);
  }

  watchTime(watcher: (time: TimeNotice) => void): () => void {
    return this.#parts.session.watchTime(watcher);
  }

  leave(): void {
    if (this.#client.kind === 'connection' && !this.#isLeft) this.#parts.session.disconnect();
    this.#isLeft = true;
  }

  async #tickersOf(markets: readonly PastMarket[]) {
    const ids = markets.map(({ marketId }) => marketId);
    if (ids.length === 0) return NO_TICKERS;
    const { sight } = this.#parts.context;
    const rows = await sight.past.lastTickers(ids, lastSeen(sight, this.nowMs()).ms);
    return new Map(rows.map((row) => [row.marketId, row]));
  }

  async #depthRow(name: string) {
    const { marketId } = this.#market(name);
    const { sight } = this.#parts.context;
    const row = await sight.past.lastDepth(marketId, lastSeen(sight, this.nowMs()).ms);
    if (row === undefined) throw this.#nothing(`depth of ${name}`);
    return row;
  }

  #market(name: string): PastMarket {
    const market = this.#parts.context.catalog.market(name);
    if (market === undefined) throw new RefusedError('invalidInput', `no market ${name}`);
    return market;
  }

  #nothing(what: string): RefusedError {
    const now = new Date(this.nowMs()).toISOString();
    // When the first one comes is not shown: it lies in the future.
    const text = `no ${what} is recorded up to ${now}, ${REPLAY_TIME}`;
    return new RefusedError('unavailable', text);
  }
}

function figuresOf({ bid, ask, open, high, low, last }: TickerRow, name: string) {
  return { name, bid, ask, open, high, low, last };
}

function tickerOf(name: string, row: TickerRow): Ticker {
  const { volume, quoteVolume: deal, change } = row;
  return { ...figuresOf(row, name), volume, deal, change };
}

/** With the time that the exchange wrote into it then. */
function tickerEntryOf(name: string, row: TickerRow): TickerEntry {
  const { atMs, volume: vol, quoteVolume: deal, change } = row;
  return { at: atMs / SECOND_MS, ticker: { ...figuresOf(row, name), vol, deal, change } };
}

function depthOf(row: DepthRow, limit: number): Depth {
  const side = (prices: readonly string[], amounts: readonly string[]) =>
    prices.slice(0, limit).map((price, at): [string, string] => [price, amounts[at] ?? '0']);
  return {
    asks: side(row.askPrices, row.askAmounts),
    bids: side(row.bidPrices, row.bidAmounts),
  };
}

/**
 * One side of a snapshot as orders. Single orders are not recorded: every price level stands for one,
 * with its place as its id, and without fees or fills.
 */
function ordersOf(row: DepthRow, market: string, side: Side): BookOrder[] {
  const isBuy = side === 'buy';
  const prices = isBuy ? row.bidPrices : row.askPrices;
  const amounts = isBuy ? row.bidAmounts : row.askAmounts;
  return prices.map((price, at) => {
    const amount = amounts[at] ?? '0';
    return {
      id: 2 * at + (isBuy ? 1 : 2),
      ...{ market, price, amount, left: amount, type: 'limit', side },
      timestamp: row.observedAtMs / SECOND_MS,
      ...{ takerFee: '0', makerFee: '0', dealStock: '0', dealMoney: '0' },
    };
  });
}

/** A whole record. Updates carried no change: it is what open and last say, in percent. */
function recordOf({ recordText, change }: PastState): StateRecord {
  const record = JSON.parse(recordText) as Omit<StateRecord, 'change'>;
  return { ...record, change: change ?? percentChange(record.open, record.last) };
}
