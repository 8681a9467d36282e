import type { RequestBudget } from '../kernel/budget.js';
import type { Clock } from '../kernel/clock.js';
import { queueKeyOf } from '../kernel/waiting-line.js';
import type { RequestTurn } from './exchange-client.js';
import { Slots } from './slots.js';

/**
 * Turns to send one request: a token of the shared budget and one of the connections. Taken right
 * before sending, or reserved by a caller that chooses only then what to send.
 */
export class Turns {
  readonly #budget: RequestBudget;
  readonly #clock: Clock;
  readonly #slots: Slots;
  /** How to leave the connection of each turn that is reserved and not used yet. */
  readonly #reserved = new WeakMap<RequestTurn, () => void>();

  /** @param connections requests under way at the same time, at most */
  constructor(budget: RequestBudget, clock: Clock, connections: number) {
    this.#budget = budget;
    this.#clock = clock;
    this.#slots = new Slots(connections);
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
    return this.#slots.enter(queueKeyOf(priority, this.#clock.monotonicMs()), signal);
  }

  #redeem(turn: RequestTurn): (() => void) | undefined {
    const leave = this.#reserved.get(turn);
    this.#reserved.delete(turn);
    return leave;
  }
}
