import type { Clock } from '../kernel/clock.js';
import { SECOND_MS } from '../kernel/durations.js';
import { floorToMs, isEmptySpan, normalizeSpans, overlapOf, type Span } from '../kernel/span.js';
import type { Batch, CoverageClaim, CoveredRange, StreamRef } from '../model/batch.js';
import { MOMENT_STREAMS, tableOfStream } from '../model/series.js';
import type { Present } from '../store/index.js';
import type { ArchivePort, ClaimTime } from './ports.js';

/** What of a stream waits for its next claim. */
interface Waiting {
  /** Spans that were held back. */
  readonly spans: readonly Span[];
  /** Rows that were stored without a claim. */
  readonly rows: number;
}

const NOTHING_WAITS: Waiting = { spans: [], rows: 0 };
const NOTHING_LIVED = { sinceMs: Number.NEGATIVE_INFINITY, untilMs: Number.NEGATIVE_INFINITY };

/** What is known of the present may lag behind an answer by so much. */
const AHEAD_MS = 60_000;

/**
 * The one way of coverage into the archive: every claim of every stream is cut to what the clock
 * allows, whatever a collector made of the answers.
 *
 * - Nothing ends after the present that {@link ClaimTime.lived} allows. What is older than the newest
 *   row or coverage of its stream is no growth, and passes: filling history is not slowed down.
 * - What can only be observed live begins no earlier than the time that was lived through. What
 *   is cut off there is listed as not observed.
 *
 * What is cut off above was proven all the same, if not yet known to be past: it is added to the
 * stream's next claim. After a jump ahead it lies before the time that was lived through. Rows are stored
 * at once; where nothing is left of their claim the stream's next one counts them, unless they are
 * counted where they lie.
 */
export class ClaimGate {
  readonly #archive: ArchivePort;
  readonly #time: ClaimTime;
  readonly #clock: Clock;
  #jumps: number;
  /** Up to where each stream is known to have been proven, by rows or by coverage. */
  readonly #knownMs = new Map<number, number>();
  readonly #waiting = new Map<number, Waiting>();

  constructor(archive: ArchivePort, time: ClaimTime, clock: Clock) {
    this.#archive = archive;
    this.#time = time;
    this.#clock = clock;
    this.#jumps = time.jumps;
  }

  /** The archive behind this gate. */
  get archive(): ArchivePort {
    const commit: ArchivePort['commit'] = (batch, options) => this.#commit(batch, options);
    const coveredRanges: ArchivePort['coveredRanges'] = async (stream, limit) => {
      const all = await this.#archive.coveredRanges(stream, limit);
      this.#learn(all);
      return all;
    };
    // What has not come yet is no begin either: a clock that lies must not move it there.
    const setCollectFrom: ArchivePort['setCollectFrom'] = async (streamId, fromMs, reason) => {
      const untilMs = this.#time.lived?.untilMs ?? Number.POSITIVE_INFINITY;
      const isAhead = fromMs - untilMs > AHEAD_MS;
      await this.#archive.setCollectFrom(streamId, isAhead ? untilMs : fromMs, reason);
    };
    return { ...this.#archive, commit, coveredRanges, setCollectFrom };
  }

  async #commit(batch: Batch, options: Parameters<ArchivePort['commit']>[1]) {
    this.#followJump();
    this.#learnRows(batch);
    const claims: CoverageClaim[] = [];
    const jumps = this.#jumps;
    const waitedBefore = (batch.claims ?? []).map(
      ({ stream: { streamId } }) => [streamId, this.#waitingOf(streamId)] as const,
    );
    const withheld = new Map<number, StreamRef>();
    for (const claim of batch.claims ?? []) {
      const { streamId } = claim.stream;
      const spans = await this.#allowed(claim);
      if (spans.length === 0) withheld.set(streamId, claim.stream);
      this.#leaveUncounted(streamId, claim.earlierRows ?? 0);
      for (const span of spans) {
        const waiting = this.#waitingOf(streamId);
        this.#waiting.set(streamId, { ...waiting, rows: 0 });
        claims.push({ ...claim, span, earlierRows: waiting.rows });
      }
    }
    const result = await this.#archive
      .commit({ ...batch, claims }, options)
      .catch((error: unknown) => {
        // Nothing was stored: what the claims took along waits for the next ones.
        for (const [streamId, waiting] of jumps === this.#jumps ? waitedBefore : []) {
          this.#waiting.set(streamId, waiting);
        }
        throw error;
      });
    this.#learn(result.ranges);
    for (const { stream } of claims) withheld.delete(stream.streamId);
    for (const { streamId, kind } of withheld.values()) {
      this.#leaveUncounted(streamId, result.outcomes[tableOfStream(kind)].stored);
    }
    return result;
  }

  #waitingOf(streamId: number): Waiting {
    return this.#waiting.get(streamId) ?? NOTHING_WAITS;
  }

  #leaveUncounted(streamId: number, rows: number): void {
    const waiting = this.#waitingOf(streamId);
    this.#waiting.set(streamId, { ...waiting, rows: waiting.rows + rows });
  }

  /** After a jump the former present is no measure any more: what was held back after the new one has not come. */
  #followJump(): void {
    if (this.#jumps === this.#time.jumps) return;
    this.#jumps = this.#time.jumps;
    this.#knownMs.clear();
    const { sinceMs } = this.#time.lived ?? NOTHING_LIVED;
    for (const [streamId, { spans }] of this.#waiting) {
      this.#waiting.set(streamId, { spans: within(spans, { toMs: sinceMs }), rows: 0 });
    }
  }

  #learn(ranges: readonly CoveredRange[]): void {
    for (const { streamId, span } of ranges) this.#know(streamId, span.toMs);
  }

  #know(streamId: number, ms: number): void {
    const knownMs = this.#knownMs.get(streamId) ?? Number.NEGATIVE_INFINITY;
    this.#knownMs.set(streamId, Math.max(knownMs, ms));
  }

  /** What happened at the exchange has happened there, whatever its clock says. */
  #learnRows({ trades = [], klines = [], claims = [] }: Batch): void {
    const nowMs = this.#time.nowMs();
    const newestMs = trades.reduce((ms, row) => Math.max(ms, row.tradedAtS * SECOND_MS), 0);
    if (newestMs > nowMs) this.#time.witness(newestMs);
    // Until answers agree about the time, a row may be dated as wrongly as its answer is.
    const lastMs = Math.min(nowMs, this.#time.lived?.untilMs ?? this.#clock.wallMs());
    for (const { stream } of claims) {
      const { kind, marketId, streamId, variant } = stream;
      const ofTrades = kind === 'trades' || kind === 'times' ? trades : [];
      for (const row of ofTrades) {
        const ms = row.tradedAtS * SECOND_MS;
        if (row.marketId === marketId && ms <= lastMs) this.#know(streamId, ms);
      }
      for (const row of kind === 'candles' ? klines : []) {
        const ms = row.openAtS * SECOND_MS;
        const isOwn = row.marketId === marketId && row.intervalS === variant;
        if (isOwn && ms <= lastMs) this.#know(streamId, ms);
      }
    }
  }

  async #allowed({ stream, span }: CoverageClaim): Promise<Span[]> {
    const { streamId, kind } = stream;
    const { sinceMs, untilMs } = this.#time.lived ?? NOTHING_LIVED;
    const nextMs = this.#time.nowMs() + 1;
    if (!MOMENT_STREAMS.has(kind)) {
      const knownMs = this.#knownMs.get(streamId) ?? 0;
      return cutAt(stream, span, Math.min(nextMs, Math.max(untilMs, knownMs)));
    }
    const spans = this.#withHeldBack(streamId, span, Math.min(nextMs, untilMs));
    await this.#noteUnlived(stream, spans, sinceMs);
    return within(spans, { fromMs: sinceMs });
  }

  /** A claim together with what was held back before it, less what must be held back now. */
  #withHeldBack(streamId: number, span: Span, endMs: number): Span[] {
    const waiting = this.#waitingOf(streamId);
    const spans = normalizeSpans([...waiting.spans, span]);
    this.#waiting.set(streamId, { ...waiting, spans: within(spans, { fromMs: endMs }) });
    return within(spans, { toMs: endMs });
  }

  async #noteUnlived(stream: StreamRef, spans: readonly Span[], sinceMs: number): Promise<void> {
    for (const span of within(spans, { toMs: sinceMs })) {
      const memory = { state: 'unfillable', reason: 'not observed', atMs: sinceMs } as const;
      await this.#archive.recordGap({ stream, span, ...memory });
    }
  }
}

/** The database takes a note of the present at once, or it is left to the next one. */
const NOTED_WITHIN_MS = 2000;

/** The exchange's present, to be read when the database has begun to note it; undefined when it took too long. */
export function presentUnlessLate({
  time,
  clock,
}: {
  readonly time: ClaimTime;
  readonly clock: Clock;
}): () => Present | undefined {
  const askedMs = clock.monotonicMs();
  return () => {
    const { lived, pace } = time;
    const isLate = clock.monotonicMs() - askedMs > NOTED_WITHIN_MS;
    return lived === undefined || isLate ? undefined : { presentMs: lived.presentMs, pace };
  };
}

/** What spans have between two instants. */
function within(spans: readonly Span[], between: Partial<Span>): Span[] {
  const limits = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY, ...between };
  return spans.map((one) => overlapOf(one, limits)).filter((one) => !isEmptySpan(one));
}

/** A span up to an instant, in whole seconds of trades and whole candles. */
function cutAt({ kind, variant }: StreamRef, { fromMs, toMs }: Span, endMs: number): Span[] {
  if (toMs <= endMs) return [{ fromMs, toMs }];
  const stepMs = kind === 'candles' ? variant * SECOND_MS : SECOND_MS;
  const cut = { fromMs, toMs: fromMs + floorToMs(endMs - fromMs, stepMs) };
  return isEmptySpan(cut) ? [] : [cut];
}
