import { ceilToMs, type Span } from '../../kernel/span.js';
import type { Candle } from './candles.js';
import type { CoveredWalk } from './covered-walk.js';

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
        filled.push({ openMs: nextMs, open: close, high: close, low: close, close, volume: '0' });
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
      for (const filled of candle.openMs > nextMs ? fillTo(candle.openMs) : []) {
        if (waiting.length > 0) yield waiting;
        waiting = [];
        yield filled;
      }
      waiting.push(candle);
      close = candle.close;
      nextMs = Math.max(nextMs, candle.openMs + intervalMs);
    }
    if (waiting.length > 0) yield waiting;
  }
  yield* fillTo(span.toMs);
}
