import type { RequestTurn } from '../../client/index.js';
import { isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import {
  holdsSpan,
  hullOf,
  normalizeSpans,
  type Span,
  subtractSpans,
  totalLengthMs,
} from '../../kernel/span.js';
import type { CoveredRange, GapRecord } from '../../model/batch.js';
import { CoveredRangeList, RANGES_MAX } from '../../model/covered-ranges.js';
import type { GapReason } from '../../model/gap-reasons.js';
import { type ExchangePort, PRIORITY, Reservation, type StreamContext } from '../ports.js';
import { quarantineRows, type StreamReport, streamReport } from '../reports.js';
import {
  BEYOND,
  type CandleAnswer,
  CandleGrid,
  type KlineReply,
  readCandles,
} from './candle-answer.js';
import {
  believedOf,
  CandleAbsences,
  CandleContradictions,
  CONTRADICTED_NOTE,
  crossCheckWithTrades,
  type EmptyEnd,
  emptyEnds,
  isWorthAsking,
  slotsOf,
} from './quiet-slots.js';

/** The `collectFromMs` of its stream is set: candles of older open times are not expected. */
interface CandleCollectorOptions extends StreamContext {
  readonly marketId: number;
  readonly intervalS: number;
  /** Where the trades of the market are covered: that time has candles for all that was traded, and no others. */
  readonly coveredTrades?: (() => readonly Span[]) | undefined;
  /** What an earlier run gave up, though trades of it are stored. */
  readonly givenUp: readonly Span[];
  readonly exchange: ExchangePort;
  /** How long after its close a candle may still change, exchange milliseconds. */
  readonly graceMs: number;
  /** Whether its newest candle counts as the progress of the market's candles. */
  readonly isFinest: boolean;
  /** How many closed candles before a new one are read again, to catch revisions. */
  readonly rereads: number;
}

const above = (fromMs: number): Span => ({ fromMs, toMs: Number.POSITIVE_INFINITY });
const NOTE_MAX_LENGTH = 500;
/**
 * What closed more slots ago than this, or during a longer pause without answers, counts as quiet only where an
 * older candle was shown since.
 */
const PAUSE_SLOTS_MAX = 10;
/** What was shown more slots ago counts no more: an exchange that keeps so many candles may have fewer of that age. */
const SHOWN_SLOTS_MAX = 100;
/** Said of candles that were asked for and of which the answer does not speak. */
const UNANSWERED_NOTE = 'the answer names less of the time range than was asked for';

/**
 * Collects the closed candles of one market and interval. Their open times are known beforehand, so
 * what is missing is exact: expected minus covered, newest first. A slot that was asked for is covered
 * whether a candle came or not, because a minute without trades may have none; but that it has none
 * takes two answers that agree. A long run of them at the end of an answer, as a page leaves that was
 * cut or capped, is asked for once more at once.
 *
 * Below the oldest candle that was shown lately an answer without candles proves nothing: no trade, and an
 * exchange that keeps nothing as old, look the same; only of slots that closed just now, while it answered, it does.
 * The others are listed as beyond its history, until an older candle shows, or the trades of their time are covered
 * and can be looked at.
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
  /** The greatest age at which a candle was shown lately. What was shown long ago may be gone. */
  #reachMs = 0;
  #shownAtMs = Number.NEGATIVE_INFINITY;
  /** Since when the exchange has answered without a long pause. */
  #answersSinceMs: number;
  #answeredAtMs: number;
  readonly #pauses = new CandlePauses();
  /** Slots whose trades were covered at the last look. */
  #tradedSlots: readonly Span[] = [];
  readonly #absences = new CandleAbsences();
  readonly #contradictions: CandleContradictions;
  readonly #questions: CandleQuestions;
  /** A spare request for older candles that is waited for. */
  #spare: Reservation | undefined;
  #spareTurnAtMs = 0;

  constructor(options: CandleCollectorOptions, ranges: readonly CoveredRange[]) {
    this.#options = options;
    this.#report = streamReport(options.telemetry, 'candles', options.market);
    this.#ranges = new CoveredRangeList(ranges);
    this.#grid = new CandleGrid(options.intervalS * 1000, this.#ranges.top?.span.toMs);
    this.#answersSinceMs = options.time.nowMs();
    this.#answeredAtMs = this.#answersSinceMs;
    this.#questions = new CandleQuestions(this.#grid.stepMs, options.exchange.candlesMax);
    this.#contradictions = new CandleContradictions(options.givenUp);
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

  /** Expects the candles of a span besides what is collected anyway. The same span twice is one. */
  backfill(span: Span): void {
    if (this.#backfills.some((one) => holdsSpan(one, span))) return;
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
      this.#absences.forget(slots);
      this.#contradictions.forget([slots]);
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
    this.#pauses.release(span);
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
    this.#collectFromMs = Math.max(this.#collectFromMs ?? ms, ms);
  }

  /** Time whose rows are in files, all that there is: no candle that begins there can be added. */
  leaveOut(inFiles: readonly Span[]): void {
    this.#inFiles = inFiles;
  }

  async #poll(signal: AbortSignal, nowMs: number): Promise<boolean> {
    const { exchange, graceMs, rereads } = this.#options;
    const { stepMs } = this.#grid;
    this.#lookAtTrades();
    const finalToMs = this.#grid.floor(nowMs - graceMs);
    const missing = this.#missing(finalToMs);
    const newest = missing.at(-1);
    if (newest === undefined) return false;
    const pageFromMs = newest.toMs - exchange.candlesMax * stepMs;
    // All that a page can hold, because absent candles that were seen once lie scattered.
    const oldest = missing.find(({ toMs }) => toMs > pageFromMs) ?? newest;
    const fromMs = Math.max(oldest.fromMs, pageFromMs);
    const isHead = newest.toMs === finalToMs;
    const rereadMs = isHead ? rereads * stepMs : 0;
    const floorMs = Math.min(fromMs, this.#grid.ceil(this.#collectFromMs ?? 0));
    const asked = this.#questions.next({
      fromMs: Math.max(floorMs, fromMs - rereadMs, pageFromMs),
      toMs: newest.toMs,
    });
    const reply = await this.#ask(asked, isHead, signal);
    if (await this.#hasMoved(reply)) return true;
    const answer = this.#read(asked, reply);
    this.#learnHistory(answer);
    const ends = this.#suspectEnds(answer);
    const suspect = [...ends.map(({ span }) => span), ...answer.unknown];
    await this.#store(answer, this.#confirmed(answer, subtractSpans(answer.closed, suspect)));
    for (const end of ends) {
      const { asked = end.question } = end;
      const second = await this.#ask(asked, isHead, signal);
      if (await this.#hasMoved(second)) return true;
      const again = this.#read(asked, second);
      this.#learnHistory(again);
      const believed = believedOf(end, again.heldMs, stepMs);
      // Of what lies below the question only the candles count that came.
      const below = again.heldMs.filter((ms) => ms < end.question.fromMs);
      const said = normalizeSpans([...believed, ...slotsOf(below, stepMs)]);
      await this.#store(
        again,
        subtractSpans(said, [above(again.finalToMs), ...again.unknown]),
        true,
      );
    }
    const left = this.#missing(finalToMs);
    return left.length > 0 && totalLengthMs(left) < totalLengthMs(missing);
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
        await this.#record(this.#open([asked], 'exchange failed', { note }));
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

  /** Expected is from a whole candle on: no gap smaller than one can ever be filled. */
  async #alignFloor(): Promise<void> {
    const { archive, stream } = this.#options;
    const floorMs = this.#collectFromMs;
    if (floorMs === null || this.#grid.holds(floorMs)) return;
    const alignedMs = this.#grid.ceil(floorMs);
    await archive.commit({ begins: [{ streamId: stream.streamId, fromMs: alignedMs }] });
    this.#collectFromMs = alignedMs;
  }

  #missing(finalToMs: number): Span[] {
    const always = { fromMs: this.#grid.ceil(this.#collectFromMs ?? finalToMs), toMs: finalToMs };
    const keptFromMs = this.#grid.ceil(this.#keptFromMs);
    const wanted = this.#backfills.flatMap((span) => {
      const { fromMs, toMs } = this.#grid.around(span);
      if (toMs <= keptFromMs) return [];
      return [{ fromMs: Math.max(fromMs, keptFromMs), toMs: Math.min(toMs, finalToMs) }];
    });
    const putOff = this.#pauses.at(this.#options.clock.monotonicMs());
    // A candle that begins in files and ends behind them is one of theirs.
    const inFiles = this.#inFiles.map((span) => ({ ...span, toMs: this.#grid.ceil(span.toMs) }));
    const settled = [...this.#ranges.spans, ...putOff, ...inFiles];
    const gaps = subtractSpans(normalizeSpans([always, ...wanted]), settled);
    return gaps.map((gap) => this.#grid.around(gap));
  }

  /** Whether the answer shows that candles begin at another hour than was believed. */
  async #hasMoved({ data }: KlineReply): Promise<boolean> {
    if (!this.#grid.learn(data.kline.map((candle) => candle.time * 1000))) return false;
    await this.#alignFloor();
    return true;
  }

  /**
   * From here on an absent candle says something. An exchange that showed a candle of some age has those that are
   * younger; what closed just now, while it answered, was there to be shown. History may begin within the slot of the
   * first answer, and then it need not have that candle.
   */
  get #historyFromMs(): number {
    const nowMs = this.#options.time.nowMs();
    const attendedMs = Math.max(this.#answersSinceMs, nowMs - PAUSE_SLOTS_MAX * this.#grid.stepMs);
    return this.#grid.ceil(Math.min(attendedMs, nowMs - this.#reachMs));
  }

  /** The same in view of an answer: it has all that is younger than the oldest candle in it. */
  #historyFrom({ rows }: CandleAnswer): number {
    return Math.min(this.#historyFromMs, ...rows.map(({ openAtS }) => openAtS * 1000));
  }

  /** An older candle shows that history reaches as far down: what was given up above it is asked for again. */
  #learnHistory({ rows, seenMs }: CandleAnswer): void {
    const { stepMs } = this.#grid;
    const nowMs = this.#options.time.nowMs();
    // Ages that were measured by a time that was ahead show nothing.
    const wasAhead = nowMs < this.#answeredAtMs - stepMs;
    const pauseMs = nowMs - this.#answeredAtMs;
    if (wasAhead || pauseMs > PAUSE_SLOTS_MAX * stepMs) this.#answersSinceMs = nowMs;
    if (wasAhead || nowMs - this.#shownAtMs > SHOWN_SLOTS_MAX * stepMs) this.#reachMs = 0;
    this.#answeredAtMs = nowMs;
    const reachMs = Math.max(...rows.map(({ openAtS }) => seenMs - openAtS * 1000));
    if (reachMs <= this.#reachMs) return;
    this.#reachMs = reachMs;
    this.#shownAtMs = nowMs;
    this.#pauses.release(above(this.#historyFromMs), BEYOND);
  }

  /** An answer proves something of slots whose trades are covered since: they are asked for again. */
  #lookAtTrades(): void {
    const known = this.#tradedSlots;
    const covered = this.#options.coveredTrades?.() ?? [];
    this.#tradedSlots = covered.map((span) => this.#grid.within(span));
    const grown = this.#tradedSlots.filter((span) => !known.some((one) => holdsSpan(one, span)));
    for (const span of subtractSpans(grown, known)) {
      this.#pauses.release(span, BEYOND);
    }
  }

  #read(asked: Span, reply: KlineReply): CandleAnswer {
    const { market, graceMs } = this.#options;
    return readCandles({ market, grid: this.#grid, asked, graceMs }, reply);
  }

  /** What an answer proves, given what earlier ones left out as well. */
  #confirmed({ isReadable, heldMs }: CandleAnswer, believed: readonly Span[]): readonly Span[] {
    // One that is not readable is put off as a whole.
    if (!isReadable) return believed;
    return this.#absences.confirmed(believed, heldMs, this.#ranges.spans, this.#grid.stepMs);
  }

  /**
   * Ends of an answer that are asked for once more before they count as quiet: long ones, and any below which no
   * candle was shown. Of these what lies below is asked for as well, as far as a page holds.
   */
  #suspectEnds(answer: CandleAnswer): EmptyEnd[] {
    const { closed, isReadable, heldMs, unknown } = answer;
    // It proves nothing anyway, and is put off as a whole.
    if (!isReadable) return [];
    const { stepMs } = this.#grid;
    const putOff = this.#pauses.at(this.#options.clock.monotonicMs());
    const known = [...this.#ranges.spans, ...unknown, ...putOff];
    const seen = [...known, ...this.#absences.seen];
    const historyFromMs = this.#historyFrom(answer);
    return emptyEnds(closed, heldMs, stepMs).flatMap((end) => {
      const isBelow = subtractSpans(end.span, [above(historyFromMs), ...known]).length > 0;
      const question = hullOf([end.span, end.question]);
      const asked = this.#furtherDown(question);
      // Where no more can be asked for, a second answer would not show more.
      if (isBelow && asked.fromMs < question.fromMs) return [{ ...end, question, asked }];
      return isWorthAsking(end, seen, stepMs) ? [end] : [];
    });
  }

  #furtherDown({ fromMs, toMs }: Span): Span {
    const pageFromMs = toMs - this.#options.exchange.candlesMax * this.#grid.stepMs;
    const beginMs = this.#grid.ceil(this.#collectFromMs ?? fromMs);
    return { fromMs: Math.min(fromMs, Math.max(pageFromMs, beginMs)), toMs };
  }

  /** @param said what the answer proves, apart from candles that were refused */
  async #store(answer: CandleAnswer, said: readonly Span[], isSecond = false): Promise<void> {
    const { archive, stream, market, marketId, intervalS } = this.#options;
    const { rows, rejected, open, reply, heldMs, refusedMs, isReadable } = answer;
    const { stepMs } = this.#grid;
    const younger = above(isReadable ? this.#historyFrom(answer) : Number.NEGATIVE_INFINITY);
    // Of these an absent candle says something; of the others it may be older than history.
    const older = subtractSpans(said, [younger, ...this.#tradedSlots, ...slotsOf(heldMs, stepMs)]);
    const shown = subtractSpans(said, older);
    const { spans: covered } = this.#ranges;
    const checked = isReadable
      ? await crossCheckWithTrades(archive, marketId, stepMs, { believed: shown, heldMs, covered })
      : { believed: shown, contradicted: [], unseen: [] };
    const { contradicted } = checked;
    // Trades that are covered and cannot be looked at do not say which of these slots had any.
    const beyond = [...older, ...subtractSpans(checked.unseen, [younger])];
    const believed = subtractSpans(checked.believed, beyond);
    const claims = normalizeSpans(believed.flatMap((span) => this.#grid.without(span, refusedMs)));
    this.#report.received(rows.length + rejected.length + open);
    const evidence = { endpoint: 'kline', candles: rows.length, dateMs: reply.dateMs };
    const batch = {
      klines: rows.map((row) => ({ ...row, marketId, intervalS })),
      quarantine: quarantineRows('kline', market, rejected, reply.receivedAtMs),
      claims: claims.map((span) => ({
        stream,
        span,
        evidence: isSecond ? { ...evidence, askedTwice: true } : evidence,
      })),
    };
    const result = await archive.commit(batch).catch((error: unknown) => {
      this.#report.settled({ lost: rows.length, unchanged: open, rejected: rejected.length });
      throw error;
    });
    for (const range of result.ranges) this.#ranges.absorb(range);
    this.#report.settled({
      ...result.outcomes.kline,
      unchanged: open,
      rejected: rejected.length + result.outcomes.kline.rejected,
    });
    const isAnyRefused = result.outcomes.kline.rejected > 0;
    const refused = isAnyRefused ? believed : subtractSpans(believed, claims);
    const findings = this.#open(refused, 'refused rows');
    // Claimed, and not covered: no row is wrong, but the exchange's time is in dispute.
    const heldBack = subtractSpans(claims, this.#ranges.spans);
    this.#pauses.putOff(heldBack, this.#options.clock.monotonicMs(), 'not collected');
    findings.push(...this.#open(answer.unknown, 'walk stalled', { note: UNANSWERED_NOTE }));
    // What the exchange does not have any more it will not show.
    const gone = subtractSpans(contradicted, [younger]);
    findings.push(...this.#open([...beyond, ...gone], BEYOND, { isLost: true }));
    // What is read again during its pause, along with newer candles, is the same look.
    const putOff = this.#pauses.at(this.#options.clock.monotonicMs());
    const stalled = subtractSpans(contradicted, [...gone, ...putOff]);
    if (isReadable) this.#contradictions.forget(subtractSpans(said, contradicted));
    const lasting = this.#contradictions.lasting(stalled);
    const note = CONTRADICTED_NOTE;
    findings.push(...this.#open(subtractSpans(stalled, lasting), 'walk stalled', { note }));
    findings.push(...this.#open(lasting, 'walk stalled', { note, isLost: true }));
    await this.#record(findings);
    const top = this.#ranges.top;
    if (top !== undefined && this.#options.isFinest) this.#report.progressed(top.span.toMs);
  }

  /** Closed candles that could not be had, as gaps; they are left alone for a while. */
  #open(
    spans: readonly Span[],
    reason: GapReason,
    { isLost = false, ...note }: GapHow = {},
  ): GapRecord[] {
    const { stream, time, clock } = this.#options;
    // A candle that is stored already and cannot be read again is no gap.
    const open = subtractSpans(spans, this.#ranges.spans);
    this.#pauses.putOff(open, clock.monotonicMs(), reason, isLost);
    const atMs = Math.floor(time.nowMs());
    const nextAttemptAtMs = isLost ? null : atMs + pauseAfter(reason, false);
    const state = isLost ? 'unfillable' : 'open';
    return open.map((span) => {
      return { stream, span, state, reason, ...note, atMs, nextAttemptAtMs, isAttempt: true };
    });
  }

  async #record(findings: readonly GapRecord[]): Promise<void> {
    if (findings.length === 0) return;
    await this.#options.archive.commit({ findings });
    for (const { span, reason } of findings) this.#report.gap(span, reason, reason === BEYOND);
  }
}

/** A candle that was refused, or could not be had, is asked for again this rarely. */
const RETRY_MS = 600_000;
/** The same where the cause says nothing about the candle: the exchange failed, or its time is in dispute. */
const EXCHANGE_RETRY_MS = 60_000;

/** The same where it is not to be had, as far as is known. */
const LOST_RETRY_MS = 3_600_000;

/** What is said of a gap besides its reason. */
interface GapHow {
  readonly note?: string;
  readonly isLost?: boolean;
}

/** How long a span is left alone that is open for a reason. */
function pauseAfter(reason: GapReason, isLost: boolean): number {
  if (isLost) return LOST_RETRY_MS;
  return reason === 'exchange failed' || reason === 'not collected' ? EXCHANGE_RETRY_MS : RETRY_MS;
}

/** Spans that are put off at most; beyond it the oldest are asked for again sooner. */
const PUT_OFF_MAX = 10_000;

interface PutOff {
  readonly span: Span;
  readonly reason: GapReason;
  readonly retryAtMs: number;
}

/** Spans of candles that are left alone for a while. Times are of a monotonic clock. */
class CandlePauses {
  #putOff: readonly PutOff[] = [];

  putOff(spans: readonly Span[], nowMs: number, reason: GapReason, isLost = false): void {
    const waiting = this.#putOff.filter(({ retryAtMs }) => nowMs < retryAtMs);
    const retryAtMs = nowMs + pauseAfter(reason, isLost);
    const added = spans.map((span) => ({ span, reason, retryAtMs }));
    this.#putOff = [...waiting, ...added].slice(-PUT_OFF_MAX);
  }

  /** What is still to be left alone. */
  at(nowMs: number): Span[] {
    return this.#putOff.filter(({ retryAtMs }) => nowMs < retryAtMs).map(({ span }) => span);
  }

  /** Ends the pause of a span. @param only what is open for this reason; default: all */
  release(released: Span, only?: GapReason): void {
    this.#putOff = this.#putOff.flatMap((one) =>
      only === undefined || one.reason === only
        ? subtractSpans(one.span, [released]).map((span) => ({ ...one, span }))
        : one,
    );
  }
}

/** Sees to it that no two questions in a row are the same, or a cache would answer both. */
class CandleQuestions {
  readonly #stepMs: number;
  readonly #pageMs: number;
  #last: Span | undefined;

  /** @param candlesMax that may be asked for at once */
  constructor(stepMs: number, candlesMax: number) {
    this.#stepMs = stepMs;
    this.#pageMs = candlesMax * stepMs;
  }

  /** What to ask for a span: the span itself, or one that differs by a slot. */
  next({ fromMs, toMs }: Span): Span {
    const stepMs = this.#stepMs;
    const isSame = this.#last?.fromMs === fromMs && this.#last.toMs === toMs;
    const isFull = toMs - fromMs >= this.#pageMs;
    if (!isSame) this.#last = { fromMs, toMs };
    else if (isFull) this.#last = { fromMs: fromMs + stepMs, toMs };
    else this.#last = { fromMs, toMs: toMs + stepMs };
    return this.#last;
  }
}

/** Pages of candles that one turn may fetch of each interval. */
const ROUNDS_MAX = 20;
/** Of these every so many goes to the newest candles; on a tape that is played fast each would. */
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
