import type { TimeNotice } from '../contract/extensions.js';
import type { Clock } from '../kernel/clock.js';
import type { Span } from '../kernel/span.js';
import type { ClockReading, PlaySpeed } from '../server/backend.js';

/**
 * The time of one session, within its span; at the end it stands.
 *
 * States: *waiting* (for the first client) → *running* ⇄ *paused*, each at *ended* when the end is
 * reached. While running at a number, time passes by the machine's monotonic clock; at `max` and `step`
 * it only goes where {@link VirtualClock.advanceTo} takes it.
 */
export class VirtualClock {
  readonly span: Span;
  readonly #clock: Clock;
  readonly #onChange: () => void;
  #phase: 'waiting' | 'running' | 'paused' = 'waiting';
  #speed: PlaySpeed;
  /** Time that was last set by {@link VirtualClock.seek}. */
  #jump: { readonly toMs: number } | undefined;
  /** The time at the instant `#anchoredAtMs` of the monotonic clock. */
  #anchorMs: number;
  #anchoredAtMs: number;
  /** Begins at this machine's time: that of a session made anew has other numbers. */
  #changes: number;
  #isJump = false;

  /** @param onChange called when time will pass otherwise than before */
  constructor(clock: Clock, span: Span, speed: PlaySpeed, onChange: () => void) {
    this.#clock = clock;
    this.span = span;
    this.#speed = speed;
    this.#onChange = onChange;
    this.#anchorMs = span.fromMs;
    this.#anchoredAtMs = clock.monotonicMs();
    this.#changes = Math.floor(clock.wallMs());
  }

  /** How it goes on from now; undefined where followers drive it. */
  get notice(): TimeNotice | undefined {
    if (this.#speed === 'max') return undefined;
    const pace = this.state === 'running' && typeof this.#speed === 'number' ? this.#speed : 0;
    return { nowMs: this.nowMs(), pace, change: this.#changes, isJump: this.#isJump };
  }

  /** Whole UNIX milliseconds; goes back by {@link VirtualClock.seek} only. */
  nowMs(): number {
    if (this.#phase !== 'running' || typeof this.#speed !== 'number') return this.#anchorMs;
    const elapsedMs = this.#clock.monotonicMs() - this.#anchoredAtMs;
    return Math.min(this.span.toMs, Math.floor(this.#anchorMs + elapsedMs * this.#speed));
  }

  get speed(): PlaySpeed {
    return this.#speed;
  }

  get state(): ClockReading['state'] {
    return this.nowMs() >= this.span.toMs ? 'ended' : this.#phase;
  }

  /** Returns true if time goes where followers let it. */
  get isDriven(): boolean {
    return this.#phase === 'running' && this.#speed === 'max';
  }

  /** Milliseconds of this machine until an instant is reached; undefined when it does not come by itself. */
  delayMs(timeMs: number): number | undefined {
    if (this.#phase !== 'running' || typeof this.#speed !== 'number') return undefined;
    const elapsedMs = this.#clock.monotonicMs() - this.#anchoredAtMs;
    return Math.max(0, (timeMs - this.#anchorMs) / this.#speed - elapsedMs);
  }

  /** The first client is there. Does nothing later. */
  start(): void {
    if (this.#phase === 'waiting') this.#become('running');
  }

  pause(): void {
    this.#become('paused');
  }

  resume(): void {
    this.#become('running');
  }

  setSpeed(speed: PlaySpeed): void {
    this.#anchor(this.nowMs());
    this.#speed = speed;
    this.#changed(false);
  }

  get jump(): { readonly toMs: number } | undefined {
    return this.#jump;
  }

  seek(atMs: number): void {
    const toMs = Math.min(this.span.toMs, Math.max(this.span.fromMs, atMs));
    this.#jump = { toMs };
    this.#anchor(toMs);
    this.#changed(true);
  }

  /** Goes ahead to an instant; never back, and not beyond the end. No callback. */
  advanceTo(timeMs: number): void {
    const nowMs = this.nowMs();
    if (timeMs > nowMs) this.#anchor(Math.min(timeMs, this.span.toMs));
  }

  #become(phase: 'running' | 'paused'): void {
    this.#anchor(this.nowMs());
    this.#phase = phase;
    this.#changed(false);
  }

  #changed(isJump: boolean): void {
    this.#changes += 1;
    this.#isJump = isJump;
    this.#onChange();
  }

  #anchor(nowMs: number): void {
    this.#anchorMs = nowMs;
    this.#anchoredAtMs = this.#clock.monotonicMs();
  }
}
