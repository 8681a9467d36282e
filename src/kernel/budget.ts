import { type Clock, sleep } from './clock.js';
import { TapekeepError } from './errors.js';
import { WaitingLine } from './waiting-line.js';

/** Longest wait that a server may impose by Retry-After, when several answers ask for it. */
const RETRY_AFTER_MAX_MS = 5 * 60_000;
/** Pauses by rate-limit headers. */
const RESET_MAX_MS = 3_600_000;
/** How often a line is looked at in which the next one waits for long. */
const RECHECK_MS = 10_000;
/** Time between two looks while the caller holds requests back. */
const HELD_RECHECK_MS = 100;

/** State of a budget at one instant. */
export interface RequestBudgetState {
  /** Requests per second that are allowed now: configured, less what refusals and headers take. */
  readonly ratePerS: number;
  /** Requests that may start at once. */
  readonly tokens: number;
  /** Callers that wait for a token. */
  readonly waiting: number;
}

/** Limits of a {@link RequestBudget}. */
export interface RequestBudgetOptions {
  /** Time for the refill; {@link systemClock} outside of tests. */
  readonly clock: Clock;
  /** Configured rate, requests per second; never exceeded on average. */
  readonly ratePerS: number;
  /** How many requests may start at once after a quiet time, at least 1. */
  readonly burst: number;
  /** How many callers may wait at the same time; the next one is refused. */
  readonly maxWaiting: number;
  /** Requests that may start at once in the beginning. Default: the burst. */
  readonly firstTokens?: number;
  /** Returns true while no request may start for a reason of the caller; asked before each. */
  readonly isHeldBack?: () => boolean;
  /** Called after every change, for telemetry. */
  readonly onChange?: (state: RequestBudgetState) => void;
  /** Called when requests are held back for a time. */
  readonly onPause?: (event: { readonly reason: string; readonly waitMs: number }) => void;
  /** Called when background work goes ahead of so many others, by the tenth that is kept for it. */
  readonly onShared?: (others: number) => void;
}

/** Limit that a server reports. `resetS` is the time until its next window. */
export interface RateLimitHeaders {
  /** Requests that a window allows in all. */
  readonly limit?: number | undefined;
  /** Requests that are left in this window. */
  readonly remaining: number;
  /** Seconds until the next window. */
  readonly resetS: number;
}

/** More callers wait for the budget than its limit allows: the caller must shed work. */
export class BudgetOverrunError extends TapekeepError {
  constructor(maxWaiting: number) {
    super(
      'budget_overrun',
      `${maxWaiting} requests wait already for the request budget; ask for less at a time, or raise the rate`,
    );
  }
}

/**
 * One token bucket for all requests to an exchange.
 *
 * States: *open* (a token is there, callers pass at once), *refilling* (callers wait, one timer
 * runs to the next token), *paused* (no caller passes before the pause ends, tokens or not). Three
 * things slow the refill: the configured rate, what refusals cut of it ({@link AdaptiveRate}), and the
 * server's own headers, whose effect ends with their window.
 *
 * All durations are monotonic: a step of the wall clock changes nothing.
 */
export class RequestBudget {
  readonly #options: RequestBudgetOptions;
  readonly #line: WaitingLine;
  #tokens: number;
  #refilledAtMs: number;
  #pausedUntilMs = Number.NEGATIVE_INFINITY;
  readonly #adaptive = new AdaptiveRate();
  readonly #retryAfters = new AskedWaits(RETRY_AFTER_MAX_MS);
  readonly #resets = new AskedWaits(RESET_MAX_MS);
  #headerRatePerS = Number.POSITIVE_INFINITY;
  #headerUntilMs = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;

  /** @throws RangeError when rate, burst or limit are not positive. */
  constructor(options: RequestBudgetOptions) {
    const { ratePerS, burst, maxWaiting } = options;
    if (!(ratePerS > 0 && Number.isFinite(ratePerS))) {
      throw new RangeError(`a budget's rate must be above zero, not ${ratePerS}`);
    }
    if (!(burst >= 1 && maxWaiting >= 1)) {
      throw new RangeError(`burst and maxWaiting must be 1 or more, not ${burst}, ${maxWaiting}`);
    }
    this.#options = options;
    this.#line = new WaitingLine(options.onShared);
    this.#tokens = options.firstTokens ?? burst;
    this.#refilledAtMs = options.clock.monotonicMs();
  }

  /**
   * Resolves when the caller may send one request, and takes the token for it.
   *
   * @param priority the kind of work, see {@link WaitingLine}; equals go in the order of calls
   * @throws {@link BudgetOverrunError} when too many wait already
   * @throws the signal's reason when it aborts first; no token is then taken
   */
  take(priority: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    if (this.#line.size >= this.#options.maxWaiting) {
      return Promise.reject(new BudgetOverrunError(this.#options.maxWaiting));
    }
    const admission = this.#line.join(priority, signal, () => this.#serve());
    this.#serve();
    return admission;
  }

  /** Gives a token back that was taken and is not used. */
  giveBack(): void {
    this.#refill();
    this.#tokens = Math.min(this.#options.burst, this.#tokens + 1);
    this.#serve();
  }

  /** Resolves at once, or when the current pause is over. Takes no token. */
  async whenNotPaused(signal?: AbortSignal): Promise<void> {
    for (;;) {
      signal?.throwIfAborted();
      const waitMs = this.#pauseMs();
      if (waitMs <= 0) return;
      await sleep(this.#options.clock, Math.ceil(waitMs), signal);
    }
  }

  /** Unclaimed tokens: what background work may use without slowing others down. */
  spare(): number {
    if (this.#line.size > 0 || this.#isPaused()) return 0;
    this.#refill();
    return Math.floor(this.#tokens);
  }

  /**
   * Obeys the server's rate-limit headers (field notes, HTTP): no faster than what remains, spread
   * over the rest of the window; nothing at all until the reset when nothing remains. Values that
   * make no sense are ignored.
   */
  observeHeaders({ limit, remaining, resetS }: RateLimitHeaders): void {
    const isSane =
      Number.isFinite(remaining) && remaining >= 0 && Number.isFinite(resetS) && resetS > 0;
    if (!isSane || (limit !== undefined && !(limit > 0 && remaining <= limit))) return;
    const nowMs = this.#nowMs();
    if (remaining < 1) {
      this.#holdBack(this.#resets.obeyed(resetS * 1000, nowMs), 'rate limit used up');
      return;
    }
    this.#resets.over();
    this.#refill();
    this.#headerRatePerS = remaining / resetS;
    // Each answer says it anew: one that is wrong must not slow all for longer.
    this.#headerUntilMs = nowMs + Math.min(resetS * 1000, ONE_ANSWER_MAX_MS);
    this.#tokens = Math.min(this.#tokens, remaining);
    this.#serve();
  }

  /**
   * Lets no request start for `waitMs` (Retry-After), as far as {@link AskedWaits} obeys it. A pause
   * that is already longer stays.
   */
  pause(waitMs: number, reason: string): void {
    if (Number.isNaN(waitMs)) return;
    this.#holdBack(this.#retryAfters.obeyed(waitMs, this.#nowMs()), reason);
  }

  /** The exchange answered, and did not refuse. */
  served(): void {
    this.#refill();
    this.#retryAfters.over();
    this.#adaptive.served();
  }

  /** The exchange refused for going too fast. */
  refused(): void {
    this.#refill();
    const cut = this.#adaptive.refused(this.#nowMs());
    // From half of the rate on nothing is left to start at once.
    this.#tokens = Math.min(this.#tokens, Math.max(1, this.#options.burst * (1 - 2 * cut)));
    this.#serve();
  }

  /** Current state. */
  state(): RequestBudgetState {
    this.#refill();
    return { ratePerS: this.#ratePerS(), tokens: this.#tokens, waiting: this.#line.size };
  }

  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }

  /** Time for which nothing may start, or until that is looked at again. */
  #pauseMs(): number {
    const heldMs = this.#options.isHeldBack?.() === true ? HELD_RECHECK_MS : 0;
    return Math.max(heldMs, this.#pausedUntilMs - this.#nowMs());
  }

  #isPaused(): boolean {
    return this.#pauseMs() > 0;
  }

  #holdBack(waitMs: number, reason: string): void {
    const nowMs = this.#nowMs();
    const untilMs = nowMs + waitMs;
    if (waitMs <= 0 || untilMs <= this.#pausedUntilMs) return;
    this.#adaptive.paused(untilMs - Math.max(nowMs, this.#pausedUntilMs));
    this.#pausedUntilMs = untilMs;
    this.#options.onPause?.({ reason, waitMs });
    this.#serve();
  }

  #ownRatePerS(): number {
    return this.#options.ratePerS * this.#adaptive.factor(this.#nowMs());
  }

  #ratePerS(): number {
    const ownRate = this.#ownRatePerS();
    return this.#nowMs() < this.#headerUntilMs ? Math.min(ownRate, this.#headerRatePerS) : ownRate;
  }

  #refill(): void {
    const nowMs = this.#nowMs();
    const ownRate = this.#ownRatePerS();
    // The part of the time that the server's headers governed counts at their rate, also when
    // their window has ended since: otherwise its end would set a burst free.
    const limitedMs = Math.max(0, Math.min(nowMs, this.#headerUntilMs) - this.#refilledAtMs);
    const freeMs = nowMs - this.#refilledAtMs - limitedMs;
    const limitedRate = Math.min(ownRate, this.#headerRatePerS);
    const grown = (limitedMs * limitedRate + freeMs * ownRate) / 1000;
    this.#tokens = Math.min(this.#options.burst, this.#tokens + grown);
    this.#refilledAtMs = nowMs;
  }

  /** Admits waiters that may go, and sets the one timer for the next. */
  #serve(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#refill();
    // The tolerance absorbs the rounding of many small refills.
    while (this.#line.size > 0 && !this.#isPaused() && this.#tokens >= 1 - 1e-9) {
      this.#tokens = Math.max(0, this.#tokens - 1);
      this.#line.admitNext();
    }
    if (this.#line.size > 0) {
      const pauseMs = this.#pauseMs();
      const refillMs = (Math.max(0, 1 - this.#tokens) / this.#ratePerS()) * 1000;
      // The rate may rise before the token is full: when the server's window ends, or as a cut
      // heals. Checked again then, and never more often than once a millisecond.
      const windowMs = this.#headerUntilMs - this.#nowMs();
      const recheckMs = windowMs > 0 ? Math.min(windowMs, RECHECK_MS) : RECHECK_MS;
      const waitMs = Math.max(1, Math.ceil(Math.max(pauseMs, Math.min(refillMs, recheckMs))));
      this.#cancelTimer = this.#options.clock.after(waitMs, () => this.#serve());
    }
    this.#options.onChange?.(this.state());
  }
}

/** Longest wait that one answer may impose. */
const ONE_ANSWER_MAX_MS = 60_000;

/**
 * How much of a wait that a server asks for is obeyed. Up to {@link ONE_ANSWER_MAX_MS} all of it. A
 * longer one is obeyed so far, and wholly once an answer after that asks for a long wait again: one
 * answer that is wrong must not stop everything for long. Times are monotonic, milliseconds.
 */
class AskedWaits {
  readonly #mostMs: number;
  #firstEndsAtMs = Number.POSITIVE_INFINITY;

  /** @param mostMs longest wait, however many answers agree on it */
  constructor(mostMs: number) {
    this.#mostMs = mostMs;
  }

  obeyed(askedMs: number, nowMs: number): number {
    if (askedMs <= ONE_ANSWER_MAX_MS) return Math.max(0, askedMs);
    if (nowMs >= this.#firstEndsAtMs) return Math.min(askedMs, this.#mostMs);
    // Those that were under way with the first one are no second answer.
    this.#firstEndsAtMs = Math.min(this.#firstEndsAtMs, nowMs + ONE_ANSWER_MAX_MS);
    return ONE_ANSWER_MAX_MS;
  }

  /** The server asks for no wait any more. */
  over(): void {
    this.#firstEndsAtMs = Number.POSITIVE_INFINITY;
  }
}

/** Weight of one answer in the share of refusals: about the last 200 answers count. */
const FADING = 1 - 1 / 200;
/** With fewer answers than this, the share is taken of this many. */
const LEAST_ANSWERS = 100;
/**
 * A cut is this times the square of the share, at most {@link CUT_MAX}: 2 % for a share of 2 %, half
 * of the rate from a share of 10 % on. Single refusals come and go; a storm is a limit.
 */
const CUT_GAIN = 50;
const CUT_MAX = 0.5;
/** Share of refusals at which cuts and {@link HEALING} balance, so the least that a limit shows. */
const TOLERATED_SHARE = 0.04;
/** Share of the rate that each accepted request restores. */
const HEALING = CUT_GAIN * TOLERATED_SHARE ** 3;
/** Time without a refusal after which all of the rate is back; slow at first, to meet a limit gently. */
const RECOVERY_MS = 60_000;
/** Cuts never lead below this fraction of the configured rate. */
const LEAST_FACTOR = 1 / 64;
/** Refusals of requests that were under way together cut once. */
const MERGE_MS = 1000;

/**
 * The part of a configured rate that a server puts up with, learnt from its refusals. All times are
 * of one monotonic clock, milliseconds.
 *
 * Refusals cut in proportion to their share of the answers. Answers and time give back: a share below
 * {@link TOLERATED_SHARE} leads to the full rate, and so does a minute without any refusal.
 */
class AdaptiveRate {
  #factor = 1;
  #recoversFromMs = Number.NEGATIVE_INFINITY;
  #cutAtMs = Number.NEGATIVE_INFINITY;
  #answers = 0;
  #refusals = 0;

  /** Fraction of the configured rate that is allowed now. */
  factor(nowMs: number): number {
    if (this.#factor === 1) return 1;
    const recovery = Math.max(0, nowMs - this.#recoversFromMs) / RECOVERY_MS;
    return Math.min(1, this.#factor + recovery ** 3);
  }

  /** The server answered, and did not refuse. */
  served(): void {
    this.#count(0);
    this.#factor = Math.min(1, this.#factor * (1 + HEALING));
  }

  /** @returns the part of the rate that this refusal cuts off; 0 when another one just did */
  refused(nowMs: number): number {
    this.#count(1);
    if (nowMs - this.#cutAtMs < MERGE_MS) return 0;
    const share = this.#refusals / Math.max(LEAST_ANSWERS, this.#answers);
    const cut = Math.min(CUT_MAX, CUT_GAIN * share ** 2);
    this.#factor = Math.max(LEAST_FACTOR, this.factor(nowMs) * (1 - cut));
    this.#cutAtMs = nowMs;
    this.#recoversFromMs = nowMs;
    return cut;
  }

  /** Nothing is sent for so long: that time shows nothing, and counts for no recovery. */
  paused(forMs: number): void {
    this.#recoversFromMs += forMs;
  }

  #count(refusals: 0 | 1): void {
    this.#answers = this.#answers * FADING + 1;
    this.#refusals = this.#refusals * FADING + refusals;
  }
}
