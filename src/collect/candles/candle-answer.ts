import type { ResultOf } from '../../contract/endpoints.js';
import type { Candle } from '../../contract/resources.js';
import type { RejectedRow } from '../../contract/shape.js';
import { type Span, spanContains, subtractSpans } from '../../kernel/span.js';
import type { KlineRow } from '../../model/batch.js';
import type { CandleGrid } from '../../model/candle-grid.js';
import type { SeenCandles } from '../../model/check-candles.js';
import type { ExchangeReply } from '../ports.js';

export type KlineReply = ExchangeReply<ResultOf<'kline'>>;

/** Request, as far as it shows which candles of the response belong to it. */
export interface CandleQuestion {
  readonly market: string;
  readonly grid: CandleGrid;
  /** Whole slots. */
  readonly asked: Span;
  /** How long after its close a candle may still change, milliseconds. */
  readonly graceMs: number;
}

/** An answer taken apart. */
export interface CandleAnswer extends SeenCandles {
  readonly reply: KlineReply;
  readonly rows: ReadonlyArray<Omit<KlineRow, 'marketId' | 'intervalS'>>;
  readonly rejected: readonly RejectedRow[];
  /** How many candles were not final. */
  readonly open: number;
}

/** Sorts final candles from others and refused ones. */
export function readCandles(question: CandleQuestion, reply: KlineReply): CandleAnswer {
  const { grid, asked, graceMs } = question;
  const seenMs = Math.min(reply.sentAtMs, reply.dateMs ?? reply.sentAtMs);
  const finalToMs = grid.floor(seenMs - graceMs);
  const closed = grid.within({ fromMs: asked.fromMs, toMs: Math.min(asked.toMs, finalToMs) });
  const sorted = sortCandles(reply.data.kline, question, closed.toMs, reply.receivedAtMs);
  const { rows, strays, open } = sorted;
  const rejected = [...reply.rejected, ...strays];
  const refusedMs = rejected.map((row) => slotOf(row.payload));
  const readable = refusedMs.filter((ms) => ms !== undefined);
  // A reply that answers only a part says of which it speaks.
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
      const { time: openAtS, close, highest: high, lowest: low, volume } = candle;
      const prices = { open: candle.open, close, high, low };
      rows.push({ openAtS, ...prices, volume, quoteVolume: candle.amount, receivedAtMs });
    }
  }
  return { rows, strays, open };
}

/** The open time of a refused candle, milliseconds; undefined when even that is unreadable. */
function slotOf(payload: unknown): number | undefined {
  const time: unknown = (payload as { time?: unknown } | null)?.time;
  return typeof time === 'number' && Number.isSafeInteger(time) ? time * 1000 : undefined;
}
