import type { StreamRef } from '../model/batch.js';
import { type GapReason, reasonLabel } from '../model/gap-reasons.js';
import type { CollectEvents } from '../observe/events.js';
import type { ArchivePort } from './ports.js';
import { isBeginning } from './snapshot.js';

export interface StateGapsOptions {
  readonly market: string;
  readonly periodS: number;
  readonly stream: StreamRef;
  readonly archive: Pick<ArchivePort, 'recordGap' | 'setCollectFrom'>;
  readonly telemetry: CollectEvents;
  /** End of the coverage that an earlier run left behind; without one, where it should begin. */
  readonly coveredUntilMs: number | undefined;
}

/** A gap since the last coverage, which may still grow. */
interface Missed {
  readonly fromMs: number;
  readonly toMs: number;
  readonly reason: GapReason;
}

/**
 * Lists what is missing of the states of one market and period, with what happened. None of it can be
 * fetched later. What goes on for the same reason is one gap, however many connections it takes.
 */
export class StateGaps {
  readonly #options: StateGapsOptions;
  #coveredUntilMs: number | undefined;
  #missed: Missed | undefined;
  #isToldNotOffered = false;

  constructor(options: StateGapsOptions) {
    this.#options = options;
    this.#coveredUntilMs = options.coveredUntilMs;
  }

  coveredUntil(ms: number): void {
    this.#coveredUntilMs = ms;
    this.#missed = undefined;
  }

  /** What is missing before the first that a connection covers. */
  async before(untilMs: number, isAtGap: boolean): Promise<void> {
    const { archive, stream } = this.#options;
    const fromMs = this.#coveredUntilMs;
    if (fromMs !== undefined && isBeginning(stream, { fromMs, toMs: untilMs })) {
      await archive.setCollectFrom(stream.streamId, untilMs);
      return;
    }
    const wasSilent = this.#missed?.reason === 'no updates';
    const reason = isAtGap ? 'missing at source' : wasSilent ? 'no updates' : 'no connection';
    await this.#note(untilMs, reason);
  }

  /** A connection that answers and reports nothing: listed while it lasts. */
  async silent(openedMs: number, untilMs: number): Promise<void> {
    if (this.#missed?.reason !== 'no updates') await this.#note(openedMs, 'no connection');
    await this.#note(untilMs, 'no updates');
  }

  /** The exchange sends states of another period only. Reported once, and listed while it is so. */
  async notOffered(untilMs: number): Promise<void> {
    const { telemetry, market, periodS } = this.#options;
    if (!this.#isToldNotOffered) {
      const message = `the exchange subscribes lists of markets and tells no states of ${periodS} s; take ${periodS} out of streams.states.periodsS`;
      const code = 'period_not_offered';
      telemetry.pollFailed({ stream: 'state', market, code, message, action: 'skip' });
    }
    this.#isToldNotOffered = true;
    await this.#note(untilMs, 'not offered');
  }

  async #note(untilMs: number, reason: GapReason): Promise<void> {
    const { archive, stream, market, telemetry } = this.#options;
    const last = this.#missed;
    const listedMs = last?.toMs ?? this.#coveredUntilMs;
    if (listedMs === undefined || listedMs >= untilMs) return;
    const span = { fromMs: last?.reason === reason ? last.fromMs : listedMs, toMs: untilMs };
    await archive.recordGap({ stream, span, state: 'unfillable', reason, atMs: untilMs });
    this.#missed = { ...span, reason };
    const lengthMs = untilMs - listedMs;
    telemetry.gapFound({ stream: 'state', market, reason: reasonLabel(reason), lengthMs });
  }
}
