import type { ResultOf } from '../../contract/endpoints.js';
import type { Candle } from '../../contract/resources.js';
import type { RejectedRow } from '../../contract/shape.js';
import { DAY_MS } from '../../kernel/durations.js';
import { ceilToMs, floorToMs, type Span, spanContains, subtractSpans } from '../../kernel/span.js';
import type { KlineRow } from '../../model/batch.js';
import type { GapReason } from '../../model/gap-reasons.js';
import type { ExchangeReply } from '../ports.js';

/** Why slots are left open that are older than what the exchange keeps. */
export const BEYOND: GapReason = 'beyond history';

export type KlineReply = ExchangeReply<ResultOf<'kline'>>;

/** What was asked for, as far as it shows which candles of the answer belong to it. */
export interface CandleQuestion {
  readonly market: string;
  readonly grid: CandleGrid;
  /** Whole slots. */
  readonly asked: Span;
  /** How long after its close a candle may still change, milliseconds. */
  readonly graceMs: number;
}

/** An answer taken apart. */
export interface CandleAnswer {
  readonly reply: KlineReply;
  /** When it was given at the earliest, exchange milliseconds. */
  readonly seenMs: number;
  /** Slots that were final when it was given, of those that were asked for. */
  readonly closed: Span;
  /** Candles that open from here on were not final, whatever was asked for. */
  readonly finalToMs: number;
  readonly rows: ReadonlyArray<Omit<KlineRow, 'marketId' | 'intervalS'>>;
  readonly rejected: readonly RejectedRow[];
  /** How many candles were not final. */
  readonly open: number;
  /** Open times of refused candles; undefined: it is not readable. */
  readonly refusedMs: ReadonlyArray<number | undefined>;
  /** None of them is undefined: else the answer does not even say which candles are absent, and proves nothing. */
  readonly isReadable: boolean;
  /** Slots of which the answer speaks, in candles or in refused ones. */
  readonly heldMs: readonly number[];
  /** Slots of which the reply does not speak. */
  readonly unknown: readonly Span[];
}

/** Sorts final candles from others and refused ones. */
export function readCandles(question: CandleQuestion, reply: KlineReply): CandleAnswer {
  const { grid, asked, graceMs } = question;
  const seenMs = Math.min(reply.sentAtMs, reply.dateMs ?? reply.sentAtMs);
  const finalToMs = grid.floor(seenMs - graceMs);
  const closed = grid.within({ fromMs: asked.fromMs, toMs: Math.min(asked.toMs, finalToMs) });
  const sorted = sortCandles(reply.data.kline, question, closed.toMs, reply.receivedAtMs);
  const { rows, strays, open } = sorted;
  // A candle beside the grid speaks of the two slots that it lies across.
  const rejected = [...reply.rejected, ...strays];
  const refusedMs = rejected.map((row) => slotOf(row.payload));
  const readable = refusedMs.filter((ms) => ms !== undefined);
  // Where only a part of what was asked for could be answered, the reply says of which it speaks.
  const { start, end } = reply.data;
  const answered = { fromMs: grid.ceil(start * 1000), toMs: grid.floor(end * 1000) + grid.stepMs };
  const isReadable = readable.length === refusedMs.length;
  const heldMs = [...rows.map(({ openAtS }) => openAtS * 1000), ...readable];
  return {
    ...{ reply, seenMs, closed, finalToMs, rows, rejected, open, refusedMs, isReadable },
    unknown: subtractSpans(closed, [answered]),
    heldMs: heldMs.map((ms) => grid.floor(ms)),
  };
}

/** Closed candles on the grid; those off it or out of the asked span are strays, to be refused. */
function sortCandles(
  candles: readonly Candle[],
  { market, grid, asked }: CandleQuestion,
  closedToMs: number,
  receivedAtMs: number,
) {
  const rows: Array<Omit<KlineRow, 'marketId' | 'intervalS'>> = [];
  const strays: RejectedRow[] = [];
  let open = 0;
  for (const [at, candle] of candles.entries()) {
    const openMs = candle.time * 1000;
    if (!grid.holds(openMs) || !spanContains(asked, openMs)) {
      strays.push({ at, reason: 'time: not an open time that was asked for', payload: candle });
    } else if (candle.market !== market) {
      strays.push({ at, reason: 'market: not the one that was asked for', payload: candle });
    } else if (openMs >= closedToMs) {
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
        quoteVolume: amount,
        receivedAtMs,
      });
    }
  }
  return { rows, strays, open };
}

/** The open time of a refused candle, milliseconds; undefined when even that is unreadable. */
function slotOf(payload: unknown): number | undefined {
  const time: unknown = (payload as { time?: unknown } | null)?.time;
  return typeof time === 'number' && Number.isSafeInteger(time) ? time * 1000 : undefined;
}

/** A server that keeps changing its mind is not followed. */
const CHANGES_MAX = 3;

/**
 * The open times of candles of one length. Below a day they are multiples of the length; days and
 * weeks may begin at another hour or weekday, as the server's own time zone has it (field notes,
 * kline). Where that is shows in the first answer.
 */
export class CandleGrid {
  readonly stepMs: number;
  #offsetMs = 0;
  #changes = 0;

  /** @param edgeMs an edge of what is covered already; undefined when nothing is */
  constructor(stepMs: number, edgeMs: number | undefined) {
    this.stepMs = stepMs;
    if (edgeMs !== undefined && this.#mayBeShifted) this.#offsetMs = edgeMs % stepMs;
  }

  get #mayBeShifted(): boolean {
    return this.stepMs >= DAY_MS;
  }

  floor(ms: number): number {
    return floorToMs(ms - this.#offsetMs, this.stepMs) + this.#offsetMs;
  }

  ceil(ms: number): number {
    return ceilToMs(ms - this.#offsetMs, this.stepMs) + this.#offsetMs;
  }

  holds(openMs: number): boolean {
    return this.floor(openMs) === openMs;
  }

  /** The candles that overlap a span. */
  around({ fromMs, toMs }: Span): Span {
    return { fromMs: this.floor(fromMs), toMs: this.ceil(toMs) };
  }

  /** The candles that lie wholly inside a span. */
  within(span: Span): Span {
    const fromMs = this.ceil(span.fromMs);
    return { fromMs, toMs: Math.max(fromMs, this.floor(span.toMs)) };
  }

  /**
   * Cuts single candles that were refused out of a fetched span. One whose open time lies beside the
   * grid makes both candles that it lies across suspect; one whose open time cannot be read could be
   * any of them, so then nothing is claimed.
   */
  without(fetched: Span, refusedMs: ReadonlyArray<number | undefined>): Span[] {
    const slots: Span[] = [];
    for (const openMs of refusedMs) {
      if (openMs === undefined) return [];
      slots.push({ fromMs: this.floor(openMs), toMs: this.ceil(openMs + this.stepMs) });
    }
    return subtractSpans(fetched, slots);
  }

  /**
   * Takes over the hour at which the server's candles begin, when an answer shows two or more and
   * all of them agree.
   *
   * @returns whether the grid has changed, so that the answer is one to another question
   */
  learn(openTimesMs: readonly number[]): boolean {
    const [first] = openTimesMs;
    if (!this.#mayBeShifted || first === undefined || openTimesMs.length < 2) return false;
    const offsetMs = first % this.stepMs;
    const isAgreed = openTimesMs.every((ms) => ms % this.stepMs === offsetMs);
    if (!isAgreed || offsetMs === this.#offsetMs || this.#changes >= CHANGES_MAX) return false;
    this.#changes += 1;
    this.#offsetMs = offsetMs;
    return true;
  }
}
