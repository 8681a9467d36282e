import type { RejectedRow } from '../contract/shape.js';
import type { QuarantineRow } from '../model/batch.js';

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
