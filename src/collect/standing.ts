import type { Clock } from '../kernel/clock.js';
import { SECOND_MS } from '../kernel/durations.js';
import { messageOf } from '../kernel/errors.js';
import { floorToMs, type Span } from '../kernel/span.js';
import { formatInstant } from '../kernel/timestamp.js';
import type { CoveredRange, GapRecord, StreamRef } from '../model/batch.js';
import { type GapReason, isLost } from '../model/gap-reasons.js';
import { MOMENT_STREAMS, type StreamKind } from '../model/series.js';
import type { CollectEvents } from '../observe/events.js';
import type { ArchivePort, ExchangeTime } from './ports.js';
import { WalkStalledError } from './trades/walk.js';

/** Why the coverage of a stream does not grow. */
interface Failure {
  readonly reason: GapReason;
  readonly note: string;
}

/** A stream whose coverage does not grow, and why as far as is known. */
export interface StandingStream extends Failure {
  readonly kind: StreamKind;
  readonly market: string;
  readonly variant: number;
  /** How long it has stood, milliseconds of this machine. */
  readonly standingMs: number;
  /** It never grew since the program started. */
  readonly isFromStart: boolean;
}

export interface StandingOptions {
  readonly archive: ArchivePort;
  readonly time: ExchangeTime;
  readonly clock: Clock;
  readonly telemetry: Pick<CollectEvents, 'streamsStanding'>;
}

/** A stream counts as standing when it has not grown for so long beyond what is usual for it. */
const STANDING_MS = 15_000;
/** The same of one of which nothing is known to have failed: it may wait for its turn. */
const SILENT_MS = 300_000;
/** The gap of one that stands grows with the time, and is written again this often. */
const REWRITE_MS = 60_000;
/** Gaps of one commit at a stop: what is begun when its time is over must end soon. */
const WRITTEN_AT_ONCE = 32;

interface Watched {
  readonly stream: StreamRef;
  /** Exchange time when it was opened: from then on it is missing what it does not cover. */
  readonly openedAtMs: number;
  coveredUntilMs: number | undefined;
  grewAtMs: number;
  hasGrown: boolean;
  /** What went wrong since it grew last. */
  failure: Failure | undefined;
  /** Connections of the real-time interface that are open. */
  readonly sessions: Set<number>;
  /** The last of them showed that it lacks updates, and nothing was covered since. */
  isStalled: boolean;
  writtenAtMs: number;
}

/** Why a feed stands that is connected again and again, and brings no update. */
const STALLED: Failure = {
  reason: 'no updates',
  note: 'answers to queries show deals that no update brought',
};

/**
 * Watches that the coverage of every stream grows. One that stands is a gap with a reason from the
 * instant on at which it stood, also when it never succeeded at all: then from the start of the
 * run.
 *
 * It sees what goes through the archive, so that no kind of stream can be forgotten. What polls
 * says what failed.
 */
export class Standing {
  readonly #options: StandingOptions;
  readonly #streams = new Map<number, Watched>();
  readonly #names = new Map<number, string>();
  /** Usual time between two steps of a kind's coverage, milliseconds. */
  readonly #periodsMs = new Map<StreamKind, number>();
  /** The same archive, watched. */
  readonly archive: ArchivePort;

  constructor(options: StandingOptions) {
    this.#options = options;
    this.archive = this.#watch(options.archive);
  }

  /** @param periodMs longest time between two polls that the schedule of a kind leaves */
  keepsTo(kind: StreamKind, periodMs: number): void {
    this.#periodsMs.set(kind, periodMs);
  }

  /** A poll of a stream failed; a market of `*` stands for that of all of them. */
  failed(kind: string, market: string, error: unknown): void {
    for (const one of this.#of(kind, market)) {
      one.failure = { reason: reasonOf(one.stream.kind, error), note: messageOf(error) };
    }
  }

  /** The newest page of a stream is older than what another source shows: what failed before is over. */
  stale(kind: string, market: string, source: string): void {
    const note = `its newest page lacks trades that another source shows (${source})`;
    for (const one of this.#of(kind, market)) one.failure = { reason: 'walk stalled', note };
  }

  /** An answer for a stream of moments proves nothing of it. */
  unproven({ streamId }: StreamRef, why: string, reason: GapReason): void {
    const one = this.#streams.get(streamId);
    if (one !== undefined) one.failure = { reason, note: why };
  }

  /** A market is collected no more. */
  forget(marketId: number): void {
    for (const [id, { stream }] of this.#streams) {
      if (stream.marketId === marketId) this.#streams.delete(id);
    }
  }

  /** Streams that stand, the longest first. */
  list(): StandingStream[] {
    const nowMs = this.#options.clock.monotonicMs();
    const standing = [...this.#streams.values()].flatMap((one) => {
      const { stream, hasGrown } = one;
      const failure = this.#failureOf(one, nowMs);
      if (failure === undefined) return [];
      const { kind, variant } = stream;
      const standingMs = Math.round(nowMs - one.grewAtMs - this.#usualMs(stream));
      const market = this.#nameOf(one);
      return [{ kind, market, variant, standingMs, isFromStart: !hasGrown, ...failure }];
    });
    return standing.sort((a, b) => b.standingMs - a.standingMs);
  }

  /**
   * Writes the gaps of streams that stand. To be called every few seconds.
   *
   * @throws the errors of the archive
   */
  async review(): Promise<void> {
    const { clock, telemetry } = this.#options;
    const nowMs = clock.monotonicMs();
    const due = [...this.#streams.values()].flatMap((one) => {
      const failure = this.#failureOf(one, nowMs);
      if (failure === undefined || nowMs - one.writtenAtMs < REWRITE_MS) return [];
      one.writtenAtMs = nowMs;
      return [{ one, failure }];
    });
    await this.#write(due);
    telemetry.streamsStanding({ streams: this.list() });
  }

  /**
   * Writes what went wrong when nothing more is looked at, for what cannot be fetched later: the next start
   * knows nothing of it. Of very many streams no more than there is time for.
   *
   * @param untilMs when no more is begun, of the monotonic clock
   * @throws the first error of the archive, after the others were written
   */
  async stop(untilMs: number): Promise<void> {
    const { time, clock } = this.#options;
    const stoppedAt = formatInstant(Math.floor(time.nowMs()));
    const failing = [...this.#streams.values()].flatMap((one) => {
      if (one.failure === undefined || !MOMENT_STREAMS.has(one.stream.kind)) return [];
      const { reason, note } = this.#troubleOf(one) ?? one.failure;
      return [{ one, failure: { reason, note: `${note}; the program stopped at ${stoppedAt}` } }];
    });
    const errors: unknown[] = [];
    for (let at = 0; at < failing.length && clock.monotonicMs() < untilMs; at += WRITTEN_AT_ONCE) {
      const written = this.#write(failing.slice(at, at + WRITTEN_AT_ONCE));
      await written.catch((error: unknown) => errors.push(error));
    }
    if (errors.length > 0) throw errors[0];
  }

  async #write(
    failing: readonly { readonly one: Watched; readonly failure: Failure }[],
  ): Promise<void> {
    const { archive, time } = this.#options;
    const atMs = Math.floor(time.nowMs());
    const findings: GapRecord[] = [];
    for (const { one, failure } of failing) {
      const { stream, coveredUntilMs, openedAtMs } = one;
      const fromMs = coveredUntilMs ?? stream.collectFromMs ?? openedAtMs;
      if (atMs <= fromMs) continue;
      if (coveredUntilMs === undefined && stream.collectFromMs === null) {
        // Its start is unknown: it is missing from the start of the run on.
        await archive.want(stream, { fromMs, toMs: fromMs + SECOND_MS });
      }
      const isGone = isLost(failure.reason) || MOMENT_STREAMS.has(stream.kind);
      const nextAttemptAtMs = isGone ? null : atMs + REWRITE_MS;
      const state = isGone ? 'unfillable' : 'open';
      findings.push({
        stream,
        span: { fromMs, toMs: atMs },
        state,
        ...failure,
        atMs,
        nextAttemptAtMs,
      });
    }
    if (findings.length > 0) await archive.commit({ findings });
  }

  /** Why a stream stands; undefined for one that does not, or of which that is not known. */
  #failureOf(one: Watched, nowMs: number): Failure | undefined {
    const stoodMs = nowMs - one.grewAtMs - this.#usualMs(one.stream);
    if (stoodMs < STANDING_MS) return undefined;
    return this.#troubleOf(one) ?? this.#silenceOf(one, stoodMs);
  }

  /** Nothing failed, and yet nothing is proven any more. Where the exchange's time stands still nothing is missing. */
  #silenceOf(one: Watched, stoodMs: number): Failure | undefined {
    const { kind } = one.stream;
    const behindMs = this.#options.time.nowMs() - (one.coveredUntilMs ?? one.openedAtMs);
    if (kind === 'states' || Math.min(stoodMs, behindMs) < SILENT_MS) return undefined;
    return nothingProven(kind, 'then');
  }

  /** What went wrong since it grew last; undefined where that is not known. */
  #troubleOf(one: Watched): Failure | undefined {
    const { kind } = one.stream;
    if (kind === 'states') {
      if (one.isStalled) return STALLED;
      // A feed that is connected and silent is no failure: nothing may have happened.
      return one.sessions.size > 0
        ? undefined
        : { reason: 'no connection', note: one.failure?.note ?? 'no connection brought a state' };
    }
    if (one.failure !== undefined || one.hasGrown) return one.failure;
    return nothingProven(kind, 'the start');
  }

  #of(kind: string, market: string): Watched[] {
    const all = [...this.#streams.values()];
    return all.filter(
      (one) => one.stream.kind === kind && (market === '*' || this.#nameOf(one) === market),
    );
  }

  #usualMs({ kind, variant }: StreamRef): number {
    const period = this.#periodsMs.get(kind) ?? 0;
    return kind === 'candles' ? period + variant * SECOND_MS : period;
  }

  #nameOf({ stream: { marketId } }: Watched): string {
    return this.#names.get(marketId) ?? '*';
  }

  #opened(stream: StreamRef): void {
    if (this.#streams.has(stream.streamId)) return;
    const { time, clock } = this.#options;
    this.#streams.set(stream.streamId, {
      stream,
      openedAtMs: floorToMs(time.nowMs(), SECOND_MS),
      coveredUntilMs: undefined,
      grewAtMs: clock.monotonicMs(),
      hasGrown: false,
      failure: undefined,
      sessions: new Set(),
      isStalled: false,
      writtenAtMs: Number.NEGATIVE_INFINITY,
    });
  }

  #covered({ streamId, span }: CoveredRange, isNews: boolean): void {
    const one = this.#streams.get(streamId);
    if (one === undefined) return;
    const knownMs = one.coveredUntilMs ?? Number.NEGATIVE_INFINITY;
    // After a jump back what was covered lies in the future, and is no measure any more.
    const isMeasure = knownMs <= this.#options.time.nowMs() + SECOND_MS;
    if (isMeasure && span.toMs <= knownMs) return;
    one.coveredUntilMs = span.toMs;
    if (!isNews) return;
    one.grewAtMs = this.#options.clock.monotonicMs();
    one.hasGrown = true;
    one.failure = undefined;
    one.isStalled = false;
    one.writtenAtMs = Number.NEGATIVE_INFINITY;
  }

  /** What is not expected yet is not missing. */
  #beginsLater(streamId: number, fromMs: number): void {
    const one = this.#streams.get(streamId);
    if (one === undefined || one.hasGrown || !MOMENT_STREAMS.has(one.stream.kind)) return;
    one.coveredUntilMs = fromMs;
    one.grewAtMs = this.#options.clock.monotonicMs();
    one.failure = undefined;
  }

  /** Coverage was taken back: what comes anew of that time is growth. */
  #takenBack(one: Watched | undefined, { fromMs, toMs }: Span): void {
    if (one?.coveredUntilMs === undefined || toMs < one.coveredUntilMs) return;
    one.coveredUntilMs = Math.min(one.coveredUntilMs, fromMs);
  }

  #watch(archive: ArchivePort): ArchivePort {
    return {
      ...archive,
      revokeBeyond: async (presentMs, how) => {
        const revoked = await archive.revokeBeyond(presentMs, how);
        for (const { streamId, span } of revoked) {
          this.#takenBack(this.#streams.get(streamId), span);
        }
        return revoked;
      },
      commit: async (batch, options) => {
        const result = await archive.commit(batch, options);
        for (const { stream, span } of batch.revoke ?? []) {
          this.#takenBack(this.#streams.get(stream.streamId), span);
        }
        for (const { marketId, span } of batch.expose ?? []) {
          for (const one of this.#streams.values()) {
            const { kind, marketId: own } = one.stream;
            if (own === marketId && kind === 'trades') this.#takenBack(one, span);
          }
        }
        for (const { streamId, fromMs } of batch.begins ?? []) this.#beginsLater(streamId, fromMs);
        for (const range of result.ranges) this.#covered(range, true);
        return result;
      },
      ensureMarkets: async (markets, atMs, list) => {
        const changes = await archive.ensureMarkets(markets, atMs, list);
        for (const [name, id] of changes.ids) this.#names.set(id, name);
        return changes;
      },
      ensureStream: async (key) => {
        const stream = await archive.ensureStream(key);
        this.#opened(stream);
        return stream;
      },
      coveredRanges: async (stream, limit) => {
        const ranges = await archive.coveredRanges(stream, limit);
        for (const range of ranges) this.#covered(range, false);
        return ranges;
      },
      openSession: async (stream, atMs) => {
        const id = await archive.openSession(stream, atMs);
        const one = this.#streams.get(stream.streamId);
        if (one !== undefined) {
          one.sessions.add(id);
          one.failure = undefined;
        }
        return id;
      },
      closeSession: async (id, end) => {
        await archive.closeSession(id, end);
        for (const one of this.#streams.values()) {
          if (one.sessions.delete(id)) one.isStalled = end.reason === 'stalled';
        }
      },
    };
  }
}

function nothingProven(kind: StreamKind, since: string): Failure {
  const reason = MOMENT_STREAMS.has(kind) ? 'not observed' : 'not collected';
  return { reason, note: `no answer since ${since} proved anything of it` };
}

function reasonOf(kind: StreamKind, error: unknown): GapReason {
  if (MOMENT_STREAMS.has(kind)) return 'not observed';
  if (error instanceof WalkStalledError) return error.reason;
  return 'exchange failed';
}
