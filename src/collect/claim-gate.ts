import type { Clock } from '../kernel/clock.js';
import { SECOND_MS } from '../kernel/durations.js';
import { floorToMs, isEmptySpan, normalizeSpans, overlapOf, type Span } from '../kernel/span.js';
import type {
  Batch,
  CoverageClaim,
  CoveredRange,
  GapRecord,
  StreamRef,
  StreamStart,
} from '../model/batch.js';
import { MOMENT_STREAMS } from '../model/series.js';
import type { Present } from '../store/index.js';
import type { ArchivePort, ClaimTime } from './ports.js';

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
 * at once.
 */
export class ClaimGate {
  readonly #archive: ArchivePort;
  readonly #time: ClaimTime;
  readonly #clock: Clock;
  #jumps: number;
  /** Up to where each stream is known to have been proven, by rows or by coverage. */
  readonly #knownMs = new Map<number, number>();
  /** Spans of each stream that wait for its next claim. */
  readonly #waiting = new Map<number, readonly Span[]>();

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
    return { ...this.#archive, commit, coveredRanges };
  }

  async #commit(batch: Batch, options: Parameters<ArchivePort['commit']>[1]) {
    this.#followJump();
    this.#learnRows(batch);
    const jumps = this.#jumps;
    const waitedBefore = (batch.claims ?? []).map(
      ({ stream: { streamId } }) => [streamId, this.#waiting.get(streamId) ?? []] as const,
    );
    const claims: CoverageClaim[] = [];
    const findings = [...(batch.findings ?? [])];
    for (const claim of batch.claims ?? []) {
      const { allowed, unlived } = this.#cut(claim);
      claims.push(...allowed.map((span) => ({ ...claim, span })));
      findings.push(...unlived);
    }
    const begins = (batch.begins ?? []).map((begin) => this.#notAhead(begin));
    const result = await this.#archive
      .commit({ ...batch, claims, findings, begins }, options)
      .catch((error: unknown) => {
        // Nothing was stored: what the claims took along waits for the next ones.
        for (const [streamId, waiting] of jumps === this.#jumps ? waitedBefore : []) {
          this.#waiting.set(streamId, waiting);
        }
        throw error;
      });
    this.#learn(result.ranges);
    return result;
  }

  /** What has not come yet is no start either: a clock that lies must not move it there. */
  #notAhead(begin: StreamStart): StreamStart {
    const untilMs = this.#time.lived?.untilMs ?? Number.POSITIVE_INFINITY;
    return begin.fromMs - untilMs > AHEAD_MS ? { ...begin, fromMs: untilMs } : begin;
  }

  /** After a jump the former present is no measure any more: what was held back after the new one has not come. */
  #followJump(): void {
    if (this.#jumps === this.#time.jumps) return;
    this.#jumps = this.#time.jumps;
    this.#knownMs.clear();
    const { sinceMs } = this.#time.lived ?? NOTHING_LIVED;
    for (const [streamId, spans] of this.#waiting) {
      this.#waiting.set(streamId, within(spans, { toMs: sinceMs }));
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
      const ofTrades = kind === 'trades' ? trades : [];
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

  /** What of a claim may be made now, and what of it is listed as not observed. */
  #cut({ stream, span }: CoverageClaim): { allowed: Span[]; unlived: GapRecord[] } {
    const { streamId, kind } = stream;
    const { sinceMs, untilMs } = this.#time.lived ?? NOTHING_LIVED;
    const nextMs = this.#time.nowMs() + 1;
    if (!MOMENT_STREAMS.has(kind)) {
      const knownMs = this.#knownMs.get(streamId) ?? 0;
      const endMs = Math.min(nextMs, Math.max(untilMs, knownMs));
      return { allowed: cutAt(stream, span, endMs), unlived: [] };
    }
    const spans = this.#withHeldBack(streamId, span, Math.min(nextMs, untilMs));
    const finding = { stream, state: 'unfillable', reason: 'not observed', atMs: sinceMs } as const;
    const unlived = within(spans, { toMs: sinceMs }).map((one) => ({ ...finding, span: one }));
    return { allowed: within(spans, { fromMs: sinceMs }), unlived };
  }

  /** A claim together with what was held back before it, less what must be held back now. */
  #withHeldBack(streamId: number, span: Span, endMs: number): Span[] {
    const spans = normalizeSpans([...(this.#waiting.get(streamId) ?? []), span]);
    this.#waiting.set(streamId, within(spans, { fromMs: endMs }));
    return within(spans, { toMs: endMs });
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
