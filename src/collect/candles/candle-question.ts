import type { Span } from '../../kernel/span.js';

/** Candles asked for at once: some servers cap a reply a little above this. */
export const PAGE_MAX = 1000;

/** Sees to it that no two questions in a row are the same, or a cache would answer both. */
export class CandleQuestions {
  readonly #stepMs: number;
  #last: Span | undefined;

  constructor(stepMs: number) {
    this.#stepMs = stepMs;
  }

  /** What to ask for a span: the span itself, or one that differs by a slot. */
  next({ fromMs, toMs }: Span): Span {
    const stepMs = this.#stepMs;
    const isSame = this.#last?.fromMs === fromMs && this.#last.toMs === toMs;
    const isFull = toMs - fromMs >= PAGE_MAX * stepMs;
    if (!isSame) this.#last = { fromMs, toMs };
    else if (isFull) this.#last = { fromMs: fromMs + stepMs, toMs };
    else this.#last = { fromMs, toMs: toMs + stepMs };
    return this.#last;
  }
}
