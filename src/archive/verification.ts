import { type Clock, sleep } from '../kernel/clock.js';
import { DAY_MS } from '../kernel/durations.js';
import { codeOf, isAborted, messageOf } from '../kernel/errors.js';
import type { Span } from '../kernel/span.js';
import type { StreamRef } from '../model/batch.js';
import {
  type CheckRow,
  describeDifference,
  isAbsentCandle,
  judgeSlot,
  matchRow,
  type SlotCheck,
} from '../model/check-results.js';
import type { VerifyEvents } from '../observe/events.js';
import {
  type CheckStore,
  type CheckTarget,
  FIGURE_SLOTS_MAX,
  type Mismatch,
  type PendingSpan,
  type Reach,
  type Store,
} from '../store/index.js';

export interface VerificationOptions {
  readonly archive: Pick<Store, 'checks' | 'recordGap'>;
  readonly clock: Clock;
  /** Exchange time, UNIX milliseconds. */
  readonly nowMs: () => number;
  readonly telemetry: VerifyEvents;
  /** Pause while nothing is to be checked, milliseconds of this machine; default {@link PAUSE_MS}. */
  readonly pauseMs?: number;
}

/** A mismatch is found within seconds of its candle, and a look reads the ledger of every market. */
const PAUSE_MS = 5000;
/** A slot that does not add up is fetched again this often, then the mismatch stands. */
const TRIES_MAX = 3;
/** Pause after the first refetch, exchange time; each further one is four times as long. */
const FIRST_PAUSE_MS = 15_000;
const PAUSE_GROWTH = 4;
/** A mismatch that waits for something else is looked at again after this, exchange time. */
const WAIT_MS = 300_000;
/** One that is not covered at present: after this, or a tenth of the candle's length. */
const UNPROVEN_WAIT_MS = 30_000;
const UNPROVEN_WAIT_PER_S = 100;
/** Work of each kind: at most this much is done before the others have their turn. */
const SUSPECTS_AT_ONCE = 500;
const MISMATCHES_AT_ONCE = 50;
const SPANS_AT_ONCE = 200;
/** Known mismatches within one slot that are looked at; a slot with more is beyond help anyway. */
const KNOWN_MAX = 1000;
/** Pause after each step as a multiple of its length, so that most of the database is left alone. */
const REST_FACTOR = 3;
const REST_MAX_MS = 2000;

/**
 * Holds stored trades against stored candles as they come, newest first, and has both fetched again
 * where they differ. Archived rows are left out: they were checked before they were sealed, and nothing
 * can change them. What is checked, what is due and how often it was tried stands in the archive
 * alone, so a restart goes on where the last run ended.
 *
 * A mismatch goes: found → suspect (its streams are to be fetched again) → checked again after a
 * pause → match, or suspect again; after the last try it stands, with what was found.
 */
export class Verification {
  readonly #options: VerificationOptions;
  /** Collectors make no such claims any more: one look is enough. */
  #hasSoughtContradicted = false;

  constructor(options: VerificationOptions) {
    this.#options = options;
  }

  /** Verifies until `signal` aborts; failures are reported and retried after a pause. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const hasMore = await this.round(signal).catch((error: unknown) => {
        if (!isAborted(error) && !signal.aborted) {
          this.#options.telemetry.failed({ code: codeOf(error), message: messageOf(error) });
        }
        return false;
      });
      if (!hasMore) await this.#pause(this.#options.pauseMs ?? PAUSE_MS, signal);
    }
  }

  /**
   * Does a bounded piece of what is to be done.
   *
   * @returns whether more is left that can be done at once
   */
  async round(signal: AbortSignal): Promise<boolean> {
    const { checks } = this.#options.archive;
    const suspects = await checks.applySuspects(this.#nowMs(), SUSPECTS_AT_ONCE);
    const targets = new Map((await checks.targets()).map((one) => [one.marketId, one]));
    if (!this.#hasSoughtContradicted) await this.#checkContradicted(targets.values(), signal);
    const due = await checks.dueMismatches(this.#nowMs(), MISMATCHES_AT_ONCE);
    for (const mismatch of due) {
      const target = targets.get(mismatch.marketId);
      if (target !== undefined) await this.#step(signal, () => this.#review(target, mismatch));
    }
    const pending = await checks.pending(SPANS_AT_ONCE);
    for (const one of pending) {
      const target = targets.get(one.marketId);
      if (target !== undefined) await this.#step(signal, () => this.#check(target, one));
    }
    return pending.length > 0 || due.length > 0 || suspects === SUSPECTS_AT_ONCE;
  }

  #nowMs(): number {
    return Math.floor(this.#options.nowMs());
  }

  /** Works, then rests for longer than that took. */
  async #step(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    if (signal.aborted) return;
    const { clock } = this.#options;
    const startedMs = clock.monotonicMs();
    await work();
    const tookMs = clock.monotonicMs() - startedMs;
    await this.#pause(Math.min(tookMs * REST_FACTOR, REST_MAX_MS), signal);
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > 0) await sleep(this.#options.clock, ms, signal).catch(() => undefined);
  }

  /** Checks slots that were called quiet against stored trades; known mismatches keep their tries. */
  async #checkContradicted(targets: Iterable<CheckTarget>, signal: AbortSignal): Promise<void> {
    const { checks } = this.#options.archive;
    let found = 0;
    for (const target of targets) {
      for (const kline of target.klines) {
        if (signal.aborted) return;
        const { marketId, variant: intervalS } = kline;
        for (const span of await checks.contradicted(target, kline)) {
          const known = await checks.mismatches({ marketId, span }, KNOWN_MAX);
          if (known.some((one) => one.intervalS === intervalS)) continue;
          found += 1;
          await this.#step(signal, () => this.#check(target, { marketId, intervalS, span }));
        }
      }
    }
    // Only a part of many is read at once.
    this.#hasSoughtContradicted = found === 0;
  }

  /** Checks the newest unchecked slots of a span. */
  async #check(target: CheckTarget, { intervalS, span }: PendingSpan): Promise<void> {
    const kline = target.klines.find(({ variant }) => variant === intervalS);
    if (kline === undefined) return;
    const { archive, telemetry } = this.#options;
    const stepMs = intervalS * 1000;
    const fromMs = Math.max(span.fromMs, span.toMs - slotsAtOnce(stepMs) * stepMs);
    const slots = await checkAtOnce(archive.checks, target, kline, { fromMs, toMs: span.toMs });
    const nowMs = this.#nowMs();
    const rows = slots.flatMap((slot): CheckRow[] => {
      if (slot.outcome === 'match') return [matchRow(slot.span, slot.isExact)];
      if (slot.outcome === 'unproven') return [];
      return [{ ...rowOf(slot), tries: 0, nextTryAtMs: nowMs }];
    });
    await archive.checks.record(target.marketId, intervalS, rows);
    const bad = rows.filter(({ outcome }) => outcome === 'mismatch');
    const matches = rows.length - bad.length;
    const { market } = target;
    telemetry.judged({ market, intervalS, matches, mismatches: bad.length });
    for (const row of bad) {
      const { fromMs: atMs } = row.span;
      telemetry.mismatchFound({ market, intervalS, fromMs: atMs, detail: detailOf(row) });
    }
  }

  /** Checks a mismatch again, and has it fetched again unless that was done often enough. */
  async #review(target: CheckTarget, known: Mismatch): Promise<void> {
    const { checks } = this.#options.archive;
    const { intervalS, span } = known;
    const kline = target.klines.find(({ variant }) => variant === intervalS);
    if (kline === undefined) return;
    const record = (row: CheckRow) => checks.record(target.marketId, intervalS, [row]);
    const [slot] = await checkAtOnce(checks, target, kline, span);
    const nowMs = this.#nowMs();
    if (slot === undefined || slot.outcome === 'unproven') {
      // It is being fetched again, or cannot be had any more: then it is a gap and no check result.
      const waitMs = Math.max(UNPROVEN_WAIT_MS, intervalS * UNPROVEN_WAIT_PER_S);
      await record({ ...known, nextTryAtMs: nowMs + waitMs });
      return;
    }
    if (slot.outcome === 'match') {
      await record(matchRow(span, slot.isExact));
      await this.#settle(target, kline, known, slot);
      return;
    }
    const row = { ...rowOf(slot), tries: known.tries };
    if (known.tries >= TRIES_MAX) {
      await record({ ...row, nextTryAtMs: null });
      await this.#settle(target, kline, known, slot);
      return;
    }
    const streams = await this.#suspects(target, kline, slot, known.tries);
    if (streams.length === 0) {
      const isOver = await this.#isShorterSettled(target, kline, slot);
      await record({ ...row, nextTryAtMs: isOver ? null : nowMs + WAIT_MS });
      return;
    }
    const tries = known.tries + 1;
    const note = `try ${tries} of ${TRIES_MAX}: ${detailOf(row)}`;
    // First the row: a crash in between costs one refetch, never an endless number of them.
    await record({
      ...row,
      tries,
      nextTryAtMs: nowMs + FIRST_PAUSE_MS * PAUSE_GROWTH ** known.tries,
    });
    for (const stream of streams) {
      await this.#options.archive.recordGap({
        ...{ stream, span, state: 'open', reason: 'suspect', note },
        ...{ atMs: nowMs, nextAttemptAtMs: null, isAttempt: true },
      });
    }
  }

  /**
   * The streams that may be wrong. Where shorter candles of the same time agree with the trades,
   * only the longer one can be; where they do not, they are mended first: then the list is empty.
   * A missing candle makes no stored trade suspect: it alone is asked for first, which costs one
   * small page instead of a walk over all trades of that time.
   */
  async #suspects(
    target: CheckTarget,
    kline: StreamRef,
    { span, differences }: SlotCheck,
    tries: number,
  ): Promise<StreamRef[]> {
    const both = [target.trades, kline].filter((one) => one !== null);
    const all = tries === 0 && isAbsentCandle(differences) ? [kline] : both;
    const shorter = target.klines
      .filter(({ variant }) => variant < kline.variant && kline.variant % variant === 0)
      .at(-1);
    if (shorter === undefined) return all;
    let isProven = true;
    const parts = checkSpanSlots(this.#options.archive.checks, target, shorter, span);
    for await (const slots of parts) {
      if (slots.some(({ outcome }) => outcome === 'mismatch')) return [];
      isProven &&= slots.every(({ outcome }) => outcome === 'match');
    }
    return isProven ? [kline] : all;
  }

  /** Returns true if nothing more will be tried for the shorter candles that do not add up. */
  async #isShorterSettled(
    { marketId }: CheckTarget,
    { variant }: StreamRef,
    { span }: SlotCheck,
  ): Promise<boolean> {
    const { checks } = this.#options.archive;
    const known = await checks.mismatches({ marketId, span }, KNOWN_MAX);
    const shorter = known.filter(({ intervalS }) => intervalS < variant);
    return shorter.length > 0 && shorter.every(({ nextTryAtMs }) => nextTryAtMs === null);
  }

  /** Records in the ledger what came of the refetches; the check result holds the figures. */
  async #settle(
    target: CheckTarget,
    kline: StreamRef,
    known: Mismatch,
    slot: SlotCheck,
  ): Promise<void> {
    const { archive, telemetry } = this.#options;
    const { market } = target;
    const { tries, intervalS, span } = known;
    const outcome = slot.outcome === 'match' ? 'match' : 'mismatch';
    const detail =
      outcome === 'match'
        ? `it adds up after ${tries} refetches; before: ${detailOf(known)}`
        : `it does not add up after ${tries} refetches: ${detailOf(slot)}`;
    telemetry.mismatchSettled({ market, intervalS, fromMs: span.fromMs, outcome, tries, detail });
    if (tries === 0) return;
    // Both were covered when they were checked. The result may have come before the refetch, by a
    // late row: then there is nothing left to suspect.
    const wasAlone = tries === 1 && isAbsentCandle(known.differences);
    const isAlone = kline !== target.klines[0] || wasAlone;
    for (const stream of isAlone ? [kline] : [target.trades, kline]) {
      if (stream === null) continue;
      await archive.recordGap({
        ...{ stream, span, state: 'filled', reason: 'suspect', note: detail },
        ...{ atMs: this.#nowMs(), nextAttemptAtMs: null },
      });
    }
  }
}

function rowOf({ span, differences }: SlotCheck) {
  return { span, outcome: 'mismatch', differences, isExact: false } as const;
}

function detailOf({ differences }: { readonly differences: CheckRow['differences'] }): string {
  return differences.map(describeDifference).join('; ');
}

/** Slots that are checked at once: no more than a day's trades are summed up by one statement. */
function slotsAtOnce(stepMs: number): number {
  return Math.min(FIGURE_SLOTS_MAX, Math.max(1, Math.floor(DAY_MS / stepMs)));
}

/** Checks a span of whole slots that is short enough to be read at once. */
async function checkAtOnce(
  checks: CheckStore,
  target: CheckTarget,
  kline: StreamRef,
  span: Span,
  reach: Reach = 'local',
): Promise<SlotCheck[]> {
  return (await checks.figures(target, kline, span, reach)).map(judgeSlot);
}

/**
 * Checks every slot of a span by what the archive holds now, oldest first, some at a time, so
 * that the caller sees the progress and may end at any point. Memory does not grow with the span.
 *
 * @param span whole slots of the interval
 * @param reach whether archived rows are read as well
 */
export async function* checkSpanSlots(
  checks: CheckStore,
  target: CheckTarget,
  kline: StreamRef,
  span: Span,
  reach: Reach = 'local',
): AsyncGenerator<SlotCheck[], void, void> {
  const stepMs = kline.variant * 1000;
  const lengthMs = slotsAtOnce(stepMs) * stepMs;
  for (let fromMs = span.fromMs; fromMs < span.toMs; fromMs += lengthMs) {
    const toMs = Math.min(span.toMs, fromMs + lengthMs);
    yield await checkAtOnce(checks, target, kline, { fromMs, toMs }, reach);
  }
}
