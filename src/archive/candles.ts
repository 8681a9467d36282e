import { addDecimals, compareDecimals } from '../kernel/decimal.js';
import { SECOND_MS } from '../kernel/durations.js';
import { ceilToMs, normalizeSpans, type Span } from '../kernel/span.js';
import type { RowOf } from '../model/series.js';

/** Candles made of trades. */

/** A candle as far as its trades have come. */
export interface BuiltCandle {
  readonly openAtS: number;
  readonly open: string;
  readonly close: string;
  readonly high: string;
  readonly low: string;
  readonly volume: string;
  readonly amount: string;
}

/** A sum of decimals in plain notation, exact. */
export class ExactSum {
  #digits = 0n;
  #scale = 0;

  add(text: string): void {
    const point = text.indexOf('.');
    const scale = point < 0 ? 0 : text.length - point - 1;
    let digits = BigInt(point < 0 ? text : text.slice(0, point) + text.slice(point + 1));
    if (scale > this.#scale) {
      this.#digits *= 10n ** BigInt(scale - this.#scale);
      this.#scale = scale;
    } else if (scale < this.#scale) {
      digits *= 10n ** BigInt(this.#scale - scale);
    }
    this.#digits += digits;
  }

  toString(): string {
    const sign = this.#digits < 0n ? '-' : '';
    const digits = String(this.#digits)
      .replace('-', '')
      .padStart(this.#scale + 1, '0');
    if (this.#scale === 0) return sign + digits;
    const point = digits.length - this.#scale;
    return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
  }
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };
type Traded = Pick<RowOf<'trade'>, 'tradedAtS' | 'price' | 'amount' | 'total'>;

/** Numbers show which is greater wherever they differ; the rest needs the digits. */
function isGreater(a: string, b: string): boolean {
  if (a === b) return false;
  const difference = Number(a) - Number(b);
  return difference === 0 ? compareDecimals(a, b) > 0 : difference > 0;
}

/**
 * Sums trades up to candles of one length: the first trade of a candle is its open, never the close
 * before. Candles begin at whole multiples of their length, as the exchange's do.
 */
export class CandleMaker {
  readonly #intervalS: number;
  #candle: Omit<Mutable<BuiltCandle>, 'volume' | 'amount'> | undefined;
  #volume = new ExactSum();
  #amount = new ExactSum();

  constructor(intervalS: number) {
    this.#intervalS = intervalS;
  }

  /** Trades in the order of second and id. @returns the candle that this one is behind */
  add({ tradedAtS, price, amount, total }: Traded): BuiltCandle | undefined {
    const openAtS = Math.floor(tradedAtS / this.#intervalS) * this.#intervalS;
    const done = this.#candle?.openAtS === openAtS ? undefined : this.end();
    this.#candle ??= { openAtS, open: price, high: price, low: price, close: price };
    const candle = this.#candle;
    if (isGreater(price, candle.high)) candle.high = price;
    if (isGreater(candle.low, price)) candle.low = price;
    candle.close = price;
    this.#volume.add(amount);
    this.#amount.add(total);
    return done;
  }

  /** The candle of the trades so far, if there were any. */
  end(): BuiltCandle | undefined {
    if (this.#candle === undefined) return undefined;
    const sums = { volume: String(this.#volume), amount: String(this.#amount) };
    const done = { ...this.#candle, ...sums };
    this.#candle = undefined;
    this.#volume = new ExactSum();
    this.#amount = new ExactSum();
    return done;
  }
}

/** Two parts of one candle, the earlier first, as one. */
export function joinCandles(earlier: BuiltCandle, later: BuiltCandle): BuiltCandle {
  return {
    openAtS: earlier.openAtS,
    open: earlier.open,
    close: later.close,
    high: isGreater(later.high, earlier.high) ? later.high : earlier.high,
    low: isGreater(earlier.low, later.low) ? later.low : earlier.low,
    volume: addDecimals(earlier.volume, later.volume),
    amount: addDecimals(earlier.amount, later.amount),
  };
}

/** Candles of pieces of time that follow each other: one that both hold a part of is one. */
export function appendCandles(candles: BuiltCandle[], later: readonly BuiltCandle[]): void {
  const [first, ...rest] = later;
  const last = candles.at(-1);
  if (first === undefined) return;
  if (last?.openAtS === first.openAtS) {
    candles[candles.length - 1] = joinCandles(last, first);
    candles.push(...rest);
  } else candles.push(...later);
}

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
