import type { Span } from '../../kernel/span.js';
import type { GapReason } from '../../ledger/gap-reasons.js';

/** A candle that was refused, or could not be had, is asked for again this rarely. */
const RETRY_MS = 600_000;
/** The same where the exchange failed: that says nothing about the candle. */
const EXCHANGE_RETRY_MS = 60_000;

/** How long a span is left alone that is open for a reason. */
export function pauseAfter(reason: GapReason): number {
  return reason === 'exchange failed' ? EXCHANGE_RETRY_MS : RETRY_MS;
}

/** Spans that are put off at most; beyond it the oldest are asked for again sooner. */
const PUT_OFF_MAX = 10_000;

/** Spans of candles that are left alone for a while. Moments are of a monotonic clock. */
export class CandlePauses {
  #putOff: ReadonlyArray<{ readonly span: Span; readonly retryAtMs: number }> = [];

  putOff(spans: readonly Span[], nowMs: number, reason: GapReason): void {
    const waiting = this.#putOff.filter(({ retryAtMs }) => nowMs < retryAtMs);
    const added = spans.map((span) => ({ span, retryAtMs: nowMs + pauseAfter(reason) }));
    this.#putOff = [...waiting, ...added].slice(-PUT_OFF_MAX);
  }

  /** What is still to be left alone. */
  at(nowMs: number): Span[] {
    return this.#putOff.filter(({ retryAtMs }) => nowMs < retryAtMs).map(({ span }) => span);
  }

  /** Ends the pause of everything that a span touches. */
  release({ fromMs, toMs }: Span): void {
    this.#putOff = this.#putOff.filter(({ span }) => span.toMs <= fromMs || span.fromMs >= toMs);
  }
}
