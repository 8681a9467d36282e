import { SECOND_MS } from '../kernel/durations.js';
import { floorToMs, isEmptySpan, overlapOf, type Span } from '../kernel/span.js';
import type { Batch, StreamRef } from './batch.js';
import { MOMENT_STREAMS } from './series.js';

/** Exchange time that was lived through, as far as its clock is sure. */
export interface Lived {
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** The time of a claim; exchange milliseconds. */
export interface ClaimedAt {
  /** Undefined: the time is not settled, and nothing was lived through. */
  readonly lived: Lived | undefined;
  readonly nowMs: number;
  /** End of what rows or coverage of the stream showed. */
  readonly knownMs: number;
}

/** Parts of claimed spans. */
export interface LivedParts {
  readonly allowed: Span[];
  /** Proven, and not known to be past: waits for the next claim. */
  readonly later: Span[];
  /** Time that was not lived through: listed as not observed. */
  readonly unlived: Span[];
}

const NOTHING_LIVED = { sinceMs: Number.NEGATIVE_INFINITY, untilMs: Number.NEGATIVE_INFINITY };
/** Longest lag of the known present behind a response. */
const AHEAD_MS = 60_000;

/**
 * Cuts claims to what the clock allows. What can only be observed live is claimed of time that was
 * lived through. Anything else ends at the present or at the newest known row or coverage, in whole
 * seconds or candles, so that filling history is not slowed down.
 */
export function livedParts(
  { kind, variant }: Pick<StreamRef, 'kind' | 'variant'>,
  spans: readonly Span[],
  { lived = NOTHING_LIVED, nowMs, knownMs }: ClaimedAt,
): LivedParts {
  const { sinceMs, untilMs } = lived;
  if (MOMENT_STREAMS.has(kind)) {
    const endMs = Math.min(nowMs + 1, untilMs);
    return {
      allowed: within(spans, sinceMs, endMs),
      later: within(spans, endMs, Number.POSITIVE_INFINITY),
      unlived: within(spans, Number.NEGATIVE_INFINITY, Math.min(sinceMs, endMs)),
    };
  }
  const endMs = Math.min(nowMs + 1, Math.max(untilMs, knownMs));
  const stepMs = kind === 'candles' ? variant * SECOND_MS : SECOND_MS;
  const allowed = spans.map(({ fromMs, toMs }) => {
    const isPast = toMs <= endMs;
    return { fromMs, toMs: isPast ? toMs : fromMs + floorToMs(endMs - fromMs, stepMs) };
  });
  return { allowed: allowed.filter((span) => !isEmptySpan(span)), later: [], unlived: [] };
}

/** Returns what spans have between two instants. */
export function within(spans: readonly Span[], fromMs: number, toMs: number): Span[] {
  return spans.map((one) => overlapOf(one, { fromMs, toMs })).filter((one) => !isEmptySpan(one));
}

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

/** Start of expected coverage, which a clock that lies must not move far beyond the present. */
export function notAhead(fromMs: number, lived: Lived | undefined): number {
  const untilMs = lived?.untilMs ?? Number.POSITIVE_INFINITY;
  return fromMs - untilMs > AHEAD_MS ? untilMs : fromMs;
}

/** Times of the rows of a batch that happened at the exchange; milliseconds. */
export function happenedMs({ trades = [], klines = [] }: Batch): number[] {
  const trade = trades.map(({ tradedAtS }) => tradedAtS * SECOND_MS);
  return [...trade, ...klines.map(({ openAtS }) => openAtS * SECOND_MS)];
}
