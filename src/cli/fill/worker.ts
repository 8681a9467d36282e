import { once } from 'node:events';
import type { CandleCollector } from '../../collect/candles/candles.js';
import { Ledgers } from '../../collect/ledgers.js';
import { type MarketUnit, openMarketUnit } from '../../collect/market-unit.js';
import type { ArchivePort, ExchangePort } from '../../collect/ports.js';
import { streamReport } from '../../collect/reports.js';
import { retryingArchive } from '../../collect/retrying.js';
import { TradeEvidence } from '../../collect/trades/evidence.js';
import { GapFiller } from '../../collect/trades/filler.js';
import { OffsetModes } from '../../collect/trades/offset-mode.js';
import { noTraits } from '../../collect/trades/walk.js';
import type { TradeWalker } from '../../collect/trades/walker.js';
import { sleep } from '../../kernel/clock.js';
import { isAborted } from '../../kernel/errors.js';
import { systemRandom } from '../../kernel/random.js';
import { Backoff } from '../../kernel/retry.js';
import type { Span } from '../../kernel/span.js';
import type { StreamRef } from '../../model/batch.js';
import type { Session } from '../opening/session.js';

/** A span of one stream that is to be filled. */
export interface FillTask {
  readonly market: string;
  readonly stream: StreamRef;
  readonly span: Span;
}

export interface UnitSurroundings extends Session {
  readonly archive: ArchivePort;
  readonly exchange: ExchangePort;
  readonly signal: AbortSignal;
}

const RETRY = { baseMs: 1000, capMs: 15_000 };
/** How often is looked again while the newest part of a span is still happening, or at rest. */
const AGAIN_MS = 2000;

/**
 * Fills spans of trades and candles by itself, newest first, and nothing else: no schedules, and no
 * stream that can only be seen at its time.
 *
 * States: *new* → units are opened ({@link FillWorker.prepare}) → *running* until its signal aborts
 * ({@link FillWorker.run}). How far it has come stands in the ledger.
 */
export class FillWorker {
  readonly #surroundings: UnitSurroundings;
  readonly #archive: ArchivePort;
  readonly #ledgers: Ledgers;
  readonly #traits = noTraits();
  readonly #offsets: OffsetModes;
  readonly #open = new Map<number, MarketUnit>();

  constructor(surroundings: UnitSurroundings) {
    this.#surroundings = surroundings;
    const { archive, clock, telemetry, signal, exchangeTime: time } = surroundings;
    const events = telemetry.collect;
    const how = { clock, random: systemRandom, signal, telemetry: events };
    this.#archive = retryingArchive(archive, how);
    this.#ledgers = new Ledgers({ archive: this.#archive, time, clock, telemetry: events });
    this.#offsets = new OffsetModes({ archive: this.#archive, clock, telemetry: events });
  }

  /** Opens the streams of one market, making new ones as the daemon does: a later start expects the same. */
  async prepare(
    market: string,
    marketId: number,
    wanted: readonly Pick<StreamRef, 'kind' | 'variant'>[],
  ): Promise<void> {
    if (this.#open.has(marketId)) return;
    const lengths = wanted.filter(({ kind }) => kind === 'candles').map(({ variant }) => variant);
    const intervalsS = [...new Set(lengths)];
    const { config, exchange, exchangeTime: time, clock, telemetry } = this.#surroundings;
    const { streams } = config;
    const settings = {
      markets: config.markets,
      streams: {
        ...streams,
        trades: { ...streams.trades, enabled: wanted.some(({ kind }) => kind === 'trades') },
        depth: { ...streams.depth, enabled: false },
        candles: { ...streams.candles, enabled: intervalsS.length > 0, intervalsS },
        states: { ...streams.states, enabled: false },
      },
    };
    const context = {
      ...{ settings, exchange, time, clock, random: systemRandom },
      ...{ archive: this.#archive, ledgers: this.#ledgers },
      isOnRequest: true,
      telemetry: telemetry.collect,
      traits: this.#traits,
      offsets: this.#offsets,
      evidenceOf: (name: string) =>
        new TradeEvidence({ market: name, time, clock, telemetry: telemetry.collect }),
      depthToleranceMs: 0,
      watch: { pushed: () => undefined, followed: () => undefined },
      openStateFeed: () => {
        throw new Error('no states are collected here');
      },
    };
    this.#open.set(marketId, await openMarketUnit(context, market, marketId));
  }

  /** Works on the spans until `signal` aborts; never rejects. */
  async run(tasks: readonly FillTask[], signal: AbortSignal): Promise<void> {
    const { clock, telemetry, exchange } = this.#surroundings;
    for (const [marketId, market] of new Map(
      tasks.map(({ market, stream }) => [stream.marketId, market]),
    )) {
      const streams = tasks.map(({ stream }) => stream).filter((one) => one.marketId === marketId);
      await this.#untilDone(market, signal, async () => {
        await this.prepare(market, marketId, streams);
        return true;
      });
    }
    const filler = new GapFiller({ exchange, clock, telemetry: telemetry.collect });
    const work: Promise<void>[] = [];
    for (const { market, marketId, trades, candles } of this.#open.values()) {
      const spans = trades === undefined ? [] : spansOf(tasks, trades);
      if (trades !== undefined && spans.length > 0) {
        filler.add(trades);
        const topMs = Math.max(...spans.map(({ toMs }) => toMs));
        work.push(this.#reachHead(trades, marketId, topMs, filler, signal));
      }
      for (const collector of candles) {
        if (spansOf(tasks, collector).length > 0) {
          work.push(this.#collect(market, collector, signal));
        }
      }
    }
    filler.start();
    await Promise.all(work);
    if (!signal.aborted) await once(signal, 'abort');
    await filler.stop();
  }

  /**
   * From the head the walk learns how the server counts and where it stands. It is looked at again
   * only while a span reaches up to what has just happened.
   */
  #reachHead(
    walker: TradeWalker,
    marketId: number,
    topMs: number,
    filler: GapFiller,
    signal: AbortSignal,
  ): Promise<void> {
    const { streamId } = walker;
    const stream = { streamId, marketId, kind: 'trades' as const, variant: 0, collectFromMs: null };
    return this.#untilDone(walker.market, signal, async () => {
      await walker.pollHead(signal);
      filler.wake();
      const [top] = await this.#surroundings.archive.coveredRanges(stream, 1);
      const newestMs = top?.span.toMs ?? Number.NEGATIVE_INFINITY;
      return newestMs >= topMs && this.#offsets.of(walker.endpoint) !== undefined;
    });
  }

  /** Candles that are put off, or not final yet, are looked at again until the signal. */
  #collect(market: string, collector: CandleCollector, signal: AbortSignal): Promise<void> {
    return this.#untilDone(market, signal, async () => {
      while (!signal.aborted && (await collector.poll(signal))) {
        // Page by page.
      }
      return false;
    });
  }

  /** Repeats work until it is done; failures are logged, and followed by a growing pause. */
  async #untilDone(
    market: string,
    signal: AbortSignal,
    work: () => Promise<boolean>,
  ): Promise<void> {
    const { clock, telemetry } = this.#surroundings;
    const backoff = new Backoff(RETRY, systemRandom);
    while (!signal.aborted) {
      let waitMs = AGAIN_MS;
      try {
        if (await work()) return;
        backoff.reset();
      } catch (error) {
        if (signal.aborted || isAborted(error)) return;
        streamReport(telemetry.collect, 'fill', market).failed(error);
        waitMs = backoff.nextMs();
      }
      await sleep(clock, waitMs, signal).catch(() => undefined);
    }
  }
}

/** Hands each collector its backfill requests. */
function spansOf(
  tasks: readonly FillTask[],
  collector: Pick<TradeWalker | CandleCollector, 'streamId' | 'backfill' | 'retry'>,
) {
  const spans = tasks
    .filter(({ stream }) => collector.streamId === stream.streamId)
    .map(({ span }) => span);
  for (const span of spans) {
    collector.backfill(span);
    collector.retry(span);
  }
  return spans;
}
