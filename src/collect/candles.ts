import type { Candle } from '../contract/resources.js';
import type { Clock } from '../kernel/clock.js';
import { isAborted, messageOf, TapekeepError } from '../kernel/errors.js';
import { Mutex } from '../kernel/mutex.js';
import { normalizeSpans, type Span, subtractSpans, totalLengthMs } from '../kernel/span.js';
import type { Island, StreamRef } from '../ledger/batch.js';
import { type GapReason, reasonLabel } from '../ledger/gap-reasons.js';
import { IslandList } from '../ledger/islands.js';
import type { CollectEvents } from '../observe/events.js';
import { CandleGrid } from './candle-grid.js';
import { slotOf, sortCandles } from './candle-rows.js';
import {
  type ArchivePort,
  type ExchangePort,
  type ExchangeReply,
  type ExchangeTime,
  PRIORITY,
} from './ports.js';
import { quarantineRows } from './quarantine.js';

export interface CandleCollectorOptions {
  readonly market: string;
  readonly marketId: number;
  readonly intervalS: number;
  /** Its `collectFromMs` is set: candles of older open times are not expected. */
  readonly stream: StreamRef;
  readonly exchange: ExchangePort;
  readonly archive: ArchivePort;
  readonly time: ExchangeTime;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
  /** How long after its close a candle may still change, exchange milliseconds. */
  readonly graceMs: number;
  /** Whether its newest candle counts as the progress of the market's candles. */
  readonly isFinest: boolean;
  /** How many closed candles before a new one are read again, to catch revisions. */
  readonly rereads: number;
}

/** A candle that was refused, or could not be had, is asked for again this rarely. */
const RETRY_MS = 600_000;

/** Spans that are put off at most; beyond it the oldest are asked for again sooner. */
const PUT_OFF_MAX = 10_000;

const ISLANDS_MAX = 1000;
const NOTE_MAX_LENGTH = 500;

/** Candles asked for at once: some servers cap a reply a little above this. */
const PAGE_MAX = 1000;

type RowOutcome = Parameters<CollectEvents['settled']>[0]['outcome'];

/** The answer is for another market or interval than was asked for, so it proves nothing. */
export class CandleMismatchError extends TapekeepError {
  constructor(market: string, intervalS: number, got: string) {
    super(
      'candle_mismatch',
      'retry',
      `${market}: candles of ${intervalS} s were asked for, the answer is for ${got}; check that the exchange knows this interval`,
    );
  }
}

/**
 * Collects the closed candles of one market and interval. Their open times are known beforehand, so
 * what is missing is exact: expected minus covered, newest first. A span that was asked for is
 * covered whether candles came or not, because a minute without trades may have none.
 */
export class CandleCollector {
  readonly #options: CandleCollectorOptions;
  readonly #islands: IslandList;
  readonly #grid: CandleGrid;
  readonly #mutex = new Mutex();
  #collectFromMs: number | null;
  #wanted: readonly Span[] = [];
  /** What is left alone for a while, with the monotonic moment of its next try. */
  #putOff: Array<{ readonly span: Span; readonly retryAtMs: number }> = [];

  constructor(options: CandleCollectorOptions, islands: readonly Island[]) {
    this.#options = options;
    this.#islands = new IslandList(islands);
    this.#grid = new CandleGrid(options.intervalS * 1000, this.#islands.top?.span.toMs);
    this.#collectFromMs = options.stream.collectFromMs;
  }

  get streamId(): number {
    return this.#options.stream.streamId;
  }

  /**
   * Fetches the newest missing span, at most a page.
   *
   * @returns whether more is missing and may be asked for at once; false as well when the answer
   * settled nothing, so that the caller does not ask the same again before its next turn
   * @throws CandleMismatchError when the answer is for something else
   */
  poll(signal: AbortSignal): Promise<boolean> {
    return this.#mutex.run(() => this.#poll(signal));
  }

  /** Expects the candles of a span besides what is collected anyway. The same span twice is one. */
  want(span: Span): void {
    if (this.#wanted.some((one) => one.fromMs <= span.fromMs && span.toMs <= one.toMs)) return;
    this.#wanted = normalizeSpans([...this.#wanted, span]);
  }

  /** Takes back that the candles of a span are covered, so that they are fetched again. */
  doubt(span: Span, note: string): Promise<void> {
    return this.#mutex.run(async () => {
      const { archive, stream, time } = this.#options;
      const atMs = Math.floor(time.nowMs());
      await archive.uncover(stream, this.#grid.around(span), { reason: 'suspect', note, atMs });
      this.#islands.replace(await archive.islands(stream, ISLANDS_MAX));
      this.retry(span);
    });
  }

  /** Lets the candles of a span be asked for at once, whatever their pause. */
  retry(span: Span): void {
    this.#putOff = this.#putOff.filter(
      (one) => one.span.toMs <= span.fromMs || one.span.fromMs >= span.toMs,
    );
  }

  async #poll(signal: AbortSignal): Promise<boolean> {
    const { time, graceMs, rereads } = this.#options;
    const { stepMs } = this.#grid;
    const finalToMs = this.#grid.floor(time.nowMs() - graceMs);
    const missing = this.#missing(finalToMs);
    const newest = missing.at(-1);
    if (newest === undefined) return false;
    const fromMs = Math.max(newest.fromMs, newest.toMs - PAGE_MAX * stepMs);
    const isHead = newest.toMs === finalToMs;
    const rereadMs = isHead ? rereads * stepMs : 0;
    const floorMs = Math.min(fromMs, this.#grid.ceil(this.#collectFromMs ?? 0));
    const askedFromMs = Math.max(floorMs, fromMs - rereadMs, newest.toMs - PAGE_MAX * stepMs);
    const asked = { fromMs: askedFromMs, toMs: newest.toMs };
    const reply = await this.#ask(asked, isHead, signal);
    if (this.#grid.learn(reply.data.kline.map((candle) => candle.time * 1000))) {
      await this.#alignFloor();
      return true;
    }
    await this.#store(asked, reply.data.kline, reply);
    const left = this.#missing(finalToMs);
    return left.length > 0 && totalLengthMs(left) < totalLengthMs(missing);
  }

  async #ask(asked: Span, isHead: boolean, signal: AbortSignal) {
    const { exchange, market, intervalS } = this.#options;
    const query = {
      market,
      start: asked.fromMs / 1000,
      end: (asked.toMs - this.#grid.stepMs) / 1000,
      interval: intervalS,
    };
    const priority = isHead ? PRIORITY.klines : PRIORITY.fill;
    try {
      const reply = await exchange.call('kline', query, { priority, signal });
      const { interval, market: echoed } = reply.data;
      if (interval !== intervalS || echoed !== market) {
        throw new CandleMismatchError(market, intervalS, `${echoed}, ${interval} s`);
      }
      return reply;
    } catch (error) {
      // The newest candles are asked for again at the next turn anyway. An older page that can not
      // be had must not keep all those below it from being asked for.
      if (!isHead && !signal.aborted && !isAborted(error)) {
        await this.#failed(asked, messageOf(error));
      }
      throw error;
    }
  }

  async #failed(span: Span, note: string): Promise<void> {
    this.#putOffFor([span]);
    const { archive } = this.#options;
    const memory = { ...this.#memory(span), state: 'open', reason: 'exchange failed' } as const;
    await archive.recordAttempt({ ...memory, note: note.slice(0, NOTE_MAX_LENGTH) });
    this.#tell(span, 'exchange failed');
  }

  /** Expected is from a whole candle on: no gap smaller than one can ever be filled. */
  async #alignFloor(): Promise<void> {
    const { archive, stream } = this.#options;
    const floorMs = this.#collectFromMs;
    if (floorMs === null || this.#grid.holds(floorMs)) return;
    const alignedMs = this.#grid.ceil(floorMs);
    await archive.setCollectFrom(stream.streamId, alignedMs);
    this.#collectFromMs = alignedMs;
  }

  #missing(finalToMs: number): Span[] {
    const always = { fromMs: this.#grid.ceil(this.#collectFromMs ?? finalToMs), toMs: finalToMs };
    const wanted = this.#wanted.map((span) => {
      const { fromMs, toMs } = this.#grid.around(span);
      return { fromMs, toMs: Math.min(toMs, finalToMs) };
    });
    const nowMs = this.#options.clock.monotonicMs();
    const putOff = this.#putOff
      .filter(({ retryAtMs }) => nowMs < retryAtMs)
      .map(({ span }) => span);
    const settled = [...this.#islands.spans, ...putOff];
    const gaps = normalizeSpans([always, ...wanted]).flatMap((span) =>
      subtractSpans(span, settled),
    );
    return gaps.map((gap) => this.#grid.around(gap));
  }

  async #store(
    asked: Span,
    candles: readonly Candle[],
    reply: ExchangeReply<unknown>,
  ): Promise<void> {
    const { archive, stream, market, marketId, intervalS, telemetry, graceMs } = this.#options;
    const seenMs = Math.min(reply.sentAtMs, reply.dateMs ?? reply.sentAtMs);
    const closed = this.#grid.within({
      fromMs: asked.fromMs,
      toMs: Math.min(asked.toMs, seenMs - graceMs),
    });
    const question = { market, grid: this.#grid, asked, closedToMs: closed.toMs };
    const { rows, strays, open } = sortCandles(candles, question, reply.receivedAtMs);
    const rejected = [...reply.rejected, ...strays];
    const doubtfulMs = [
      ...reply.rejected.map((row) => slotOf(row.payload)),
      // A candle beside the grid speaks of the two slots that it lies across.
      ...strays.map((row) => slotOf(row.payload)),
    ];
    const claims = this.#grid.without(closed, doubtfulMs);
    telemetry.received({ stream: 'kline', market, count: candles.length + reply.rejected.length });
    const batch = {
      klines: rows.map((row) => ({ ...row, marketId, intervalS })),
      quarantine: quarantineRows('kline', market, rejected, reply.receivedAtMs),
      claims: claims.map((span) => ({
        stream,
        span,
        evidence: { endpoint: 'kline', candles: rows.length, dateMs: reply.dateMs },
      })),
    };
    const result = await archive.commit(batch).catch((error: unknown) => {
      const lost = { lost: rows.length, unchanged: open, rejected: rejected.length };
      this.#settle(lost);
      throw error;
    });
    for (const island of result.islands) this.#islands.absorb(island);
    const { stored, updated, duplicate, conflict } = result.outcomes.kline;
    this.#settle({
      stored,
      updated,
      duplicate,
      conflict,
      unchanged: open,
      rejected: rejected.length + result.outcomes.kline.rejected,
    });
    await this.#noteRefused(closed);
    const top = this.#islands.top;
    if (top !== undefined && this.#options.isFinest) {
      telemetry.progressed({ stream: 'kline', market, newestMs: top.span.toMs });
    }
  }

  #settle(outcomes: Partial<Record<RowOutcome, number>>): void {
    const { telemetry, market } = this.#options;
    for (const [outcome, count] of Object.entries(outcomes)) {
      if (count === 0) continue;
      telemetry.settled({ stream: 'kline', market, outcome: outcome as RowOutcome, count });
    }
  }

  /** Lists closed candles that could not be read as gaps, and leaves them alone for a while. */
  async #noteRefused(closed: Span): Promise<void> {
    // A candle that is stored already and can not be read again is no gap.
    const open = subtractSpans(closed, this.#islands.spans);
    this.#putOffFor(open);
    for (const span of open) {
      const memory = { ...this.#memory(span), state: 'open', reason: 'refused rows' } as const;
      await this.#options.archive.recordGap(memory);
      this.#tell(span, 'refused rows');
    }
  }

  #putOffFor(spans: readonly Span[]): void {
    const nowMs = this.#options.clock.monotonicMs();
    const waiting = this.#putOff.filter(({ retryAtMs }) => nowMs < retryAtMs);
    const added = spans.map((span) => ({ span, retryAtMs: nowMs + RETRY_MS }));
    this.#putOff = [...waiting, ...added].slice(-PUT_OFF_MAX);
  }

  #memory(span: Span) {
    const { stream, time } = this.#options;
    const atMs = Math.floor(time.nowMs());
    return { stream, span, atMs, nextAttemptAtMs: atMs + RETRY_MS };
  }

  #tell({ fromMs, toMs }: Span, reason: GapReason): void {
    const { telemetry, market } = this.#options;
    const lengthMs = toMs - fromMs;
    telemetry.gapFound({ stream: 'kline', market, reason: reasonLabel(reason), lengthMs });
  }
}
