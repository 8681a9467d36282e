/** The label value that stands for everything beyond a limit. */
const OTHER = 'other';

/**
 * Keeps a metric label from growing without bound. Names come from the exchange, and every new
 * label value costs memory here and in Prometheus for good: the first `limit` names are kept, all
 * later ones read as `other`.
 */
export class LabelLimit {
  readonly #limit: number;
  readonly #names = new Set<string>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The label value to use for `name`. */
  admit(name: string): string {
    if (name === OTHER || this.#names.has(name)) return name;
    if (name === '' || name.length > 100 || this.#names.size >= this.#limit) return OTHER;
    this.#names.add(name);
    return name;
  }

  /** Frees the place of a name that will not come again. */
  forget(name: string): void {
    this.#names.delete(name);
  }
}

/**
 * A label value from prose: lower case, words joined by `_`, numbers and everything after the first
 * colon left out, since those differ from case to case.
 */
export function slug(text: string): string {
  const words =
    text
      .slice(0, 200)
      .split(':')[0]
      ?.toLowerCase()
      .match(/[a-z]+/g) ?? [];
  return words.slice(0, 5).join('_') || OTHER;
}

/** Close codes of RFC 6455 by name. The remote side's free text never becomes a label. */
const CLOSE_CODES: Readonly<Record<number, string>> = {
  1000: 'normal',
  1001: 'going_away',
  1002: 'protocol_error',
  1003: 'unsupported_data',
  1005: 'no_status',
  1006: 'abnormal',
  1007: 'invalid_payload',
  1008: 'policy_violation',
  1009: 'message_too_big',
  1010: 'extension_missing',
  1011: 'internal_error',
  1012: 'service_restart',
  1013: 'try_again_later',
  1015: 'tls_failure',
};

/**
 * Reasons for which our own side ends a connection or never got one; everything else is named by
 * its close code.
 */
const OWN_REASONS: ReadonlySet<string> = new Set([
  'stopped',
  'connect_failed',
  'connect_timeout',
  'subscribe_refused',
  'subscribe_ignored',
  'period_not_offered',
  'query_refused',
  'silent',
  'stalled',
  'stood_still',
  'overflow',
  'garbage',
  'oversized',
  'protocol_error',
]);

/** The label value for the end of a connection. The set of values is closed. */
export function closeReason(code: number, reason: string): string {
  return OWN_REASONS.has(reason) ? reason : (CLOSE_CODES[code] ?? OTHER);
}
