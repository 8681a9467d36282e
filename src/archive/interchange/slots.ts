import { SECOND_MS } from '../../kernel/durations.js';
import { ceilToMs, normalizeSpans, type Span } from '../../kernel/span.js';
import type { RowOf } from '../../model/series.js';
import { type BuiltCandle, CandleMaker } from '../candles.js';

/** A candle on its way into another tool; decimals are text with all their digits. */
export type Candle = Omit<BuiltCandle, 'amount'>;

/** Whether pieces of time are covered whole; they are asked for oldest first. */
export class CoveredWalk {
  readonly #spans: readonly Span[];
  #at = 0;

  /** @param spans what is covered, in any order */
  constructor(spans: Iterable<Span>) {
    this.#spans = normalizeSpans(spans);
  }

  /** @param fromMs not before any that was asked for earlier */
  covers(fromMs: number, toMs: number): boolean {
    for (;;) {
      const span = this.#spans[this.#at];
      if (span === undefined) return false;
      if (span.toMs > fromMs) return span.fromMs <= fromMs && toMs <= span.toMs;
      this.#at += 1;
    }
  }
}

export interface ComputedOptions {
  readonly intervalMs: number;
  readonly covered: CoveredWalk;
  /** A slot of which not all trades are proven to be here is left out, and counted. */
  readonly onPartial: () => void;
}

/**
 * Candles of trades, of the slots that are covered whole.
 *
 * @param trades in the order of second and id
 */
export async function* computeCandles(
  trades: AsyncIterable<readonly RowOf<'trade'>[]>,
  { intervalMs, covered, onPartial }: ComputedOptions,
): AsyncGenerator<Candle[]> {
  const maker = new CandleMaker(intervalMs / SECOND_MS);
  const finish = (one: Candle | undefined): Candle[] => {
    if (one === undefined) return [];
    const openMs = one.openAtS * SECOND_MS;
    if (covered.covers(openMs, openMs + intervalMs)) return [one];
    onPartial();
    return [];
  };
  for await (const batch of trades) {
    const done = batch.flatMap((trade) => finish(maker.add(trade)));
    if (done.length > 0) yield done;
  }
  yield finish(maker.end());
}

export interface QuietOptions {
  readonly span: Span;
  readonly intervalMs: number;
  readonly covered: CoveredWalk;
  /** A slot without trades was written. */
  readonly onFilled: () => void;
  /** A slot without trades was not, because no close before it is known. */
  readonly onLeftOut: () => void;
}

/** Slots that are handed on together. */
const BATCH = 1024;

/**
 * Candles with those that the exchange leaves out: a slot in which nothing was traded has the close
 * before it as all its prices, and no volume. Only where coverage proves that there was none; behind a
 * gap no close is known until the next candle.
 *
 * @param candles oldest first, all inside the span
 */
export async function* withQuietSlots(
  candles: AsyncIterable<readonly Candle[]>,
  options: QuietOptions,
): AsyncGenerator<Candle[]> {
  const { span, intervalMs, covered, onFilled, onLeftOut } = options;
  let nextMs = ceilToMs(span.fromMs, intervalMs);
  let close: string | undefined;
  function* fillTo(endMs: number): Generator<Candle[]> {
    let filled: Candle[] = [];
    for (; nextMs + intervalMs <= endMs; nextMs += intervalMs) {
      const isQuiet = covered.covers(nextMs, nextMs + intervalMs);
      if (!isQuiet) close = undefined;
      else if (close === undefined) onLeftOut();
      else {
        const prices = { open: close, high: close, low: close, close };
        filled.push({ openAtS: nextMs / SECOND_MS, ...prices, volume: '0' });
        onFilled();
      }
      if (filled.length < BATCH) continue;
      yield filled;
      filled = [];
    }
    if (filled.length > 0) yield filled;
  }
  for await (const batch of candles) {
    let waiting: Candle[] = [];
    for (const candle of batch) {
      const openMs = candle.openAtS * SECOND_MS;
      for (const filled of openMs > nextMs ? fillTo(openMs) : []) {
        if (waiting.length > 0) yield waiting;
        waiting = [];
        yield filled;
      }
      waiting.push(candle);
      close = candle.close;
      nextMs = Math.max(nextMs, openMs + intervalMs);
    }
    if (waiting.length > 0) yield waiting;
  }
  yield* fillTo(span.toMs);
}
