import type { OpenGapTotal, RunCountsSnapshot } from '../observe/run-counts.js';

/** What stands in one place of the status: shown as it is. */
export type StatusValue = string | number | boolean | null;

/** One stream as operators see it. */
export interface StatusStream {
  readonly stream: string;
  readonly received: number;
  readonly stored: number;
  readonly duplicate: number;
  /** In quarantine: refused, or in conflict with what was stored first. */
  readonly refused: number;
  readonly lost: number;
  readonly inFlight: number;
  /** Exchange time now minus the newest stored time, seconds; null before the first row. */
  readonly lagS: number | null;
  /** The same for the market that is furthest behind. */
  readonly slowestLagS: number | null;
  readonly openGaps: number;
  readonly openGapS: number;
}

/** What is missing of one kind of stream and may still be had, by why it is missing. */
export interface StatusGap {
  readonly stream: string;
  readonly reason: string;
  readonly lengthS: number;
  /** Exchange time now minus the oldest missing time, seconds. */
  readonly oldestAgeS: number;
}

/** Body of `/status`, and what the status page shows. */
export interface StatusDocument {
  /** Single figures by name: exchange, version, when started, addresses. */
  readonly facts: Readonly<Record<string, StatusValue>>;
  readonly streams: readonly StatusStream[];
  /** Open gaps, the longest first; null until they were counted. */
  readonly gaps: readonly StatusGap[] | null;
}

const tenths = (ms: number) => Math.round(ms / 100) / 10;

/** Turns the running totals into rows of the status. */
export function statusStreams(snapshot: RunCountsSnapshot, exchangeNowMs: number): StatusStream[] {
  const lagS = (ms: number | null) =>
    ms === null ? null : tenths(Math.max(0, exchangeNowMs - ms));
  return snapshot.streams.map((totals) => ({
    stream: totals.stream,
    received: totals.received,
    stored: totals.stored + totals.updated,
    duplicate: totals.duplicate + totals.unchanged,
    refused: totals.conflict + totals.rejected,
    lost: totals.lost,
    inFlight: totals.inFlight,
    lagS: lagS(totals.newestMs),
    slowestLagS: lagS(totals.slowestMs),
    openGaps: totals.openGaps,
    openGapS: tenths(totals.openGapMs),
  }));
}

/** Turns the open gaps as they were counted last into rows of the status. */
export function statusGaps(counted: readonly OpenGapTotal[]): StatusGap[] {
  return counted.map(({ stream, reason, lengthMs, oldestAgeMs }) => ({
    stream,
    reason,
    lengthS: tenths(lengthMs),
    oldestAgeS: tenths(oldestAgeMs),
  }));
}
