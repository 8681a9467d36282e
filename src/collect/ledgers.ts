import type { Clock } from '../kernel/clock.js';
import { SECOND_MS } from '../kernel/durations.js';
import type { Span } from '../kernel/span.js';
import { formatInstant } from '../kernel/timestamp.js';
import type { GapRecord } from '../model/batch.js';
import type { StreamKind } from '../model/series.js';
import type { Present, StreamKey } from '../store/index.js';
import { type LedgerPorts, type Standing, StreamLedger, type Why, witness } from './ledger.js';
import type { ArchivePort, ClaimTime } from './ports.js';

/** A stream whose coverage does not grow, and why as far as is known. */
export interface StandingStream extends Standing {
  readonly kind: StreamKind;
  readonly market: string;
  readonly variant: number;
}

/** Gaps of one commit at a stop: what is begun when its time is over must end soon. */
const WRITTEN_AT_ONCE = 32;

/**
 * Ledgers of all streams of a collector. A stream that stalls is a gap with a reason from the end of
 * its coverage on, also when it never succeeded at all: then from the start of the run.
 */
export class Ledgers {
  readonly #ports: LedgerPorts;
  readonly #byId = new Map<number, StreamLedger>();
  /** Usual time between two steps of a kind's coverage, milliseconds. */
  readonly #periodsMs = new Map<StreamKind, number>();

  constructor(ports: LedgerPorts) {
    this.#ports = ports;
  }

  /** @param periodMs longest time between two polls that the schedule of a kind leaves */
  keepsTo(kind: StreamKind, periodMs: number): void {
    this.#periodsMs.set(kind, periodMs);
  }

  /**
   * Opens the ledger of a stream, with what the archive has of it.
   *
   * @param expected start of expected coverage in place of the archive's
   * @throws the errors of the archive
   */
  async open(
    market: string,
    key: StreamKey & { readonly collectFromMs?: number },
    expected: { readonly collectFromMs?: number | null } = {},
  ): Promise<StreamLedger> {
    const kept = await this.#ports.archive.ensureStream(key);
    const known = this.#byId.get(kept.streamId);
    const ledger = known ?? new StreamLedger(this.#ports, market, { ...kept, ...expected });
    this.#byId.set(kept.streamId, ledger);
    await ledger.reload();
    return ledger;
  }

  /** Stores rows of several streams that claim nothing. */
  readonly commit: ArchivePort['commit'] = async (batch, options) => {
    witness(this.#ports.time, batch);
    return await this.#ports.archive.commit(batch, options);
  };

  /** A poll failed; a market of `*` stands for that of all of them. */
  failed(kind: string, market: string, error: unknown): void {
    for (const one of this.#of(kind, market)) one.failed(error);
  }

  /** The newest page of a stream is older than what another source shows: what failed before is over. */
  stale(kind: string, market: string, source: string): void {
    const note = `its newest page lacks trades that another source shows (${source})`;
    for (const one of this.#of(kind, market)) one.unproven(note, 'walk stalled');
  }

  /** Coverage was revoked by others. */
  revoked(revoked: Iterable<{ readonly streamId: number; readonly span: Span }>): void {
    for (const { streamId, span } of revoked) this.#byId.get(streamId)?.revoked(span);
  }

  /** A market is collected no more. */
  forget(marketId: number): void {
    for (const [id, { stream }] of this.#byId) {
      if (stream.marketId === marketId) this.#byId.delete(id);
    }
  }

  /** Streams that stall, the longest first. */
  list(): StandingStream[] {
    const all = this.#standing().map(([{ stream, market }, standing]) => {
      return { kind: stream.kind, market, variant: stream.variant, ...standing };
    });
    return all.sort((a, b) => b.standingMs - a.standingMs);
  }

  /**
   * Writes the gaps of streams that stall. To be called every few seconds.
   *
   * @throws the errors of the archive
   */
  async review(): Promise<void> {
    await this.#write(this.#standing().filter(([ledger]) => ledger.isDue()));
    this.#ports.telemetry.streamsStanding({ streams: this.list() });
  }

  /**
   * Writes what went wrong when nothing more is looked at, for what cannot be fetched later: the next start
   * knows nothing of it. Of very many streams no more than there is time for.
   *
   * @param untilMs when no more is begun, of the monotonic clock
   * @throws the first error of the archive, after the others were written
   */
  async stop(untilMs: number): Promise<void> {
    const { time, clock } = this.#ports;
    const stoppedAt = formatInstant(Math.floor(time.nowMs()));
    const failing = [...this.#byId.values()].flatMap((ledger): [StreamLedger, Why][] => {
      const { loss } = ledger;
      const note = `${loss?.note}; the program stopped at ${stoppedAt}`;
      return loss === undefined ? [] : [[ledger, { ...loss, note }]];
    });
    const errors: unknown[] = [];
    for (let at = 0; at < failing.length && clock.monotonicMs() < untilMs; at += WRITTEN_AT_ONCE) {
      const written = this.#write(failing.slice(at, at + WRITTEN_AT_ONCE));
      await written.catch((error: unknown) => errors.push(error));
    }
    if (errors.length > 0) throw errors[0];
  }

  async #write(missed: readonly (readonly [StreamLedger, Why])[]): Promise<void> {
    const findings: GapRecord[] = [];
    for (const [ledger, why] of missed) findings.push(...(await ledger.gapUntilNow(why)));
    if (findings.length > 0) await this.#ports.archive.commit({ findings });
  }

  #standing(): [StreamLedger, Standing][] {
    return [...this.#byId.values()].flatMap((ledger): [StreamLedger, Standing][] => {
      const { kind, variant } = ledger.stream;
      const ownMs = kind === 'candles' ? variant * SECOND_MS : 0;
      const standing = ledger.standing((this.#periodsMs.get(kind) ?? 0) + ownMs);
      return standing === undefined ? [] : [[ledger, standing]];
    });
  }

  #of(kind: string, market: string): StreamLedger[] {
    const all = [...this.#byId.values()];
    return all.filter(
      (one) => one.stream.kind === kind && (market === '*' || one.market === market),
    );
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
