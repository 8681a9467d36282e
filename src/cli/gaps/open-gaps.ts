import type { GapTotals, StreamStatus } from '../../store/index.js';

/** Open time of one kind of stream, by why it is open. */
export interface OpenGaps {
  readonly stream: string;
  readonly reason: string;
  readonly lengthMs: number;
  /** The oldest moment that is missing and may still be had. */
  readonly oldestMs: number;
}

/** What nobody has asked for yet. */
const NOT_COLLECTED = 'not collected';

/**
 * Open gaps by kind and reason, over all markets. What is newer than the newest covered moment of a
 * stream is its lag and no gap: it is told apart, and always there.
 */
export function openGapsOf(
  totals: readonly GapTotals[],
  streams: readonly StreamStatus[],
  nowMs: number,
): OpenGaps[] {
  const newestMs = new Map(streams.map((one) => [one.streamId, one.newestCoveredMs]));
  const sums = new Map<string, OpenGaps>();
  for (const { streamId, kind: stream, state, reason, ...total } of totals) {
    if (state !== 'open') continue;
    const lagMs = reason === NOT_COLLECTED ? nowMs - (newestMs.get(streamId) ?? nowMs) : 0;
    const lengthMs = total.lengthMs - Math.max(0, lagMs);
    if (lengthMs < 1) continue;
    const key = `${stream} ${reason}`;
    const sum = sums.get(key) ?? { stream, reason, lengthMs: 0, oldestMs: total.oldestMs };
    sums.set(key, {
      ...sum,
      lengthMs: sum.lengthMs + lengthMs,
      oldestMs: Math.min(sum.oldestMs, total.oldestMs),
    });
  }
  return [...sums.values()].sort((a, b) => b.lengthMs - a.lengthMs);
}
