import { BoundedMap } from '../../kernel/bounded.js';
import { normalizeSpans, type Span, subtractSpans } from '../../kernel/span.js';
import type { Gap } from '../../model/gaps.js';
import { wholeSeconds } from './source.js';

/** A search takes some tries; what took so many goes before nothing any more. */
const VAIN_TRIES = 4;
const TRIED_MAX = 100;

/**
 * Spans that are to be filled besides what is collected anyway. While the walk back through history goes on, they
 * go before it: it may take days to come to them.
 */
export class WantedSpans {
  #all: readonly Span[] = [];
  /** Those that go before. */
  #first: readonly Span[] = [];
  #hasNew = false;
  readonly #vainTries = new BoundedMap<number, number>(TRIED_MAX);

  /** Sorted and apart; another list after each change. */
  get all(): readonly Span[] {
    return this.#all;
  }

  /** Takes a span in whole seconds, as trades are covered; one that is wanted already is nothing new. */
  add(span: Span): void {
    const whole = wholeSeconds(span);
    if (subtractSpans(whole, this.#all).length === 0) return;
    this.#all = normalizeSpans([...this.#all, whole]);
    this.#first = normalizeSpans([...this.#first, whole]);
    this.#hasNew = true;
  }

  /** Whether something new was added since this was asked last. */
  takeNew(): boolean {
    const hasNew = this.#hasNew;
    this.#hasNew = false;
    return hasNew;
  }

  touches({ fromMs, edgeMs }: Gap): boolean {
    return this.#all.some((span) => fromMs < span.toMs && span.fromMs < edgeMs);
  }

  /** A try below an edge led nowhere. What is wanted there may lie before history, which the walk will show. */
  triedInVain(edgeMs: number): void {
    const tries = (this.#vainTries.get(edgeMs) ?? 0) + 1;
    this.#vainTries.set(edgeMs, tries);
    if (tries < VAIN_TRIES) return;
    this.#first = this.#first.filter(({ fromMs, toMs }) => edgeMs <= fromMs || toMs < edgeMs);
  }

  /** Whether a gap goes before: its edge lies within what is wanted. */
  isFirst({ edgeMs }: Gap): boolean {
    return this.#first.some(({ fromMs, toMs }) => fromMs < edgeMs && edgeMs <= toMs);
  }

  /** What goes before and lies within a gap, as gaps of its own, newest first. */
  within({ fromMs, edgeMs }: Gap): Gap[] {
    return this.#first
      .filter((span) => fromMs <= span.fromMs && span.toMs < edgeMs)
      .map((span) => ({ fromMs: span.fromMs, edgeMs: span.toMs }))
      .reverse();
  }
}
