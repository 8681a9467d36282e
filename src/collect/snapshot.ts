import { isNotRecordedYet } from '../contract/gap-notices.js';
import type { Depth } from '../contract/resources.js';
import { compareDecimals } from '../kernel/decimal.js';
import { shownDuration } from '../kernel/durations.js';
import { messageOf } from '../kernel/errors.js';
import { isEmptySpan, normalizeSpans, type Span } from '../kernel/span.js';
import type { Batch, Evidence, StreamRef } from '../model/batch.js';
import { Continuity } from '../model/continuity.js';
import type { GapReason } from '../model/gap-reasons.js';
import { tableOfStream } from '../model/series.js';
import { type ExchangePort, type ExchangeReply, PRIORITY, type StreamContext } from './ports.js';
import { type StreamReport, streamReport } from './reports.js';

export interface SnapshotOptions extends Omit<StreamContext, 'time'> {
  /** Longest time between two looks that still counts as keeping the schedule. */
  readonly toleranceMs: number;
  /** Called when an answer came that proves nothing of the stream, with the reason. */
  readonly unproven: (stream: StreamRef, why: string) => void;
  /** End of the coverage that an earlier run left behind; without one, where it should begin. */
  readonly coveredUntilMs: number | undefined;
}

/** What one look brought. */
export interface Look {
  readonly observedAtMs: number;
  readonly batch: Omit<Batch, 'claims'>;
  readonly evidence: Evidence;
  /** Observations in the reply, and how many of them were refused or as before. */
  readonly received: number;
  readonly rejected: number;
  readonly unchanged: number;
  /** Why it proves nothing, such as a part that could not be read; undefined: it proves what it shows. */
  readonly unproven?: string | undefined;
  /** Since when the server knows all that happened until then; see {@link ExchangeReply}. */
  readonly knownSinceMs?: number | null;
}

/** What an answer says of the time that it shows. */
type Seen = Pick<ExchangeReply<unknown>, 'answeredAtMs' | 'cachedAtMs' | 'covered'>;

/** A stream that is first observed within this time of its making simply begins then. */
const BEGINNING_MS = 60_000;

/** Whether a missed span is only the time that a new stream took to get going. */
export function isBeginning(stream: StreamRef, missed: Span): boolean {
  return missed.fromMs === stream.collectFromMs && missed.toMs - missed.fromMs <= BEGINNING_MS;
}

/** Coverage without a new row is written at most this often. */
const QUIET_FLUSH_MS = 5000;

/**
 * Stores looks at something that cannot be fetched later, with the coverage that keeping the
 * schedule proves, and lists what was missed as a gap that nothing can fill.
 */
export class SnapshotRecorder {
  readonly #options: SnapshotOptions;
  readonly #report: StreamReport;
  readonly #continuity: Continuity;
  #flushedAtMs = Number.NEGATIVE_INFINITY;
  #isUnknownReported = false;
  /** Whether the server said, since the last look, that its archive lacks that time. */
  #isMissingAtSource = false;
  /** Why an answer since the last look proved nothing. */
  #whyMissed: string | undefined;
  #cachedAtMs = Number.NEGATIVE_INFINITY;
  /** Observed without news, and not written yet. */
  #pending: Span | undefined;

  constructor(options: SnapshotOptions) {
    this.#options = options;
    this.#report = streamReport(options.telemetry, options.stream.kind, options.market);
    this.#continuity = new Continuity(options.toleranceMs, options.coveredUntilMs);
  }

  /**
   * Whether the server answered with what it saw last, and does not know the time itself: a replay in
   * a gap of its archive. That is no observation. It is reported once, until it knows again.
   */
  isUnknown({ gaps = [] }: Pick<ExchangeReply<unknown>, 'gaps'>): boolean {
    const [gap] = gaps;
    if (gap !== undefined && !this.#isUnknownReported) {
      const message = `the archive that is replayed has a gap here (${gap.reason}); nothing counts as seen until it ends`;
      this.#report.skipped('missing_at_source', message);
    }
    this.#isUnknownReported = gap !== undefined;
    this.#isMissingAtSource ||= this.#isUnknownReported;
    if (this.#isUnknownReported) this.#whyMissed = undefined;
    return this.#isUnknownReported;
  }

  /**
   * Waits for an answer. Of an error the stream's failures say more than what an answer before it was; that
   * of a replay that has nothing yet says so.
   */
  async answer<T>(asked: Promise<T>): Promise<T> {
    try {
      return await asked;
    } catch (error) {
      this.#isMissingAtSource = isNotRecordedYet(messageOf(error));
      this.#whyMissed = undefined;
      throw error;
    }
  }

  /**
   * The time that an answer shows: that of its arrival, not of its reading, or it would seem to know
   * what happened in between; of a cached one that of the cache. Undefined when it was seen before, so
   * that nothing was observed anew.
   */
  instantOf({ answeredAtMs, cachedAtMs = null, covered = null }: Seen): number | undefined {
    if (covered !== null) return covered.toMs;
    if (cachedAtMs === null) return answeredAtMs;
    const shownMs = Math.min(answeredAtMs, Math.floor(cachedAtMs));
    // After a jump back the last one lies in the future and is no measure any more.
    if (shownMs <= this.#cachedAtMs && this.#cachedAtMs <= answeredAtMs) {
      // A cache that is slower than the schedule, and renewed in time, leaves no gap.
      if (answeredAtMs - this.#cachedAtMs > this.#options.toleranceMs) {
        this.#provesNothing('its answers come from a cache, and show what was seen before');
      }
      return undefined;
    }
    this.#cachedAtMs = shownMs;
    return shownMs;
  }

  #provesNothing(why: string): void {
    this.#whyMissed = why;
    this.#options.unproven(this.#options.stream, why);
  }

  async record(look: Look): Promise<void> {
    const { observedAtMs, knownSinceMs, received, rejected, unchanged } = look;
    this.#report.received(received);
    this.#report.settled({ rejected, unchanged });
    if (look.unproven !== undefined) {
      this.#provesNothing(look.unproven);
      await this.#recordPart(look);
      return;
    }
    const nowMs = this.#options.clock.monotonicMs();
    const { claim, missed: since } = this.#continuity.observe(observedAtMs, nowMs, knownSinceMs);
    const missed = since === undefined || isEmptySpan(since) ? undefined : since;
    // Observed before the time went back: it was no time of the exchange's.
    if (this.#pending !== undefined && this.#pending.fromMs > observedAtMs)
      this.#pending = undefined;
    const spans = normalizeSpans([claim, ...(this.#pending === undefined ? [] : [this.#pending])]);
    const isQuiet = received === unchanged && missed === undefined;
    const [only] = spans;
    if (isQuiet && spans.length === 1 && nowMs - this.#flushedAtMs < QUIET_FLUSH_MS) {
      this.#pending = only;
      this.#observed();
      return;
    }
    try {
      if (missed !== undefined) await this.#noteMissed(missed, observedAtMs);
      await this.#commit(look, spans);
    } catch (error) {
      // What did not get in must not be covered; what was pending is still proven.
      this.#continuity.undo();
      this.#report.settled({ lost: received - rejected - unchanged });
      throw error;
    }
    this.#pending = undefined;
    this.#observed();
    this.#noteWait(nowMs);
    this.#flushedAtMs = nowMs;
    this.#report.progressed(claim.toMs);
  }

  #observed(): void {
    this.#isMissingAtSource = false;
    this.#whyMissed = undefined;
  }

  /** No look follows while one waits to be stored, which a database that is away may let it do for long. */
  #noteWait(sinceMs: number): void {
    const waitedMs = this.#options.clock.monotonicMs() - sinceMs;
    if (waitedMs <= this.#options.toleranceMs) return;
    this.#whyMissed = `the look before it waited ${shownDuration(waitedMs)} for the database to store it`;
  }

  /** Stores what there is, and claims nothing: for coverage this is no observation. */
  async #recordPart(look: Look): Promise<void> {
    if (Object.values(look.batch).every((rows) => rows.length === 0)) return;
    try {
      await this.#commit(look, []);
    } catch (error) {
      this.#report.settled({ lost: look.received - look.rejected - look.unchanged });
      throw error;
    }
  }

  async #commit(look: Look, spans: readonly Span[]): Promise<void> {
    const { stream, archive } = this.#options;
    const { evidence } = look;
    const claims = spans.map((span) => ({ stream, span, evidence }));
    const result = await archive.commit({ ...look.batch, claims });
    this.#report.settled(result.outcomes[tableOfStream(stream.kind)]);
  }

  async #noteMissed(span: Span, atMs: number): Promise<void> {
    const { stream, archive } = this.#options;
    if (isBeginning(stream, span)) {
      await archive.setCollectFrom(stream.streamId, span.toMs);
      return;
    }
    const reason: GapReason = this.#isMissingAtSource ? 'missing at source' : 'not observed';
    const note = this.#whyMissed;
    const why = note === undefined ? {} : { note };
    await archive.recordGap({ stream, span, state: 'unfillable', reason, ...why, atMs });
    this.#report.gap(span, reason);
  }
}

interface DepthCollectorOptions extends SnapshotOptions {
  readonly marketId: number;
  readonly exchange: ExchangePort;
  /** Price levels asked for on each side. */
  readonly levels: number;
}

/**
 * Takes snapshots of one market's depth. A snapshot equal to the one before it is not stored again;
 * it extends coverage.
 */
export class DepthCollector {
  readonly #options: DepthCollectorOptions;
  readonly #recorder: SnapshotRecorder;
  #lastLook = '';

  constructor(options: DepthCollectorOptions) {
    this.#options = options;
    this.#recorder = new SnapshotRecorder(options);
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { exchange, market, levels, marketId } = this.#options;
    const options = { priority: PRIORITY.snapshot, signal };
    const asked = exchange.call('depth', { market, limit: levels }, options);
    const reply = await this.#recorder.answer(asked);
    if (this.#recorder.isUnknown(reply)) return;
    const { asks, bids } = sortedDepth(reply.data);
    const look = JSON.stringify([asks, bids]);
    const isUnchanged = look === this.#lastLook;
    const { receivedAtMs, covered = null } = reply;
    const observedAtMs = this.#recorder.instantOf(reply);
    if (observedAtMs === undefined) return;
    const row = {
      marketId,
      observedAtMs,
      receivedAtMs,
      bidPrices: bids.map(([price]) => price),
      bidAmounts: bids.map(([, amount]) => amount),
      askPrices: asks.map(([price]) => price),
      askAmounts: asks.map(([, amount]) => amount),
    };
    await this.#recorder.record({
      observedAtMs,
      batch: { depths: isUnchanged ? [] : [row] },
      evidence: { endpoint: 'depth', levels },
      received: 1,
      rejected: 0,
      unchanged: isUnchanged ? 1 : 0,
      knownSinceMs: covered?.fromMs ?? null,
    });
    this.#lastLook = look;
  }
}

/** Best first on both sides, whatever the server's order (field notes: bids may come ascending). */
export function sortedDepth({ asks, bids }: Depth): Depth {
  return {
    asks: [...asks].sort(([a], [b]) => compareDecimals(a, b)),
    bids: [...bids].sort(([a], [b]) => compareDecimals(b, a)),
  };
}
