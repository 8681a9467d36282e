import type { TradeFeedEvent } from '../../client/index.js';
import { obtain } from '../../kernel/bounded.js';
import { isAborted } from '../../kernel/errors.js';
import { BoundedQueue } from '../../kernel/queue.js';
import { orderPage } from '../../model/order.js';
import type { CollectEvents } from '../../observe/events.js';
import type { ArchivePort, ExchangeTime, OpenTradeFeed, TradeFeedPort } from '../ports.js';
import { quarantineRows, streamReport } from '../reports.js';
import type { TradeEvidence } from './evidence.js';
import type { PushedTrades } from './pushed.js';
import { type TradePage, timeMsOf, toPushed } from './source.js';

/** A market whose pushed trades are wanted. */
export interface FedMarket {
  readonly marketId: number;
  readonly pushed: PushedTrades;
  readonly evidence: TradeEvidence;
}

interface TradeFeedCollectorOptions {
  readonly archive: Pick<ArchivePort, 'commit'>;
  readonly time: ExchangeTime;
  readonly telemetry: CollectEvents;
  readonly open: OpenTradeFeed;
  /** Markets that are collected now. */
  readonly markets: ReadonlyMap<string, FedMarket>;
  /** Called when a connection ended: history must be asked more often again. */
  readonly onClosed: () => void;
}

/** Name of the feed in quarantine. */
const ENDPOINT = 'trade feed';
/** Events that may wait for a commit; then the feed itself stops reading and, in the end, closes. */
const QUEUE_LIMIT = 2000;
/** Pushed trades that may wait for pages of history, over all markets: some hundred bytes each. */
const KEPT_MAX = 400_000;
/** Pages show trades that are not pushed, and nothing else is, for so long: another connection is made. */
const STALLED_MS = 10_000;
/** Pages show trades of one market that are not pushed for so long: all are subscribed anew. */
const SILENT_MS = 60_000;
/** Between two such subscriptions, which end the runs of all markets. */
const SUBSCRIBE_AGAIN_MS = 600_000;
/** Between two questions for the newest trades of a market. */
const ASK_AGAIN_MS = 2000;
const EVENTS_PER_COMMIT = 500;

/** What is known of one market on the connection that there is. */
interface Line {
  /** Exchange time of what was pushed last. */
  pushedMs: number;
  /** Since when pages show trades that are not pushed; undefined: they do not. */
  silentSinceMs: number | undefined;
  /** When the newest trades were asked for last. */
  askedMs: number;
}

/** A frame with what its rows turned out to be. */
interface Frame {
  readonly market: string;
  readonly marketId: number;
  readonly page: TradePage;
}

/**
 * Stores trades as the exchange pushes them, at once and without a claim: they are covered when the walk
 * finds them between two pages of history that agree with them ({@link PushedTrades}).
 *
 * States: *stopped* → *waiting* (for a market) → *running* → *stopped*. A failed commit is reported; the walk
 * brings the rows again.
 */
export class TradeFeedCollector {
  readonly #options: TradeFeedCollectorOptions;
  #feed: TradeFeedPort | undefined;
  #running: Promise<void> | undefined;
  #isStarted = false;
  /** Whether there is a connection, with a subscription for the markets of now. */
  #isOpen = false;
  /** Exchange time of the newest event that was pushed, of whichever market. */
  #pushedMs = Number.NEGATIVE_INFINITY;
  /** Since when nothing is pushed although trades happen; undefined: not known of any. */
  #stalledSinceMs: number | undefined;
  readonly #lines = new Map<string, Line>();
  /** When all were subscribed anew for a market of which nothing was pushed. */
  #subscribedAgainMs = Number.NEGATIVE_INFINITY;

  constructor(options: TradeFeedCollectorOptions) {
    this.#options = options;
  }

  start(): void {
    this.#isStarted = true;
    this.#open();
  }

  #open(): void {
    const { open, markets } = this.#options;
    if (!this.#isStarted || this.#running !== undefined || markets.size === 0) return;
    const feed = open({ markets: () => [...markets.keys()] });
    this.#feed = feed;
    const queue = new BoundedQueue<Frame>(QUEUE_LIMIT);
    const pumped = this.#pump(feed, queue).catch((error: unknown) => {
      // It reconnects by itself; when it gives up, history is asked as ever.
      if (!isAborted(error)) streamReport(this.#options.telemetry, 'trades', '*').failed(error);
    });
    this.#running = Promise.all([pumped, this.#drain(queue)]).then(() => undefined);
  }

  /** The markets changed. What is pushed until they are subscribed anew is stored, and proves nothing. */
  changed(): void {
    this.#feed?.resubscribe();
    this.#open();
  }

  /**
   * A page of history shows a trade of this time that should have been pushed. Others that were pushed since show
   * that the connection lives, though perhaps not for this market; where none was, it does not.
   *
   * @param tradedMs exchange milliseconds
   */
  unpushed(market: string, tradedMs: number): void {
    const line = this.#lineOf(market);
    if (!this.#isOpen || tradedMs <= line.pushedMs) return;
    const nowMs = this.#options.time.nowMs();
    line.silentSinceMs ??= nowMs;
    if (tradedMs > this.#pushedMs) {
      this.#stalledSinceMs ??= nowMs;
      if (nowMs - this.#stalledSinceMs >= STALLED_MS) this.#feed?.renew();
    } else if (
      nowMs - line.silentSinceMs >= SILENT_MS &&
      nowMs - this.#subscribedAgainMs >= SUBSCRIBE_AGAIN_MS
    ) {
      this.#subscribedAgainMs = nowMs;
      this.#feed?.resubscribe();
    }
  }

  /** Closes the connection and stores what has arrived. */
  async stop(): Promise<void> {
    this.#isStarted = false;
    await this.#feed?.stop();
    await this.#running;
    this.#running = undefined;
    this.#feed = undefined;
  }

  async #pump(feed: TradeFeedPort, queue: BoundedQueue<Frame>): Promise<void> {
    try {
      for await (const event of feed) {
        if (event.kind === 'opened') this.#opened(event.exchangeMs);
        else if (event.kind === 'closed' || event.kind === 'resubscribing') this.#closed();
        else if (event.kind === 'unread') {
          for (const one of this.#pushed()) one.unread(event.exchangeMs);
        } else if (event.kind === 'trades') {
          const frame = this.#read(event);
          if (frame !== undefined) await queue.put(frame);
        }
      }
    } finally {
      queue.close();
      this.#closed();
    }
  }

  #lineOf(market: string): Line {
    const never = Number.NEGATIVE_INFINITY;
    const nothing = { pushedMs: never, silentSinceMs: undefined, askedMs: never };
    return obtain<string, Line>(this.#lines, market, () => nothing);
  }

  *#pushed(): Generator<PushedTrades> {
    for (const { pushed } of this.#options.markets.values()) yield pushed;
  }

  #opened(exchangeMs: number): void {
    this.#isOpen = true;
    this.#stalledSinceMs = undefined;
    this.#lines.clear();
    for (const one of this.#pushed()) one.opened(exchangeMs);
  }

  #closed(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    for (const one of this.#pushed()) one.closed();
    this.#options.onClosed();
  }

  /** Where too much is kept, the market that keeps most of it gives up its proofs. */
  #keepWithinBounds(): void {
    const all = [...this.#pushed()].toSorted((a, b) => b.kept - a.kept);
    let kept = all.reduce((sum, one) => sum + one.kept, 0);
    for (const one of all) {
      if (kept <= KEPT_MAX) return;
      kept -= one.kept;
      one.forget();
    }
  }

  #read(event: Extract<TradeFeedEvent, { kind: 'trades' }>): Frame | undefined {
    const { market, origin, exchangeMs } = event;
    if (origin === 'update') {
      this.#pushedMs = exchangeMs;
      this.#stalledSinceMs = undefined;
      const line = this.#lineOf(market);
      line.pushedMs = exchangeMs;
      line.silentSinceMs = undefined;
    }
    const fed = this.#options.markets.get(market);
    if (fed === undefined) return undefined;
    const page = toPushed(event);
    const isRead = page.rejected.length === 0;
    const { pushed } = fed;
    if (origin === 'update' && isRead) pushed.push(page.trades);
    else if (origin === 'update') pushed.unread(exchangeMs);
    else if (isRead) pushed.answered(page.trades);
    if (origin === 'update' && pushed.isLoose) this.#ask(market);
    const [newest] = orderPage(page.trades);
    if (newest !== undefined && origin === 'update') fed.evidence.pushed(newest);
    return { market, marketId: fed.marketId, page };
  }

  /** The newest trades may join what is pushed now to what was before; old ones from a cache do not. */
  #ask(market: string): void {
    const line = this.#lineOf(market);
    const nowMs = this.#options.time.nowMs();
    if (nowMs - line.askedMs < ASK_AGAIN_MS) return;
    line.askedMs = nowMs;
    this.#feed?.ask(market);
  }

  async #drain(queue: BoundedQueue<Frame>): Promise<void> {
    for (;;) {
      const frames = await queue.takeUpTo(EVENTS_PER_COMMIT);
      if (frames.length === 0) return;
      const byMarket = new Map<string, Frame[]>();
      for (const frame of frames) obtain(byMarket, frame.market, () => []).push(frame);
      // Together, so that the writer can put them into one transaction.
      await Promise.all([...byMarket].map(([market, own]) => this.#store(market, own)));
      this.#keepWithinBounds();
    }
  }

  async #store(market: string, frames: readonly Frame[]): Promise<void> {
    const { archive, telemetry, time } = this.#options;
    const trades = frames.flatMap(({ marketId, page: { trades: rows, receivedAtMs } }) =>
      rows.map((trade) => ({ ...trade, marketId, receivedAtMs })),
    );
    const quarantine = frames.flatMap(({ page: { rejected, receivedAtMs } }) =>
      quarantineRows(ENDPOINT, market, rejected, receivedAtMs),
    );
    const report = streamReport(telemetry, 'trades', market);
    report.received(trades.length + quarantine.length);
    report.settled({ rejected: quarantine.length });
    try {
      const { outcomes } = await archive.commit({ trades, quarantine }, { once: {} });
      report.settled(outcomes.trade);
      const nowMs = time.nowMs();
      // Which rows of a batch were new is not known: as many of them as were.
      const fresh = trades.slice(0, outcomes.trade.stored);
      telemetry.tradesPushed({ market, agesMs: fresh.map((trade) => nowMs - timeMsOf(trade)) });
    } catch (error) {
      report.settled({ lost: trades.length });
      if (!isAborted(error)) report.failed(error);
    }
  }
}
