import type { Clock } from '../kernel/clock.js';
import { SECOND_MS } from '../kernel/durations.js';
import { messageOf } from '../kernel/errors.js';
import { floorToMs, normalizeSpans, type Span, spanLengthMs } from '../kernel/span.js';
import {
  type Batch,
  type CommitResult,
  type Evidence,
  type GapRecord,
  NO_OUTCOMES,
  type StreamRef,
} from '../model/batch.js';
import { CoveredRangeList, RANGES_MAX } from '../model/covered-ranges.js';
import { type GapReason, isLost } from '../model/gap-reasons.js';
import { happenedMs, livedParts, notAhead, within } from '../model/lived-time.js';
import { MOMENT_STREAMS, SERIES_TABLES, tableOfStream } from '../model/series.js';
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

type CommitOptions = Parameters<ArchivePort['commit']>[1];

/** Why something was missed, or coverage does not grow. */
export interface Why {
  readonly reason: GapReason;
  readonly note?: string | undefined;
}

export interface Stall extends Why {
  readonly note: string;
}

export interface Standing extends Stall {
  /** Time since it stalled, milliseconds of this machine. */
  readonly standingMs: number;
  /** It never grew since the program started. */
  readonly isFromStart: boolean;
}

/** Quiet growth of coverage is written at most this often; a crash forgets no more than this. */
const QUIET_FLUSH_MS = 5000;
/** A stream that is first observed within this time of its making simply begins then. */
const BEGINNING_MS = 60_000;
/** A stream stalls when it has not grown for so long beyond what is usual for it. */
const STANDING_MS = 15_000;
/** Limit without a known failure: the stream may wait for its turn. */
const SILENT_MS = 300_000;
/** The gap of a stalled stream grows with the time, and is written and tried again this often. */
const RETRY_MS = 60_000;

/** Cause of a feed that is connected again and again, and brings no update. */
const STALLED_FEED: Stall = {
  reason: 'no updates',
  note: 'answers to queries show deals that no update brought',
};

const NONE = Object.fromEntries(SERIES_TABLES.map((table) => [table, NO_OUTCOMES]));
const WAITS: CommitResult = { outcomes: NONE as CommitResult['outcomes'], ranges: [] };

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
    const coveredRanges = async () => {
      await this.reload();
      return [...this.covered.all];
    };
    return { ...this.#ports.archive, commit: (...batch) => this.commit(...batch), coveredRanges };
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
   * @returns no outcome of what only grows coverage, and waits
   * @throws the errors of the archive
   */
  async commit(batch: Batch, options?: CommitOptions): Promise<CommitResult> {
    const { clock, time } = this.#ports;
    this.#followJump();
    witness(time, batch);
    const { claims = [] } = batch;
    this.#evidence = claims[0]?.evidence ?? this.#evidence;
    const proven = normalizeSpans([...this.#held, ...claims.map(({ span }) => span)]);
    if (this.#isLive && proven.length <= 1 && this.#isQuiet(batch)) {
      this.#held = proven;
      return WAITS;
    }
    const { lived } = time;
    const nowMs = time.nowMs();
    // Until responses agree about the time, a row may be dated as wrongly as they are.
    const lastMs = Math.min(nowMs, lived?.untilMs ?? clock.wallMs());
    for (const ms of happenedMs(batch)) {
      if (ms <= lastMs) this.#knownMs = Math.max(this.#knownMs, ms);
    }
    const at = { lived, nowMs, knownMs: this.#knownMs };
    const { allowed, later, unlived } = livedParts(this.#stream, proven, at);
    const findings = unlived.map((span) => this.gap(span, { reason: 'not observed' }));
    const stream = this.#stream;
    const decision = {
      ...batch,
      claims: allowed.map((span) => ({ stream, span, evidence: this.#evidence })),
      findings: [...(batch.findings ?? []), ...findings],
      begins: (batch.begins ?? []).map((one) => ({ ...one, fromMs: notAhead(one.fromMs, lived) })),
    };
    const result = await this.#store(decision, later, options);
    this.#learn(decision, result);
    if (!this.#isLive) return result;
    for (const { span, reason } of batch.findings ?? []) this.report.gap(span, reason);
    this.report.settled(result.outcomes[tableOfStream(stream.kind)]);
    return result;
  }

  /** Writes what is held back, as far as it may be claimed now. @throws the errors of the archive */
  async flush(): Promise<void> {
    this.#writtenAtMs = Number.NEGATIVE_INFINITY;
    if (this.#held.length > 0) await this.commit({});
  }

  /** Gap of a span of this stream: nothing brings back what can only be observed live. */
  gap(span: Span, { reason, note }: Why): GapRecord {
    const isGone = this.#isLive || isLost(reason);
    const atMs = Math.floor(this.#ports.time.nowMs());
    const state = isGone ? 'unfillable' : 'open';
    const nextAttemptAtMs = isGone ? null : atMs + RETRY_MS;
    const stream = this.#stream;
    const noted = note === undefined ? {} : { note };
    return { stream, span, state, reason, ...noted, atMs, nextAttemptAtMs };
  }

  /** Gap of time that was missed. Of a new stream it is the time that it took to get going: it begins later. */
  missed(span: Span, why: Why): Pick<Batch, 'begins' | 'findings'> {
    const { streamId, collectFromMs } = this.#stream;
    const isBeginning = span.fromMs === collectFromMs && spanLengthMs(span) <= BEGINNING_MS;
    if (isBeginning) return { begins: [{ streamId, fromMs: span.toMs }] };
    return { findings: [this.gap(span, why)] };
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

  /** A failure since coverage grew last, of what cannot be fetched later. */
  get loss(): Why | undefined {
    const { failure } = this.#since;
    return this.#isLive && failure !== undefined ? (this.#trouble() ?? failure) : undefined;
  }

  /**
   * Why coverage does not grow, and since when; undefined while it grows as is usual.
   *
   * @param usualMs longest usual time between two steps of its coverage
   */
  standing(usualMs: number): Standing | undefined {
    const { clock, time } = this.#ports;
    const { atMs, isFromStart } = this.#since;
    const { kind } = this.#stream;
    const stoodMs = clock.monotonicMs() - atMs - usualMs;
    if (stoodMs < STANDING_MS) return undefined;
    const nowMs = time.nowMs();
    const behindMs = nowMs - (this.accountedUntilMs(nowMs) ?? this.#openedAtMs);
    // Nothing is missing while the exchange's time does not advance.
    const isSilent = kind !== 'states' && Math.min(stoodMs, behindMs) >= SILENT_MS;
    const why = this.#trouble() ?? (isSilent ? this.#nothingProven('then') : undefined);
    return why && { ...why, standingMs: Math.round(stoodMs), isFromStart };
  }

  /** Failure since coverage grew last; undefined if unknown. */
  #trouble(): Stall | undefined {
    const { failure, isFromStart } = this.#since;
    if (this.#stream.kind !== 'states' || this.#isFeedStalled) {
      return failure ?? (isFromStart ? this.#nothingProven('the start') : undefined);
    }
    // A feed that is connected and silent is no failure: nothing may have happened.
    if (this.#sessions.size > 0) return undefined;
    return { reason: 'no connection', note: failure?.note ?? 'no connection brought a state' };
  }

  #nothingProven(since: string): Stall {
    const reason = this.#isLive ? 'not observed' : 'not collected';
    return { reason, note: `no answer since ${since} proved anything of it` };
  }

  /** A feed that lacks updates does so until one comes, over all its connections. */
  get #isFeedStalled(): boolean {
    return this.#since.failure === STALLED_FEED;
  }

  #failed(failure: Stall | undefined): void {
    this.#since = { ...this.#since, failure };
  }

  /** Returns true once a minute while the stream stalls. */
  isDue(): boolean {
    const nowMs = this.#ports.clock.monotonicMs();
    if (nowMs - this.#since.listedAtMs < RETRY_MS) return false;
    this.#since = { ...this.#since, listedAtMs: nowMs };
    return true;
  }

  /** Gap from the end of what is accounted for until now. @throws the errors of the archive */
  async gapUntilNow(why: Why): Promise<GapRecord[]> {
    const { archive, time } = this.#ports;
    const stream = this.#stream;
    const toMs = Math.floor(time.nowMs());
    const untilMs = this.accountedUntilMs(toMs);
    const fromMs = untilMs ?? this.#openedAtMs;
    if (toMs <= fromMs) return [];
    if (untilMs === undefined && stream.collectFromMs === null) {
      // Its start is unknown: it is missing from the start of the run on.
      await archive.want(stream, { fromMs, toMs: fromMs + SECOND_MS });
    }
    return [this.gap({ fromMs, toMs }, why)];
  }

  #sinceNow(isFromStart: boolean): SinceGrowth {
    const atMs = this.#ports.clock.monotonicMs();
    return { atMs, isFromStart, failure: undefined, listedAtMs: Number.NEGATIVE_INFINITY };
  }

  /** Drops held time after the new present, which has not come, and the known end, which no longer counts. */
  #followJump(): void {
    const { jumps, lived } = this.#ports.time;
    if (this.#jumps === jumps) return;
    this.#jumps = jumps;
    this.#knownMs = 0;
    this.#held = within(this.#held, Number.NEGATIVE_INFINITY, lived?.sinceMs ?? 0);
  }

  /** Returns true if a batch can wait: it only grows coverage, or moves a start. */
  #isQuiet({ claims = [], begins = [], ...rest }: Batch): boolean {
    const isNews = Object.values(rest).some((list) => list.length > 0);
    if (isNews || (claims.length > 0 && begins.length > 0)) return false;
    return this.#ports.clock.monotonicMs() - this.#writtenAtMs < QUIET_FLUSH_MS;
  }

  /** @param later what is held back from now on */
  async #store(decision: Batch, later: readonly Span[], options?: CommitOptions) {
    const { archive, clock } = this.#ports;
    const heldBefore = this.#held;
    const jumps = this.#jumps;
    this.#held = later;
    try {
      const once = this.#isLive ? { once: { stream: this.#stream } } : {};
      const result = await archive.commit(decision, { ...options, ...once });
      this.#writtenAtMs = clock.monotonicMs();
      return result;
    } catch (error) {
      if (jumps === this.#jumps) this.#held = heldBefore;
      throw error;
    }
  }

  #learn({ revoke = [], expose = [], begins = [] }: Batch, { ranges }: CommitResult): void {
    const { kind } = this.#stream;
    for (const { span } of [...revoke, ...(kind === 'trades' ? expose : [])]) this.revoked(span);
    for (const { fromMs } of begins) {
      this.#stream = { ...this.#stream, collectFromMs: fromMs };
      this.#floorMs = fromMs;
      // A stream that is not expected yet cannot stall.
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
