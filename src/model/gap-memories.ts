import { doOverlap, hullOf, type Span, subtractSpans } from '../kernel/span.js';

/** Memory of a span that was, or is, not proven complete. */
export interface GapMemory {
  /** Null: the archive has not given it one yet. */
  readonly gapId: number | null;
  readonly span: Span;
  readonly state: 'open' | 'filling' | 'filled' | 'unfillable';
  readonly reason: string;
  /** Result of the last attempt. */
  readonly note: string | null;
  /** Remarks of people. */
  readonly remarks: string | null;
  readonly firstSeenAtMs: number;
  readonly attempts: number;
  readonly nextAttemptAtMs: number | null;
  readonly closedAtMs: number | null;
  readonly revokedAtMs: number | null;
}

/** Finding about a span. */
export interface GapFinding {
  readonly span: Span;
  readonly state: GapMemory['state'];
  readonly reason: string;
  readonly note: string | null;
  /** Words of a person, in addition to those that are there. */
  readonly remarks?: string;
  readonly atMs: number;
  readonly nextAttemptAtMs: number | null;
  /** It was tried to fill the span, in vain. */
  readonly isAttempt: boolean;
  /** Coverage of the span was taken back with this; undefined leaves what is remembered of that. */
  readonly revokedAtMs?: number | null;
}

export interface GapChanges {
  readonly removed: readonly number[];
  /** In an order in which none overlaps another on the way. */
  readonly kept: readonly GapMemory[];
}

/**
 * Puts a finding among the memories of its stream. What was found last holds, exactly for its span:
 * of memories that reach beyond it the rest stays as it is. The count of tries goes on from what was
 * remembered of any part of the span, so that a pause never starts from the beginning because a gap
 * has shrunk. What was given up piece by piece for one reason is one memory, which keeps its id while it grows.
 * Of the memories that become one the oldest id stays, so that a gap that is tried again is found under it.
 *
 * @param near memories of the stream that are not filled and overlap the finding or touch it, apart from each other
 */
export function placeFinding(near: readonly GapMemory[], finding: GapFinding): GapChanges {
  const { state, reason, atMs, nextAttemptAtMs } = finding;
  const begun = near.find((one) => one.span.fromMs === finding.span.fromMs);
  // The result of the last attempt says nothing of another reason.
  const note = finding.note ?? (begun?.reason === reason ? begun.note : null);
  const revokedAtMs =
    finding.revokedAtMs === undefined ? (begun?.revokedAtMs ?? null) : finding.revokedAtMs;
  const alike = near.filter(
    (one) =>
      one.state === 'unfillable' &&
      state === 'unfillable' &&
      one.reason === reason &&
      one.note === note &&
      one.revokedAtMs === revokedAtMs,
  );
  const span = hullOf([finding.span, ...alike.map((one) => one.span)]);
  const held = near.filter((one) => doOverlap(one.span, span));
  const swallowed = held.filter((one) => subtractSpans(one.span, [span]).length === 0);
  const [same = begun] = swallowed.toSorted((a, b) => (a.gapId ?? 0) - (b.gapId ?? 0));
  const removed: number[] = [];
  const rests: GapMemory[] = [];
  for (const one of held) {
    const isSame = one === same;
    const parts = subtractSpans(one.span, [span]);
    for (const [place, part] of parts.entries()) {
      const keepsRow = place === 0 && !isSame;
      rests.push({ ...one, gapId: keepsRow ? one.gapId : null, span: part });
    }
    if (parts.length === 0 && !isSame && one.gapId !== null) removed.push(one.gapId);
  }
  const isClosed = state === 'filled' || state === 'unfillable';
  // A span that is requested piece by piece, downwards, was tried once its lowest piece was.
  const triesOf = (one: GapMemory) => {
    const isTried = doOverlap(one.span, finding.span);
    const isLowest = !alike.includes(one) || finding.span.fromMs === one.span.fromMs;
    return one.attempts + (finding.isAttempt && isTried && isLowest ? 1 : 0);
  };
  const placed: GapMemory = {
    gapId: same?.gapId ?? null,
    span,
    state,
    reason,
    note,
    remarks: joinRemarks(held, finding.remarks),
    firstSeenAtMs: Math.min(atMs, ...held.map(({ firstSeenAtMs }) => firstSeenAtMs)),
    attempts: Math.max(finding.isAttempt ? 1 : 0, ...held.map(triesOf)),
    nextAttemptAtMs,
    closedAtMs: isClosed ? atMs : null,
    revokedAtMs,
  };
  // Rows that shrink make room before new ones take it, and the finding's row may grow.
  const shrunk = rests.filter(({ gapId }) => gapId !== null);
  const split = rests.filter(({ gapId }) => gapId === null);
  return {
    removed,
    kept: placed.gapId === null ? [...shrunk, ...split, placed] : [...shrunk, placed, ...split],
  };
}

function joinRemarks(held: readonly GapMemory[], added?: string): string | null {
  const all = new Set([...held.map(({ remarks }) => remarks), added ?? null]);
  all.delete(null);
  return all.size === 0 ? null : [...all].join('\n');
}
