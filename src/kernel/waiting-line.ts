/** From this priority on work is background: it gets what the others leave over, and a small share besides. */
export const BACKGROUND_PRIORITY = 3;
/** After so many admissions that went past background work it gets one: others may never leave anything over. */
const PAST_BACKGROUND_MAX = 9;
/**
 * Work that leads: while others wait too it gets every other admission, however many they are and however
 * long they have waited, and never more than that.
 */
export const LEAD_PRIORITY = -1;
/** How long one step of priority makes a waiter give way to later ones, milliseconds. */
const STEP_MS = 2000;
/** Later than every time of a monotonic clock. */
const AFTER_ALL_MS = 1e15;
/** Earlier than every such time, by so much that leading work stays ahead of all others. */
const BEFORE_ALL_MS = -1e15;

/**
 * Sort key of a waiter that arrives at `nowMs` (monotonic): its priority moves it behind
 * those that arrive some seconds later, not behind everybody for ever. So work of every priority
 * goes on when there is more of it than the rate allows. Background work stands behind all others, work that
 * leads behind none but its like, and {@link WaitingLine} sees to it that those whom others pass go on.
 */
export function queueKeyOf(priority: number, nowMs: number): number {
  if (priority <= LEAD_PRIORITY) return BEFORE_ALL_MS + nowMs;
  return priority < BACKGROUND_PRIORITY
    ? nowMs + priority * STEP_MS
    : AFTER_ALL_MS * (1 + priority);
}

/** A waiter for admission. Lower keys go first, equals in the order of arrival. */
interface Waiter {
  readonly key: number;
  readonly admit: () => void;
}

const isLeading = ({ key }: Waiter) => key < BEFORE_ALL_MS / 2;
const isBackground = ({ key }: Waiter) => key >= AFTER_ALL_MS;

/**
 * A queue of waiters, served by key (see {@link queueKeyOf}), first come first served within one key.
 * Its owner decides when the next one goes. Each waiter leaves when its signal aborts.
 */
export class WaitingLine {
  #waiters: Waiter[] = [];
  /** Whether one that leads may go: the last one served did not lead past somebody. */
  #mayLead = true;
  /** Admissions that went past background work since it had one. */
  #pastBackground = 0;
  readonly #onShared: ((others: number) => void) | undefined;

  /** @param onShared called when background work is admitted ahead of so many others */
  constructor(onShared?: (others: number) => void) {
    this.#onShared = onShared;
  }

  get size(): number {
    return this.#waiters.length;
  }

  /**
   * Resolves when {@link WaitingLine.admitNext} reaches this waiter.
   *
   * @param onLeave called after a waiter left without having been served
   * @throws the signal's reason when it aborts first
   */
  join(key: number, signal?: AbortSignal, onLeave?: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const onAbort = () => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        onLeave?.();
        reject(signal?.reason as Error);
      };
      const waiter: Waiter = {
        key,
        admit: () => {
          signal?.removeEventListener('abort', onAbort);
          resolve();
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      const behind = this.#waiters.findIndex((other) => other.key > key);
      if (behind === -1) this.#waiters.push(waiter);
      else this.#waiters.splice(behind, 0, waiter);
    });
  }

  /**
   * Serves the first in line; false without waiters. After one that leads, the first of the others
   * goes, unless only background work waits; and one in ten is background work while any waits.
   */
  admitNext(): boolean {
    const at = this.#nextAt();
    const [next] = this.#waiters.splice(at, 1);
    if (next === undefined) return false;
    if (isBackground(next)) {
      this.#pastBackground = 0;
      if (at > 0) this.#onShared?.(at);
    } else if (this.#isBackgroundWaiting) {
      this.#pastBackground += 1;
    }
    next.admit();
    return true;
  }

  get #isBackgroundWaiting(): boolean {
    const last = this.#waiters.at(-1);
    return last !== undefined && isBackground(last);
  }

  #nextAt(): number {
    if (this.#pastBackground >= PAST_BACKGROUND_MAX && this.#isBackgroundWaiting) {
      return this.#waiters.findIndex(isBackground);
    }
    const follower = this.#firstFollower();
    const at = follower > 0 && !this.#mayLead ? follower : 0;
    this.#mayLead = at > 0 || follower <= 0;
    return at;
  }

  /** Where the first foreground waiter stands that does not lead; -1 without one. */
  #firstFollower(): number {
    const at = this.#waiters.findIndex((waiter) => !isLeading(waiter));
    const follower = this.#waiters[at];
    return follower === undefined || isBackground(follower) ? -1 : at;
  }
}
