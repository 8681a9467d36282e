import { Mutex } from '../../kernel/mutex.js';
import type { Random } from '../../kernel/random.js';
import type { Island } from '../../ledger/batch.js';
import { BlockedEdges } from '../../ledger/edges.js';
import { locate, orderPage } from '../../ledger/page.js';
import { deeperSpan, headSpan, latestMs, provenUntilMs } from '../../ledger/proof.js';
import { PRIORITY, type RequestTurn } from '../ports.js';
import { WalkStalledError } from './errors.js';
import { chainEnd, type Frontier, NOTHING, type PendingGap } from './frontier.js';
import { PageStore, type PageStoreOptions } from './page-store.js';
import type { SourceTrade, TradePage } from './source.js';

export interface WalkerOptions extends PageStoreOptions {
  readonly random: Random;
  /** Age that caches in front of the exchange may add to an answer, exchange milliseconds. */
  readonly cacheMarginMs: number;
  /** What this server was seen to do, shared by all walkers of one endpoint. */
  readonly traits: ServerTraits;
}

/** What one look at the newest trades brought. */
export interface HeadLook {
  /** Trades that this walk saw for the first time. */
  readonly newRows: number;
  /** Their times, exchange milliseconds, as exact as the endpoint tells; newest first. */
  readonly newTimesMs: readonly number[];
  /** Rows asked for, and those that came. */
  readonly asked: number;
  readonly received: number;
  /** Whether the look reached what was stored before; false for the very first one. */
  readonly isConnected: boolean;
}

/** Facts about a server that its answers reveal. */
export interface ServerTraits {
  largestPage: number;
}

const SECOND_MS = 1000;
const PAGE_MAX = 1000;
const PAGE_MIN = 20;
/** Requests that one step may spend on finding its place in a history that moves. */
const LOCATE_REQUESTS_MAX = 12;
const RETRY_BASE_MS = 1000;
const RETRY_CAP_MS = 600_000;
/** A hole that the exchange no longer serves is looked at again this rarely. */
const BEYOND_HISTORY_RETRY_MS = 3_600_000;

/**
 * Walks one market's trade history over one endpoint, so that its coverage grows from the head
 * down, over any crash, and claims nothing that an answer did not prove.
 *
 * Two moves, never at the same time: {@link TradeWalker.pollHead} stores what is new and extends
 * coverage in time; {@link TradeWalker.fillStep} goes one page deeper below an edge of coverage,
 * newest hole first. Where to go on is read from the islands of the ledger; only inside a second
 * that is longer than a page does the walk depend on memory, and then a restart repeats that second.
 */
export class TradeWalker {
  readonly #options: WalkerOptions;
  readonly #pages: PageStore;
  readonly #blocked: BlockedEdges;
  readonly #mutex = new Mutex();
  #frontier: Frontier | undefined;
  #newestTid: number;
  #newPerPoll = PAGE_MAX;

  constructor(options: WalkerOptions, islands: readonly Island[]) {
    this.#options = options;
    this.#pages = new PageStore(options, islands);
    this.#blocked = new BlockedEdges(options.random, RETRY_BASE_MS, RETRY_CAP_MS);
    // The newest island may hold no trade, and yet there are older ones.
    this.#newestTid = Math.max(0, ...islands.map((island) => island.lastId ?? 0));
  }

  get market(): string {
    return this.#options.market;
  }

  get kind(): 'trades' | 'times' {
    return this.#options.source.kind;
  }

  /** Whether it is at work: a look at the head would have to wait. */
  get isBusy(): boolean {
    return this.#mutex.isBusy;
  }

  /** The newest hole that may be worked on now, or undefined when there is none. */
  pendingGap(): PendingGap | undefined {
    const gap = this.#nextGap();
    if (gap === undefined) return undefined;
    const topEdgeMs = this.#pages.islands.top?.span.fromMs ?? 0;
    return { edgeMs: gap.edgeMs, isTop: gap.edgeMs >= topEdgeMs };
  }

  /**
   * Asks for the newest trades once.
   *
   * @param turn the reserved right to send a request
   * @throws WalkStalledError and the errors of the exchange
   */
  pollHead(signal: AbortSignal, turn?: RequestTurn): Promise<HeadLook> {
    return this.#mutex.run(() => this.#pollHead(signal, turn));
  }

  /**
   * Goes one page deeper below the newest hole; does nothing when there is none.
   *
   * @throws WalkStalledError and the errors of the exchange; the hole is then left for a while
   */
  fillStep(signal: AbortSignal): Promise<void> {
    return this.#mutex.run(async () => {
      const gap = this.#nextGap();
      if (gap === undefined) return;
      try {
        await this.#fill(gap, signal);
      } catch (error) {
        if (!signal.aborted) this.#block(gap.edgeMs);
        throw error;
      }
    });
  }

  async #pollHead(signal: AbortSignal, turn?: RequestTurn): Promise<HeadLook> {
    const { market, source, cacheMarginMs } = this.#options;
    // Half-full pages: room for twice what usually is new, so that a burst still connects.
    const limit = Math.min(PAGE_MAX, Math.max(PAGE_MIN, Math.ceil(this.#newPerPoll * 2)));
    const page = await source.fetch(market, 0, limit, {
      priority: PRIORITY.head,
      signal,
      ...(turn && { turn }),
    });
    this.#noteSize(page);
    const rows = orderPage(page.trades);
    const untilMs = provenUntilMs(page, cacheMarginMs);
    const [newest, oldest] = [rows[0], rows.at(-1)];
    if (newest === undefined || oldest === undefined) {
      await this.#emptyHead(page, untilMs);
      return { newRows: 0, newTimesMs: [], asked: limit, received: 0, isConnected: true };
    }
    if (newest.tid < this.#newestTid) {
      await this.#pages.commit(page, NOTHING, {});
      throw this.#stalled(
        `its newest trade is ${newest.tid}, older than ${this.#newestTid}, which is stored`,
      );
    }
    const fresh = rows.filter((row) => row.tid > this.#newestTid);
    const newCount = fresh.length;
    const claim = headSpan(rows, untilMs, latestMs(page));
    const { islands, doubtfulEdgesMs } = await this.#pages.commit(page, claim, {
      endpoint: source.endpoint,
      skip: 0,
      asked: limit,
      received: page.rowCount,
      dateMs: page.dateMs,
    });
    this.#newestTid = newest.tid;
    this.#pages.remember(rows);
    this.#newPerPoll = (this.#newPerPoll + newCount) / 2;
    for (const edgeMs of doubtfulEdgesMs) this.#block(edgeMs, RETRY_CAP_MS);
    const frontier = this.#frontier;
    const isConnected =
      islands.some((island) => island.span.fromMs < claim.fromMs) ||
      (frontier !== undefined && claim.fromMs <= frontier.edgeMs);
    if (!isConnected) {
      this.#frontier = chainEnd(claim.fromMs, oldest, rows.length);
      this.#newPerPoll = PAGE_MAX;
    } else if (frontier !== undefined) {
      this.#frontier = { ...frontier, depth: frontier.depth + newCount };
    }
    this.#stepped(1, isConnected);
    return {
      newRows: newCount,
      newTimesMs: fresh.map((row) => timeMsOf(row)),
      asked: limit,
      received: page.rowCount,
      isConnected,
    };
  }

  /** A market without a single trade: what there is to know is that nothing has happened. */
  async #emptyHead(page: TradePage, untilMs: number): Promise<void> {
    if (this.#newestTid > 0 || page.rowCount > 0) {
      await this.#pages.commit(page, NOTHING, {});
      throw this.#stalled('its first page holds no readable trade');
    }
    const { top } = this.#pages.islands;
    const fromMs = top?.span.toMs ?? this.#pages.collectFromMs ?? untilMs - SECOND_MS;
    const claim = { fromMs, toMs: untilMs };
    if (claim.toMs <= claim.fromMs) return;
    await this.#pages.commit(page, claim, { endpoint: this.#options.source.endpoint, empty: true });
    if (this.#pages.collectFromMs === null) await this.#pages.beginAt(claim.fromMs);
  }

  async #fill(gap: Frontier, signal: AbortSignal): Promise<void> {
    const { market, source, traits } = this.#options;
    let skip = Math.max(0, gap.depth - 1);
    let isProbe = false;
    let why = '';
    for (let request = 1; request <= LOCATE_REQUESTS_MAX; request += 1) {
      const page = await source.fetch(market, skip, PAGE_MAX, { priority: PRIORITY.fill, signal });
      this.#noteSize(page);
      const rows = orderPage(page.trades);
      const { largestPage } = traits;
      const location = locate({
        rows,
        targetTid: gap.tid,
        skip,
        asked: PAGE_MAX,
        received: page.rowCount,
        largestPage,
        isProbe,
      });
      switch (location.kind) {
        case 'again':
          ({ skip, isProbe, why } = location);
          await this.#pages.commit(page, NOTHING, {});
          continue;
        case 'broken':
          await this.#pages.commit(page, NOTHING, {});
          throw this.#stalled(location.detail);
        case 'endOfHistory':
          this.#stepped(request, false);
          return this.#endOfHistory(gap, page);
        case 'found':
          this.#stepped(request, false);
          return this.#deeper(gap, page, rows, skip);
      }
    }
    // The next try goes on from here: an estimate that is far off must not stop it for good.
    this.#frontier = { ...gap, depth: skip + 1 };
    throw this.#stalled(`${LOCATE_REQUESTS_MAX} requests in a row did not find the place (${why})`);
  }

  /** Stores a page that connects to the chain above it, and moves the frontier down. */
  async #deeper(
    gap: Frontier,
    page: TradePage,
    rows: readonly SourceTrade[],
    skip: number,
  ): Promise<void> {
    const oldest = rows.at(-1);
    if (oldest === undefined) return;
    const claim = deeperSpan(rows, gap.edgeMs);
    const { islands, doubtfulEdgesMs } = await this.#pages.commit(page, claim, {
      endpoint: this.#options.source.endpoint,
      skip,
      received: page.rowCount,
      overlapTid: gap.tid,
    });
    this.#blocked.clear(gap.edgeMs);
    for (const edgeMs of doubtfulEdgesMs) this.#block(edgeMs, RETRY_CAP_MS);
    const isMerged = islands.some((island) => island.span.fromMs < claim.fromMs);
    this.#frontier = isMerged ? undefined : chainEnd(claim.fromMs, oldest, skip + rows.length);
  }

  /** The server has nothing older than the target: the proven start of what it still serves. */
  async #endOfHistory(gap: Frontier, page: TradePage): Promise<void> {
    this.#frontier = undefined;
    const startMs = Math.min(gap.secondMs, gap.edgeMs);
    const below = this.#pages.islands.all.filter((island) => island.span.fromMs < gap.edgeMs);
    const hasForgotten = below.some((island) => island.firstId !== null);
    // Each refused row with a readable one below it is a doubt; more of them lie at the very end.
    const endsUnreadable = page.rejected.length > page.doubts.length;
    if (!hasForgotten && !endsUnreadable) {
      // Islands below without a trade are the time before the market's first one.
      const claim = { fromMs: below[0]?.span.toMs ?? startMs, toMs: gap.edgeMs };
      const evidence = { endpoint: this.#options.source.endpoint, endOfHistory: true };
      const { doubtfulEdgesMs } = await this.#pages.commit(page, claim, evidence);
      for (const edgeMs of doubtfulEdgesMs) this.#block(edgeMs, RETRY_CAP_MS);
      if (below.length === 0) await this.#pages.beginAt(startMs);
      return;
    }
    await this.#pages.commit(page, NOTHING, {});
    const span = { fromMs: below[0]?.span.toMs ?? startMs, toMs: gap.edgeMs };
    if (endsUnreadable) {
      await this.#pages.recordRefused(span);
      this.#block(gap.edgeMs, RETRY_CAP_MS);
      return;
    }
    if (span.fromMs < span.toMs) {
      const reason = 'beyond the history that the exchange still serves';
      await this.#pages.recordGap(span, 'unfillable', reason, 'beyond_history');
    }
    this.#block(gap.edgeMs, BEYOND_HISTORY_RETRY_MS);
  }

  #nextGap(): Frontier | undefined {
    const nowMs = this.#options.clock.monotonicMs();
    const frontier = this.#frontier;
    if (frontier !== undefined && this.#isOpen(frontier.edgeMs, nowMs)) return frontier;
    const { islands } = this.#pages;
    for (const island of islands.all) {
      const edgeMs = island.span.fromMs;
      if (island.firstId === null || !this.#isOpen(edgeMs, nowMs)) continue;
      const depth = islands.rowsDownTo(island);
      return { edgeMs, tid: island.firstId, secondMs: edgeMs, depth };
    }
    return undefined;
  }

  #isOpen(edgeMs: number, nowMs: number): boolean {
    const floorMs = this.#pages.collectFromMs;
    return (floorMs === null || edgeMs > floorMs) && !this.#blocked.isBlocked(edgeMs, nowMs);
  }

  #block(edgeMs: number, atLeastMs = 0): void {
    this.#blocked.block(edgeMs, this.#options.clock.monotonicMs(), atLeastMs);
  }

  #noteSize(page: TradePage): void {
    const { traits } = this.#options;
    traits.largestPage = Math.max(traits.largestPage, page.rowCount);
  }

  #stepped(pages: number, connected: boolean): void {
    this.#options.telemetry.walkStepped({
      stream: this.kind,
      market: this.market,
      pages,
      connected,
    });
  }

  #stalled(detail: string): WalkStalledError {
    const { telemetry, market, source } = this.#options;
    telemetry.walkStalled({ stream: this.kind, market, detail });
    return new WalkStalledError(market, source.endpoint, detail);
  }
}

function timeMsOf({ executedAtUs, tradedAtS }: SourceTrade): number {
  return executedAtUs === null ? tradedAtS * SECOND_MS : executedAtUs / 1000;
}
