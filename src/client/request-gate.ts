import type { RequestBudget } from '../kernel/budget.js';
import type { Clock } from '../kernel/clock.js';
import { queueKeyOf, WaitingLine } from '../kernel/waiting-line.js';
import type { RequestTurn } from './exchange-client.js';

/**
 * RequestGate to send one request: a token of the shared budget and one of the connections. Taken right
 * before sending, or reserved by a caller that chooses only then what to send.
 */
export class RequestGate {
  readonly #budget: RequestBudget;
  readonly #clock: Clock;
  readonly #connections: Semaphore;
  /** How to leave the connection of each turn that is reserved and not used yet. */
  readonly #reserved = new WeakMap<RequestTurn, () => void>();

  /** @param connections requests under way at the same time, at most */
  constructor(budget: RequestBudget, clock: Clock, connections: number) {
    this.#budget = budget;
    this.#clock = clock;
    this.#connections = new Semaphore(connections);
  }

  /**
   * Resolves when a request may be sent at once.
   *
   * @param turn one that was reserved, and is used up by this; any other one is ignored
   * @returns to be called when the request has ended
   */
  async take(priority: number, signal?: AbortSignal, turn?: RequestTurn): Promise<() => void> {
    const reserved = turn && this.#redeem(turn);
    if (reserved === undefined) await this.#budget.take(priority, signal);
    const leave = reserved ?? (await this.#enter(priority, signal));
    try {
      // A pause may have begun while we waited for the slot.
      await this.#budget.whenNotPaused(signal);
      return leave;
    } catch (error) {
      leave();
      throw error;
    }
  }

  async reserve(priority: number, signal?: AbortSignal): Promise<RequestTurn> {
    const leave = await this.take(priority, signal);
    const turn: RequestTurn = {
      giveBack: () => {
        const unused = this.#redeem(turn);
        if (unused === undefined) return;
        unused();
        this.#budget.giveBack();
      },
    };
    this.#reserved.set(turn, leave);
    return turn;
  }

  #enter(priority: number, signal?: AbortSignal): Promise<() => void> {
    return this.#connections.enter(queueKeyOf(priority, this.#clock.monotonicMs()), signal);
  }

  #redeem(turn: RequestTurn): (() => void) | undefined {
    const leave = this.#reserved.get(turn);
    this.#reserved.delete(turn);
    return leave;
  }
}

/**
 * A fixed number of permits, given out in order of their keys. It bounds the
 * requests under way, so that none waits inside the connection pool after its token was taken.
 */
export class Semaphore {
  readonly #line = new WaitingLine();
  #free: number;

  constructor(count: number) {
    if (!Number.isInteger(count) || count < 1)
      throw new RangeError(`not a number of permits: ${count}`);
    this.#free = count;
  }

  /**
   * Waits for a permit.
   *
   * @returns gives the permit back; a second call does nothing
   * @throws the signal's reason when it aborts first
   */
  async enter(turn: number, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#line.join(turn, signal);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (!this.#line.admitNext()) this.#free += 1;
    };
  }
}
