import type { GapReason } from './gap-reasons.js';
import { MOMENT_STREAMS, type StreamKind } from './series.js';

/** Why the coverage of a stream does not grow. */
export interface Stall {
  readonly reason: GapReason;
  readonly note: string;
}

/** What is known of a stream whose coverage did not grow for a while. */
export interface StallFacts {
  readonly kind: StreamKind;
  /** Nothing was covered since the program started. */
  readonly isFromStart: boolean;
  /** What failed since coverage grew last. */
  readonly failure: Stall | undefined;
  /** A connection that brings it is open. */
  readonly isConnected: boolean;
  /** Time without growth beyond what is usual, of this machine. */
  readonly standingMs: number;
  /** Exchange time that is not covered. */
  readonly behindMs: number;
}

/** A stream stalls when it has not grown for so long beyond what is usual for it. */
const STANDING_MS = 15_000;
/** The same of one of which nothing is known to have failed: it may wait for its turn. */
const SILENT_MS = 300_000;

/** Cause of a feed that is connected again and again, and brings no update. */
export const STALLED_FEED: Stall = {
  reason: 'no updates',
  note: 'answers to queries show deals that no update brought',
};

/** Returns why a stream stalls; undefined for one that does not, or of which that is not known. */
export function stallOf(facts: StallFacts): Stall | undefined {
  const { kind, standingMs, behindMs } = facts;
  if (standingMs < STANDING_MS) return undefined;
  const trouble = troubleOf(facts);
  // Where the exchange's time stands still nothing is missing.
  const isSilent = kind !== 'states' && Math.min(standingMs, behindMs) >= SILENT_MS;
  return trouble ?? (isSilent ? nothingProven(kind, 'then') : undefined);
}

/** Returns what went wrong since it grew last; undefined where that is not known. */
export function troubleOf({
  kind,
  isFromStart,
  failure,
  isConnected,
}: Omit<StallFacts, 'standingMs' | 'behindMs'>): Stall | undefined {
  if (kind !== 'states')
    return failure ?? (isFromStart ? nothingProven(kind, 'the start') : failure);
  if (failure === STALLED_FEED) return failure;
  // A feed that is connected and silent is no failure: nothing may have happened.
  if (isConnected) return undefined;
  return { reason: 'no connection', note: failure?.note ?? 'no connection brought a state' };
}

function nothingProven(kind: StreamKind, since: string): Stall {
  const reason = MOMENT_STREAMS.has(kind) ? 'not observed' : 'not collected';
  return { reason, note: `no answer since ${since} proved anything of it` };
}
