/**
 * Half-open spans of time `[fromMs, toMs)` in UNIX milliseconds UTC, and the arithmetic on sorted
 * lists of them. A *normalised* list is sorted, without empty, overlapping or touching members.
 */

/** A half-open span of time, UNIX milliseconds. */
export interface Span {
  /** Start, inclusive. */
  readonly fromMs: number;
  /** End, exclusive. */
  readonly toMs: number;
}

export function isEmptySpan({ fromMs, toMs }: Span): boolean {
  return toMs <= fromMs;
}

export function spanLengthMs({ fromMs, toMs }: Span): number {
  return Math.max(0, toMs - fromMs);
}

export function spanContains({ fromMs, toMs }: Span, instantMs: number): boolean {
  return fromMs <= instantMs && instantMs < toMs;
}

/** Returns true if all of `inner` lies in `outer`. */
export function holdsSpan(outer: Span, inner: Span): boolean {
  return outer.fromMs <= inner.fromMs && inner.toMs <= outer.toMs;
}

/** Returns true if two spans have anything in common. */
export function doOverlap(a: Span, b: Span): boolean {
  return a.fromMs < b.toMs && b.fromMs < a.toMs;
}

/** Returns the overlap of two spans; empty if there is none. */
export function overlapOf(a: Span, b: Span): Span {
  return { fromMs: Math.max(a.fromMs, b.fromMs), toMs: Math.min(a.toMs, b.toMs) };
}

/** From the first time of any of these spans to the last; of none an empty span. */
export function hullOf(spans: Iterable<Span>): Span {
  let hull = { fromMs: Number.POSITIVE_INFINITY, toMs: Number.NEGATIVE_INFINITY };
  for (const { fromMs, toMs } of spans) {
    hull = { fromMs: Math.min(hull.fromMs, fromMs), toMs: Math.max(hull.toMs, toMs) };
  }
  return hull;
}

/** Sorts spans and joins those that overlap or touch. */
export function normalizeSpans(spans: Iterable<Span>): Span[] {
  const sorted = [...spans].filter((one) => !isEmptySpan(one));
  sorted.sort((a, b) => a.fromMs - b.fromMs);
  const joined: Span[] = [];
  for (const next of sorted) {
    const last = joined.at(-1);
    if (last !== undefined && next.fromMs <= last.toMs) {
      joined[joined.length - 1] = { fromMs: last.fromMs, toMs: Math.max(last.toMs, next.toMs) };
    } else {
      joined.push(next);
    }
  }
  return joined;
}

/** The parts of a span, or of each of several, that no member of `parts` covers: expected minus covered. */
export function subtractSpans(whole: Span | readonly Span[], parts: Iterable<Span>): Span[] {
  const taken = normalizeSpans(parts);
  const rest: Span[] = [];
  for (const one of 'fromMs' in whole ? [whole] : whole) {
    let fromMs = one.fromMs;
    for (const part of taken) {
      if (part.toMs <= fromMs) continue;
      if (part.fromMs >= one.toMs) break;
      if (part.fromMs > fromMs) rest.push({ fromMs, toMs: part.fromMs });
      fromMs = part.toMs;
    }
    if (fromMs < one.toMs) rest.push({ fromMs, toMs: one.toMs });
  }
  return rest;
}

/** Total length of a list of spans in milliseconds, each instant counted once. */
export function totalLengthMs(spans: Iterable<Span>): number {
  return normalizeSpans(spans).reduce((sum, one) => sum + spanLengthMs(one), 0);
}

/** The greatest multiple of `stepMs` that is not after `instantMs`. */
export function floorToMs(instantMs: number, stepMs: number): number {
  return Math.floor(instantMs / stepMs) * stepMs;
}

/** The smallest multiple of `stepMs` that is not before `instantMs`. */
export function ceilToMs(instantMs: number, stepMs: number): number {
  return Math.ceil(instantMs / stepMs) * stepMs;
}
