import type { RequestTurn } from '../../client/index.js';
import { isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import {
  holdsSpan,
  normalizeSpans,
  type Span,
  subtractSpans,
  totalLengthMs,
} from '../../kernel/span.js';
import { BELIEVED, contradictOf, saidOf } from '../../model/agreement.js';
import type { Batch, CommitResult, CoveredRange, GapRecord } from '../../model/batch.js';
import { CandleGrid } from '../../model/candle-grid.js';
import {
  absentOf,
  type CandleFinding,
  type CandleJudgement,
  type CandleKnowledge,
  type CandleMemory,
  type EmptyEnd,
  historyFromMs,
  judge,
  learnReach,
  spanAbove,
} from '../../model/check-candles.js';
import { CoveredRangeList, RANGES_MAX } from '../../model/covered-ranges.js';
import type { GapReason } from '../../model/gap-reasons.js';
import { type ExchangePort, PRIORITY, Reservation, type StreamContext } from '../ports.js';
import { quarantineRows, type StreamReport, streamReport } from '../reports.js';
import { type CandleAnswer, type KlineReply, readCandles } from './candle-answer.js';

/** The `collectFromMs` of its stream is set: candles of older open times are not expected. */
interface CandleCollectorOptions extends StreamContext {
  readonly marketId: number;
  readonly intervalS: number;
  /** Covered trades of the market: that time has candles for all that was traded, and no others. */
  readonly coveredTrades?: (() => readonly Span[]) | undefined;
  /** Slots that an earlier run found unfillable, though trades of them are stored. */
  readonly givenUp: readonly Span[];
  readonly exchange: ExchangePort;
  /** How long after its close a candle may still change, exchange milliseconds. */
  readonly graceMs: number;
  /** Its newest candle counts as the progress of the market's candles. */
  readonly isFinest: boolean;
  /** How many closed candles before a new one are read again, to catch revisions. */
  readonly rereads: number;
}

const NOTE_MAX_LENGTH = 500;
const BEYOND: GapReason = 'beyond history';

/**
 * Collects the closed candles of one market and interval. Their open times are known beforehand, so
 * what is missing is exact: expected minus covered, newest first. What a response proves of it is decided
 * in `model/check-candles.ts`; here it is asked for, and stored.
 */
export class CandleCollector {
  readonly #options: CandleCollectorOptions;
  readonly #report: StreamReport;
  readonly #ranges: CoveredRangeList;
  readonly #grid: CandleGrid;
  readonly #mutex = new Mutex();
  #collectFromMs: number | null;
  /** Rows of before are not kept any more. */
  #keptFromMs = Number.NEGATIVE_INFINITY;
  #inFiles: readonly Span[] = [];
  #backfills: readonly Span[] = [];
  #memory: CandleMemory;
  #pauses: readonly Pause[] = [];
  /** Slots whose trades were covered at the last look. */
  #tradedSlots: readonly Span[] = [];
  #lastAsked: Span | undefined;
  /** A spare request for older candles that is waited for. */
  #spare: Reservation | undefined;
  #spareTurnAtMs = 0;

  constructor(options: CandleCollectorOptions, ranges: readonly CoveredRange[]) {
    this.#options = options;
    this.#report = streamReport(options.telemetry, 'candles', options.market);
    this.#ranges = new CoveredRangeList(ranges);
    this.#grid = new CandleGrid(options.intervalS * 1000, this.#ranges.top?.span.toMs);
    const nowMs = options.time.nowMs();
    this.#memory = {
      reach: { ageMs: 0, shownAtMs: Number.NEGATIVE_INFINITY, sinceMs: nowMs, answeredAtMs: nowMs },
      absent: [],
      lacked: saidOf(options.givenUp, BELIEVED.candleOfTrades),
    };
    this.#collectFromMs = options.stream.collectFromMs;
  }

  get streamId(): number {
    return this.#options.stream.streamId;
  }

  /**
   * Fetches the newest missing span, at most a page, and each end of it without candles once more.
   *
   * @param nowMs what closes after this instant of the exchange is left for a later poll
   * @returns whether more is missing and may be asked for at once; false as well when the answer
   * settled nothing, so that the caller does not ask the same again before its next turn
   * @throws TapekeepError `candle_mismatch` when the answer is for something else
   */
  poll(signal: AbortSignal, nowMs = this.#options.time.nowMs()): Promise<boolean> {
    return this.#mutex.run(() => this.#poll(signal, nowMs));
  }

  /** Expects the candles of a span besides what is collected anyway. */
  backfill(span: Span): void {
    this.#backfills = normalizeSpans([...this.#backfills, span]);
  }

  /** Takes back that the candles of a span are covered, so that they are fetched again. */
  invalidate(span: Span, note: string): Promise<void> {
    return this.#mutex.run(async () => {
      const { archive, stream, time } = this.#options;
      const atMs = Math.floor(time.nowMs());
      const slots = this.#grid.around(span);
      const revocation = { stream, span: slots, reason: 'suspect', note, atMs } as const;
      await archive.commit({ revoke: [revocation] });
      await this.#readRanges();
      const { absent, lacked } = this.#memory;
      const said = { absent: contradictOf(absent, [slots]), lacked: contradictOf(lacked, [slots]) };
      this.#memory = { ...this.#memory, ...said };
      this.retry(span);
    });
  }

  /** Reads anew what is covered: others have taken some of it back. */
  reload(): Promise<void> {
    return this.#mutex.run(() => this.#readRanges());
  }

  async #readRanges(): Promise<void> {
    const { archive, stream } = this.#options;
    this.#ranges.replace(await archive.coveredRanges(stream, RANGES_MAX));
  }

  /** Lets the candles of a span be asked for at once, whatever their pause. */
  retry(span: Span): void {
    this.#release(span);
  }

  /** Ends a poll that waits to ask for older candles: it rejects with AbortedError, and newer ones may be asked for. */
  giveUpSpare(): void {
    this.#spare?.giveUp();
  }

  /** When it was last given a request for older candles, of the monotonic clock; 0 for never. */
  get spareTurnAtMs(): number {
    return this.#spareTurnAtMs;
  }

  /** Nothing of before an instant is kept any more: nothing of it is expected. */
  keepFrom(ms: number): void {
    if (ms <= this.#keptFromMs) return;
    this.#keptFromMs = ms;
    // Without a start only requests are expected.
    if (this.#collectFromMs !== null) this.#collectFromMs = Math.max(this.#collectFromMs, ms);
  }

  /** Time whose rows are in files, all that there is: no candle that begins there can be added. */
  leaveOut(inFiles: readonly Span[]): void {
    this.#inFiles = inFiles;
  }

  async #poll(signal: AbortSignal, nowMs: number): Promise<boolean> {
    const { graceMs, rereads } = this.#options;
    const { stepMs } = this.#grid;
    this.#lookAtTrades();
    const finalToMs = this.#grid.floor(nowMs - graceMs);
    const missing = this.#missing(finalToMs);
    const newest = missing.at(-1);
    if (newest === undefined) return false;
    const pageFromMs = newest.toMs - this.#pageMs;
    // All that a page can hold, because absent candles that were seen once lie scattered.
    const oldest = missing.find(({ toMs }) => toMs > pageFromMs) ?? newest;
    const fromMs = Math.max(oldest.fromMs, pageFromMs);
    const isHead = newest.toMs === finalToMs;
    const rereadMs = isHead ? rereads * stepMs : 0;
    const floorMs = Math.min(fromMs, this.#grid.ceil(this.#collectFromMs ?? 0));
    const lowestMs = Math.max(floorMs, fromMs - rereadMs, pageFromMs);
    const asked = this.#question({ fromMs: lowestMs, toMs: newest.toMs });
    const ends = await this.#take(asked, isHead, signal);
    if (ends === undefined) return true;
    for (const end of ends) {
      if ((await this.#take(end.asked, isHead, signal, end)) === undefined) return true;
    }
    const left = this.#missing(finalToMs);
    return left.length > 0 && totalLengthMs(left) < totalLengthMs(missing);
  }

  /** Length of the longest question. */
  get #pageMs(): number {
    return this.#options.exchange.candlesMax * this.#grid.stepMs;
  }

  /** A time range, or one that differs by a slot: no two questions in a row are the same, or a cache would answer both. */
  #question({ fromMs, toMs }: Span): Span {
    const { stepMs } = this.#grid;
    const isSame = this.#lastAsked?.fromMs === fromMs && this.#lastAsked.toMs === toMs;
    const isFull = toMs - fromMs >= this.#pageMs;
    if (!isSame) this.#lastAsked = { fromMs, toMs };
    else if (isFull) this.#lastAsked = { fromMs: fromMs + stepMs, toMs };
    else this.#lastAsked = { fromMs, toMs: toMs + stepMs };
    return this.#lastAsked;
  }

  /**
   * Asks for candles, and stores what the response proves.
   *
   * @param end what is asked for once more
   * @returns ends that are to be asked for once more; undefined: candles begin at another hour than was believed
   */
  async #take(
    asked: Span,
    isHead: boolean,
    signal: AbortSignal,
    end?: EmptyEnd,
  ): Promise<readonly EmptyEnd[] | undefined> {
    const { archive, market, marketId, graceMs } = this.#options;
    const grid = this.#grid;
    const reply = await this.#ask(asked, isHead, signal);
    if (await this.#hasMoved(reply)) return undefined;
    const answer = readCandles({ market, grid, asked, graceMs }, reply);
    const k = this.#knowledge(answer);
    const said = absentOf(answer, k, end);
    const stored =
      said.absent.length === 0
        ? { traded: [], left: [] }
        : await archive.tradedSlots(marketId, said.absent, grid.stepMs);
    await this.#commit(answer, judge(answer, k, said, stored), end !== undefined);
    return said.ends;
  }

  async #ask(asked: Span, isHead: boolean, signal: AbortSignal) {
    const { exchange, market, intervalS } = this.#options;
    const query = {
      market,
      start: asked.fromMs / 1000,
      end: (asked.toMs - this.#grid.stepMs) / 1000,
      interval: intervalS,
    };
    const how = { priority: isHead ? PRIORITY.klines : PRIORITY.fill, signal };
    let turn: RequestTurn | undefined;
    try {
      if (!isHead) turn = await this.#spareTurn(signal);
      const reply = await exchange.call('kline', query, { ...how, ...(turn && { turn }) });
      const { interval, market: echoed } = reply.data;
      if (interval !== intervalS || echoed !== market) {
        throw new TapekeepError(
          'candle_mismatch',
          `${market}: candles of ${intervalS} s were asked for, the answer is for ${echoed}, ${interval} s; check that the exchange knows this interval`,
        );
      }
      return reply;
    } catch (error) {
      // The newest candles are asked for again at the next turn anyway. An older page that cannot
      // be had must not keep all those below it from being asked for.
      if (!isHead && !signal.aborted && !isAborted(error)) {
        const note = messageOf(error).slice(0, NOTE_MAX_LENGTH);
        await this.#store([{ spans: [asked], reason: 'exchange failed', note }]);
      }
      throw error;
    } finally {
      turn?.giveBack();
    }
  }

  async #spareTurn(signal: AbortSignal): Promise<RequestTurn> {
    this.#spare = new Reservation(this.#options.exchange, 'kline', PRIORITY.fill, signal);
    try {
      const turn = await this.#spare.turn;
      this.#spareTurnAtMs = this.#options.clock.monotonicMs();
      return turn;
    } finally {
      this.#spare = undefined;
    }
  }

  #missing(finalToMs: number): Span[] {
    const always = { fromMs: this.#grid.ceil(this.#collectFromMs ?? finalToMs), toMs: finalToMs };
    const wanted = this.#backfills.map((span) => this.#grid.around(span));
    const left = { fromMs: Number.NEGATIVE_INFINITY, toMs: this.#grid.ceil(this.#keptFromMs) };
    // A candle that begins in files and ends behind them is one of theirs.
    const inFiles = this.#inFiles.map((span) => ({ ...span, toMs: this.#grid.ceil(span.toMs) }));
    const settled = [
      left,
      ...inFiles,
      ...this.#ranges.spans,
      ...this.#paused,
      spanAbove(finalToMs),
    ];
    const gaps = subtractSpans(normalizeSpans([always, ...wanted]), settled);
    return gaps.map((gap) => this.#grid.around(gap));
  }

  /** Returns true if a response shows that candles begin at another hour than was believed. */
  async #hasMoved({ data }: KlineReply): Promise<boolean> {
    if (!this.#grid.learn(data.kline.map((candle) => candle.time * 1000))) return false;
    const { archive, stream } = this.#options;
    const floorMs = this.#collectFromMs;
    if (floorMs === null || this.#grid.holds(floorMs)) return true;
    // Expected is from a whole candle on: no gap smaller than one can ever be filled.
    const fromMs = this.#grid.ceil(floorMs);
    await archive.commit({ begins: [{ streamId: stream.streamId, fromMs }] });
    this.#collectFromMs = fromMs;
    return true;
  }

  /** An older candle shows that history reaches as far down: what was given up above it is asked for again. */
  #knowledge(answer: CandleAnswer): CandleKnowledge {
    const grid = this.#grid;
    const before = this.#memory.reach;
    const nowMs = this.#options.time.nowMs();
    const reach = learnReach(before, answer, nowMs, grid.stepMs);
    this.#memory = { ...this.#memory, reach };
    if (reach.shownAtMs !== before.shownAtMs || reach.ageMs > before.ageMs) {
      this.#release(spanAbove(historyFromMs({ reach, grid, nowMs })), BEYOND);
    }
    return {
      ...{ ...this.#memory, grid, nowMs, tradedSlots: this.#tradedSlots },
      ...{ beginsMs: this.#collectFromMs, pageMs: this.#pageMs },
      ...{ covered: this.#ranges.spans, paused: this.#paused },
    };
  }

  /** An answer proves something of slots whose trades are covered since: they are asked for again. */
  #lookAtTrades(): void {
    const known = this.#tradedSlots;
    const covered = this.#options.coveredTrades?.() ?? [];
    this.#tradedSlots = covered.map((span) => this.#grid.within(span));
    const grown = this.#tradedSlots.filter((span) => !known.some((one) => holdsSpan(one, span)));
    for (const span of subtractSpans(grown, known)) this.#release(span, BEYOND);
  }

  async #commit(
    { rows, rejected, open, reply }: CandleAnswer,
    { proven, findings, next }: CandleJudgement,
    askedTwice: boolean,
  ): Promise<void> {
    const { stream, market, marketId, intervalS, isFinest } = this.#options;
    this.#report.received(rows.length + rejected.length + open);
    const evidence = { endpoint: 'kline', candles: rows.length, dateMs: reply.dateMs };
    const shown = askedTwice ? { ...evidence, askedTwice } : evidence;
    const batch = {
      klines: rows.map((row) => ({ ...row, marketId, intervalS })),
      quarantine: quarantineRows('kline', market, rejected, reply.receivedAtMs),
      claims: proven.map((span) => ({ stream, span, evidence: shown })),
    };
    const result = await this.#store(findings, batch).catch((error: unknown) => {
      this.#report.settled({ lost: rows.length, unchanged: open, rejected: rejected.length });
      throw error;
    });
    this.#memory = next;
    for (const range of result.ranges) this.#ranges.absorb(range);
    const { kline } = result.outcomes;
    const isRefused = kline.rejected > 0;
    this.#report.settled({ ...kline, unchanged: open, rejected: rejected.length + kline.rejected });
    const { spans: covered, top } = this.#ranges;
    const heldBack = subtractSpans(proven, covered);
    if (isRefused) await this.#store([{ spans: heldBack, reason: 'refused rows' }]);
    // Claimed, and not covered: no row is wrong, but the exchange's time is in dispute.
    else this.#putOff(heldBack.map((span) => ({ span, reason: 'not collected' })));
    if (top !== undefined && isFinest) this.#report.progressed(top.span.toMs);
  }

  /** Commits a batch, with unavailable closed candles as gaps. */
  async #store(findings: readonly CandleFinding[], batch: Batch = {}): Promise<CommitResult> {
    const { archive, stream, time } = this.#options;
    const atMs = Math.floor(time.nowMs());
    const gaps = findings.flatMap(({ spans, isLost, ...how }) => {
      const nextAttemptAtMs = isLost ? null : atMs + pauseAfter(how.reason);
      const state = isLost ? ('unfillable' as const) : ('open' as const);
      const gap = { stream, state, ...how, atMs, nextAttemptAtMs, isAttempt: true };
      // A candle that is stored already and cannot be read again is no gap.
      return subtractSpans(spans, this.#ranges.spans).map((span) => ({ ...gap, span }));
    });
    const result = await archive.commit({ ...batch, findings: gaps });
    this.#putOff(gaps);
    for (const { span, reason } of gaps) this.#report.gap(span, reason, reason === BEYOND);
    return result;
  }

  /** Leaves slots alone for a while. */
  #putOff(gaps: ReadonlyArray<Pick<GapRecord, 'span' | 'reason'> & Partial<GapRecord>>): void {
    const nowMs = this.#options.clock.monotonicMs();
    const waiting = this.#pauses.filter(({ retryAtMs }) => nowMs < retryAtMs);
    const added = gaps.map(({ span, reason, state }) => {
      const waitMs = state === 'unfillable' ? LOST_RETRY_MS : pauseAfter(reason);
      return { span, reason, retryAtMs: nowMs + waitMs };
    });
    this.#pauses = [...waiting, ...added].slice(-PAUSES_MAX);
  }

  get #paused(): Span[] {
    const nowMs = this.#options.clock.monotonicMs();
    return this.#pauses.filter(({ retryAtMs }) => nowMs < retryAtMs).map(({ span }) => span);
  }

  /** @param only slots that are open for this reason; left out: all */
  #release(released: Span, only?: GapReason): void {
    this.#pauses = this.#pauses.flatMap((one) =>
      only === undefined || one.reason === only
        ? subtractSpans(one.span, [released]).map((span) => ({ ...one, span }))
        : one,
    );
  }
}

/** Pause of a candle that was refused, or did not come. */
const RETRY_MS = 600_000;
/** Pause where the cause says nothing about the candle: the exchange failed, or its time is in dispute. */
const EXCHANGE_RETRY_MS = 60_000;
/** Pause of an unfillable candle. */
const LOST_RETRY_MS = 3_600_000;

const pauseAfter = (reason: GapReason): number =>
  reason === 'exchange failed' || reason === 'not collected' ? EXCHANGE_RETRY_MS : RETRY_MS;

/** Pauses that are remembered; slots of forgotten ones are asked for sooner. */
const PAUSES_MAX = 10_000;

/** Slots that are left alone for a while. */
interface Pause {
  readonly span: Span;
  readonly reason: GapReason;
  /** Time of the monotonic clock. */
  readonly retryAtMs: number;
}

/** Pages of candles that one turn may fetch of each interval. */
const ROUNDS_MAX = 20;
/** Every so many of these go to the newest candles; on a tape that is played fast each would. */
const HEAD_ROUNDS = 4;

/**
 * Polls the intervals of one market page by page in turn, so that one interval's long history does
 * not hold up the others, nor what closes meanwhile the history. It ends where a wait for a spare
 * request was given up.
 */
export async function pollByTurns(
  collectors: readonly CandleCollector[],
  time: Pick<StreamContext['time'], 'nowMs'>,
  signal: AbortSignal,
): Promise<void> {
  let open = collectors;
  let nowMs = 0;
  for (let round = 0; round < ROUNDS_MAX && open.length > 0; round += 1) {
    if (round % HEAD_ROUNDS === 0) nowMs = time.nowMs();
    const unfinished: CandleCollector[] = [];
    try {
      for (const collector of open) {
        if (await collector.poll(signal, nowMs)) unfinished.push(collector);
      }
    } catch (error) {
      if (signal.aborted || !isAborted(error)) throw error;
      return;
    }
    open = unfinished;
  }
}
