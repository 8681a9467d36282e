import type { Span } from '../kernel/span.js';

/** Proof of an observation, and what was missed before it. */
export interface Observed {
  /** Covered by this observation. */
  readonly claim: Span;
  /** Not observed since the last time, when that was too long ago. */
  readonly missed: Span | undefined;
}

/**
 * Coverage of things that can only be observed live (depth, tickers): a span is covered while one
 * observation follows the other within a tolerance. Instants without an observation are gone.
 *
 * @param untilMs end of what is accounted for before it, exchange time; undefined: nothing is
 * @param isKept whether the observation before it is within the tolerance
 */
export function observedAt(atMs: number, untilMs: number | undefined, isKept: boolean): Observed {
  const at = Math.floor(atMs);
  const alone = { fromMs: at, toMs: at + 1 };
  // The first look ever, or the exchange's clock was set back: only this time is proven.
  if (untilMs === undefined || at < untilMs) return { claim: alone, missed: undefined };
  if (isKept) return { claim: { fromMs: untilMs, toMs: at + 1 }, missed: undefined };
  const missed = { fromMs: untilMs, toMs: at };
  return { claim: alone, missed: at === untilMs ? undefined : missed };
}
