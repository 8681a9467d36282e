import type { Clock } from '../../src/kernel/clock.js';

interface Timer {
  readonly atMs: number;
  readonly order: number;
  readonly callback: () => void;
  readonly background: boolean;
}

/**
 * A clock that moves only when a test moves it. Wall and monotonic time advance together;
 * {@link FakeClock.stepWall} moves the wall alone, as a time correction of the machine does.
 */
export class FakeClock implements Clock {
  #wallMs: number;
  #monotonicMs = 0;
  #order = 0;
  readonly #timers = new Set<Timer>();
  #watchers: Array<() => void> = [];

  constructor(wallMs = Date.UTC(2026, 0, 1)) {
    this.#wallMs = wallMs;
  }

  wallMs(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  after(ms: number, callback: () => void, options?: { background?: boolean }): () => void {
    this.#order += 1;
    const timer: Timer = {
      atMs: this.#monotonicMs + Math.max(ms, 0),
      order: this.#order,
      callback,
      background: options?.background === true,
    };
    this.#timers.add(timer);
    for (const wake of this.#watchers.splice(0)) wake();
    return () => void this.#timers.delete(timer);
  }

  /** Timers that have neither fired nor been cancelled. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Pending timers that would keep a process alive. */
  get pendingForegroundTimers(): number {
    return [...this.#timers].filter((timer) => !timer.background).length;
  }

  /** Milliseconds until the next timer, or undefined when none is pending. */
  get nextTimerMs(): number | undefined {
    return this.#untilMs([...this.#timers]);
  }

  /** The same of timers that would keep a process alive. */
  get nextForegroundTimerMs(): number | undefined {
    return this.#untilMs([...this.#timers].filter((timer) => !timer.background));
  }

  /** Resolves as soon as at least `count` timers are pending. */
  async timersPending(count = 1): Promise<void> {
    while (this.#timers.size < count) {
      await new Promise<void>((resolve) => this.#watchers.push(resolve));
    }
  }

  /** Moves time and fires what falls due, in order, without letting promises settle between. */
  advance(ms: number): void {
    const endMs = this.#monotonicMs + ms;
    for (let timer = this.#next(endMs); timer !== undefined; timer = this.#next(endMs)) {
      this.#fire(timer);
    }
    this.#moveTo(endMs);
  }

  /** Like {@link FakeClock.advance}, but lets promises and I/O callbacks run after every timer. */
  async run(ms: number): Promise<void> {
    const endMs = this.#monotonicMs + ms;
    await turn();
    for (let timer = this.#next(endMs); timer !== undefined; timer = this.#next(endMs)) {
      this.#fire(timer);
      await turn();
    }
    this.#moveTo(endMs);
    await turn();
  }

  /** Moves time and fires nothing: what was due meanwhile is late, as in a process that was stopped. */
  standStill(ms: number): void {
    this.#moveTo(this.#monotonicMs + ms);
  }

  /** Moves only the wall clock, forwards or back. No timer fires. */
  stepWall(ms: number): void {
    this.#wallMs += ms;
  }

  #untilMs(timers: readonly Timer[]): number | undefined {
    const next = Math.min(...timers.map(({ atMs }) => atMs));
    return timers.length === 0 ? undefined : next - this.#monotonicMs;
  }

  #next(endMs: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.atMs > endMs) continue;
      const isEarlier =
        next === undefined ||
        timer.atMs < next.atMs ||
        (timer.atMs === next.atMs && timer.order < next.order);
      if (isEarlier) next = timer;
    }
    return next;
  }

  #fire(timer: Timer): void {
    this.#timers.delete(timer);
    this.#moveTo(Math.max(timer.atMs, this.#monotonicMs));
    timer.callback();
  }

  #moveTo(monotonicMs: number): void {
    this.#wallMs += monotonicMs - this.#monotonicMs;
    this.#monotonicMs = monotonicMs;
  }
}

/** Lets everything that is ready run: promise callbacks first, then one tick of the event loop. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
