import type { Candle } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import type { Clock } from '../kernel/clock.js';
import { ceilToMs, floorToMs, type Span, subtractSpans } from '../kernel/span.js';
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

/** Candles asked for at once: some servers cap a reply a little above this. */
const PAGE_MAX = 1000;

/**
 * Collects the closed candles of one market and interval. Their open times are known beforehand, so
 * what is missing is exact: expected minus covered, newest first. A span that was asked for is
 * covered whether candles came or not, because a minute without trades may have none.
 */
export class CandleCollector {
  readonly #options: CandleCollectorOptions;
  readonly #islands: IslandList;
  readonly #stepMs: number;
  /** Open times of refused candles, with the monotonic moment of their next try. */
  #refused = new Map<number, number>();

  constructor(options: CandleCollectorOptions, islands: readonly Island[]) {
    this.#options = options;
    this.#islands = new IslandList(islands);
    this.#stepMs = options.intervalS * 1000;
  }

  /** Fetches the newest missing span, at most a page; returns whether more is missing. */
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
    await this.#store(asked, reply.data.kline, reply);
    return fromMs > newest.fromMs || missing.length > 1;
  }

  #missing(finalToMs: number): Span[] {
    const startMs = ceilToMs(this.#options.stream.collectFromMs ?? finalToMs, this.#stepMs);
    if (startMs >= finalToMs) return [];
    const nowMs = this.#options.clock.monotonicMs();
    const putOff = [...this.#refused]
      .filter(([, retryAtMs]) => nowMs < retryAtMs)
      .map(([openMs]) => ({ fromMs: openMs, toMs: openMs + this.#stepMs }));
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
    const refusedMs = reply.rejected.map((row) => slotOf(row.payload));
    const claims = withoutSlots(closed, refusedMs, this.#stepMs);
    await this.#noteRefused(closed, claims);
    telemetry.received({ stream: 'kline', market, count: candles.length + reply.rejected.length });
    const result = await archive.commit({
      klines: rows.map((row) => ({ ...row, marketId, intervalS })),
      quarantine: quarantineRows('kline', market, rejected, reply.receivedAtMs),
      claims: claims.map((span) => ({
        stream,
        span,
        evidence: { endpoint: 'kline', candles: rows.length, dateMs: reply.dateMs },
      })),
    });
    for (const island of result.islands) this.#islands.absorb(island);
    const { stored, updated, duplicate, conflict } = result.outcomes.kline;
    const outcomes = {
      stored,
      updated,
      duplicate,
      conflict,
      unchanged: open,
      rejected: rejected.length + result.outcomes.kline.rejected,
    };
    for (const [outcome, count] of Object.entries(outcomes)) {
      if (count > 0) {
        telemetry.settled({
          stream: 'kline',
          market,
          outcome: outcome as keyof typeof outcomes,
          count,
        });
      }
    }
    const top = this.#islands.top;
    if (top !== undefined && this.#options.isFinest) {
      telemetry.progressed({ stream: 'kline', market, newestMs: top.span.toMs });
    }
  }

  /** Lists closed candles that could not be read as gaps, and leaves them alone for a while. */
  async #noteRefused(closed: Span, claims: readonly Span[]): Promise<void> {
    const { archive, stream, market, telemetry, clock, time } = this.#options;
    const retryAtMs = clock.monotonicMs() + REFUSED_RETRY_MS;
    for (const span of subtractSpans(closed, claims)) {
      for (let openMs = span.fromMs; openMs < span.toMs; openMs += this.#stepMs) {
        this.#refused.set(openMs, retryAtMs);
      }
      const reason = 'rows refused by validation';
      const atMs = Math.floor(time.nowMs());
      await archive.recordGap({ stream, span, state: 'open', reason, atMs });
      const lengthMs = span.toMs - span.fromMs;
      telemetry.gapFound({ stream: 'kline', market, reason: 'refused_rows', lengthMs });
    }
    const kept = [...this.#refused].filter(([, until]) => until > clock.monotonicMs());
    this.#refused = new Map(kept.slice(-PAGE_MAX));
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
