import type { TallySnapshot } from '../observe/tally.js';

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
  /** Exchange time now minus the newest stored moment, seconds; null before the first row. */
  readonly lagS: number | null;
  /** The same for the market that is furthest behind. */
  readonly slowestLagS: number | null;
  readonly openGaps: number;
  readonly openGapS: number;
}

/** Body of `/status`, and what the status page shows. */
export interface StatusDocument {
  /** Single figures by name: exchange, version, when started, addresses. */
  readonly facts: Readonly<Record<string, StatusValue>>;
  readonly streams: readonly StatusStream[];
}

const tenths = (ms: number) => Math.round(ms / 100) / 10;

/** Turns the running totals into rows of the status. */
export function statusStreams(snapshot: TallySnapshot, exchangeNowMs: number): StatusStream[] {
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
