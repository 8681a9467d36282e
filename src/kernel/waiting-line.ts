import { obtain } from './bounded.js';

/**
 * Work that leads: heads of trades. The numbers are the kinds of work that wait in one line; lower ones are more
 * urgent, and {@link FORKS} says what each gets where more is asked for than there is.
 */
export const LEAD_PRIORITY = -1;
/** From this priority on work is background: it gets what the others leave over, and a tenth at least. */
export const BACKGROUND_PRIORITY = 2;
/** The kind of all work whose number is as high or higher. */
const LAST_PRIORITY = 3;

/** Turns that two kinds of work, or two groups of them, have by turns while both wait. */
interface Fork {
  readonly first: Branch;
  readonly second: Branch;
  readonly firstTurns: number;
  readonly secondTurns: number;
}
type Branch = number | Fork;

/** Requests for all markets at once, beside those for one each: neither waits for all of the other. */
const FOLLOWERS: Fork = { first: 0, second: 1, firstTurns: 1, secondTurns: 1 };
/** Shares of ten turns: five for work that leads, four for what follows, one for background work. */
const FOREGROUND: Fork = { first: LEAD_PRIORITY, second: FOLLOWERS, firstTurns: 5, secondTurns: 4 };
const BACKGROUND: Fork = {
  ...{ first: BACKGROUND_PRIORITY, second: LAST_PRIORITY },
  ...{ firstTurns: 1, secondTurns: 1 },
};
const FORKS: Fork = { first: FOREGROUND, second: BACKGROUND, firstTurns: 9, secondTurns: 1 };

/**
 * Share of a rate for each kind of work if all wait whenever they ask for more: by priority, in the
 * unit of the rate. What one does not need is left to the others.
 *
 * @param asked what each asks for
 */
export function sharesOf(
  rate: number,
  asked: ReadonlyMap<number, number>,
  branch: Branch = FORKS,
): ReadonlyMap<number, number> {
  if (typeof branch === 'number')
    return new Map([[branch, Math.min(rate, asked.get(branch) ?? 0)]]);
  const { first, second, firstTurns, secondTurns } = branch;
  const part = (rate * firstTurns) / (firstTurns + secondTurns);
  const ofFirst = Math.max(part, rate - askedOf(second, asked));
  const ofSecond = Math.max(rate - part, rate - askedOf(first, asked));
  return new Map([...sharesOf(ofFirst, asked, first), ...sharesOf(ofSecond, asked, second)]);
}

function askedOf(branch: Branch, asked: ReadonlyMap<number, number>): number {
  if (typeof branch === 'number') return asked.get(branch) ?? 0;
  return askedOf(branch.first, asked) + askedOf(branch.second, asked);
}

/** A waiter for admission. */
interface Waiter {
  readonly admit: () => void;
}

/** Those who wait in one branch of {@link FORKS}. */
interface Waiting {
  readonly size: number;
  /** Takes out the next one; undefined without any. */
  take(): Waiter | undefined;
}

/** Waiters of one kind, in the order of their arrival. */
class Queue implements Waiting {
  #waiters: Waiter[] = [];

  get size(): number {
    return this.#waiters.length;
  }

  add(waiter: Waiter): void {
    this.#waiters.push(waiter);
  }

  remove(waiter: Waiter): void {
    this.#waiters = this.#waiters.filter((other) => other !== waiter);
  }

  take(): Waiter | undefined {
    return this.#waiters.shift();
  }
}

/** Two branches that have their turns while both wait. */
class Turns implements Waiting {
  readonly #fork: Fork;
  readonly first: Waiting;
  readonly second: Waiting;
  /** Turns that the first one had beyond its part while both waited; above 0 it is the other one's turn. */
  #ahead: number;

  constructor(fork: Fork, queueOf: (priority: number) => Queue) {
    const branchOf = (branch: Branch): Waiting =>
      typeof branch === 'number' ? queueOf(branch) : new Turns(branch, queueOf);
    this.#fork = fork;
    this.#ahead = fork.secondTurns - fork.firstTurns;
    this.first = branchOf(fork.first);
    this.second = branchOf(fork.second);
  }

  get size(): number {
    return this.first.size + this.second.size;
  }

  take(): Waiter | undefined {
    if (this.first.size === 0) return this.second.take();
    if (this.second.size === 0) return this.first.take();
    const { firstTurns, secondTurns } = this.#fork;
    const isFirst = this.#ahead <= 0;
    this.#ahead += isFirst ? secondTurns : -firstTurns;
    return (isFirst ? this.first : this.second).take();
  }
}

/**
 * A line of waiters of several kinds, which take their turns as {@link FORKS} says; first come first served within
 * one kind. Its owner decides when the next one goes. Each waiter leaves when its signal aborts.
 */
export class WaitingLine {
  readonly #queues = new Map<number, Queue>();
  readonly #turns = new Turns(FORKS, (priority) =>
    obtain(this.#queues, priority, () => new Queue()),
  );
  readonly #onShared: ((others: number) => void) | undefined;

  /** @param onShared called when background work is admitted ahead of so many others */
  constructor(onShared?: (others: number) => void) {
    this.#onShared = onShared;
  }

  get size(): number {
    return this.#turns.size;
  }

  /**
   * Resolves when {@link WaitingLine.admitNext} reaches this waiter.
   *
   * @param onLeave called after a waiter left without having been served
   * @throws the signal's reason when it aborts first
   */
  join(priority: number, signal?: AbortSignal, onLeave?: () => void): Promise<void> {
    const kind = Math.min(LAST_PRIORITY, Math.max(LEAD_PRIORITY, Math.ceil(priority)));
    const queue = obtain(this.#queues, kind, () => new Queue());
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const onAbort = () => {
        queue.remove(waiter);
        onLeave?.();
        reject(signal?.reason as Error);
      };
      const waiter: Waiter = {
        admit: () => {
          signal?.removeEventListener('abort', onAbort);
          resolve();
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      queue.add(waiter);
    });
  }

  /** Serves the next in line; false without waiters. */
  admitNext(): boolean {
    const { first: others, second: background } = this.#turns;
    const backgroundBefore = background.size;
    const next = this.#turns.take();
    if (next === undefined) return false;
    if (background.size < backgroundBefore && others.size > 0) this.#onShared?.(others.size);
    next.admit();
    return true;
  }
}
