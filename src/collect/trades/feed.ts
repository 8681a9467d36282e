import type { TradeFeedEvent } from '../../client/index.js';
import { isAborted } from '../../kernel/errors.js';
import { BoundedQueue } from '../../kernel/queue.js';
import type { QuarantineRow, TradeRow } from '../../model/batch.js';
import { orderPage } from '../../model/order.js';
import type { CollectEvents } from '../../observe/events.js';
import type { ArchivePort, ExchangeTime, OpenTradeFeed, TradeFeedPort } from '../ports.js';
import { quarantineRows, reportFailure, reportOutcomes } from '../reports.js';
import type { TradeEvidence } from './evidence.js';
import type { PushedTrades } from './pushed.js';
import { type TradePage, timeMsOf, toPushed } from './source.js';

/** A market whose pushed trades are wanted. */
export interface FedMarket {
  readonly marketId: number;
  /** One for each walk over its trades. */
  readonly pushed: readonly PushedTrades[];
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
const EVENTS_PER_COMMIT = 500;

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
 * States: *stopped* → *running* → *stopped*. A failed commit is reported; the walk brings the rows again.
 */
export class TradeFeedCollector {
  readonly #options: TradeFeedCollectorOptions;
  #feed: TradeFeedPort | undefined;
  #running: Promise<void> | undefined;
  /** Of the connection that there is; undefined: there is none. */
  #openedMs: number | undefined;

  constructor(options: TradeFeedCollectorOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#running !== undefined) return;
    const { open, markets } = this.#options;
    const feed = open({ markets: () => [...markets.keys()], missed: () => this.#missed() });
    this.#feed = feed;
    const queue = new BoundedQueue<Frame>(QUEUE_LIMIT);
    const pumped = this.#pump(feed, queue).catch((error: unknown) => {
      // It reconnects by itself; when it gives up, history is asked as ever.
      if (!isAborted(error)) this.#failed('*', error);
    });
    this.#running = Promise.all([pumped, this.#drain(queue)]).then(() => undefined);
  }

  /** The markets changed: `market` is one of them from now on, or no more. */
  changed(market: string): void {
    const { pushed } = this.#options.markets.get(market) ?? { pushed: [] };
    if (this.#openedMs !== undefined) {
      // It is not subscribed yet: what is pushed of it from the next frame on follows on nothing.
      for (const one of pushed) one.opened(this.#options.time.nowMs());
    }
    this.#feed?.resubscribe();
  }

  /** Closes the connection and stores what has arrived. */
  async stop(): Promise<void> {
    await this.#feed?.stop();
    await this.#running;
    this.#running = undefined;
    this.#feed = undefined;
  }

  /** All markets, those first of which trades were pushed a short time ago. */
  #missed(): string[] {
    const markets = [...this.#options.markets];
    const isBusy = ([, { pushed }]: (typeof markets)[number]) => pushed.some((one) => one.hasRun);
    return markets.toSorted((a, b) => Number(isBusy(b)) - Number(isBusy(a))).map(([name]) => name);
  }

  async #pump(feed: TradeFeedPort, queue: BoundedQueue<Frame>): Promise<void> {
    try {
      for await (const event of feed) {
        if (event.kind === 'opened') this.#opened(event.exchangeMs);
        else if (event.kind === 'closed') this.#closed();
        else if (event.kind === 'trades') {
          const frame = this.#read(event);
          if (frame !== undefined) await queue.put(frame);
        }
      }
    } finally {
      queue.close();
      this.#closed();
    }
  }

  *#pushed(): Generator<PushedTrades> {
    for (const { pushed } of this.#options.markets.values()) yield* pushed;
  }

  #opened(exchangeMs: number): void {
    this.#openedMs = exchangeMs;
    for (const one of this.#pushed()) one.opened(exchangeMs);
  }

  #closed(): void {
    if (this.#openedMs === undefined) return;
    this.#openedMs = undefined;
    for (const one of this.#pushed()) one.closed();
    this.#options.onClosed();
  }

  #read(event: Extract<TradeFeedEvent, { kind: 'trades' }>): Frame | undefined {
    const { market, origin, exchangeMs } = event;
    const fed = this.#options.markets.get(market);
    if (fed === undefined) return undefined;
    const page = toPushed(event);
    for (const one of fed.pushed) {
      // Between which trades a row lay that cannot be read is not known.
      if (page.rejected.length > 0) one.opened(exchangeMs);
      else if (origin === 'answer') one.answered(page.trades);
      else one.push(page.trades);
    }
    const [newest] = orderPage(page.trades);
    if (newest !== undefined && origin === 'update') fed.evidence.pushed(newest);
    return { market, marketId: fed.marketId, page };
  }

  async #drain(queue: BoundedQueue<Frame>): Promise<void> {
    for (;;) {
      const frames = await queue.takeUpTo(EVENTS_PER_COMMIT);
      if (frames.length === 0) return;
      // Together, so that the writer can put them into one transaction.
      const stored = [...byMarket(frames)].map(([market, own]) => this.#store(market, own));
      await Promise.all(stored);
    }
  }

  async #store(market: string, frames: readonly Frame[]): Promise<void> {
    const { archive, telemetry, time } = this.#options;
    const trades = frames.flatMap(({ marketId, page }) => rowsOf(marketId, page));
    const quarantine = frames.flatMap(({ page }) => quarantineOf(market, page));
    const count = trades.length + quarantine.length;
    telemetry.received({ stream: 'trades', market, count });
    reportOutcomes(telemetry, 'trades', market, { rejected: quarantine.length });
    try {
      const { outcomes } = await archive.commit({ trades, quarantine });
      reportOutcomes(telemetry, 'trades', market, outcomes.trade);
      const nowMs = time.nowMs();
      // Which rows of a batch were new is not known: as many of them as were.
      const fresh = trades.slice(0, outcomes.trade.stored);
      telemetry.tradesPushed({ market, agesMs: fresh.map((trade) => nowMs - timeMsOf(trade)) });
    } catch (error) {
      reportOutcomes(telemetry, 'trades', market, { lost: trades.length });
      if (!isAborted(error)) this.#failed(market, error);
    }
  }

  #failed(market: string, error: unknown): void {
    reportFailure(this.#options.telemetry, 'trades', market, error);
  }
}

function byMarket(frames: readonly Frame[]): Map<string, Frame[]> {
  const found = new Map<string, Frame[]>();
  for (const frame of frames) found.set(frame.market, [...(found.get(frame.market) ?? []), frame]);
  return found;
}

function rowsOf(marketId: number, { trades, receivedAtMs }: TradePage): TradeRow[] {
  return trades.map((trade) => ({ ...trade, marketId, receivedAtMs }));
}

function quarantineOf(market: string, { rejected, receivedAtMs }: TradePage): QuarantineRow[] {
  return quarantineRows(ENDPOINT, market, rejected, receivedAtMs);
}
