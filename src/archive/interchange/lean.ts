import { floorToMs, type Span } from '../../kernel/span.js';
import { InterchangeError } from './errors.js';
import type { TradeLine } from './text-rows.js';

const DAY_MS = 86_400_000;
const RESOLUTIONS: Readonly<Record<number, 'second' | 'minute' | 'hour' | 'daily'>> = {
  1: 'second',
  60: 'minute',
  3600: 'hour',
  86400: 'daily',
};

/** Where Lean looks for data, below the folder of its market (`Data/crypto/<market>`). */
export interface LeanPlace {
  readonly path: string;
  /** Name of the file inside the archive. */
  readonly entry: string;
  readonly form: 'leanDay' | 'leanAll' | 'tick';
  readonly span: Span;
}

/** Days that a span touches, each cut to the span. */
export function* daysOf(span: Span): Generator<Span & { readonly date: string }> {
  for (let dayMs = floorToMs(span.fromMs, DAY_MS); dayMs < span.toMs; dayMs += DAY_MS) {
    const date = new Date(dayMs).toISOString().slice(0, 10).replaceAll('-', '');
    const fromMs = Math.max(dayMs, span.fromMs);
    yield { date, fromMs, toMs: Math.min(dayMs + DAY_MS, span.toMs) };
  }
}

/**
 * The files of a span: one a day for ticks, seconds and minutes, one for all time for hours and days.
 *
 * @param intervalS of bars; 0 for ticks
 * @throws InterchangeError for a length that Lean keeps no files of
 */
export function* leanPlaces(ticker: string, intervalS: number, span: Span): Generator<LeanPlace> {
  const resolution = intervalS === 0 ? 'tick' : RESOLUTIONS[intervalS];
  if (resolution === undefined) {
    const lengths = Object.keys(RESOLUTIONS).join(', ');
    throw new InterchangeError(
      `Lean keeps no bars of ${intervalS} s: write ${lengths} (--interval), of which it makes the others itself, or trades (--kind trades)`,
    );
  }
  if (resolution === 'hour' || resolution === 'daily') {
    const path = `${resolution}/${ticker}_trade.zip`;
    yield { path, entry: `${ticker}.csv`, form: 'leanAll', span };
    return;
  }
  for (const { date, ...part } of daysOf(span)) {
    yield {
      path: `${resolution}/${ticker}/${date}_trade.zip`,
      entry: `${date}_${ticker}_${resolution}_trade.csv`,
      form: resolution === 'tick' ? 'tick' : 'leanDay',
      span: part,
    };
  }
}

/** Trades as ticks: milliseconds since midnight, price, amount, and that none is suspicious. */
export async function* tickLines(
  trades: AsyncIterable<readonly TradeLine[]>,
): AsyncGenerator<Buffer> {
  for await (const batch of trades) {
    const lines = batch.map(
      ({ atUs, price, amount }) => `${Math.floor(atUs / 1000) % DAY_MS},${price},${amount},0\n`,
    );
    yield Buffer.from(lines.join(''));
  }
}
