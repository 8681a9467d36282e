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
 * that the pace is taken too high. The pace is the slowest that all samples allow together, which again
 * errs behind.
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
  /** Line through the upper ends: of all samples, and of the newest alone. */
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

  /** Returns true if its samples are too few, or too close together, to show its pace. */
  get isYoung(): boolean {
    return this.#count <= YOUNG_SAMPLES || this.spanMs < YOUNG_MS;
  }

  /**
   * Returns true if this sample goes on with the line: at any pace that its samples leave open or, while it
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

  /** Returns true if all that speaks for another line speaks for this one as well: then the two contradict nothing. */
  explains({ samples }: ClockLine): boolean {
    return samples.every((sample) => this.fits(sample));
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
   * Returns true if a clock of real pace may be this one, give or take `toleranceMs`.
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

/**
 * Statement of one response about the exchange's time: at some instant in `[sentMs, receivedMs]` of this
 * machine's monotonic clock, the exchange's clock stood in `[lowMs, highMs)`.
 */
export interface TimeWindow {
  readonly lowMs: number;
  readonly highMs: number;
  readonly sentMs: number;
  readonly receivedMs: number;
}

/** Paces beyond these are no exchange, they are jumps. */
export const MIN_PACE = 0.01;
const MAX_PACE = 1000;
/** A pace this close to 1 is 1: no real clock runs that wrong. */
const SNAP = 0.05;
/** A pace is believed from this many samples over this time on. */
const MIN_BASELINE_MS = 3000;
const MIN_SAMPLES = 4;
/** Servers build the Date header shortly before or after they answer. */
const SLACK_MS = 100;

/** Paces from `low` to `high`; none when `low` is above `high`. */
interface PaceBounds {
  readonly low: number;
  readonly high: number;
}

const ANY_PACE: PaceBounds = { low: MIN_PACE, high: MAX_PACE };

/** Paces at which one clock passes through both windows. */
function boundsOfPair(a: TimeWindow, b: TimeWindow): PaceBounds {
  const [first, second] = a.receivedMs <= b.receivedMs ? [a, b] : [b, a];
  const longestMs = second.receivedMs - first.sentMs;
  const shortestMs = second.sentMs - first.receivedMs;
  const leastMs = second.lowMs - first.highMs - SLACK_MS;
  const mostMs = second.highMs - first.lowMs + SLACK_MS;
  return {
    low: leastMs <= 0 ? MIN_PACE : longestMs > 0 ? leastMs / longestMs : Number.POSITIVE_INFINITY,
    // A clock that went back by more than the slack has jumped, however little time has passed.
    high: mostMs < 0 ? 0 : shortestMs > 0 ? mostMs / shortestMs : MAX_PACE,
  };
}

function meet(bounds: readonly PaceBounds[]): PaceBounds {
  let low = MIN_PACE;
  let high = MAX_PACE;
  for (const pair of bounds) {
    low = Math.max(low, pair.low);
    high = Math.min(high, pair.high);
  }
  return { low, high };
}

/** The paces that explain all `windows` together. */
function paceBounds(windows: readonly TimeWindow[]): PaceBounds {
  const pairs = windows.flatMap((second, at) =>
    windows.slice(0, at).map((first) => boundsOfPair(first, second)),
  );
  return meet(pairs);
}

/** Returns true if some steady pace within `bounds`, those of `windows`, explains `next` too. */
function isConsistent(
  windows: readonly TimeWindow[],
  bounds: PaceBounds,
  next: TimeWindow,
): boolean {
  const { low, high } = meet([bounds, ...windows.map((window) => boundsOfPair(window, next))]);
  return low <= high;
}

/** A pace for people and schedulers, and the slope that an estimate may safely run at. */
interface PaceFit {
  readonly pace: number;
  /** At most the true pace as far as the samples show, so that an estimate falls behind, not ahead. */
  readonly slope: number;
}

/**
 * The pace that consistent windows show. Before they span a few seconds, `before` goes on if it is
 * possible, else 1, or less than 1 if even that is too fast.
 */
function fitPace(
  windows: readonly TimeWindow[],
  { low, high }: PaceBounds,
  before: number,
): PaceFit {
  const first = windows[0];
  const last = windows.at(-1);
  const spanMs = first && last ? last.receivedMs - first.receivedMs : 0;
  if (windows.length < MIN_SAMPLES || spanMs < MIN_BASELINE_MS) {
    const isPossible = (pace: number) => pace >= low && pace <= high;
    const pace = [before, 1].find(isPossible) ?? Math.min(1, low);
    return { pace, slope: pace };
  }
  if (low <= 1 + SNAP && high >= 1 - SNAP) return { pace: 1, slope: 1 };
  return { pace: (low + high) / 2, slope: low };
}
