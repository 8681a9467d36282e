import type { Clock } from '../kernel/clock.js';
import type { Batch, Evidence, RowOutcomes, StreamRef } from '../ledger/batch.js';
import { Continuity } from '../ledger/continuity.js';
import type { CollectEvents } from '../observe/events.js';
import type { ArchivePort, ExchangeTime } from './ports.js';

export interface SnapshotOptions {
  readonly market: string;
  readonly stream: StreamRef;
  readonly archive: ArchivePort;
  readonly time: ExchangeTime;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
  /** Longest time between two looks that still counts as keeping the schedule. */
  readonly toleranceMs: number;
  readonly coveredUntilMs: number | undefined;
}

/** What one look brought. */
export interface Look {
  readonly observedAtMs: number;
  readonly batch: Omit<Batch, 'claims'>;
  readonly evidence: Evidence;
  /** Series that the rows of the batch belong to. */
  readonly series: 'ticker' | 'depth';
  /** Observations in the reply, and how many of them were refused or as before. */
  readonly received: number;
  readonly rejected: number;
  readonly unchanged: number;
}

/** Coverage without a new row is written at most this often. */
const QUIET_FLUSH_MS = 5000;

/**
 * Stores looks at something that can not be fetched later, with the coverage that keeping the
 * schedule proves, and lists what was missed as a gap that nothing can fill.
 */
export class SnapshotRecorder {
  readonly #options: SnapshotOptions;
  readonly #continuity: Continuity;
  #flushedAtMs = Number.NEGATIVE_INFINITY;
  #pendingFromMs: number | undefined;

  constructor(options: SnapshotOptions) {
    this.#options = options;
    this.#continuity = new Continuity(options.toleranceMs, options.coveredUntilMs);
  }

  async record(look: Look): Promise<void> {
    try {
      await this.#record(look);
    } catch (error) {
      this.#continuity.interrupt();
      throw error;
    }
  }

  async #record(look: Look): Promise<void> {
    const { stream, market, archive, clock, telemetry } = this.#options;
    const nowMs = clock.monotonicMs();
    const { claim, missed } = this.#continuity.observe(look.observedAtMs, nowMs);
    telemetry.received({ stream: stream.kind, market, count: look.received });
    this.#settle({ rejected: look.rejected, unchanged: look.unchanged });
    if (missed !== undefined) {
      this.#pendingFromMs = undefined;
      const { kind } = stream;
      await archive.recordGap({
        stream,
        span: missed,
        state: 'unfillable',
        reason: 'not observed',
        atMs: look.observedAtMs,
      });
      const lengthMs = missed.toMs - missed.fromMs;
      telemetry.gapFound({ stream: kind, market, reason: 'not_observed', lengthMs });
    }
    const fromMs = Math.min(this.#pendingFromMs ?? claim.fromMs, claim.fromMs);
    const isQuiet = look.received === look.unchanged && missed === undefined;
    if (isQuiet && nowMs - this.#flushedAtMs < QUIET_FLUSH_MS) {
      this.#pendingFromMs = fromMs;
      return;
    }
    const span = { fromMs, toMs: claim.toMs };
    const result = await archive.commit({
      ...look.batch,
      claims: [{ stream, span, evidence: look.evidence }],
    });
    this.#pendingFromMs = undefined;
    this.#flushedAtMs = nowMs;
    this.#settle(result.outcomes[look.series]);
    telemetry.progressed({ stream: stream.kind, market, newestMs: claim.toMs });
  }

  #settle(outcomes: Partial<RowOutcomes> & { unchanged?: number }): void {
    const { telemetry, stream, market } = this.#options;
    for (const [outcome, count] of Object.entries(outcomes)) {
      if (count > 0) {
        telemetry.settled({
          stream: stream.kind,
          market,
          outcome: outcome as keyof typeof outcomes,
          count,
        });
      }
    }
  }
}
