import { type EndpointLimit, paceWithin } from '../contract/dialects.js';
import type { EndpointName } from '../contract/endpoints.js';
import { RequestBudget } from '../kernel/budget.js';
import type { Clock } from '../kernel/clock.js';
import { WaitingLine } from '../kernel/waiting-line.js';
import type { RequestTurn } from './exchange-client.js';

/** A turn that is reserved, and not used yet. */
interface Reserved {
  readonly endpoint: EndpointName;
  /** Leaves its connection. */
  readonly leave: () => void;
}

/**
 * The way to send one request: a token of the endpoint where the exchange limits each, one of the shared
 * budget, and one of the connections. Taken right before sending, or reserved by a caller that chooses
 * only then what to send.
 */
export class RequestGate {
  readonly #budget: RequestBudget;
  readonly #clock: Clock;
  readonly #connections: Semaphore;
  readonly #limit: EndpointLimit | undefined;
  readonly #endpoints = new Map<EndpointName, RequestBudget>();
  readonly #reserved = new WeakMap<RequestTurn, Reserved>();

  /**
   * @param connections requests under way at the same time, at most
   * @param limit of each endpoint; left out: none
   */
  constructor(budget: RequestBudget, clock: Clock, connections: number, limit?: EndpointLimit) {
    this.#budget = budget;
    this.#clock = clock;
    this.#connections = new Semaphore(connections);
    this.#limit = limit;
  }

  /**
   * Resolves when a request may be sent at once.
   *
   * @param turn one that was reserved, and is used up by this; any other one is ignored
   * @returns to be called when the request has ended
   */
  async take(
    endpoint: EndpointName,
    priority: number,
    signal?: AbortSignal,
    turn?: RequestTurn,
  ): Promise<() => void> {
    const reserved = turn && this.#redeem(turn);
    const leave = reserved?.leave ?? (await this.#enter(endpoint, priority, signal));
    try {
      if (reserved !== undefined && reserved.endpoint !== endpoint) {
        this.#limitOf(reserved.endpoint)?.giveBack();
        await this.#limitOf(endpoint)?.take(priority, signal);
      }
      // A pause may have begun while we waited for the slot.
      await this.#budget.whenNotPaused(signal);
      return leave;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** @param endpoint the one that is likely to be asked */
  async reserve(
    endpoint: EndpointName,
    priority: number,
    signal?: AbortSignal,
  ): Promise<RequestTurn> {
    const leave = await this.take(endpoint, priority, signal);
    const turn: RequestTurn = {
      giveBack: () => {
        const unused = this.#redeem(turn);
        if (unused === undefined) return;
        unused.leave();
        this.#budget.giveBack();
        this.#limitOf(endpoint)?.giveBack();
      },
    };
    this.#reserved.set(turn, { endpoint, leave });
    return turn;
  }

  /** The scarcest permit comes first: nothing else is held meanwhile. */
  async #enter(
    endpoint: EndpointName,
    priority: number,
    signal?: AbortSignal,
  ): Promise<() => void> {
    const limit = this.#limitOf(endpoint);
    await limit?.take(priority, signal);
    try {
      await this.#budget.take(priority, signal);
      return await this.#connections.enter(priority, signal);
    } catch (error) {
      limit?.giveBack();
      throw error;
    }
  }

  #limitOf(endpoint: EndpointName): RequestBudget | undefined {
    if (this.#limit === undefined) return undefined;
    let budget = this.#endpoints.get(endpoint);
    if (budget === undefined) {
      const { ratePerS, burst } = paceWithin(this.#limit);
      budget = new RequestBudget({ clock: this.#clock, ratePerS, burst, maxWaiting: WAITING_MAX });
      this.#endpoints.set(endpoint, budget);
    }
    return budget;
  }

  #redeem(turn: RequestTurn): Reserved | undefined {
    const reserved = this.#reserved.get(turn);
    this.#reserved.delete(turn);
    return reserved;
  }
}

/** Callers that wait for one endpoint: streams and markets, as in the budget of all. */
const WAITING_MAX = 100_000;

/**
 * A fixed number of permits, given out by the kinds of work. It bounds the
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
  async enter(priority: number, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#line.join(priority, signal);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (!this.#line.admitNext()) this.#free += 1;
    };
  }
}
