import { setMaxListeners } from 'node:events';
import { obtain } from '../kernel/bounded.js';
import { sleep } from '../kernel/clock.js';
import { AbortedError, isAborted, TapekeepError } from '../kernel/errors.js';
import { Mutex } from '../kernel/mutex.js';
import { Backoff } from '../kernel/retry.js';
import { floorToMs } from '../kernel/span.js';
import { Share } from '../model/share.js';
import type { CollectEvents } from '../observe/events.js';
import type { FillRequests } from '../store/index.js';
import { pollByTurns } from './candles/candles.js';
import { Ledgers, presentUnlessLate, type StandingStream } from './ledgers.js';
import {
  type CollectContext,
  type CollectPorts,
  type MarketUnit,
  openMarketUnit,
} from './market-unit.js';
import { MarketList } from './markets.js';
import { type PacedStream, Paces, type StretchedStream } from './paces.js';
import { PollDispatcher } from './polling/dispatcher.js';
import type { OpenTradeFeed } from './ports.js';
import { streamReport } from './reports.js';
import { retryingArchive, retryingExchange } from './retrying.js';
import { FillReview, fillersOf } from './review.js';
import { Schedules, toleranceMs } from './schedule.js';
import { TickerCollector, TickerSweep, windowOf } from './tickers.js';
import { TradeEvidence } from './trades/evidence.js';
import { type FedMarket, TradeFeedCollector } from './trades/feed.js';
import { GapFiller } from './trades/filler.js';
import { OffsetModes } from './trades/offset-mode.js';
import { noTraits } from './trades/walk.js';

export interface CollectorOptions extends CollectPorts {
  /** Requests a second that one endpoint may get now. */
  readonly requestsPerS: () => number;
  /** The same of all endpoints together; left out: no more than one of them. */
  readonly allRequestsPerS?: () => number;
  /** Left out: the exchange pushes no trades, or they are not wanted. */
  readonly openTradeFeed?: OpenTradeFeed;
}

/** Markets that are opened at the same time: each asks the archive some thirty things, one after the other. */
const OPENED_AT_A_TIME = 8;

const START_RETRY = { baseMs: 500, capMs: 15_000 };

/**
 * Collects all streams of all wanted markets.
 *
 * States: *new* → *starting* (waits for the exchange's list of markets, as long as it takes) →
 * *running* → *stopped*. While running, cron schedules start polls; a poll of one market and stream
 * is never started twice at a time. Trades are polled by a dispatcher, to which their schedule is
 * the floor. Failed polls are reported and left to the next schedule: what was missed is still
 * missing in the ledger; nothing needs to be remembered here.
 */
export class Collector {
  readonly #options: CollectorOptions;
  readonly #share: Share;
  readonly #stopping = new AbortController();
  readonly #units = new Map<string, MarketUnit>();
  readonly #evidence = new Map<string, TradeEvidence>();
  /** Markets whose trades are pushed. */
  readonly #fed = new Map<string, FedMarket>();
  readonly #runs: PollRuns;
  readonly #dueCandles = new WeakSet<MarketUnit>();
  readonly #ledgers: Ledgers;
  readonly #schedules: Schedules;
  readonly #paces: Paces;
  readonly #dispatcher: PollDispatcher;
  readonly #filler: GapFiller;
  readonly #review: FillReview;
  readonly #markets: MarketList;
  readonly #context: Omit<CollectContext, 'depthToleranceMs' | 'tickers'>;
  #tickers: TickerCollector | undefined;
  readonly #tradeFeed: TradeFeedCollector | undefined;
  #depthToleranceMs = toleranceMs(0);
  /** The jump of the clock after which coverage was last looked through; undefined: none yet. */
  #revokedJumps: number | undefined;
  /** The list of markets is followed by one at a time, or a market could be opened twice. */
  readonly #following = new Mutex();
  #started: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: CollectorOptions) {
    this.#options = options;
    const { clock, random, telemetry, requestsPerS, time, settings } = options;
    this.#share = options.share ?? Share.whole;
    this.#schedules = new Schedules(clock, telemetry);
    const { allRequestsPerS = requestsPerS } = options;
    this.#paces = new Paces({
      ...{ requestsPerS: allRequestsPerS, endpointRequestsPerS: requestsPerS, telemetry },
      intervalsS: settings.streams.candles.intervalsS,
    });
    const exchange = retryingExchange(options.exchange, { clock, random });
    const signal = this.#stopping.signal;
    // Every poll, feed and wait listens to it, and there are many of them.
    setMaxListeners(0, signal);
    const archive = retryingArchive(options.archive, { clock, random, signal, telemetry });
    this.#ledgers = new Ledgers({ archive, time, clock, telemetry });
    const onFailed = (stream: string, market: string, error: unknown) =>
      this.#ledgers.failed(stream, market, error);
    this.#runs = new PollRuns(telemetry, signal, onFailed);
    this.#filler = new GapFiller({
      ...{ exchange, clock, telemetry },
      // An activity signal of trades may have come while the walk was busy.
      onStepped: () => this.#dispatcher.wake(),
    });
    this.#review = new FillReview(clock);
    this.#dispatcher = new PollDispatcher({
      ...{ exchange, requestsPerS, time, clock, random, telemetry },
      onPolled: () => this.#filler.wake(),
      onFailed: ({ market }, error) => onFailed('trades', market, error),
    });
    this.#context = {
      ...options,
      ...{ exchange, archive, ledgers: this.#ledgers },
      watch: {
        pushed: (market, activity) => this.#dispatcher.pushed(market, activity),
        followed: (market, isFollowed) => this.#dispatcher.followed(market, isFollowed),
        looked: (market, figures, atMs) => this.#evidenceOf(market).looked('states', figures, atMs),
      },
      evidenceOf: (market) => this.#evidenceOf(market),
      traits: noTraits(),
      offsets: new OffsetModes({ archive, clock, telemetry }),
      onUnpushed:
        options.openTradeFeed &&
        ((market, tradedMs) => this.#tradeFeed?.unpushed(market, tradedMs)),
    };
    this.#tradeFeed =
      options.openTradeFeed &&
      new TradeFeedCollector({
        ...{ archive: this.#ledgers, time, telemetry },
        ...{ markets: this.#fed, open: options.openTradeFeed },
        onClosed: () => this.#dispatcher.wake(),
      });
    const { markets: wanted, streams } = settings;
    const { max } = streams.markets;
    const { share } = options;
    this.#markets = new MarketList({ exchange, archive, time, telemetry, wanted, max, share });
  }

  #evidenceOf(market: string): TradeEvidence {
    const { time, clock, telemetry } = this.#options;
    const historyStale: CollectEvents['historyStale'] = (found) => {
      this.#ledgers.stale(found.stream, found.market, found.source);
      telemetry.historyStale(found);
    };
    return obtain(
      this.#evidence,
      market,
      () => new TradeEvidence({ market, time, clock, telemetry: { historyStale } }),
    );
  }

  /** Markets that are collected now. */
  get markets(): readonly string[] {
    return [...this.#units.keys()].filter((market) => this.#share.has(market));
  }

  /** Markets that are to be collected; none until the exchange has listed them. */
  get wantedMarkets(): readonly string[] {
    return [...this.#markets.collected.keys()];
  }

  /** Markets that are wanted and that the exchange does not list. */
  get missingMarkets(): readonly string[] {
    return this.#markets.missing;
  }

  /** Streams whose coverage does not grow, the longest first. */
  get standing(): readonly StandingStream[] {
    return this.#ledgers.list();
  }

  /** Streams that are polled less often than their schedule says, because the request budget is too small. */
  get stretched(): readonly StretchedStream[] {
    return this.#paces.stretched(this.#units.values());
  }

  /** How many listed markets are left out, because there are more than may be collected. */
  get leftOutMarkets(): number {
    return this.#markets.leftOut;
  }

  /** Time between two runs of the schedule that runs most often, milliseconds; at most an hour. */
  get shortestPeriodMs(): number {
    return this.#schedules.shortestPeriodMs;
  }

  /**
   * Starts collecting; resolves when the first list of markets is in. Safe to call twice.
   *
   * @throws TapekeepError `bad_schedule` for a schedule that is none; `markets_not_listed` when nothing that
   * is wanted is listed; AbortedError when stopped meanwhile
   */
  start(): Promise<void> {
    this.#started ??= this.#start();
    return this.#started;
  }

  /** Lets the connections for states show that nothing is missing up to now, so that another collector goes on from here. */
  async confirmStates(): Promise<void> {
    const states = [...this.#units.values()].flatMap((unit) => unit.states);
    await Promise.all(states.map((state) => state.confirm()));
  }

  /**
   * Stops asking, lets what is under way end, and stores what has arrived. Safe to call twice.
   *
   * @param withinMs after which no more is written of what failed last
   */
  stop(withinMs = Number.POSITIVE_INFINITY): Promise<void> {
    this.#stopped ??= this.#stop(this.#options.clock.monotonicMs() + withinMs);
    return this.#stopped;
  }

  /**
   * Takes up what others have asked of the gap fillers. To be called every few seconds.
   *
   * @throws the errors of the archive
   */
  async review(): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    const { archive, time, only } = this.#context;
    await this.#keepWithinPresent();
    // Requests alone keep no schedule, and do not follow the present.
    if (only === undefined) {
      const isOpen = this.#units.size > 0 && this.markets.length >= this.wantedMarkets.length;
      if (isOpen) this.#paces.review(this.#units.values());
      await this.#ledgers.review();
    }
    const units = [...this.#units.values()];
    const streamIds = units.flatMap((unit) => fillersOf(unit).map(({ streamId }) => streamId));
    const requests = await archive.fillRequests(Math.floor(time.nowMs()), streamIds);
    const touched = await this.#review.review(requests, units);
    if (touched.size === 0) return;
    this.#filler.wake();
    // Candles that were requested do not wait for their schedule.
    this.#pollCandles(touched);
  }

  /** Takes back, after a start and after each jump of the clock, what is covered, or given up, beyond the present. */
  async #keepWithinPresent(): Promise<void> {
    const { archive } = this.#context;
    const { time, telemetry } = this.#options;
    const { lived, jumps } = time;
    if (lived === undefined) return;
    if (this.#revokedJumps !== jumps) {
      const isStart = this.#revokedJumps === undefined;
      const { untilMs } = lived;
      // What is listed meanwhile ends now, and the newest answer may be some seconds old.
      const presentMs = Math.max(lived.presentMs, Math.floor(time.nowMs()) + 1);
      const revoked = await archive.revokeBeyond(untilMs, { isStart, presentMs });
      for (const { kind, market, span } of revoked) {
        streamReport(telemetry, kind, market).gap(span, 'clock jumped');
      }
      const fromMs = Math.min(untilMs, ...revoked.map(({ span }) => span.fromMs));
      this.#ledgers.revoked(revoked);
      if (revoked.length > 0) await this.#reload(fromMs);
      this.#revokedJumps = jumps;
    }
    await archive.notePresent(presentUnlessLate(this.#options));
  }

  /** Lets those that keep in mind what is covered read it anew. */
  async #reload(fromMs: number): Promise<void> {
    const revoked = { fromMs: floorToMs(fromMs, 1000), toMs: Number.POSITIVE_INFINITY };
    for (const { trades, candles } of this.#units.values()) {
      trades?.revoked(revoked);
      for (const candle of candles) await candle.reload();
    }
  }

  async #start(): Promise<void> {
    const { signal } = this.#stopping;
    signal.throwIfAborted();
    const { trades, depth, tickers, candles, markets } = this.#options.settings.streams;
    const every = (key: string, schedule: string, run: () => void) =>
      this.#schedules.start(`streams.${key}.schedule`, schedule, run);
    every('markets', markets.schedule, () => this.#refreshMarkets());
    const poll = (kind: PacedStream, schedule: string, run: () => void, graceMs = 0): number => {
      const periodMs = every(kind, schedule, run);
      this.#ledgers.keepsTo(kind, periodMs + graceMs);
      this.#paces.keepsTo(kind, periodMs);
      return periodMs;
    };
    if (trades.enabled) {
      const periodMs = poll('trades', trades.schedule, () => this.#dispatcher.markDue());
      this.#dispatcher.keepBaseline(periodMs);
    }
    if (candles.enabled)
      poll('candles', candles.schedule, () => this.#pollCandles(), candles.grace);
    if (depth.enabled) {
      const periodMs = poll('depth', depth.schedule, () => this.#pollDepth());
      this.#depthToleranceMs = toleranceMs(periodMs);
    }
    if (tickers.enabled) {
      const periodMs = poll('tickers', tickers.schedule, () => this.#pollTickers());
      this.#tickers = this.#tickerCollector(toleranceMs(periodMs));
    }
    // To open hundreds of markets takes a while: those that are open do not wait for the others.
    this.#filler.start();
    this.#dispatcher.start();
    await this.#firstMarkets();
    signal.throwIfAborted();
    this.#tradeFeed?.start();
    this.#pollTickers();
    this.#pollDepth();
    this.#pollCandles();
  }

  async #stop(untilMs: number): Promise<void> {
    this.#schedules.stop();
    const states = [...this.#units.values()].flatMap((unit) => unit.states);
    const feedsStopped = Promise.all(states.map((state) => state.stop()));
    this.#stopping.abort(new AbortedError());
    const started = this.#started?.catch(() => undefined);
    const loops = [this.#filler.stop(), this.#dispatcher.stop(), this.#tradeFeed?.stop()];
    await Promise.all([feedsStopped, started, ...loops, this.#runs.settled()]);
    await Promise.all([...this.#units.values()].map((unit) => this.#flush(unit)));
    const noted = this.#ledgers.stop(untilMs);
    await noted.catch((error: unknown) => this.#runs.failed('gaps', '*', error));
  }

  async #firstMarkets(): Promise<void> {
    const { clock, random } = this.#options;
    const signal = this.#stopping.signal;
    const backoff = new Backoff(START_RETRY, random);
    for (;;) {
      try {
        await this.#updateMarkets(signal);
        return;
      } catch (error) {
        if (signal.aborted) throw error;
        if (error instanceof TapekeepError && error.action === 'fatal') throw error;
        this.#runs.failed('markets', '*', error);
        await sleep(clock, backoff.nextMs(), signal);
      }
    }
  }

  #tickerCollector(toleranceMs: number): TickerCollector {
    const moved = new TickerSweep();
    return new TickerCollector({
      ...this.#context,
      toleranceMs,
      onFailed: (market, error) => this.#runs.failed('tickers', market, error),
      onGone: (market, why) => this.#units.get(market)?.depth?.gone(why),
      onTickers: (entries, sentAtMs) => {
        this.#dispatcher.swept(moved.compare(entries));
        for (const market of this.markets) {
          const { ticker } = entries[market] ?? {};
          if (ticker === undefined) continue;
          this.#evidenceOf(market).looked('tickers', windowOf(ticker), sentAtMs);
        }
      },
    });
  }

  #updateMarkets(signal: AbortSignal): Promise<void> {
    return this.#following.run(() => this.#followMarkets(signal));
  }

  async #followMarkets(signal: AbortSignal): Promise<void> {
    await this.#markets.refresh(signal);
    // Tickers of all markets come in one answer.
    const hasAll = this.#share.isFirst && this.#tickers !== undefined;
    const wanted = hasAll ? this.#markets.chosen : this.#markets.collected;
    for (const [market, unit] of this.#units) {
      if (!wanted.has(market)) await this.#close(unit);
    }
    const added = [...wanted].filter(([market]) => !this.#units.has(market));
    if (added.length === 0) return;
    const { archive, time } = this.#context;
    // Requests that others make wait for the review; what is given up is known before the first page.
    const limits = await archive.fillRequests(Math.floor(time.nowMs()), []);
    const waiting = added.values();
    const open = async () => {
      for (const [market, marketId] of waiting) {
        if (!signal.aborted) await this.#open(market, marketId, limits);
      }
    };
    // All of them have ended before the next list is looked at.
    const ended = await Promise.allSettled(Array.from({ length: OPENED_AT_A_TIME }, open));
    for (const one of ended) if (one.status === 'rejected') throw one.reason;
  }

  async #open(market: string, marketId: number, limits: FillRequests): Promise<void> {
    const depthToleranceMs = this.#depthToleranceMs;
    const context = { ...this.#context, depthToleranceMs, tickers: this.#tickers };
    const unit = await openMarketUnit(context, market, marketId);
    if (this.#stopping.signal.aborted) return;
    this.#review.limit(limits, [unit]);
    this.#units.set(market, unit);
    const { trades, pushed } = unit;
    if (pushed !== undefined) {
      this.#fed.set(market, { marketId, pushed, evidence: this.#evidenceOf(market) });
      this.#tradeFeed?.changed();
    }
    if (trades !== undefined) {
      this.#filler.add(trades);
      this.#dispatcher.add(market, trades, context.only ? undefined : trades.times);
    }
    for (const state of unit.states) state.start();
  }

  async #close(unit: MarketUnit): Promise<void> {
    this.#units.delete(unit.market);
    if (this.#fed.delete(unit.market)) this.#tradeFeed?.changed();
    this.#ledgers.forget(unit.marketId);
    this.#evidence.delete(unit.market);
    if (unit.trades !== undefined) this.#filler.remove(unit.trades);
    const polled = this.#dispatcher.remove(unit.market);
    const states = unit.states.map((state) => state.stop());
    await Promise.all([polled, ...states, this.#flush(unit)]);
  }

  /** Stores what was seen of a market that is looked at no more. */
  async #flush({ market, depth, ticker }: MarketUnit): Promise<void> {
    await depth?.flush().catch((error: unknown) => this.#runs.failed('depth', market, error));
    await ticker?.flush().catch((error: unknown) => this.#runs.failed('tickers', market, error));
  }

  #refreshMarkets(): void {
    this.#runs.start('markets', '*', (signal) => this.#updateMarkets(signal));
  }

  #pollDepth(): void {
    for (const { market, depth } of this.#units.values()) {
      if (depth !== undefined) this.#runs.start('depth', market, (signal) => depth.poll(signal));
    }
  }

  #pollTickers(): void {
    const collector = this.#tickers;
    if (collector === undefined || this.#units.size === 0) return;
    const tickers = [...this.#units.values()].flatMap(({ ticker }) => ticker ?? []);
    this.#runs.start('tickers', '*', (signal) => collector.poll(tickers, signal));
  }

  /**
   * A run under way goes on with another one: it has passed by what closed or was requested meanwhile. Those that wait
   * for older candles lose their place in line by that, so that the longest without any goes first.
   */
  #pollCandles(units: Iterable<MarketUnit> = this.#units.values()): void {
    const servedAtMs = ({ candles }: MarketUnit) =>
      Math.max(0, ...candles.map(({ spareTurnAtMs }) => spareTurnAtMs));
    for (const unit of [...units].sort((a, b) => servedAtMs(a) - servedAtMs(b))) {
      this.#dueCandles.add(unit);
      for (const candles of unit.candles) candles.giveUpSpare();
      if (this.#runs.isUnderWay('candles', unit.market)) continue;
      this.#runs.start('candles', unit.market, async (signal) => {
        while (this.#dueCandles.delete(unit)) {
          await pollByTurns(unit.candles, this.#options.time, signal);
        }
      });
    }
  }
}

/** Called for a failed poll: its stream, its market (`*` for all) and what went wrong. */
type OnPollFailed = (stream: string, market: string, error: unknown) => void;

/** Poll runs by stream and market, never the same one twice at a time. Failures are reported. */
class PollRuns {
  readonly #telemetry: CollectEvents;
  readonly #signal: AbortSignal;
  readonly #onFailed: OnPollFailed;
  readonly #runs = new Map<string, Promise<void>>();

  /** @param signal ends all polls, and lets none begin */
  constructor(telemetry: CollectEvents, signal: AbortSignal, onFailed: OnPollFailed) {
    this.#telemetry = telemetry;
    this.#onFailed = onFailed;
    this.#signal = signal;
  }

  isUnderWay(stream: string, market: string): boolean {
    return this.#runs.has(`${stream} ${market}`);
  }

  /** Starts a poll unless the same one is still under way. It never rejects. */
  start(stream: string, market: string, work: (signal: AbortSignal) => Promise<void>): void {
    const key = `${stream} ${market}`;
    const signal = this.#signal;
    if (signal.aborted) return;
    if (this.#runs.has(key)) {
      this.#telemetry.runSkipped({ stream });
      return;
    }
    const run = work(signal)
      .catch((error: unknown) => {
        if (!signal.aborted && !isAborted(error)) this.failed(stream, market, error);
      })
      .finally(() => this.#runs.delete(key));
    this.#runs.set(key, run);
  }

  /** Resolves when what is under way has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#runs.values());
  }

  failed(stream: string, market: string, error: unknown): void {
    streamReport(this.#telemetry, stream, market).failed(error);
    this.#onFailed(stream, market, error);
  }
}
