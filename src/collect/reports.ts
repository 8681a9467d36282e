import type { RejectedRow } from '../contract/shape.js';
import { codeOf, type ErrorAction, messageOf, TapekeepError } from '../kernel/errors.js';
import type { Span } from '../kernel/span.js';
import type { QuarantineRow } from '../model/batch.js';
import { type GapReason, reasonLabel } from '../model/gap-reasons.js';
import type { CollectEvents } from '../observe/events.js';

/** A stream's events, as far as all collectors report them alike. */
type Reports = Pick<CollectEvents, 'settled' | 'gapFound' | 'pollFailed'>;
type Outcome = Parameters<CollectEvents['settled']>[0]['outcome'];

/** What became of rows, each outcome that there was. */
export function reportOutcomes(
  telemetry: Pick<Reports, 'settled'>,
  stream: string,
  market: string,
  outcomes: Readonly<Partial<Record<Outcome, number>>>,
): void {
  for (const [outcome, count] of Object.entries(outcomes)) {
    if (count > 0) telemetry.settled({ stream, market, outcome: outcome as Outcome, count });
  }
}

/** A span that is listed as a gap. */
export function reportGap(
  telemetry: Pick<Reports, 'gapFound'>,
  stream: string,
  market: string,
  { fromMs, toMs }: Span,
  reason: GapReason,
): void {
  telemetry.gapFound({ stream, market, reason: reasonLabel(reason), lengthMs: toMs - fromMs });
}

/**
 * Reports a failed piece of collecting.
 *
 * @param stream what was asked for: the name of a stream, or of the work
 * @param market `*` when it was none in particular
 * @param action what follows, where the error itself does not say; by default it is tried again
 */
export function reportFailure(
  telemetry: Pick<Reports, 'pollFailed'>,
  stream: string,
  market: string,
  error: unknown,
  action: ErrorAction = error instanceof TapekeepError ? error.action : 'retry',
): void {
  const [code, message] = [codeOf(error), messageOf(error)];
  telemetry.pollFailed({ stream, market, code, message, action });
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
