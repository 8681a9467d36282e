import { normalizeSpans, type Span } from '../../kernel/span.js';

/** Tells whether pieces of time are covered whole; they are asked for oldest first. */
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
