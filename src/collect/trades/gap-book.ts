import { BoundedMap, BoundedSet } from '../../kernel/bounded.js';
import type { Random } from '../../kernel/random.js';
import type { Span } from '../../kernel/span.js';
import { BELIEVED } from '../../model/agreement.js';
import { BlockedEdges } from '../../model/edges.js';
import type { GapReason } from '../../model/gap-reasons.js';
import type { Gap } from '../../model/gaps.js';
import type { Gap as RememberedGap } from '../../store/index.js';
import type { PageStore, PageStoreOptions } from './page-store.js';

export interface GapBookOptions extends PageStoreOptions {
  readonly random: Random;
}

const RETRY_BASE_MS = 1000;
const RETRY_CAP_MS = 600_000;
/** What failed lay with the exchange, not with the gap: once it answers again the walk goes on. */
const EXCHANGE_RETRY_CAP_MS = 60_000;
/** A gap that the exchange no longer serves is looked at again this rarely. */
const BEYOND_HISTORY_RETRY_MS = 3_600_000;
/** Tries to find a gap in id mode within the newest page after all. */
const HORIZON_TRIES = BELIEVED.pageHorizon.answers;
/** Tries to find the start of a history that is forgotten as fast as it is walked. */
const { answers: START_TRIES, apartMs: START_RETRY_MS } = BELIEVED.historyStart;
/** Between two signs of one end: long enough for two answers, and not longer for failures of before. */
const NEXT_SIGN_MS = 2000;
/** Memories of one stream that are read at the start. */
const MEMORIES_MAX = 1000;
const NOTE_MAX_LENGTH = 500;
/** Gaps that are remembered as reported; beyond it they are reported again. */
const NAMED_MAX = 1000;

/**
 * What became of the tries at filling gaps. The pauses between them live here; each failed try
 * also goes to the archive, so that a restart neither forgets nor hammers. Nothing is written for a
 * gap that the next step closes. What is done once counts as done after its commit, which may fail.
 */
export class GapBook {
  readonly #options: GapBookOptions;
  readonly #pages: PageStore;
  readonly #edges: BlockedEdges;
  /** Starts of gaps of which the archive knows already that the head moved on. */
  readonly #reportedFromMs = new BoundedSet<number>(NAMED_MAX);
  /** Tries below an edge that were answered, and did not reach below it: failures of the exchange are none. */
  readonly #answered = new BoundedMap<number, number>(NAMED_MAX);
  /** Whether the archive remembers tries at the lowest gap while the start of history is open; undefined: not asked yet. */
  #hasStartTries: boolean | undefined;

  constructor(options: GapBookOptions, pages: PageStore) {
    this.#options = options;
    this.#pages = pages;
    this.#edges = new BlockedEdges(options.random, RETRY_BASE_MS, RETRY_CAP_MS);
  }

  /** Takes over, once, what an earlier run learned of gaps. */
  async restore(): Promise<void> {
    if (this.#hasStartTries !== undefined) return;
    const { archive, stream, clock, time } = this.#options;
    const exchangeMs = Math.floor(time.nowMs());
    const filter = { marketIds: [stream.marketId], kinds: [stream.kind], limit: MEMORIES_MAX };
    const memories = await archive.listGaps(filter, exchangeMs);
    const nowMs = clock.monotonicMs();
    const hasStartTries = await this.#restoreStart(exchangeMs, nowMs);
    // Memories lie side by side in what the walk sees as one gap: it is tried by its upper edge, as
    // soon as any part of it is due.
    let gap: { fromMs: number; edgeMs: number; attempts: number; waitMs: number } | undefined;
    for (const memory of memories) {
      if (memory.streamId !== stream.streamId) continue;
      const { span, attempts } = memory;
      if (memory.reason === 'head moved') this.#reportedFromMs.add(span.fromMs);
      const waitMs = pauseOf(memory, exchangeMs);
      gap =
        gap?.fromMs === span.toMs
          ? {
              fromMs: span.fromMs,
              edgeMs: gap.edgeMs,
              attempts: Math.max(gap.attempts, attempts),
              waitMs: Math.min(gap.waitMs, waitMs),
            }
          : { fromMs: span.fromMs, edgeMs: span.toMs, attempts, waitMs };
      this.#edges.restore(gap.edgeMs, gap.attempts, nowMs + gap.waitMs);
    }
    this.#hasStartTries = hasStartTries;
  }

  /** The same of the lowest gap while its start is unknown. */
  async #restoreStart(exchangeMs: number, nowMs: number): Promise<boolean> {
    const { archive, stream } = this.#options;
    const { collectFromMs, ranges } = this.#pages;
    const lowest = ranges.all.at(-1);
    if (collectFromMs !== null || lowest === undefined || ranges.isCut) return false;
    const tries = await archive.startTries(stream.streamId);
    if (tries === null) return false;
    const waitMs = Math.min(RETRY_CAP_MS, Math.max(0, tries.nextAttemptAtMs - exchangeMs));
    this.#edges.restore(lowest.span.fromMs, tries.attempts, nowMs + waitMs);
    return true;
  }

  get #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }

  isBlocked(edgeMs: number): boolean {
    return this.#edges.isBlocked(edgeMs, this.#nowMs);
  }

  /** The walk has got on below an edge. */
  async passed({ fromMs, edgeMs }: Gap): Promise<void> {
    this.#edges.clear(edgeMs);
    this.#answered.delete(edgeMs);
    if (fromMs !== -Infinity || !this.#hasStartTries) return;
    const { archive, stream } = this.#options;
    await archive.noteStartTry(stream.streamId, null);
    this.#hasStartTries = false;
  }

  /** Whether another try at a gap may set the start for good: it takes a look of its own. */
  isLastTry({ fromMs, edgeMs }: Gap): boolean {
    const times = this.#answered.get(edgeMs) ?? 0;
    return fromMs === -Infinity && times >= START_TRIES - 1;
  }

  /** Allows another try at the gaps of a span. */
  release({ fromMs, toMs }: Span): void {
    this.#edges.release(fromMs, toMs, this.#nowMs);
  }

  /** Puts a gap off without a word to the archive: the failure was not the exchange's. */
  putOff(edgeMs: number): void {
    this.#edges.block(edgeMs, this.#nowMs);
  }

  /** An answer showed that history ends: the next one, soon, may prove it. */
  awaitSign(edgeMs: number): void {
    this.#pause(edgeMs, NEXT_SIGN_MS);
  }

  /** A pause that failures of before do not lengthen. */
  #pause(edgeMs: number, waitMs: number): void {
    this.#edges.restore(edgeMs, this.#edges.attempts(edgeMs), this.#nowMs + waitMs);
  }

  #countAnswered(edgeMs: number): number {
    const times = (this.#answered.get(edgeMs) ?? 0) + 1;
    this.#answered.set(edgeMs, times);
    return times;
  }

  /** Rows right below an edge could not be read; the gap is listed already. */
  refused(edgeMs: number): void {
    this.#edges.block(edgeMs, this.#nowMs, RETRY_CAP_MS);
  }

  /** A try at a gap led nowhere; it is repeated after a growing pause. */
  async failed(gap: Gap, reason: GapReason, note: string): Promise<void> {
    const capMs = reason === 'exchange failed' ? EXCHANGE_RETRY_CAP_MS : RETRY_CAP_MS;
    const waitMs = this.#edges.block(gap.edgeMs, this.#nowMs, 0, capMs);
    await this.#record(gap, 'open', reason, note, waitMs);
  }

  /**
   * A gap lies outside the newest page of a server that pages no deeper (id mode), and that page was
   * as long as any. It is tried again some times, because a page may turn out longer than the last;
   * then it is given up.
   */
  async horizon(gap: Gap): Promise<void> {
    const note = 'the server counts since and lastId as trade ids: only its newest page is served';
    const times = this.#countAnswered(gap.edgeMs);
    if (gap.fromMs === -Infinity) {
      this.#pause(gap.edgeMs, RETRY_BASE_MS * 2 ** Math.min(times, HORIZON_TRIES - 1));
      await this.#startAtHorizon(gap, times >= HORIZON_TRIES);
    } else if (times < HORIZON_TRIES) {
      await this.failed(gap, 'history horizon', note);
    } else {
      await this.#lost(gap, 'history horizon', note, Number.POSITIVE_INFINITY);
    }
  }

  /** The exchange serves nothing as old as a gap. */
  async beyondHistory(gap: Gap): Promise<void> {
    const note = 'its history ended above when this was asked for';
    const isStart = gap.fromMs === -Infinity;
    const isSought = isStart && this.#pages.collectFromMs === null;
    const retryMs = isSought ? START_RETRY_MS : BEYOND_HISTORY_RETRY_MS;
    await this.#lost(gap, 'beyond history', note, retryMs);
    const times = this.#countAnswered(gap.edgeMs);
    if (isStart) await this.#startAtHorizon(gap, times >= START_TRIES);
  }

  /**
   * What there was below the lowest edge cannot be known: after some tries what can be had from there on
   * is all that is expected. That is said for good, so tries that failed for another reason do not count.
   */
  async #startAtHorizon({ edgeMs }: Gap, isLast: boolean): Promise<void> {
    if (!isLast || this.#pages.collectFromMs !== null) return;
    this.#pages.beginAt(edgeMs, 'history horizon');
    await this.#pages.record();
  }

  /**
   * A gap between known trades outlived a step of filling. Most gaps are bursts that the next
   * page closes, and are not worth a write.
   */
  async outlived(gap: Gap): Promise<void> {
    const { fromMs, edgeMs } = gap;
    if (this.#reportedFromMs.has(fromMs)) return;
    this.#retryWithin(gap);
    const span = { fromMs, toMs: edgeMs };
    await this.#pages.record({ span, state: 'open', reason: 'head moved', waitMs: null });
    this.#reportedFromMs.add(fromMs);
  }

  /** The long pause begins once the archive knows: a gap that it still lists as open is tried again soon. */
  async #lost(gap: Gap, reason: GapReason, note: string, retryMs: number): Promise<void> {
    this.putOff(gap.edgeMs);
    await this.#record(gap, 'unfillable', reason, note, retryMs);
    this.#pause(gap.edgeMs, retryMs);
  }

  /**
   * A gap that is listed as open takes the place of all that was remembered within it. When its upper
   * part is filled, an edge within that was given up must be tried again: it is listed as open now.
   */
  #retryWithin({ fromMs, edgeMs }: Gap): void {
    this.#edges.release(fromMs, edgeMs - 1, this.#nowMs);
  }

  /** A try at the lowest gap while its start is unknown: no gap could be listed with it. */
  async #recordStart(reason: GapReason, note: string, waitMs: number): Promise<void> {
    const { archive, stream, time } = this.#options;
    if (this.#pages.collectFromMs !== null) return;
    this.#hasStartTries = true;
    const nextAttemptAtMs = Math.floor(time.nowMs()) + Math.ceil(waitMs);
    const failed = { reason, note: note.slice(0, NOTE_MAX_LENGTH), nextAttemptAtMs };
    await archive.noteStartTry(stream.streamId, failed);
  }

  async #record(
    { fromMs, edgeMs }: Gap,
    state: 'open' | 'unfillable',
    reason: GapReason,
    note: string,
    waitMs: number,
  ): Promise<void> {
    if (fromMs >= edgeMs) return;
    if (fromMs === -Infinity) return this.#recordStart(reason, note, waitMs);
    const isOpen = state === 'open';
    if (isOpen) this.#retryWithin({ fromMs, edgeMs });
    const span = { fromMs, toMs: edgeMs };
    const shortNote = note.slice(0, NOTE_MAX_LENGTH);
    await this.#pages.record({
      ...{ span, state, reason, note: shortNote, waitMs: isOpen ? waitMs : null },
    });
  }
}

/** How long a gap is still to be left alone, as an earlier run saw it; 0 for not at all. */
function pauseOf({ state, reason, nextAttemptAtMs }: RememberedGap, exchangeMs: number): number {
  if (state === 'unfillable') {
    return reason === 'beyond history' ? BEYOND_HISTORY_RETRY_MS : Number.POSITIVE_INFINITY;
  }
  // The exchange's clock may run faster than ours: a pause is never longer than its cap.
  return Math.min(RETRY_CAP_MS, Math.max(0, (nextAttemptAtMs ?? 0) - exchangeMs));
}
