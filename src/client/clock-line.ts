import { ANY_PACE, fitPace, isConsistent, paceBounds, type TimeWindow } from './pace.js';

/** Samples closer together than this sharpen a line but are not kept for the pace. */
const SAMPLE_SPACING_MS = 500;
const MAX_SAMPLES = 64;
const MAX_SAMPLE_AGE_MS = 120_000;
/** Part of its pace by which a line's samples may stray from it. */
const PACE_LEEWAY = 0.05;
/** A line of so few samples, or over so short a time, may turn out to run at another pace. */
const YOUNG_SAMPLES = 3;
const YOUNG_MS = 3000;
/** Kept however old they are, for exchanges that are asked seldom. */
const MIN_KEPT_SAMPLES = 8;

/**
 * One course that the exchange's time may take, with the samples that speak for it.
 *
 * A sample says: between sending and receiving, the exchange's time lay in
 * `[date, date + resolution)`. So `date + pace·(now − received)` is never ahead of the truth, and
 * the highest of these lines is the estimate; the newest sample's upper end caps it, for the case
 * that the pace is taken too high. The pace is the slowest that all samples allow together
 * (pace.ts), which again errs behind.
 */
export class ClockLine {
  /** Made of this machine's wall clock, because the exchange's answers carry no date. */
  readonly isOwn: boolean;
  readonly firstMs: number;
  #samples: TimeWindow[] = [];
  /** The paces that the samples allow together. */
  #bounds = ANY_PACE;
  /** Slope and height of the estimate: exchange ms = `#floorMs + #slope · monotonic ms`. */
  #slope: number;
  readonly #assumedSlope: number;
  #floorMs = Number.NEGATIVE_INFINITY;
  /** The same line through the upper ends: of all samples, and of the newest alone. */
  #ceilingMs = Number.POSITIVE_INFINITY;
  #newestCeilingMs = Number.POSITIVE_INFINITY;
  #pace: number;
  #count = 0;
  #lastMs: number;
  /** Since when most answers speak for this line; undefined: they do not. Monotonic milliseconds. */
  leadSinceMs: number | undefined;
  isReported = false;

  /** @param slope taken for its pace until its own samples show one */
  constructor(first: TimeWindow, slope: number, isOwn: boolean) {
    this.#assumedSlope = slope;
    this.#slope = slope;
    this.#pace = slope;
    this.isOwn = isOwn;
    this.firstMs = first.receivedMs;
    this.#lastMs = first.receivedMs;
    this.take(first);
  }

  get samples(): readonly TimeWindow[] {
    return this.#samples;
  }

  /** Samples that it has taken. */
  get count(): number {
    return this.#count;
  }

  /** Monotonic time of its newest sample. */
  get lastMs(): number {
    return this.#lastMs;
  }

  get spanMs(): number {
    return this.#lastMs - this.firstMs;
  }

  get slope(): number {
    return this.#slope;
  }

  get pace(): number {
    return this.#pace;
  }

  /** Whether its samples are too few, or too close together, to show its pace. */
  get isYoung(): boolean {
    return this.#count <= YOUNG_SAMPLES || this.spanMs < YOUNG_MS;
  }

  /**
   * Whether this sample goes on with the line: at any pace that its samples leave open or, while it
   * is young, at the pace that it is taken for.
   */
  fits(window: TimeWindow): boolean {
    const { low, high } = this.#bounds;
    const isPossible = low <= this.#slope && this.#slope <= high;
    const isTaken = this.isYoung && isPossible && this.#slope === this.#assumedSlope;
    const bounds = isTaken
      ? {
          low: Math.max(low, this.#slope * (1 - PACE_LEEWAY)),
          high: Math.min(high, this.#slope * (1 + PACE_LEEWAY)),
        }
      : this.#bounds;
    return isConsistent(this.#samples, bounds, window);
  }

  /**
   * The line that this one would be if it ran at another pace, which the sample shows; undefined when
   * none explains both, and for a line that is no longer young.
   */
  fork(window: TimeWindow): ClockLine | undefined {
    const [first] = this.#samples;
    if (!this.isYoung || first === undefined) return undefined;
    if (!isConsistent(this.#samples, this.#bounds, window)) return undefined;
    const forked = new ClockLine(first, this.#slope, this.isOwn);
    for (const sample of this.#samples.slice(1)) forked.take(sample);
    forked.take(window);
    return forked;
  }

  estimateMs(monotonicMs: number): number {
    return Math.min(this.#floorMs, this.#newestCeilingMs) + this.#slope * monotonicMs;
  }

  /**
   * Whether a clock of real pace may be this one, give or take `toleranceMs`.
   *
   * @param heightMs what that clock shows minus this machine's monotonic time
   */
  agreesWith(heightMs: number, toleranceMs: number): boolean {
    if (this.#slope !== 1) return false;
    const lowMs = Math.min(this.#floorMs, this.#newestCeilingMs);
    const highMs = Math.max(lowMs, this.#ceilingMs);
    return heightMs >= lowMs - toleranceMs && heightMs <= highMs + toleranceMs;
  }

  take(window: TimeWindow): void {
    this.#count += 1;
    this.#lastMs = window.receivedMs;
    const newest = this.#samples.at(-1);
    if (newest !== undefined && window.receivedMs - newest.receivedMs < SAMPLE_SPACING_MS) {
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
}
