import { setMaxListeners } from 'node:events';
import type { Clock } from '../kernel/clock.js';
import { sleep } from '../kernel/clock.js';
import { AbortedError, codeOf, isAborted, messageOf, TapekeepError } from '../kernel/errors.js';
import { Mutex } from '../kernel/mutex.js';
import type { Random } from '../kernel/random.js';
import { Backoff } from '../kernel/retry.js';
import { ALL_MARKETS_ID } from '../ledger/batch.js';
import type { CollectEvents } from '../observe/events.js';
import { AccountCollector, type AccountOptions } from './accounts.js';
import type { CandleCollector } from './candles.js';
import { type CollectContext, type MarketUnit, openMarketUnit } from './market-unit.js';
import { MarketList } from './markets.js';
import { patientArchive } from './patient.js';
import type { ArchivePort, ExchangePort, ExchangeTime, OpenStateFeed } from './ports.js';
import { type Schedule, startSchedule, toleranceMs } from './schedule.js';
import type { CollectSettings } from './settings.js';
import { TickerCollector } from './tickers.js';
import { GapFiller } from './trades/filler.js';

export interface CollectorOptions {
  readonly settings: CollectSettings;
  readonly exchange: ExchangePort;
  readonly archive: ArchivePort;
  readonly openStateFeed: OpenStateFeed;
  readonly time: ExchangeTime;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: CollectEvents;
  /** Left out: nothing private is asked for. */
  readonly account?: AccountOptions;
}

const START_RETRY = { baseMs: 500, capMs: 15_000 };
const FILL_CONCURRENCY = 4;
/** Pages of candles that one turn may fetch of each interval. */
const CANDLE_ROUNDS_PER_TURN = 20;

/**
 * Collects all streams of all wanted markets.
 *
 * States: *new* → *starting* (waits for the exchange's list of markets, as long as it takes) →
 * *running* → *stopped*. While running, cron schedules start polls; a poll of one market and stream
 * is never started twice at a time. Failed polls are told and left to the next schedule: what was
 * missed is still missing in the ledger; nothing needs to be remembered here.
 */
export class Collector {
  readonly #options: CollectorOptions;
  readonly #stopping = new AbortController();
  readonly #units = new Map<string, MarketUnit>();
  readonly #polls = new Map<string, Promise<void>>();
  readonly #filler: GapFiller;
  readonly #markets: MarketList;
  readonly #context: Omit<CollectContext, 'depthToleranceMs'>;
  #schedules: Schedule[] = [];
  #tickers: TickerCollector | undefined;
  #account: AccountCollector | undefined;
  #depthToleranceMs = toleranceMs(0);
  /** The list of markets is followed by one at a time, or a market could be opened twice. */
  readonly #following = new Mutex();
  #started: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: CollectorOptions) {
    this.#options = options;
    const { clock, random, telemetry, exchange, time, settings } = options;
    const signal = this.#stopping.signal;
    // Every poll, feed and wait listens to it, and there are many of them.
    setMaxListeners(0, signal);
    const archive = patientArchive(options.archive, { clock, random, signal });
    this.#context = {
      ...options,
      archive,
      traits: { trades: { largestPage: 0 }, times: { largestPage: 0 } },
    };
    this.#filler = new GapFiller({ clock, telemetry, concurrency: FILL_CONCURRENCY });
    this.#markets = new MarketList({
      exchange,
      archive,
      time,
      telemetry,
      wanted: settings.markets,
    });
  }

  /** Markets that are collected now. */
  get markets(): readonly string[] {
    return [...this.#units.keys()];
  }

  /** Time between two runs of the schedule that runs most often, milliseconds; at most an hour. */
  get shortestPeriodMs(): number {
    return this.#schedules.reduce((least, { periodMs }) => Math.min(least, periodMs), 3_600_000);
  }

  /**
   * Starts collecting; resolves when the first list of markets is in. Safe to call twice.
   *
   * @throws ScheduleError for a schedule that is none; AbortedError when stopped meanwhile
   */
  start(): Promise<void> {
    this.#started ??= this.#start();
    return this.#started;
  }

  /** Stops asking, lets what is under way end, and stores what has arrived. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #start(): Promise<void> {
    const { signal } = this.#stopping;
    signal.throwIfAborted();
    const { trades, depth, tickers, klines, markets } = this.#options.settings.streams;
    const every = (key: string, schedule: string, run: () => void): Schedule => {
      this.#schedules.push(startSchedule(`streams.${key}.schedule`, schedule, run));
      return this.#schedules.at(-1) as Schedule;
    };
    every('markets', markets.schedule, () => this.#refreshMarkets());
    if (trades.enabled) every('trades', trades.schedule, () => this.#pollTrades());
    if (klines.enabled) every('klines', klines.schedule, () => this.#pollCandles());
    if (depth.enabled) {
      const { periodMs } = every('depth', depth.schedule, () => this.#pollDepth());
      this.#depthToleranceMs = toleranceMs(periodMs);
    }
    const tickerSchedule = tickers.enabled
      ? every('tickers', tickers.schedule, () => this.#pollTickers())
      : undefined;
    this.#scheduleAccount();
    await this.#firstMarkets();
    if (tickerSchedule !== undefined) await this.#openTickers(tickerSchedule.periodMs);
    signal.throwIfAborted();
    this.#filler.start();
    this.#pollTickers();
    this.#pollTrades();
    this.#pollDepth();
    this.#pollCandles();
    this.#pollAccount();
  }

  async #stop(): Promise<void> {
    for (const schedule of this.#schedules.splice(0)) schedule.stop();
    const states = [...this.#units.values()].flatMap((unit) => unit.states);
    const feedsStopped = Promise.all(states.map((state) => state.stop()));
    this.#stopping.abort(new AbortedError());
    const started = this.#started?.catch(() => undefined);
    await Promise.all([feedsStopped, started, this.#filler.stop(), ...this.#polls.values()]);
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
        this.#failed('markets', '*', error);
        await sleep(clock, backoff.nextMs(), signal);
      }
    }
  }

  #updateMarkets(signal: AbortSignal): Promise<void> {
    return this.#following.run(() => this.#followMarkets(signal));
  }

  async #followMarkets(signal: AbortSignal): Promise<void> {
    await this.#markets.refresh(signal);
    const wanted = this.#markets.collected;
    for (const [market, unit] of this.#units) {
      if (!wanted.has(market)) await this.#close(unit);
    }
    for (const [market, marketId] of wanted) {
      if (!this.#units.has(market) && !signal.aborted) await this.#open(market, marketId);
    }
  }

  async #open(market: string, marketId: number): Promise<void> {
    const context = { ...this.#context, depthToleranceMs: this.#depthToleranceMs };
    const unit = await openMarketUnit(context, market, marketId);
    if (this.#stopping.signal.aborted) return;
    this.#units.set(market, unit);
    for (const walker of unit.walkers) this.#filler.add(walker);
    for (const state of unit.states) state.start();
  }

  async #close(unit: MarketUnit): Promise<void> {
    this.#units.delete(unit.market);
    for (const walker of unit.walkers) this.#filler.remove(walker);
    await Promise.all(unit.states.map((state) => state.stop()));
  }

  async #openTickers(periodMs: number): Promise<void> {
    const { archive, time } = this.#context;
    const key = { kind: 'ticker', marketId: ALL_MARKETS_ID, variant: 0 } as const;
    const collectFromMs = Math.floor(time.nowMs());
    const stream = await archive.ensureStream({ ...key, collectFromMs });
    const [newest] = await archive.islands(stream, 1);
    this.#tickers = new TickerCollector({
      ...this.#context,
      market: '*',
      stream,
      toleranceMs: toleranceMs(periodMs),
      coveredUntilMs: newest?.span.toMs ?? stream.collectFromMs ?? undefined,
      marketIds: () => this.#markets.collected,
    });
  }

  #scheduleAccount(): void {
    const { account } = this.#options;
    if (account === undefined) return;
    const run = () => this.#pollAccount();
    const schedule = startSchedule('account.schedule', account.schedule, run);
    this.#schedules.push(schedule);
    this.#account = new AccountCollector(this.#context, account.archive, schedule.periodMs);
  }

  #pollAccount(): void {
    const account = this.#account;
    if (account === undefined) return;
    this.#poll('balance', '*', (signal) => account.pollBalances(signal));
    for (const { market, marketId } of this.#units.values()) {
      this.#poll('orders', market, (signal) => account.pollOrders(market, marketId, signal));
    }
  }

  #refreshMarkets(): void {
    this.#poll('markets', '*', (signal) => this.#updateMarkets(signal));
  }

  #pollTrades(): void {
    for (const unit of this.#units.values()) {
      for (const walker of unit.walkers) {
        this.#poll(walker.kind, unit.market, async (signal) => {
          await walker.pollHead(signal);
          if (walker.pendingGap() !== undefined) this.#filler.wake();
        });
      }
    }
  }

  #pollDepth(): void {
    for (const { market, depth } of this.#units.values()) {
      if (depth !== undefined) this.#poll('depth', market, (signal) => depth.poll(signal));
    }
  }

  #pollTickers(): void {
    const tickers = this.#tickers;
    if (tickers !== undefined) this.#poll('ticker', '*', (signal) => tickers.poll(signal));
  }

  #pollCandles(): void {
    for (const { market, candles } of this.#units.values()) {
      this.#poll('kline', market, async (signal) => {
        // Page by page in turn, so that one interval's long history does not hold up the others.
        let open = [...candles];
        for (let round = 0; round < CANDLE_ROUNDS_PER_TURN && open.length > 0; round += 1) {
          const unfinished: CandleCollector[] = [];
          for (const collector of open) {
            if (await collector.poll(signal)) unfinished.push(collector);
          }
          open = unfinished;
        }
      });
    }
  }

  /** Starts a poll unless the same one is still under way. It never rejects. */
  #poll(stream: string, market: string, work: (signal: AbortSignal) => Promise<void>): void {
    const key = `${stream} ${market}`;
    if (this.#stopping.signal.aborted) return;
    if (this.#polls.has(key)) {
      this.#options.telemetry.runSkipped({ stream });
      return;
    }
    const { signal } = this.#stopping;
    const poll = work(signal)
      .catch((error: unknown) => {
        if (!signal.aborted && !isAborted(error)) this.#failed(stream, market, error);
      })
      .finally(() => this.#polls.delete(key));
    this.#polls.set(key, poll);
  }

  #failed(stream: string, market: string, error: unknown): void {
    this.#options.telemetry.pollFailed({
      stream,
      market,
      code: codeOf(error),
      message: messageOf(error),
      action: error instanceof TapekeepError ? error.action : 'retry',
    });
  }
}
