import type { Clock } from '../../kernel/clock.js';

/** After this long the contract's form is tried again: an exchange may have learnt it. */
const BELIEVED_MS = 3_600_000;

/**
 * How one exchange wants `state.subscribe` to be asked: as the contract says, with a market and a
 * period, or with a list of markets (field notes, Real-time), which has no place for a period.
 *
 * All feeds of an exchange share one, so that each process finds it out once.
 */
export class SubscriptionForm {
  readonly #clock: Clock;
  #listSinceMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a list of markets is what it understands, as far as is known. */
  get isList(): boolean {
    const sinceMs = this.#listSinceMs;
    return sinceMs !== undefined && this.#clock.monotonicMs() - sinceMs < BELIEVED_MS;
  }

  /** It refused the contract's form and took a list. */
  tookList(): void {
    this.#listSinceMs = this.#clock.monotonicMs();
  }

  /** It refused a list, too. */
  refusedList(): void {
    this.#listSinceMs = undefined;
  }
}
