/**
 * What one answer says about the exchange's time: at some instant in `[sentMs, receivedMs]` of this
 * machine's monotonic clock, the exchange's clock stood in `[lowMs, highMs)`.
 */
export interface TimeWindow {
  readonly lowMs: number;
  readonly highMs: number;
  readonly sentMs: number;
  readonly receivedMs: number;
}

/** Paces beyond these are no exchange, they are jumps. */
const MIN_PACE = 0.01;
const MAX_PACE = 1000;
/** A pace this close to 1 is 1: no real clock runs that wrong. */
const SNAP = 0.05;
/** A pace is believed from this many samples over this time on. */
const MIN_BASELINE_MS = 3000;
const MIN_SAMPLES = 4;
/** Servers build the Date header shortly before or after they answer. */
const SLACK_MS = 100;

/** Paces from `low` to `high`; none when `low` is above `high`. */
export interface PaceBounds {
  readonly low: number;
  readonly high: number;
}

export const ANY_PACE: PaceBounds = { low: MIN_PACE, high: MAX_PACE };

/** Which paces let one clock tell both windows. */
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
export function paceBounds(windows: readonly TimeWindow[]): PaceBounds {
  const pairs = windows.flatMap((second, at) =>
    windows.slice(0, at).map((first) => boundsOfPair(first, second)),
  );
  return meet(pairs);
}

/** Whether some steady pace within `bounds`, those of `windows`, explains `next` too. */
export function isConsistent(
  windows: readonly TimeWindow[],
  bounds: PaceBounds,
  next: TimeWindow,
): boolean {
  const { low, high } = meet([bounds, ...windows.map((window) => boundsOfPair(window, next))]);
  return low <= high;
}

/** A pace for people and schedulers, and the slope that an estimate may safely run at. */
export interface PaceFit {
  readonly pace: number;
  /** At most the true pace as far as the samples show, so that an estimate falls behind, not ahead. */
  readonly slope: number;
}

/**
 * The pace that consistent windows show. Before they span a few seconds, `before` goes on if it is
 * possible, else 1, or less than 1 if even that is too fast.
 */
export function fitPace(
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
