import type { Clock } from '../kernel/clock.js';
import { SECOND_MS } from '../kernel/durations.js';
import { messageOf } from '../kernel/errors.js';
import { floorToMs, isEmptySpan, normalizeSpans, overlapOf, type Span } from '../kernel/span.js';
import type {
  Batch,
  CommitResult,
  CoverageClaim,
  Evidence,
  GapRecord,
  StreamRef,
} from '../model/batch.js';
import { CoveredRangeList, RANGES_MAX } from '../model/covered-ranges.js';
import { type GapReason, isLost } from '../model/gap-reasons.js';
import { happenedMs, livedParts, notAhead } from '../model/lived-time.js';
import { MOMENT_STREAMS } from '../model/series.js';
import { STALLED_FEED, type Stall, stallOf, troubleOf } from '../model/stall.js';
import type { CollectEvents } from '../observe/events.js';
import type { ArchivePort, ClaimTime } from './ports.js';
import { type StreamReport, streamReport } from './reports.js';
import { WalkStalledError } from './trades/walk.js';

export interface LedgerPorts {
  readonly archive: ArchivePort;
  readonly time: ClaimTime;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
}

/** Quiet growth of coverage is written at most this often; a crash forgets no more than this. */
const QUIET_FLUSH_MS = 5000;

/** State of a stream since its coverage grew last. Times are of the monotonic clock. */
interface SinceGrowth {
  readonly atMs: number;
  readonly isFromStart: boolean;
  readonly failure: Stall | undefined;
  /** When its gap was written. */
  readonly listedAtMs: number;
}

/**
 * Ledger of one stream in a collector: what is covered, what is held back, and why it stalls. All
 * coverage of the stream goes to the store through it.
 *
 * Held back is what was proven and not written: quiet growth for some seconds, and live observations
 * of time that is not known to be past. It goes with the next commit. A jump of the exchange's time
 * ends the former present as a measure; a revocation cuts what is covered.
 */
export class StreamLedger {
  readonly market: string;
  readonly report: StreamReport;
  readonly covered = new CoveredRangeList([]);
  readonly #ports: LedgerPorts;
  readonly #isLive: boolean;
  readonly #openedAtMs: number;
  /** Open connections of the real-time interface. */
  readonly #sessions = new Set<number>();
  #stream: StreamRef;
  /** End of what was missed for another reason than a stall: before the start, or while delisted. */
  #floorMs: number | undefined;
  #held: readonly Span[] = [];
  #evidence: Evidence = {};
  #writtenAtMs = Number.NEGATIVE_INFINITY;
  /** Newest time that rows or coverage showed. */
  #knownMs = 0;
  #jumps: number;
  #since: SinceGrowth;

  constructor(ports: LedgerPorts, market: string, stream: StreamRef) {
    const { time, telemetry } = ports;
    this.#ports = ports;
    this.market = market;
    this.report = streamReport(telemetry, stream.kind, market);
    this.#isLive = MOMENT_STREAMS.has(stream.kind);
    this.#openedAtMs = floorToMs(time.nowMs(), SECOND_MS);
    this.#stream = stream;
    this.#floorMs = stream.collectFromMs ?? undefined;
    this.#jumps = time.jumps;
    this.#since = this.#sinceNow(true);
  }

  get stream(): StreamRef {
    return this.#stream;
  }

  /** The archive as the walk and the candles of this stream see it. */
  get archive(): ArchivePort {
    return {
      ...this.#ports.archive,
      commit: (batch, options) => this.#write(batch, options),
      coveredRanges: async () => {
        await this.reload();
        return [...this.covered.all];
      },
    };
  }

  /** End of the newest time that is accounted for, of what begins no later than `atMs`. */
  accountedUntilMs(atMs = Number.POSITIVE_INFINITY): number | undefined {
    const isBefore = ({ fromMs }: Span) => fromMs <= atMs;
    const covered = this.covered.all.find(({ span }) => isBefore(span))?.span;
    const held = this.#held.findLast(isBefore);
    const floorMs =
      this.#floorMs !== undefined && this.#floorMs <= atMs ? this.#floorMs : undefined;
    const ends = [covered?.toMs, held?.toMs, floorMs].filter((ms) => ms !== undefined);
    return ends.length === 0 ? undefined : Math.max(...ends);
  }

  /** Time before this was missed for a reason that is listed already. */
  missedUntil(ms: number): void {
    this.#floorMs = Math.max(ms, this.#floorMs ?? ms);
  }

  /** Reads the covered ranges again. @throws the errors of the archive */
  async reload(): Promise<void> {
    this.covered.replace(await this.#ports.archive.coveredRanges(this.#stream, RANGES_MAX));
    this.#knownMs = Math.max(this.#knownMs, this.covered.top?.span.toMs ?? 0);
  }

  /** Coverage was revoked: what comes again of that time is growth. */
  revoked(span: Span): void {
    this.covered.cut(span);
  }

  /**
   * Stores a decision. Order: time that was lived through, quiet rule, store, learning, reports.
   * A failure learns nothing: what was held back before stays so.
   *
   * @returns undefined where it only grows coverage, and waits
   * @throws the errors of the archive
   */
  async commit(batch: Batch): Promise<CommitResult | undefined> {
    this.#followJump();
    if (this.#isQuiet(batch)) {
      this.#hold(batch.claims ?? []);
      return undefined;
    }
    const result = await this.#write(batch);
    for (const { span, reason } of batch.findings ?? []) this.report.gap(span, reason);
    return result;
  }

  /** Writes what is held back, as far as it may be claimed now. @throws the errors of the archive */
  async flush(): Promise<void> {
    if (this.#held.length > 0) await this.#write({});
  }

  /** @throws the errors of the archive */
  async openSession(atMs: number): Promise<number> {
    const id = await this.#ports.archive.openSession(this.#stream, atMs);
    this.#sessions.add(id);
    if (!this.#isFeedStalled) this.#failed(undefined);
    return id;
  }

  /** @throws the errors of the archive */
  async closeSession(...[id, end]: Parameters<ArchivePort['closeSession']>): Promise<void> {
    await this.#ports.archive.closeSession(id, end);
    this.#sessions.delete(id);
    this.#failed(end.reason === 'stalled' ? STALLED_FEED : undefined);
  }

  /** A poll of the stream failed. */
  failed(error: unknown): void {
    const reason = error instanceof WalkStalledError ? error.reason : 'exchange failed';
    this.unproven(messageOf(error), this.#isLive ? 'not observed' : reason);
  }

  /** A response proves nothing of the stream. */
  unproven(note: string, reason: GapReason): void {
    if (!this.#isFeedStalled) this.#failed({ reason, note });
  }

  /** What went wrong since coverage grew last; undefined where nothing is known to have failed. */
  get trouble(): Stall | undefined {
    const { failure } = this.#since;
    return failure && (troubleOf(this.#facts()) ?? failure);
  }

  /**
   * Why coverage does not grow, and since when; undefined while it grows as is usual.
   *
   * @param usualMs longest usual time between two steps of its coverage
   */
  standing(usualMs: number): (Stall & { standingMs: number; isFromStart: boolean }) | undefined {
    const { clock, time } = this.#ports;
    const nowMs = time.nowMs();
    const standingMs = clock.monotonicMs() - this.#since.atMs - usualMs;
    const behindMs = nowMs - (this.accountedUntilMs(nowMs) ?? this.#openedAtMs);
    const facts = this.#facts();
    const stall = stallOf({ ...facts, standingMs, behindMs });
    const { isFromStart } = facts;
    return stall && { ...stall, standingMs: Math.round(standingMs), isFromStart };
  }

  #facts() {
    const { isFromStart, failure } = this.#since;
    return { kind: this.#stream.kind, isFromStart, failure, isConnected: this.#sessions.size > 0 };
  }

  /** A feed that lacks updates does so until one comes, over all its connections. */
  get #isFeedStalled(): boolean {
    return this.#since.failure === STALLED_FEED;
  }

  #failed(failure: Stall | undefined): void {
    this.#since = { ...this.#since, failure };
  }

  /** Returns true once in `everyMs` while the stream stands: its gap, which grows, is written again. */
  isDue(everyMs: number): boolean {
    const nowMs = this.#ports.clock.monotonicMs();
    if (nowMs - this.#since.listedAtMs < everyMs) return false;
    this.#since = { ...this.#since, listedAtMs: nowMs };
    return true;
  }

  /**
   * Gap from the end of what is accounted for until now; undefined where there is none.
   *
   * @param retryMs until the next attempt where it can be filled
   */
  async gapOf(stall: Stall, retryMs: number): Promise<GapRecord | undefined> {
    const { archive, time } = this.#ports;
    const stream = this.#stream;
    const atMs = Math.floor(time.nowMs());
    const untilMs = this.accountedUntilMs(atMs);
    const fromMs = untilMs ?? this.#openedAtMs;
    if (atMs <= fromMs) return undefined;
    // Its start is unknown: it is missing from the start of the run on.
    if (untilMs === undefined && stream.collectFromMs === null) {
      await archive.want(stream, { fromMs, toMs: fromMs + SECOND_MS });
    }
    const isGone = isLost(stall.reason) || this.#isLive;
    const state = isGone ? 'unfillable' : 'open';
    const nextAttemptAtMs = isGone ? null : atMs + retryMs;
    return { stream, span: { fromMs, toMs: atMs }, state, ...stall, atMs, nextAttemptAtMs };
  }

  #sinceNow(isFromStart: boolean): SinceGrowth {
    const atMs = this.#ports.clock.monotonicMs();
    return { atMs, isFromStart, failure: undefined, listedAtMs: Number.NEGATIVE_INFINITY };
  }

  /** What was held back after the new present has not come, and nothing known before is a measure. */
  #followJump(): void {
    const { jumps, lived } = this.#ports.time;
    if (this.#jumps === jumps) return;
    this.#jumps = jumps;
    this.#knownMs = 0;
    const before = { fromMs: Number.NEGATIVE_INFINITY, toMs: lived?.sinceMs ?? 0 };
    this.#held = normalizeSpans(this.#held.map((span) => overlapOf(span, before)));
  }

  /** Returns true if a batch can wait: it only grows coverage in one piece, or moves a start. */
  #isQuiet({ claims = [], begins = [], ...rest }: Batch): boolean {
    const isNews = Object.values(rest).some((list) => list.length > 0);
    if (isNews || (claims.length > 0 && begins.length > 0)) return false;
    if (normalizeSpans([...this.#held, ...claims.map(({ span }) => span)]).length > 1) return false;
    return this.#ports.clock.monotonicMs() - this.#writtenAtMs < QUIET_FLUSH_MS;
  }

  #hold(claims: readonly CoverageClaim[]): void {
    this.#evidence = claims[0]?.evidence ?? this.#evidence;
    this.#held = normalizeSpans([...this.#held, ...claims.map(({ span }) => span)]);
  }

  async #write(batch: Batch, options?: Parameters<ArchivePort['commit']>[1]) {
    const { archive, clock, time } = this.#ports;
    this.#followJump();
    witness(time, batch);
    const { lived } = time;
    const nowMs = time.nowMs();
    // Until responses agree about the time, a row may be dated as wrongly as they are.
    const lastMs = Math.min(nowMs, lived?.untilMs ?? clock.wallMs());
    for (const ms of happenedMs(batch)) {
      if (ms <= lastMs) this.#knownMs = Math.max(this.#knownMs, ms);
    }
    const heldBefore = this.#held;
    const jumps = this.#jumps;
    const claims: CoverageClaim[] = [];
    const later: Span[] = [];
    const findings = [...(batch.findings ?? [])];
    for (const claim of this.#proven(batch.claims ?? [])) {
      const at = { lived, nowMs, knownMs: this.#knownMs };
      const parts = livedParts(this.#stream, claim.span, at);
      if (!isEmptySpan(parts.allowed)) claims.push({ ...claim, span: parts.allowed });
      if (!isEmptySpan(parts.later)) later.push(parts.later);
      if (!isEmptySpan(parts.unlived)) findings.push(this.#unlived(parts.unlived));
    }
    const begins = (batch.begins ?? []).map((one) => {
      return { ...one, fromMs: notAhead(one.fromMs, lived) };
    });
    this.#held = later;
    const stored = { ...batch, claims, findings, begins };
    const result = await archive.commit(stored, options).catch((error: unknown) => {
      if (jumps === this.#jumps) this.#held = heldBefore;
      throw error;
    });
    this.#writtenAtMs = clock.monotonicMs();
    this.#learn(stored, result);
    return result;
  }

  /** Claims with what was held back before them. */
  #proven(claims: readonly CoverageClaim[]): readonly CoverageClaim[] {
    if (!this.#isLive) return claims;
    this.#hold(claims);
    const stream = this.#stream;
    return this.#held.map((span) => ({ stream, span, evidence: this.#evidence }));
  }

  #unlived(span: Span): GapRecord {
    const atMs = Math.floor(this.#ports.time.nowMs());
    const finding = { state: 'unfillable', reason: 'not observed' } as const;
    return { stream: this.#stream, span, atMs, ...finding };
  }

  #learn({ revoke = [], expose = [], begins = [] }: Batch, { ranges }: CommitResult): void {
    const { kind } = this.#stream;
    for (const { span } of [...revoke, ...(kind === 'trades' ? expose : [])]) this.revoked(span);
    for (const { fromMs } of begins) {
      this.#stream = { ...this.#stream, collectFromMs: fromMs };
      this.#floorMs = fromMs;
      // What is not expected yet does not stand.
      if (this.#isLive && this.#since.isFromStart) this.#since = this.#sinceNow(true);
    }
    const topMs = this.covered.top?.span.toMs ?? Number.NEGATIVE_INFINITY;
    // After a jump back what was covered lies in the future, and is no measure any more.
    const isMeasure = topMs <= this.#ports.time.nowMs() + SECOND_MS;
    const untilMs = isMeasure ? topMs : Number.NEGATIVE_INFINITY;
    for (const range of ranges) {
      const { toMs } = range.span;
      this.covered.absorb(range);
      this.#knownMs = Math.max(this.#knownMs, toMs);
      if (toMs <= untilMs) continue;
      this.#since = this.#sinceNow(false);
      if (this.#isLive) this.report.progressed(toMs);
    }
  }
}

/** Tells the clock of trades that happened in its future: they happened, whatever it says. */
export function witness(time: ClaimTime, { trades = [] }: Batch): void {
  const newestMs = trades.reduce((ms, row) => Math.max(ms, row.tradedAtS * SECOND_MS), 0);
  if (newestMs > time.nowMs()) time.witness(newestMs);
}
