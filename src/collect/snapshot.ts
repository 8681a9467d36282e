import type { Depth } from '../contract/resources.js';
import type { Clock } from '../kernel/clock.js';
import { compareDecimals } from '../kernel/decimal.js';
import { shownDuration } from '../kernel/durations.js';
import { isAborted, TapekeepError } from '../kernel/errors.js';
import type { Batch, Evidence } from '../model/batch.js';
import type { GapReason } from '../model/gap-reasons.js';
import { observedAt } from '../model/lived-time.js';
import { Answers, type Trouble } from './answers.js';
import type { StreamLedger } from './ledger.js';
import { type ExchangePort, PRIORITY } from './ports.js';

export interface SnapshotOptions {
  readonly ledger: StreamLedger;
  readonly clock: Clock;
  /** Longest time between two looks that still counts as keeping the schedule. */
  readonly toleranceMs: number;
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
}

/**
 * Stores looks at something that cannot be fetched later, with the coverage that keeping the
 * schedule proves, and lists what was missed as a gap that nothing can fill.
 */
export class SnapshotRecorder {
  readonly #options: SnapshotOptions;
  /** What is asked for its looks. */
  readonly answers: Answers;
  #hasBegun: boolean;
  /** The last look; undefined: the next one begins again. */
  #last: { readonly atMonoMs: number; readonly untilMs: number } | undefined;
  /** The last trouble of this stream alone. */
  #trouble: Trouble | undefined;
  /** When was looked last and nothing was there yet, or since when it is looked. */
  #nothingAtMs: number;
  /** Troubles up to this one are over. */
  #overTurn = 0;

  /** @param answers those that the looks are made of, where several streams share them */
  constructor(options: SnapshotOptions, answers?: Answers) {
    const { ledger, clock } = options;
    this.#options = options;
    this.#nothingAtMs = clock.monotonicMs();
    const untilMs = ledger.accountedUntilMs();
    this.#hasBegun = untilMs !== undefined && untilMs !== ledger.stream.collectFromMs;
    const onUnproven = (why: string, reason: GapReason) => ledger.unproven(why, reason);
    this.answers = answers ?? new Answers({ ...options, report: ledger.report, onUnproven });
    // What troubled others before it began was no trouble of its own.
    this.#overTurn = this.answers.nextTurn();
  }

  /** Whether its stream has begun: something of it was covered, or may have been missed. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /**
   * There is nothing to observe yet: the stream begins later. Where nothing was looked at for a while there may have
   * been something, so that all from then on stays expected.
   *
   * @throws the errors of the archive
   */
  async notYet(atMs: number): Promise<void> {
    const { ledger, clock, toleranceMs } = this.#options;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#nothingAtMs > toleranceMs) this.#hasBegun = true;
    this.#nothingAtMs = nowMs;
    const { streamId } = ledger.stream;
    if (!this.#hasBegun) await ledger.commit({ begins: [{ streamId, fromMs: atMs }] });
  }

  /**
   * Writes what was observed and is not written yet: no look follows. Says what went wrong since.
   *
   * @throws the errors of the archive
   */
  async flush(): Promise<void> {
    const { ledger } = this.#options;
    await ledger.flush();
    const { reason, note } = this.#lastTrouble();
    if (note !== undefined) ledger.unproven(note, reason);
  }

  /** Waits for an answer of its own. Of a market that is refused there is nothing to see: no look before it lasts on. */
  async receive<T>(asked: Promise<T>): Promise<T> {
    try {
      return await this.answers.receive(asked);
    } catch (error) {
      if (error instanceof TapekeepError && error.action === 'skip' && !isAborted(error)) {
        this.provesNothing('not observed', error.message);
      }
      throw error;
    }
  }

  /** An answer came in which nothing of it could be seen: what was seen before does not last on. */
  provesNothing(reason: GapReason, why: string): void {
    this.#hasBegun = true;
    this.#note(reason, why);
    this.#last = undefined;
    this.#options.ledger.unproven(why, reason);
  }

  #note(reason: GapReason, note: string): void {
    this.#trouble = { turn: this.answers.nextTurn(), reason, note };
  }

  async record(look: Look): Promise<void> {
    const { observedAtMs, received, rejected, unchanged } = look;
    const { ledger, clock, toleranceMs } = this.#options;
    ledger.report.received(received);
    ledger.report.settled({ rejected, unchanged });
    if (look.unproven !== undefined) {
      this.provesNothing('not observed', look.unproven);
      // For coverage this is no observation.
      const hasRows = Object.values(look.batch).some((rows) => rows.length > 0);
      if (hasRows) await this.#commit(look, look.batch);
      return;
    }
    const nowMs = clock.monotonicMs();
    const last = this.#last;
    const isKept = last !== undefined && nowMs - last.atMonoMs <= toleranceMs;
    // A jump of the time may leave other coverage below: only a look of this run goes on.
    const untilMs = last?.untilMs ?? ledger.accountedUntilMs(observedAtMs);
    const { claim, missed } = observedAt(observedAtMs, untilMs, isKept);
    const claims = [{ stream: ledger.stream, span: claim, evidence: look.evidence }];
    const noted = missed === undefined ? {} : ledger.missed(missed, this.#lastTrouble());
    this.#last = { atMonoMs: nowMs, untilMs: claim.toMs };
    await this.#commit(look, { ...look.batch, claims, ...noted });
    this.#hasBegun = true;
    this.#overTurn = this.answers.nextTurn();
    this.#noteWait(nowMs);
  }

  /** No look follows while one waits to be stored, which a database that is away may let it do for long. */
  #noteWait(sinceMs: number): void {
    const waitedMs = this.#options.clock.monotonicMs() - sinceMs;
    if (waitedMs <= this.#options.toleranceMs) return;
    const waited = shownDuration(waitedMs);
    this.#note('not observed', `the look before it waited ${waited} for the database to store it`);
  }

  async #commit({ received, rejected, unchanged }: Look, batch: Batch): Promise<void> {
    const { ledger } = this.#options;
    try {
      await ledger.commit(batch);
    } catch (error) {
      // Rows that were not stored must not be covered: the next look begins again.
      this.#last = undefined;
      ledger.report.settled({ lost: received - rejected - unchanged });
      throw error;
    }
  }

  /** What came last since the last look: a trouble of its own, or one of the answers. */
  #lastTrouble(): Pick<Trouble, 'reason' | 'note'> {
    const { trouble } = this.answers;
    const own = this.#trouble;
    const last = own !== undefined && own.turn > trouble.turn ? own : trouble;
    return last.turn > this.#overTurn ? last : { reason: 'not observed', note: undefined };
  }
}

interface DepthCollectorOptions extends SnapshotOptions {
  readonly market: string;
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

  /** Writes what was observed, for the end. @throws the errors of the archive */
  async flush(): Promise<void> {
    await this.#recorder.flush();
  }

  /** Another answer shows that the market went, which between two looks is seen by no look of its own. */
  gone(why: string): void {
    this.#recorder.provesNothing('not observed', why);
  }

  async poll(signal: AbortSignal): Promise<void> {
    const { exchange, market, levels, marketId } = this.#options;
    const options = { priority: PRIORITY.snapshot, signal };
    const asked = exchange.call('depth', { market, limit: levels }, options);
    const { answers } = this.#recorder;
    const reply = await this.#recorder.receive(asked);
    const { asks, bids } = sortedDepth(reply.data);
    const look = JSON.stringify([asks, bids]);
    const isUnchanged = look === this.#lastLook;
    const { receivedAtMs } = reply;
    const observedAtMs = answers.instantOf(reply);
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
