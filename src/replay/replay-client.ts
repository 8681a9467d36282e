import {
  type AsOfMarket,
  type KnownStream,
  startOfSecond,
  type TickerRow,
} from '../archive/as-of/reader.js';
import {
  COVERED_HEADER,
  describeCovered,
  describeGaps,
  GAP_HEADER,
  REFUSED_FOR_GAPS,
  REPLAY_TIME,
  type TimeNotice,
} from '../contract/gap-notices.js';
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
import { SECOND_MS, SECOND_US } from '../kernel/durations.js';
import {
  type Backend,
  type BackendTrade,
  type ClientSession,
  type KlineQuery,
  RefusedError,
  type Slice,
  type StateFollower,
  type TradeForm,
} from '../server/backend.js';
import { termsAt } from './catalog.js';
import type { ReplayContext } from './context.js';
import { historyBeginsMs, type TouchedGap } from './gaps.js';
import { depthOf, ordersOf, recordOf, tickerEntryOf, tickerOf } from './observations.js';
import type { ReplaySession } from './sessions.js';

/** Names what single orders are made of where none are recorded. */
const BOOK_HEADER = 'x-tapekeep-book';
/** Gaps that a refusal names. */
const REFUSED_FOR_MAX = 5;
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

  /** @throws RefusedError to a request while no list of markets is known: which there are is not, either */
  hasMarket(name: string): boolean {
    const { catalog } = this.#parts.context;
    if (this.#client.kind === 'request') this.#needList();
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
      this.#needList();
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
      const seen = await candles.seen(this.#market(query.market), this.nowMs(), query);
      this.#note(seen.gaps);
      return seen.candles;
    });
  }

  trades(
    name: string,
    skip: number,
    limit: number,
    form?: TradeForm,
  ): Promise<readonly BackendTrade[]> {
    return this.#parts.ask(async () => {
      const { catalog, gaps, late, trades } = this.#parts.context;
      const { marketId } = this.#market(name);
      const nowMs = this.nowMs();
      // With the trade above the page: what is missing between the two is on no other page.
      const above = skip > 0 ? 1 : 0;
      const found = await trades.page(marketId, nowMs, skip - above, limit + above);
      const rows = found.slice(above);
      const stream = catalog.stream('trades', marketId);
      const upper = above === 0 ? undefined : found[0];
      const oldest = rows.at(-1);
      const isShort = rows.length < limit;
      const oldestMs = oldest === undefined ? nowMs : oldest.tradedAtS * SECOND_MS;
      const span = {
        fromMs: isShort ? Math.min(lowestMs(stream, nowMs), oldestMs) : oldestMs,
        toMs: upper === undefined ? nowMs : (upper.tradedAtS + 1) * SECOND_MS,
      };
      const run = {
        from:
          isShort || oldest === undefined
            ? startOfSecond(Math.floor(span.fromMs / SECOND_MS))
            : oldest,
        before: upper ?? startOfSecond(Math.floor(nowMs / SECOND_MS) + 1),
      };
      // Where only the second is known, that is shown as the exact time.
      const isInexact =
        form === 'history' && rows.some(({ executedAtUs }) => executedAtUs === null);
      const times = catalog.stream('times', marketId);
      const shown = { fromMs: oldestMs, toMs: span.toMs };
      this.#note([
        ...(await gaps.touched('trades', stream, span, nowMs)),
        ...(await late.trades(marketId, run, rows, nowMs)).gaps,
        ...(isInexact ? await gaps.touched('times', times, shown, nowMs) : []),
      ]);
      return rows.map(({ tid, tradedAtS, executedAtUs, price, amount, total, side }) => {
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
      const { catalog, gaps, late, observations } = this.#parts.context;
      const { marketId } = this.#market(name);
      const nowMs = this.nowMs();
      const row = await observations.state(marketId, periodS, nowMs, false);
      if (row === undefined) throw this.#nothing(`state of ${name} over ${periodS} s`);
      const stream = catalog.stream('states', marketId, periodS);
      const from = { marketId, variantS: periodS, fromMs: row.observedAtMs };
      this.#note([
        ...(await gaps.touchedAt('states', stream, nowMs)),
        ...(await late.observed('states', [from], nowMs)),
      ]);
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

  async #tickersOf(markets: readonly AsOfMarket[]) {
    const { observations } = this.#parts.context;
    const nowMs = this.nowMs();
    const ids = markets.map(({ marketId }) => marketId);
    const rows = ids.length === 0 ? NO_TICKERS : await observations.tickers(ids, nowMs);
    await this.#noteTime('tickers', markets, nowMs, (id) => rows.get(id)?.observedAtMs ?? 0);
    return rows;
  }

  async #depthRow(name: string) {
    const { observations } = this.#parts.context;
    const market = this.#market(name);
    const nowMs = this.nowMs();
    const row = await observations.depth(market.marketId, nowMs);
    if (row === undefined) throw this.#nothing(`depth of ${name}`);
    await this.#noteTime('depth', [market], nowMs, () => row.observedAtMs);
    return row;
  }

  #market(name: string): AsOfMarket {
    const market = this.#parts.context.catalog.market(name);
    if (market === undefined) throw new RefusedError('invalidInput', `no market ${name}`);
    return market;
  }

  /** @throws RefusedError before the first list of markets, where only what was known counts */
  #needList(): void {
    const { catalog } = this.#parts.context;
    if (!catalog.hasList(this.nowMs())) throw this.#nothing('list of markets');
  }

  #nothing(what: string): RefusedError {
    const now = new Date(this.nowMs()).toISOString();
    // When the first one comes is not shown: it lies in the future.
    const text = `no ${what} is recorded up to ${now}, ${REPLAY_TIME}: it has to go on first`;
    return new RefusedError('unavailable', text);
  }

  /**
   * Reports what is known of an instant that is shown of some markets, and since when.
   *
   * @param shownMs when that was observed which is shown of a market
   * @throws RefusedError when strict
   */
  async #noteTime(
    kind: 'tickers' | 'depth',
    markets: readonly AsOfMarket[],
    nowMs: number,
    shownMs: (marketId: number) => number,
  ): Promise<void> {
    const { gaps, late, sight } = this.#parts.context;
    const series = markets.map(({ marketId }) => {
      return { marketId, variantS: 0, fromMs: shownMs(marketId) };
    });
    const known = await gaps.knownAt(kind, markets, nowMs);
    this.#note([...known.gaps, ...(await late.observed(kind, series, nowMs))]);
    if (known.since.size === 0) return;
    // At its end a replay knows all but that very instant.
    const toMs = Math.min(Math.floor(nowMs), sight.toMs - 1);
    // What was known of the time before may lack what was received later: that is not shown.
    const sinceMs = (ms: number) => (sight.isKnownOnly ? toMs : Math.min(ms, toMs));
    const all = new Map([...known.since].map(([name, ms]) => [name, sinceMs(ms)]));
    const fromMs = mostOf(all.values());
    const since = new Map([...all].filter(([, ms]) => ms !== fromMs));
    this.#client.note(COVERED_HEADER, describeCovered({ fromMs, toMs, since }));
  }

  /** Reports gaps by a header, or refuses. @throws RefusedError when strict */
  #note(gaps: readonly TouchedGap[]): void {
    if (gaps.length === 0) return;
    if (this.#parts.context.options.isStrict) {
      const described = describeGaps(gaps, REFUSED_FOR_MAX);
      throw new RefusedError('unavailable', `${REFUSED_FOR_GAPS}${described}`);
    }
    this.#client.note(GAP_HEADER, describeGaps(gaps));
  }
}

/**
 * Down to where a page of trades that ends early reaches: all time, or to where history is known to begin. Of the
 * time before that nothing is known: whatever shows as the present then is missing.
 */
function lowestMs(stream: KnownStream | undefined, nowMs: number): number {
  const beginsMs = stream === undefined ? undefined : historyBeginsMs(stream);
  if (beginsMs === undefined) return 0;
  return nowMs < beginsMs ? nowMs - 1 : beginsMs;
}

/** The value that comes most often. */
function mostOf(values: Iterable<number>): number {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const [most = [0]] = [...counts].sort(([, a], [, b]) => b - a);
  return most[0];
}
