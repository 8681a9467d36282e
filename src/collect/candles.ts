import type { Candle } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import type { Clock } from '../kernel/clock.js';
import { TapekeepError } from '../kernel/errors.js';
import { ceilToMs, floorToMs, type Span, subtractSpans, totalLengthMs } from '../kernel/span.js';
import type { Island, KlineRow, StreamRef } from '../ledger/batch.js';
import { IslandList } from '../ledger/islands.js';
import { gridWithin, withoutSlots } from '../ledger/proof.js';
import type { CollectEvents } from '../observe/events.js';
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

/** A candle that was refused is asked for again this rarely. */
const REFUSED_RETRY_MS = 600_000;

/** Spans of refused candles that are remembered; beyond it the oldest are asked for again sooner. */
const REFUSED_MAX = 10_000;

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
  readonly #stepMs: number;
  /** Where candles were refused, with the monotonic moment of their next try. */
  #refused: Array<{ readonly span: Span; readonly retryAtMs: number }> = [];

  constructor(options: CandleCollectorOptions, islands: readonly Island[]) {
    this.#options = options;
    this.#islands = new IslandList(islands);
    this.#stepMs = options.intervalS * 1000;
  }

  /**
   * Fetches the newest missing span, at most a page.
   *
   * @returns whether more is missing and may be asked for at once; false as well when the answer
   * settled nothing, so that the caller does not ask the same again before its next turn
   * @throws CandleMismatchError when the answer is for something else
   */
  async poll(signal: AbortSignal): Promise<boolean> {
    const { time, graceMs, rereads, exchange, market, intervalS } = this.#options;
    const finalToMs = floorToMs(time.nowMs() - graceMs, this.#stepMs);
    const missing = this.#missing(finalToMs);
    const newest = missing.at(-1);
    if (newest === undefined) return false;
    const fromMs = Math.max(newest.fromMs, newest.toMs - PAGE_MAX * this.#stepMs);
    const isHead = newest.toMs === finalToMs;
    const rereadMs = isHead ? rereads * this.#stepMs : 0;
    const askedFromMs = Math.max(
      ceilToMs(this.#options.stream.collectFromMs ?? 0, this.#stepMs),
      Math.max(fromMs - rereadMs, newest.toMs - PAGE_MAX * this.#stepMs),
    );
    const asked = { fromMs: askedFromMs, toMs: newest.toMs };
    const reply = await exchange.call(
      'kline',
      {
        market,
        start: asked.fromMs / 1000,
        end: (asked.toMs - this.#stepMs) / 1000,
        interval: intervalS,
      },
      { priority: isHead ? PRIORITY.klines : PRIORITY.fill, signal },
    );
    const { interval, market: echoed } = reply.data;
    if (interval !== intervalS || echoed !== market) {
      throw new CandleMismatchError(market, intervalS, `${echoed}, ${interval} s`);
    }
    await this.#store(asked, reply.data.kline, reply);
    const left = this.#missing(finalToMs);
    return left.length > 0 && totalLengthMs(left) < totalLengthMs(missing);
  }

  #missing(finalToMs: number): Span[] {
    const startMs = ceilToMs(this.#options.stream.collectFromMs ?? finalToMs, this.#stepMs);
    if (startMs >= finalToMs) return [];
    const nowMs = this.#options.clock.monotonicMs();
    const putOff = this.#refused
      .filter(({ retryAtMs }) => nowMs < retryAtMs)
      .map(({ span }) => span);
    const settled = [...this.#islands.spans, ...putOff];
    return subtractSpans({ fromMs: startMs, toMs: finalToMs }, settled);
  }

  async #store(
    asked: Span,
    candles: readonly Candle[],
    reply: ExchangeReply<unknown>,
  ): Promise<void> {
    const { archive, stream, market, marketId, intervalS, telemetry, graceMs } = this.#options;
    const seenMs = Math.min(reply.sentAtMs, reply.dateMs ?? reply.sentAtMs);
    const closed = gridWithin(
      { fromMs: asked.fromMs, toMs: Math.min(asked.toMs, seenMs - graceMs) },
      this.#stepMs,
    );
    const { rows, strays, open } = this.#sort(candles, asked, closed, reply.receivedAtMs);
    const rejected = [...reply.rejected, ...strays];
    const doubtfulMs = [
      ...reply.rejected.map((row) => slotOf(row.payload)),
      // A candle beside the grid speaks of the two slots that it lies across.
      ...strays.map((row) => slotOf(row.payload)),
    ];
    const claims = withoutSlots(closed, doubtfulMs, this.#stepMs);
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
    const { archive, stream, market, telemetry, clock, time } = this.#options;
    const nowMs = clock.monotonicMs();
    // A candle that is stored already and can not be read again is no gap.
    const open = subtractSpans(closed, this.#islands.spans);
    const waiting = this.#refused.filter(({ retryAtMs }) => nowMs < retryAtMs);
    const retryAtMs = nowMs + REFUSED_RETRY_MS;
    this.#refused = [...waiting, ...open.map((span) => ({ span, retryAtMs }))].slice(-REFUSED_MAX);
    const reason = 'refused rows';
    const atMs = Math.floor(time.nowMs());
    for (const span of open) {
      await archive.recordGap({ stream, span, state: 'open', reason, atMs });
      const lengthMs = span.toMs - span.fromMs;
      telemetry.gapFound({ stream: 'kline', market, reason: 'refused_rows', lengthMs });
    }
  }

  /** Closed candles on the grid; those off it or out of the asked span are refused. */
  #sort(candles: readonly Candle[], asked: Span, closed: Span, receivedAtMs: number) {
    const rows: Array<Omit<KlineRow, 'marketId' | 'intervalS'>> = [];
    const strays: RejectedRow[] = [];
    let open = 0;
    for (const [at, candle] of candles.entries()) {
      const openMs = candle.time * 1000;
      if (openMs % this.#stepMs !== 0 || openMs < asked.fromMs || openMs >= asked.toMs) {
        strays.push({ at, reason: 'time: not an open time that was asked for', payload: candle });
      } else if (candle.market !== this.#options.market) {
        strays.push({ at, reason: 'market: not the one that was asked for', payload: candle });
      } else if (openMs >= closed.toMs) {
        open += 1;
      } else {
        const { open: opened, close, highest, lowest, volume, amount } = candle;
        rows.push({
          openAtS: candle.time,
          open: opened,
          close,
          high: highest,
          low: lowest,
          volume,
          amount,
          receivedAtMs,
        });
      }
    }
    return { rows, strays, open };
  }
}

/** The open time of a refused candle, milliseconds; undefined when even that is unreadable. */
function slotOf(payload: unknown): number | undefined {
  const time: unknown = (payload as { time?: unknown } | null)?.time;
  return typeof time === 'number' && Number.isSafeInteger(time) ? time * 1000 : undefined;
}
