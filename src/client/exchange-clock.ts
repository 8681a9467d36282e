import type { Clock } from '../kernel/clock.js';
import type { ClientEvents } from '../observe/events.js';
import { ANY_PACE, fitPace, isConsistent, paceBounds, type TimeWindow } from './pace.js';

/** One reading of the exchange's clock. */
export interface ExchangeTimeSample {
  /** What the exchange said, UNIX milliseconds, cut down to a multiple of `resolutionMs`. */
  readonly dateMs: number;
  /** When the request left, on this machine's monotonic clock. */
  readonly sentMonotonicMs: number;
  /** When the answer came, on the same clock. */
  readonly receivedMonotonicMs: number;
  /** 1000 for the Date header. */
  readonly resolutionMs: number;
}

/** What time it is at the exchange. */
export interface ExchangeClock {
  /** Exchange time now, UNIX milliseconds (whole). Rather a little behind than ahead. */
  nowMs(): number;
  /** Exchange time at a moment of the recent past on this machine's monotonic clock. */
  atMonotonicMs(monotonicMs: number): number;
  /** Exchange time minus this machine's wall clock; 0 while the local clock is used. */
  readonly offsetMs: number;
  /** How many exchange seconds pass in one second here; 1 for every exchange but a played tape. */
  readonly pace: number;
  /** Whether the exchange has been heard at all; until then {@link nowMs} is the local clock. */
  readonly isSynced: boolean;
  /** Takes what an answer said of the time. */
  observe(sample: ExchangeTimeSample): void;
}

/** What {@link createExchangeClock} needs. */
export interface ExchangeClockOptions {
  /** The clock of this machine, which the exchange's is measured against. */
  readonly clock: Clock;
  /** Hears when the difference changes. */
  readonly telemetry?: Pick<ClientEvents, 'exchangeClock'>;
}

/** The local clock is used as it is while it is at most this far from the exchange's. */
const LOCAL_TOLERANCE_MS = 2000;
/** Once in use it may be this far off, so that the border is not crossed to and fro. */
const LOCAL_LEAVE_MS = 2500;
/** An answer that took longer says too little about the time. */
const MAX_ROUND_TRIP_MS = 10_000;
/** Samples closer together than this sharpen the estimate but are not kept for the pace. */
const SAMPLE_SPACING_MS = 500;
const MAX_SAMPLES = 64;
const MAX_SAMPLE_AGE_MS = 120_000;
/** Kept however old they are, for exchanges that are asked seldom. */
const MIN_KEPT_SAMPLES = 8;
/** Changes worth telling: a second of offset, a hundredth of pace, and the time between tellings. */
const TOLD_OFFSET_MS = 1000;
const TOLD_PACE = 0.01;
const TELL_EVERY_MS = 10_000;

/** The clock of one exchange, fed by the client with every answer. */
export function createExchangeClock(options: ExchangeClockOptions): ExchangeClock {
  return new EstimatedExchangeClock(options);
}

/**
 * States: *unheard* (no sample: local clock) → *local* (the exchange agrees with this machine
 * within 2 s: local clock as it is) ⇄ *own time* (a line through the samples).
 *
 * A sample says: between sending and receiving, the exchange's time lay in
 * `[date, date + resolution)`. So `date + pace·(now − received)` is never ahead of the truth, and
 * the highest of these lines is the estimate; the newest sample's upper end caps it, for the case
 * that the pace is taken too high. The pace is the slowest that all samples allow together
 * (pace.ts), which again errs behind. A sample that no pace reconciles with the others is set
 * aside; if the next one does not fit either, the exchange has jumped and all starts from these two.
 *
 * Time passes by the monotonic clock only. The wall clock is looked at just to see whether it still
 * agrees, so a step of it ends the *local* state and moves nothing else.
 */
class EstimatedExchangeClock implements ExchangeClock {
  readonly #options: ExchangeClockOptions;
  #samples: TimeWindow[] = [];
  /** The paces that the samples allow together. */
  #bounds = ANY_PACE;
  #misfit: TimeWindow | undefined;
  /** Slope and height of the estimate: exchange ms = `#floorMs + #slope · monotonic ms`. */
  #slope = 1;
  #floorMs = 0;
  /** The same line through the upper ends: of all samples, and of the newest alone. */
  #ceilingMs = 0;
  #newestCeilingMs = 0;
  #pace = 1;
  #isLocal = true;
  #told: { atMs: number; offsetMs: number; pace: number; isLocal: boolean } | undefined;

  constructor(options: ExchangeClockOptions) {
    this.#options = options;
  }

  get isSynced(): boolean {
    return this.#samples.length > 0;
  }

  get pace(): number {
    return this.#usesLocal() ? 1 : this.#pace;
  }

  get offsetMs(): number {
    return this.#usesLocal() ? 0 : this.nowMs() - Math.floor(this.#options.clock.wallMs());
  }

  nowMs(): number {
    const { clock } = this.#options;
    return Math.floor(this.#usesLocal() ? clock.wallMs() : this.#estimateMs(clock.monotonicMs()));
  }

  atMonotonicMs(monotonicMs: number): number {
    const { clock } = this.#options;
    if (!this.#usesLocal()) return Math.floor(this.#estimateMs(monotonicMs));
    return Math.floor(clock.wallMs() - (clock.monotonicMs() - monotonicMs));
  }

  observe(sample: ExchangeTimeSample): void {
    const window = readWindow(sample);
    if (window === undefined) return;
    let hasJumped = false;
    if (!isConsistent(this.#samples, this.#bounds, window)) {
      if (this.#misfit === undefined) {
        this.#misfit = window;
        return;
      }
      this.#samples = isConsistent([this.#misfit], ANY_PACE, window) ? [this.#misfit] : [];
      hasJumped = true;
    }
    this.#misfit = undefined;
    this.#take(window);
    const toleranceMs = this.#isLocal && this.#told ? LOCAL_LEAVE_MS : LOCAL_TOLERANCE_MS;
    this.#isLocal = this.#agreesWithWall(toleranceMs);
    this.#tell(hasJumped);
  }

  #estimateMs(monotonicMs: number): number {
    return Math.min(this.#floorMs, this.#newestCeilingMs) + this.#slope * monotonicMs;
  }

  #usesLocal(): boolean {
    return !this.isSynced || (this.#isLocal && this.#agreesWithWall(LOCAL_LEAVE_MS));
  }

  /** Whether the wall clock may be the exchange's, give or take `toleranceMs`. */
  #agreesWithWall(toleranceMs: number): boolean {
    if (this.#slope !== 1) return false;
    const heightMs = this.#options.clock.wallMs() - this.#options.clock.monotonicMs();
    const lowMs = Math.min(this.#floorMs, this.#newestCeilingMs);
    const highMs = Math.max(lowMs, this.#ceilingMs);
    return heightMs >= lowMs - toleranceMs && heightMs <= highMs + toleranceMs;
  }

  #take(window: TimeWindow): void {
    const newest = this.#samples.at(-1);
    const sinceMs = newest === undefined ? 0 : window.receivedMs - newest.receivedMs;
    if (newest !== undefined && sinceMs < SAMPLE_SPACING_MS) {
      this.#narrow(window);
      return;
    }
    const oldestMs = window.receivedMs - MAX_SAMPLE_AGE_MS;
    this.#samples.push(window);
    while (
      this.#samples.length > MAX_SAMPLES ||
      (this.#samples.length > MIN_KEPT_SAMPLES && (this.#samples[0]?.receivedMs ?? 0) < oldestMs)
    ) {
      this.#samples.shift();
    }
    this.#bounds = paceBounds(this.#samples);
    const fit = fitPace(this.#samples, this.#bounds, this.#slope);
    this.#pace = fit.pace;
    this.#slope = fit.slope;
    this.#floorMs = Number.NEGATIVE_INFINITY;
    this.#ceilingMs = Number.POSITIVE_INFINITY;
    for (const kept of this.#samples) this.#narrow(kept);
  }

  #narrow({ lowMs, highMs, sentMs, receivedMs }: TimeWindow): void {
    this.#newestCeilingMs = highMs - this.#slope * sentMs;
    this.#floorMs = Math.max(this.#floorMs, lowMs - this.#slope * receivedMs);
    this.#ceilingMs = Math.min(this.#ceilingMs, this.#newestCeilingMs);
  }

  #tell(hasJumped: boolean): void {
    const told = this.#told;
    const nowMs = this.#options.clock.monotonicMs();
    const { offsetMs, pace } = this;
    const isLocal = this.#isLocal;
    const hasChanged =
      told === undefined ||
      told.isLocal !== isLocal ||
      Math.abs(pace - told.pace) > TOLD_PACE * told.pace ||
      (Math.abs(offsetMs - told.offsetMs) > TOLD_OFFSET_MS && nowMs - told.atMs >= TELL_EVERY_MS);
    if (!hasChanged && !hasJumped) return;
    this.#told = { atMs: nowMs, offsetMs, pace, isLocal };
    this.#options.telemetry?.exchangeClock({ offsetMs, pace });
  }
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
