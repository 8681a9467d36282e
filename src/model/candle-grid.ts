import { DAY_MS } from '../kernel/durations.js';
import { ceilToMs, floorToMs, type Span, subtractSpans } from '../kernel/span.js';

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
