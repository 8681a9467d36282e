import type { RequestTurn } from '../../client/index.js';
import { codeOf, isAborted, messageOf } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import { type Span, subtractSpans } from '../../kernel/span.js';
import type { CoveredRange } from '../../model/batch.js';
import type { GapReason } from '../../model/gap-reasons.js';
import type { Gap } from '../../model/gaps.js';
import type { PendingGap } from './chains.js';
import { meetEnd } from './end.js';
import { ExactTimes } from './exact-times.js';
import { Head, type HeadLook } from './head.js';
import { PAGE_MAX } from './pace.js';
import { goInto } from './page-back.js';
import type { TradePage, TradeSource } from './source.js';
import { Walk, type WalkerOptions } from './walk.js';
import { FetchFailure, WalkStalledError } from './walk-errors.js';

/** Every so many steps go to another gap than the newest, so that an endless one starves none. */
const OTHER_GAP_STEPS = 8;

/**
 * Walks one market's trade history, so that its coverage grows from the head
 * down, over any crash, and claims nothing that an answer did not prove.
 *
 * Two moves, never at the same time: {@link TradeWalker.pollHead} stores what is new and extends
 * coverage in time; {@link TradeWalker.fillStep} goes one page deeper into a gap, the newest
 * first. A gap is expected and not covered: from `collectFromMs` on, and what is wanted besides.
 * Where to go on is read from the covered ranges of the ledger; only inside a second that is longer
 * than a page does the walk depend on memory, and then a restart repeats that second.
 *
 * While it is not known how the server counts its offset, only the head is asked for. In id mode
 * nothing below the newest page can be asked for: a gap is tried some times with the longest page,
 * then listed as lost.
 */
export class TradeWalker {
  readonly #walk: Walk;
  readonly #head: Head;
  /** Exact times, where another endpoint has them. */
  readonly times: ExactTimes | undefined;
  readonly #mutex = new Mutex();
  #steps = 0;
  /** Coverage that was taken back, and is not read anew yet. */
  readonly #revoked: Span[] = [];

  constructor(options: WalkerOptions, ranges: readonly CoveredRange[], hasTrades: boolean) {
    this.#walk = new Walk(options, ranges, hasTrades);
    this.#head = new Head(this.#walk);
    const { timed } = options;
    const revoke = (spans: readonly Span[], note: string) => this.#revoke(spans, note);
    this.times = timed && new ExactTimes(this.#walk, timed, revoke);
  }

  get market(): string {
    return this.#walk.options.market;
  }

  get endpoint(): TradeSource['endpoint'] {
    return this.#walk.options.source.endpoint;
  }

  get streamId(): number {
    return this.#walk.options.stream.streamId;
  }

  /** Rows of the longest page that the server ever returned, over all markets. */
  get largestPage(): number {
    return this.#walk.traits.largestPage;
  }

  /** Whether new trades are pushed, and the last page agreed with them: a look at the head can wait. */
  get isPushed(): boolean {
    return this.#walk.options.pushed?.isKept === true;
  }

  /** False while nothing that is requested needs the head: until coverage reaches up to the newest request it does. */
  get isHeadNeeded(): boolean {
    const { options, newest, pages, wanted } = this.#walk;
    if (options.isOnRequest !== true) return true;
    const wantedToMs = wanted.all.at(-1)?.toMs;
    if (wantedToMs === undefined) return false;
    if (newest === undefined || this.#mode() === undefined) return true;
    return (pages.ranges.top?.span.toMs ?? Number.NEGATIVE_INFINITY) < wantedToMs;
  }

  /** Whether it is at work: a look at the head would have to wait. */
  get isBusy(): boolean {
    return this.#mutex.isBusy;
  }

  /** Covered spans of its own stream, less what was taken back and is not read anew yet. */
  get covered(): Span[] {
    return subtractSpans(this.#walk.pages.ranges.spans, this.#revoked);
  }

  /** The newest gap that may be worked on now, or undefined when there is none. */
  pendingGap(): PendingGap | undefined {
    if (this.#mode() === undefined) return undefined;
    if (!this.isBusy) this.#walk.releaseWanted();
    const [gap] = this.#walk.openGaps();
    if (gap === undefined) return undefined;
    const topEdgeMs = this.#walk.pages.ranges.top?.span.fromMs ?? 0;
    return { edgeMs: gap.edgeMs, isTop: gap.edgeMs >= topEdgeMs };
  }

  /**
   * Asks for the newest trades once; a second time, when the first page was too short.
   *
   * @param turn the reserved right to send a request
   * @throws WalkStalledError and the errors of the exchange
   */
  pollHead(signal: AbortSignal, turn?: RequestTurn): Promise<HeadLook> {
    return this.#mutex.run(() => this.#step(() => this.#pollHead(signal, turn)));
  }

  /**
   * Goes one page deeper into the newest gap, now and then into another; does nothing when there
   * is none.
   *
   * @param turn the reserved right to send a request: without one, a look at the head may have to
   * wait until the step gets its request
   * @throws WalkStalledError and the errors of the exchange; the gap is then left for a while
   */
  fillStep(signal: AbortSignal, turn?: RequestTurn): Promise<void> {
    return this.#mutex.run(async () => {
      this.#walk.stepTurn = turn;
      await this.#step(() => this.#fillStep(signal));
      this.times?.wake();
    });
  }

  /** Work that asks one endpoint, whichever proves trades now. */
  async #step<T>(work: () => Promise<T>): Promise<T> {
    const { proving } = this.#walk;
    proving?.begin();
    try {
      const result = await work();
      proving?.settled(false);
      return result;
    } catch (error) {
      const isTheirs = error instanceof WalkStalledError || error instanceof FetchFailure;
      if (isTheirs && !isOverrun(error) && !isAborted(error.cause)) {
        const { endpoint } = this;
        proving?.settled(true);
        // The other endpoint proves what this one contradicts.
        if (error instanceof WalkStalledError && this.endpoint !== endpoint) this.#walk.disputed();
      }
      throw error instanceof FetchFailure ? error.cause : error;
    }
  }

  /** Expects a span of history besides what is collected anyway. The same span twice is one. */
  backfill(span: Span): void {
    this.#walk.wanted.add(span);
  }

  /** Takes back that a span is covered, so that it is fetched again like any other gap. */
  invalidate(span: Span, note: string): Promise<void> {
    return this.#mutex.run(async () => {
      await this.#revoke([span], note);
      await this.#followRevoked();
    });
  }

  async #revoke(spans: readonly Span[], note: string): Promise<void> {
    const { archive, stream, time } = this.#walk.options;
    const atMs = Math.floor(time.nowMs());
    const how = { stream, reason: 'suspect', note, atMs } as const;
    await archive.commit({ revoke: spans.map((span) => ({ ...how, span })) });
    for (const span of spans) this.revoked(span);
  }

  /** Coverage of a span was taken back: it is read anew before the next look. */
  revoked(span: Span): void {
    this.#revoked.push(span);
  }

  /** Lets the gaps of a span be tried at once, whatever their pause. */
  retry(span: Span): void {
    this.#walk.release(span);
  }

  keepFrom(ms: number): void {
    this.#walk.keepFrom(ms);
  }

  #mode() {
    const { offsets, source } = this.#walk.options;
    return offsets.of(source.endpoint);
  }

  async #prepare(): Promise<void> {
    await this.#walk.book.restore();
    await this.#followRevoked();
  }

  async #followRevoked(): Promise<void> {
    for (let span = this.#revoked[0]; span !== undefined; span = this.#revoked[0]) {
      await this.#walk.revoked(span);
      this.#revoked.shift();
    }
  }

  async #pollHead(signal: AbortSignal, turn?: RequestTurn): Promise<HeadLook> {
    await this.#prepare();
    const { look, page } = await this.#head.poll(signal, turn);
    if (this.#mode() === 'id' && !look.isConnected) await this.#meetHorizon(page, signal);
    return look;
  }

  async #fillStep(signal: AbortSignal): Promise<void> {
    await this.#prepare();
    const mode = this.#mode();
    if (mode === undefined) return;
    const open = this.#walk.openGaps();
    const gap = open[this.#turnOf(open.length)];
    if (gap === undefined) return;
    if (mode === 'id') return this.#tryHorizon(gap, signal);
    const { book, chains, ends } = this.#walk;
    const before = await this.#walk.cursorAt(gap.edgeMs);
    const known = ends.below(gap.edgeMs, before);
    if (known === 'seen') return book.awaitSign(gap.edgeMs);
    if (known === 'proven' && !book.isLastTry(gap)) {
      chains.delete(gap.edgeMs);
      return book.beyondHistory(gap);
    }
    try {
      await goInto(this.#walk, this.#head, gap, before, signal);
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) await this.#failed(gap, error);
      throw error;
    }
    const rest = this.#walk.openGaps();
    const isSame = rest.some(({ edgeMs }) => edgeMs === gap.edgeMs);
    const after = chains.get(gap.edgeMs) ?? before;
    if (isSame && after?.tid === before?.tid) {
      this.#walk.wanted.triedInVain(gap.edgeMs);
      await book.failed(gap, 'walk stalled', 'a step changed nothing');
      return;
    }
    const left = rest.find(({ fromMs }) => fromMs === gap.fromMs);
    const isBetween = this.#walk.isCovered(gap.fromMs - 1);
    if (left !== undefined && isBetween) await book.outlived(left);
    chains.keepWithin(this.#walk.gaps());
  }

  /** Index of the gap that the next step works on. */
  #turnOf(count: number): number {
    this.#steps += 1;
    if (this.#steps % OTHER_GAP_STEPS !== 0) return 0;
    return Math.floor(this.#steps / OTHER_GAP_STEPS) % Math.max(1, count);
  }

  async #tryHorizon(gap: Gap, signal: AbortSignal): Promise<void> {
    const { options } = this.#walk;
    options.offsets.invalidate(options.source.endpoint);
    try {
      const page = await this.#walk.fetchForStep(0, PAGE_MAX, signal);
      await this.#head.store(page, PAGE_MAX);
      await this.#meetHorizon(page, signal);
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) await this.#failed(gap, error);
      throw error;
    }
  }

  /** The longest page was asked for and gaps are left: none of them can be reached by paging. */
  async #meetHorizon(page: TradePage, signal: AbortSignal): Promise<void> {
    const { book } = this.#walk;
    const gaps = this.#walk.openGaps();
    if (gaps.length === 0) return;
    // Only a page as long as any of this server was cut off by it.
    if (page.rowCount >= Math.min(PAGE_MAX, this.#walk.traits.largestPage)) {
      for (const gap of gaps) await book.horizon(gap);
    } else await meetEnd(this.#walk, page, gaps, signal);
  }

  async #failed(gap: Gap, error: unknown): Promise<void> {
    const { book } = this.#walk;
    if (error instanceof WalkStalledError) this.#walk.wanted.triedInVain(gap.edgeMs);
    const isOurs = !(error instanceof FetchFailure || error instanceof WalkStalledError);
    if (isOurs || isOverrun(error)) book.putOff(gap.edgeMs);
    else await book.failed(gap, ...reasonOf(error));
  }
}

/** The request did not go out at all, for lack of room in our own line. */
function isOverrun(error: unknown): boolean {
  return error instanceof FetchFailure && codeOf(error.cause) === 'budget_overrun';
}

function reasonOf(error: unknown): [GapReason, string] {
  if (error instanceof FetchFailure) return ['exchange failed', messageOf(error.cause)];
  const reason = error instanceof WalkStalledError ? error.reason : 'walk stalled';
  return [reason, messageOf(error)];
}
