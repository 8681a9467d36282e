import { SECOND_MS } from '../kernel/durations.js';
import { floorToMs, overlapOf, type Span } from '../kernel/span.js';
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

/** Parts of a claimed span. Each may be empty. */
export interface LivedParts {
  readonly allowed: Span;
  /** Proven, and not known to be past: waits for the next claim. */
  readonly later: Span;
  /** Time that was not lived through: listed as not observed. */
  readonly unlived: Span;
}

const NOTHING_LIVED = { sinceMs: Number.NEGATIVE_INFINITY, untilMs: Number.NEGATIVE_INFINITY };
const EMPTY: Span = { fromMs: 0, toMs: 0 };
/** What is known of the present may lag behind a response by so much. */
const AHEAD_MS = 60_000;

/**
 * Cuts a claim to what the clock allows. What can only be observed live is claimed of time that was
 * lived through. Anything else ends at the present or at the newest known row or coverage, in whole
 * seconds or candles, so that filling history is not slowed down.
 */
export function livedParts(
  { kind, variant }: Pick<StreamRef, 'kind' | 'variant'>,
  span: Span,
  { lived = NOTHING_LIVED, nowMs, knownMs }: ClaimedAt,
): LivedParts {
  const { sinceMs, untilMs } = lived;
  const { fromMs, toMs } = span;
  if (!MOMENT_STREAMS.has(kind)) {
    const endMs = Math.min(nowMs + 1, Math.max(untilMs, knownMs));
    const stepMs = kind === 'candles' ? variant * SECOND_MS : SECOND_MS;
    const cutMs = toMs <= endMs ? toMs : fromMs + floorToMs(Math.max(0, endMs - fromMs), stepMs);
    return { allowed: { fromMs, toMs: cutMs }, later: EMPTY, unlived: EMPTY };
  }
  const endMs = Math.min(nowMs + 1, untilMs);
  return {
    allowed: overlapOf(span, { fromMs: sinceMs, toMs: endMs }),
    later: overlapOf(span, { fromMs: endMs, toMs: Number.POSITIVE_INFINITY }),
    unlived: overlapOf(span, { fromMs: Number.NEGATIVE_INFINITY, toMs: Math.min(sinceMs, endMs) }),
  };
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
