import type { ClaimTime } from '../../src/collect/ports.js';
import type { FakeClock } from './fake-clock.js';

/** The time of an exchange without dispute; tests set what they want to be otherwise. */
export class FakeTime implements ClaimTime {
  pace = 1;
  jumps = 0;
  /** Nothing may be claimed while it is false. */
  isSettled = true;
  sinceMs: number;
  /** How far before now the earliest source of time stands. */
  heldBackMs = 0;
  aheadMs = 0;
  readonly witnessed: number[] = [];
  readonly #clock: FakeClock;

  constructor(clock: FakeClock) {
    this.#clock = clock;
    this.sinceMs = clock.wallMs();
  }

  nowMs(): number {
    return this.#clock.wallMs() + this.aheadMs;
  }

  get lived() {
    if (!this.isSettled) return undefined;
    const presentMs = this.nowMs() + 1;
    return { sinceMs: this.sinceMs, untilMs: presentMs - this.heldBackMs, presentMs };
  }

  witness(happenedMs: number): void {
    this.witnessed.push(happenedMs);
  }
}
