import type { TimeNotice } from '../contract/extensions.js';
import type { Clock } from '../kernel/clock.js';
import type { ClientEvents } from '../observe/events.js';
import { ClockLine, MIN_PACE, type TimeWindow } from './clock-line.js';

/** One reading of the exchange's clock. */
export interface ExchangeTimeSample {
  /** Time that the exchange reported, UNIX milliseconds, cut down to a multiple of `resolutionMs`. */
  readonly dateMs: number;
  /** When the request left, on this machine's monotonic clock. */
  readonly sentMonotonicMs: number;
  /** When the answer came, on the same clock. */
  readonly receivedMonotonicMs: number;
  /** 1000 for the Date header. */
  readonly resolutionMs: number;
}

/** Exchange time that this process has been through without a break, milliseconds. */
export interface LivedTime {
  /** When the process began, or the exchange's time jumped last. */
  readonly sinceMs: number;
  /** First instant that has not come yet, by the most cautious of the sources that may be right. */
  readonly untilMs: number;
  /** Present by the source in use alone: while others contradict it, the present goes on all the same. */
  readonly presentMs: number;
}

/** Options of {@link createExchangeClock}. */
export interface ExchangeClockOptions {
  /** The clock of this machine, which the exchange's is measured against. */
  readonly clock: Clock;
  /** Hears when the difference changes. */
  readonly telemetry?: Pick<ClientEvents, 'exchangeClock' | 'exchangeClockDisputed'>;
}

/** The local clock is used as it is while it is at most this far from the exchange's. */
const LOCAL_TOLERANCE_MS = 2000;
/** Once in use it may be this far off, so that the border is not crossed to and fro. */
const LOCAL_LEAVE_MS = 2500;
/** An answer that took longer says too little about the time. */
const MAX_ROUND_TRIP_MS = 10_000;
/** Smallest changes reported: a second of offset, a hundredth of pace; and the time between reports. */
const REPORTED_OFFSET_MS = 1000;
const REPORTED_PACE = 0.01;
const REPORT_EVERY_MS = 10_000;

/** Answers that agree before anything is claimed: with the wall clock on their side, or without. */
const SETTLE_SAMPLES_LOCAL = 3;
const SETTLE_SAMPLES = 4;
const SETTLE_MS = 3000;
/**
 * Wait if they are ahead of the wall clock, as what is claimed of a future cannot be true, or where
 * others contradict them: those that are wrong may have been most of the first by chance. A tape that is
 * fast, or was held for a while, contradicts nothing.
 */
const SETTLE_DOUBTED_MS = 15_000;
/** Which line answers speak for is counted over this time, and over so many answers at least. */
const WINDOW_MS = 10_000;
const WINDOW_MIN = 8;
const WINDOW_MAX = 500;
/** A line that so many of the answers speak for may be the right one: nothing is claimed beyond it. */
const POSSIBLE_SHARE = 0.4;
/** Lines beside the one in use. */
const RIVALS_MAX = 5;
const FORGET_MS = 60_000;
/** A line with so many answers is no accident. */
const RIVAL_SAMPLES = 3;
const RIVAL_SPAN_MS = 1000;
/** So many answers in a row count as most of them. */
const RIVAL_IN_ROW = 5;
/** A clock this slow stands, or has stood. */
const STANDING_PACE = 0.5;
/** How long most answers must speak for an earlier time until it is believed. */
const JUMP_BACK_MS = 15_000;
/** Wait if nothing but these answers speaks for it. */
const JUMP_UNWITNESSED_MS = 600_000;
/** Without a dated answer for this long, the local clock is all there is. */
const UNDATED_MS = 60_000;
/** A notice of the time was written at most so long before it is read; in exchange time at its pace, and no less than a Date says. */
const NOTICE_WAY_MS = 250;
const NOTICE_LEAST_MS = 1000;

/** The clock of one exchange, fed by the client with every answer. */
export function createExchangeClock(options: ExchangeClockOptions): ExchangeClock {
  return new ExchangeClock(options);
}

/**
 * Estimates the time of the exchange.
 *
 * No source of time is believed alone. Answers that agree with each other make a line
 * ({@link ClockLine}); there may be several, and one is in use. States: *unheard* (no line: local
 * clock) → *heard* (the line that most answers speak for) → *settled* (enough of them over enough
 * time). Settled, the line in use runs at its pace by the monotonic clock, whatever single answers
 * say. It is left for another line only when most answers speak for that one, and:
 *
 * | the other line | is believed |
 * |---|---|
 * | agrees with the wall clock, and the one in use does not | after three answers over a second |
 * | is ahead, and something was seen to happen in its time ({@link ExchangeClock.witness}) | likewise |
 * | is behind, and the one in use does not agree with the wall clock | after 15 s |
 * | sets out from where the one in use was seen last, at another pace | likewise, as no jump |
 * | any other | after 10 min: then it is the exchange's time, right or wrong |
 *
 * Until then, what may be claimed ends at the earliest line that may be right. The line in use and
 * the wall clock agree within 2 s at most exchanges: then the wall clock is taken as it is. A step of
 * the wall clock ends that and moves nothing else. A replay says itself how its time goes on
 * ({@link ExchangeClock.noticed}): that line is in use at once.
 */
export class ExchangeClock {
  readonly #options: ExchangeClockOptions;
  readonly #startedMs: number;
  #line: ClockLine | undefined;
  #rivals: ClockLine[] = [];
  /** Which line each of the last answers spoke for. */
  #recent: { readonly atMs: number; readonly line: ClockLine }[] = [];
  /** Since when, exchange time, the line in use is lived through; undefined: not settled. */
  #sinceMs: number | undefined;
  #jumps = 0;
  #noticedChange: number | undefined;
  #datedMs = Number.NEGATIVE_INFINITY;
  #isLocal = true;
  #reported: { atMs: number; offsetMs: number; pace: number; isLocal: boolean } | undefined;

  constructor(options: ExchangeClockOptions) {
    this.#options = options;
    this.#startedMs = options.clock.monotonicMs();
  }

  /** Returns true if the exchange has been heard at all; until then {@link nowMs} is the local clock. */
  get isSynced(): boolean {
    return this.#line !== undefined;
  }

  /** Source of {@link nowMs}: answers of the exchange, or this machine's clock alone. */
  get basis(): 'exchange' | 'local' {
    return this.#line === undefined || this.#line.isOwn ? 'local' : 'exchange';
  }

  /** Returns true if answers of the last seconds contradict the others, as it was reported. */
  get isDisputed(): boolean {
    return this.#rivals.some((rival) => rival.isReported && this.#shareOf(rival) > 0);
  }

  /** Times that the estimate moved to another course since the process began. */
  get jumps(): number {
    return this.#jumps;
  }

  /** How many exchange seconds pass in one second here; 1 for every exchange but a played tape. */
  get pace(): number {
    return this.#usesLocal() ? 1 : (this.#line?.pace ?? 1);
  }

  /** Exchange time minus this machine's wall clock; 0 while the local clock is used. */
  get offsetMs(): number {
    return this.#usesLocal() ? 0 : this.nowMs() - Math.floor(this.#options.clock.wallMs());
  }

  /** Limit of coverage; undefined until several answers agree about the time. */
  get lived(): LivedTime | undefined {
    const sinceMs = this.#sinceMs;
    if (sinceMs === undefined) return undefined;
    const monotonicMs = this.#options.clock.monotonicMs();
    let nowMs = this.nowMs();
    // A tape may end or be held at any instant: after the newest answer of its line nothing is known.
    if (this.#line !== undefined && !this.#usesLocal()) {
      nowMs = Math.min(nowMs, this.atMonotonicMs(this.#line.lastMs));
    }
    const presentMs = nowMs + 1;
    for (const rival of this.#rivals) {
      if (this.#shareOf(rival) < POSSIBLE_SHARE) continue;
      nowMs = Math.min(nowMs, Math.floor(rival.estimateMs(monotonicMs)));
    }
    return { sinceMs, untilMs: nowMs + 1, presentMs };
  }

  /** Exchange time now, UNIX milliseconds (whole). Rather a little behind than ahead. */
  nowMs(): number {
    return this.atMonotonicMs(this.#options.clock.monotonicMs());
  }

  /** Exchange time at an instant of the recent past on this machine's monotonic clock. */
  atMonotonicMs(monotonicMs: number): number {
    const { clock } = this.#options;
    if (this.#line !== undefined && !this.#usesLocal()) {
      return Math.floor(this.#line.estimateMs(monotonicMs));
    }
    return Math.floor(clock.wallMs() - (clock.monotonicMs() - monotonicMs));
  }

  /** Takes what an answer said of the time. */
  observe(sample: ExchangeTimeSample): void {
    const window = readWindow(sample);
    if (window === undefined) return;
    this.#datedMs = window.receivedMs;
    this.#take(window, false);
  }

  /** Takes note of an answer that said nothing of it. Monotonic milliseconds. */
  observeUndated(sentMonotonicMs: number, receivedMonotonicMs: number): void {
    const { clock } = this.#options;
    if (receivedMonotonicMs - this.#datedMs < UNDATED_MS) return;
    const wallMs = clock.wallMs() - (clock.monotonicMs() - receivedMonotonicMs);
    const dateMs = wallMs - (receivedMonotonicMs - sentMonotonicMs);
    const resolutionMs = wallMs - dateMs + 1;
    const window = readWindow({ dateMs, sentMonotonicMs, receivedMonotonicMs, resolutionMs });
    if (window !== undefined) this.#take(window, true);
  }

  /**
   * Takes what a replay says of its own time, which is held, sped up and sought: true at once, where answers would have
   * to agree first. One that was taken before, from another connection, changes nothing.
   */
  noticed({ nowMs, pace, change, isJump }: TimeNotice): void {
    if (change === this.#noticedChange) return;
    const isFirst = this.#noticedChange === undefined;
    this.#noticedChange = change;
    const atMs = this.#options.clock.monotonicMs();
    const slope = Math.max(pace, MIN_PACE);
    const highMs = nowMs + Math.max(NOTICE_LEAST_MS, NOTICE_WAY_MS * pace);
    const line = new ClockLine(
      { lowMs: nowMs, highMs, sentMs: atMs, receivedMs: atMs },
      slope,
      false,
    );
    const differenceMs = Math.abs(nowMs - this.nowMs());
    const isFar = differenceMs > LOCAL_TOLERANCE_MS * Math.max(1, this.pace);
    const hasJumped = isFar || (isJump && !isFirst);
    this.#line = line;
    // A contradiction of the former time says nothing of this one.
    this.#rivals = [];
    this.#recent = [];
    this.#datedMs = atMs;
    this.#isLocal = this.#agreesWithWall(line, LOCAL_TOLERANCE_MS);
    if (hasJumped && this.#sinceMs !== undefined) {
      this.#jumps += 1;
      this.#sinceMs = nowMs;
    }
    this.#reportLineInUse();
  }

  /** Takes the time of something that has happened at the exchange, as of a new trade. */
  witness(happenedMs: number): void {
    const line = this.#line;
    if (line === undefined || this.#sinceMs === undefined) return;
    const atMs = this.#options.clock.monotonicMs();
    const usedMs = line.estimateMs(atMs);
    const next = this.#rivals.find((rival) => {
      const aheadMs = rival.estimateMs(atMs) - usedMs;
      const latestMs = usedMs + aheadMs + LOCAL_TOLERANCE_MS * Math.max(1, rival.pace);
      const isInItsTime = happenedMs > usedMs + aheadMs / 2 && happenedMs <= latestMs;
      // Its pace must be known: that of the line in use, unless that one stood, or one of its own.
      const isSamePace = rival.slope === line.slope && line.slope > STANDING_PACE;
      const isSteady = !rival.isYoung || isSamePace;
      return aheadMs > LOCAL_TOLERANCE_MS && isInItsTime && isSteady && this.#leads(rival);
    });
    if (next !== undefined) this.#jumpTo(next);
  }

  get #lines(): ClockLine[] {
    return this.#line === undefined ? [...this.#rivals] : [this.#line, ...this.#rivals];
  }

  #take(window: TimeWindow, isOwn: boolean): void {
    const lines = this.#lines;
    const [known] = lines.filter((line) => line.fits(window)).sort((a, b) => b.count - a.count);
    known?.take(window);
    const line = known ?? new ClockLine(window, this.#line?.slope ?? 1, isOwn);
    this.#note(line, window.receivedMs);
    if (known === undefined) this.#addRivals(line, lines);
    if (this.#sinceMs === undefined) this.#settle();
    else this.#weigh();
    const toleranceMs = this.#isLocal && this.#reported ? LOCAL_LEAVE_MS : LOCAL_TOLERANCE_MS;
    this.#isLocal = this.#agreesWithWall(this.#line, toleranceMs);
    this.#reportLineInUse();
  }

  #usesLocal(): boolean {
    return !this.isSynced || (this.#isLocal && this.#agreesWithWall(this.#line, LOCAL_LEAVE_MS));
  }

  /** Returns true if the wall clock may be the exchange's, give or take `toleranceMs`. */
  #agreesWithWall(line: ClockLine | undefined, toleranceMs: number): boolean {
    const { clock } = this.#options;
    return line?.agreesWith(clock.wallMs() - clock.monotonicMs(), toleranceMs) === true;
  }

  /** Returns true if the wall clock, which is another source, says the same. */
  #hasWall(line: ClockLine): boolean {
    return !line.isOwn && this.#agreesWithWall(line, LOCAL_TOLERANCE_MS);
  }

  #note(line: ClockLine, atMs: number): void {
    this.#recent.push({ atMs, line });
    const surplus = this.#recent.length - WINDOW_MIN;
    const fresh = this.#recent.findIndex((one) => one.atMs > atMs - WINDOW_MS);
    const isTooLong = this.#recent.length > WINDOW_MAX;
    const old = Math.min(surplus, Math.max(fresh, isTooLong ? 1 : 0));
    if (old > 0) this.#recent.splice(0, old);
  }

  /** Share of the last answers that speak for a line. */
  #shareOf(line: ClockLine): number {
    const own = this.#recent.filter((one) => one.line === line).length;
    return own / Math.max(1, this.#recent.length);
  }

  /** A sample that no line explains begins one, and may show a young one to run at another pace. */
  #addRivals(line: ClockLine, others: readonly ClockLine[]): void {
    const freshMs = line.lastMs - FORGET_MS;
    const kept = this.#rivals.filter(({ lastMs }) => lastMs > freshMs);
    kept.sort((a, b) => this.#shareOf(b) - this.#shareOf(a));
    const [window] = line.samples;
    const forks = others.flatMap((one) =>
      window === undefined || this.#hasWall(one) ? [] : (one.fork(window) ?? []),
    );
    const added = new Set([line, ...forks.slice(0, 1)]);
    if (this.#sinceMs !== undefined) {
      // The young lines of a fast tape that is held follow each other: the oldest shows that it stands.
      const [oldest] = forks.sort((a, b) => b.spanMs - a.spanMs);
      if (oldest !== undefined) added.add(oldest);
    }
    this.#rivals = [...added, ...kept].slice(0, RIVALS_MAX);
  }

  /** Chooses the line that most answers speak for, until enough of them do. */
  #settle(): void {
    const all = this.#lines;
    const atMs = this.#options.clock.monotonicMs();
    const weightOf = (line: ClockLine) =>
      (line.isOwn ? -1 : this.#hasWall(line) ? 1 : 0) + this.#shareOf(line);
    // If two are even, coverage by the earlier one is true by both.
    all.sort((a, b) => weightOf(b) - weightOf(a) || a.estimateMs(atMs) - b.estimateMs(atMs));
    const [best, ...others] = all;
    if (best === undefined) return;
    this.#line = best;
    this.#rivals = others;
    const isAhead = best.estimateMs(atMs) > this.#options.clock.wallMs() + LOCAL_TOLERANCE_MS;
    const isContested = others.some((one) => one.count >= RIVAL_SAMPLES && !goesOn(best, one));
    const settleMs = isAhead || isContested ? SETTLE_DOUBTED_MS : SETTLE_MS;
    const isProven = this.#hasWall(best)
      ? best.count >= SETTLE_SAMPLES_LOCAL
      : best.count >= SETTLE_SAMPLES && best.spanMs >= settleMs;
    if (!isProven) return;
    this.#isLocal = this.#agreesWithWall(best, LOCAL_TOLERANCE_MS);
    this.#sinceMs = this.atMonotonicMs(this.#startedMs);
  }

  /** Returns true if most answers speak for a line, and enough of them. */
  #leads(line: ClockLine): boolean {
    const isKnown = line.count >= RIVAL_SAMPLES && line.spanMs >= RIVAL_SPAN_MS;
    if (!isKnown) return false;
    const latest = this.#recent.filter(({ atMs }) => atMs > line.lastMs - RIVAL_SPAN_MS);
    const isAlone = latest.length >= RIVAL_IN_ROW && latest.every((one) => one.line === line);
    return isAlone || this.#shareOf(line) > 0.5;
  }

  /**
   * Returns true if a line sets out from where the other one was seen last: then the exchange's time did not
   * jump, it runs at another pace, as a tape does that was held for a while.
   */
  #isContinuous(line: ClockLine, from: ClockLine): boolean {
    const toleranceMs = LOCAL_TOLERANCE_MS * Math.max(1, line.pace, from.pace);
    const differenceMs = line.estimateMs(from.lastMs) - from.estimateMs(from.lastMs);
    return !this.#hasWall(from) && Math.abs(differenceMs) <= toleranceMs;
  }

  /** Looks whether the line in use is to be left for another one. */
  #weigh(): void {
    const line = this.#line;
    const atMs = this.#options.clock.monotonicMs();
    if (line === undefined) return;
    // The first answers of a fast tape look like lines of real pace: they speak of the same time, but might take
    // up what comes at its end.
    this.#rivals = this.#rivals.filter((rival) => !line.explains(rival));
    for (const rival of this.#rivals) {
      const isLeading = this.#leads(rival);
      rival.leadSinceMs = isLeading ? (rival.leadSinceMs ?? atMs) : undefined;
      this.#report(rival, line, atMs);
      if (!isLeading) continue;
      const isBehind = rival.estimateMs(atMs) < line.estimateMs(atMs);
      const isUsedWitnessed = this.#hasWall(line);
      const waitMs =
        (this.#hasWall(rival) && !isUsedWitnessed) ||
        (!rival.isYoung && this.#isContinuous(rival, line))
          ? 0
          : isBehind && !isUsedWitnessed
            ? JUMP_BACK_MS
            : JUMP_UNWITNESSED_MS;
      if (atMs - (rival.leadSinceMs ?? atMs) < waitMs) continue;
      this.#jumpTo(rival);
      return;
    }
  }

  /** Reports once each line that contradicts the one in use. Not so a tape that is held, or has ended. */
  #report(rival: ClockLine, line: ClockLine, atMs: number): void {
    const usedMs = line.estimateMs(atMs);
    const shownMs = rival.estimateMs(atMs);
    const isFarOff = Math.abs(shownMs - usedMs) > LOCAL_TOLERANCE_MS;
    if (rival.isReported || rival.count < RIVAL_SAMPLES || !isFarOff) return;
    if (this.#isContinuous(rival, line)) return;
    rival.isReported = true;
    const [fromMs, toMs] = [Math.floor(usedMs), Math.floor(shownMs)];
    const share = this.#shareOf(rival);
    this.#options.telemetry?.exchangeClockDisputed({ fromMs, toMs, share, isFollowed: false });
  }

  #jumpTo(line: ClockLine): void {
    const fromMs = this.nowMs();
    const share = this.#shareOf(line);
    const former = this.#line;
    const isContinuous = former !== undefined && !line.isYoung && this.#isContinuous(line, former);
    this.#line = line;
    this.#rivals = this.#rivals.filter((one) => one !== line);
    if (former !== undefined) {
      former.leadSinceMs = undefined;
      former.isReported = true;
      this.#rivals.push(former);
    }
    this.#isLocal = this.#agreesWithWall(line, LOCAL_TOLERANCE_MS);
    if (isContinuous) return;
    this.#jumps += 1;
    const toMs = this.nowMs();
    this.#sinceMs = toMs;
    this.#options.telemetry?.exchangeClockDisputed({ fromMs, toMs, share, isFollowed: true });
  }

  #reportLineInUse(): void {
    const reported = this.#reported;
    const nowMs = this.#options.clock.monotonicMs();
    const { offsetMs, pace } = this;
    const isLocal = this.#isLocal;
    const hasChanged =
      reported === undefined ||
      reported.isLocal !== isLocal ||
      Math.abs(pace - reported.pace) > REPORTED_PACE * reported.pace ||
      (Math.abs(offsetMs - reported.offsetMs) > REPORTED_OFFSET_MS &&
        nowMs - reported.atMs >= REPORT_EVERY_MS);
    if (!hasChanged) return;
    this.#reported = { atMs: nowMs, offsetMs, pace, isLocal };
    this.#options.telemetry?.exchangeClock({ offsetMs, pace });
  }
}

/** Returns true if a line goes on from where another one was seen last, if time stood still for a while between. */
function goesOn(line: ClockLine, from: ClockLine): boolean {
  const toleranceMs = LOCAL_TOLERANCE_MS * Math.max(1, line.pace);
  const atMs = Math.max(line.firstMs, from.lastMs);
  const passedMs = line.estimateMs(atMs) - from.estimateMs(from.lastMs);
  const mostMs = line.pace * (atMs - from.lastMs);
  return passedMs >= -toleranceMs && passedMs <= mostMs + toleranceMs;
}

/** The sample as the two bounds that it sets, or undefined when it says nothing usable. */
function readWindow(sample: ExchangeTimeSample): TimeWindow | undefined {
  const { dateMs, sentMonotonicMs: sentMs, receivedMonotonicMs: receivedMs, resolutionMs } = sample;
  const areNumbers = [dateMs, sentMs, receivedMs, resolutionMs].every(Number.isFinite);
  const roundTripMs = receivedMs - sentMs;
  if (!areNumbers || dateMs <= 0 || resolutionMs < 0) return undefined;
  if (roundTripMs < 0 || roundTripMs > MAX_ROUND_TRIP_MS) return undefined;
  return { lowMs: dateMs, highMs: dateMs + resolutionMs, sentMs, receivedMs };
}
