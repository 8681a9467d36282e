import type { RejectedRow } from '../contract/shape.js';
import { codeOf, type ErrorAction, messageOf, TapekeepError } from '../kernel/errors.js';
import { normalizeSpans, type Span, subtractSpans, totalLengthMs } from '../kernel/span.js';
import type { QuarantineRow } from '../model/batch.js';
import { type GapReason, reasonLabel } from '../model/gap-reasons.js';
import type { CollectEvents } from '../observe/events.js';
import type { RowOutcome } from '../observe/run-counts.js';

/** Spans of gaps that are remembered as reported, for each reason; beyond it the oldest are reported again. */
const REPORTED_MAX = 1000;

export type StreamReport = ReturnType<typeof streamReport>;

/**
 * Reports on one stream of one market.
 *
 * @param stream the name of a stream, or of other work that can fail
 * @param market `*` when it is none in particular
 */
export function streamReport(telemetry: CollectEvents, stream: string, market: string) {
  const at = { stream, market };
  const reported = new Map<GapReason, readonly Span[]>();
  return {
    received: (count: number) => telemetry.received({ ...at, count }),
    /** What became of rows, each outcome that there was. */
    settled: (outcomes: Readonly<Partial<Record<RowOutcome, number>>>) => {
      for (const [outcome, count] of Object.entries(outcomes)) {
        if (count > 0) telemetry.settled({ ...at, outcome: outcome as RowOutcome, count });
      }
    },
    progressed: (newestMs: number) => telemetry.progressed({ ...at, newestMs }),
    /**
     * A span that is listed as a gap. It is found once, at whichever try, and what only makes one longer
     * is none of its own, as the ledger has it.
     *
     * @param isBeforeHistory whether it is older than all that the exchange ever showed
     */
    gap: (span: Span, reason: GapReason, isBeforeHistory = false) => {
      const known = reported.get(reason) ?? [];
      const lengthMs = totalLengthMs(subtractSpans(span, known));
      if (lengthMs === 0) return;
      const isLonger = known.some(({ fromMs, toMs }) => fromMs <= span.toMs && span.fromMs <= toMs);
      reported.set(reason, normalizeSpans([...known, span]).slice(-REPORTED_MAX));
      const count = isLonger ? 0 : 1;
      telemetry.gapFound({ ...at, reason: reasonLabel(reason), count, lengthMs, isBeforeHistory });
    },
    /** @param action what follows, where the error itself does not say; by default it is tried again */
    failed: (
      error: unknown,
      action: ErrorAction = error instanceof TapekeepError ? error.action : 'retry',
    ) => telemetry.pollFailed({ ...at, code: codeOf(error), message: messageOf(error), action }),
    /** Something is not available, without an error. */
    skipped: (code: string, message: string) =>
      telemetry.pollFailed({ ...at, code, message, action: 'skip' }),
  };
}

/** Longest text of a refused row that is kept. */
const PAYLOAD_MAX_LENGTH = 4000;
const REASON_MAX_LENGTH = 300;

/** Refused rows of a reply in the form in which the archive keeps them. */
export function quarantineRows(
  endpoint: string,
  market: string | null,
  rejected: readonly RejectedRow[],
  receivedAtMs: number,
): QuarantineRow[] {
  return rejected.map(({ reason, payload }) => ({
    receivedAtMs,
    endpoint,
    market,
    reason: reason.slice(0, REASON_MAX_LENGTH),
    payload: toText(payload),
  }));
}

/** JSON with what Postgres cannot hold in text (NUL) made visible, cut to a bound. */
function toText(payload: unknown): string {
  const text = JSON.stringify(payload) ?? String(payload);
  return text.slice(0, PAYLOAD_MAX_LENGTH).replaceAll('\u0000', '\\u0000');
}
