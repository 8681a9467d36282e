import {
  COVERED_HEADER,
  GAP_HEADER,
  REPLAY_IDENTITY,
  readCovered,
  readGaps,
  type ToldGap,
  UNREADABLE,
} from '../contract/told-gaps.js';
import type { RateLimitHeaders } from '../kernel/budget.js';
import type { Span } from '../kernel/span.js';

/** Names the history that a server serves; only servers of this project send it. */
const IDENTITY_HEADER = 'x-tapekeep-exchange';

/** Response headers as undici gives them, names in lower case. */
export type ReplyHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The text of a header; of a repeated one the first. */
export function headerText(headers: ReplyHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' || value === undefined ? value : value[0];
}

/** Which exchange's history this is; null where the server does not say. */
export function identityOf(headers: ReplyHeaders): string | null {
  return headerText(headers, IDENTITY_HEADER)?.slice(0, MAX_VALUE_LENGTH) ?? null;
}

/** Only a replay reports gaps: what another server sends under these names is not looked at. */
export function isReplay(identity: string | null | undefined): boolean {
  return identity?.startsWith(REPLAY_IDENTITY) === true;
}

const NO_GAPS: readonly ToldGap[] = [];

/** The gaps that a replay names for its answer; none where the server does not say. */
export function gapsOf(headers: ReplyHeaders): readonly ToldGap[] {
  if (!isReplay(identityOf(headers))) return NO_GAPS;
  const isGarbled = headers[COVERED_HEADER] !== undefined && coveredOf(headers) === null;
  if (isGarbled) return [UNREADABLE];
  const value = headers[GAP_HEADER];
  if (value === undefined) return NO_GAPS;
  return readGaps(typeof value === 'string' ? [value] : value);
}

/** What a replay has recorded without a break until the time of its answer; null elsewhere. */
export function coveredOf(headers: ReplyHeaders): Span | null {
  const text = isReplay(identityOf(headers)) ? headerText(headers, COVERED_HEADER) : undefined;
  return text === undefined ? null : (readCovered(text) ?? null);
}

/** Header values longer than this are not looked at. */
const MAX_VALUE_LENGTH = 200;
/** `Sun, 06 Nov 1994 08:49:37 GMT`: the only form of an HTTP date still in use (RFC 9110, 5.6.7). */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** An HTTP date as UNIX milliseconds; null when absent or not one. */
export function parseHttpDate(text: string | undefined): number | null {
  if (text === undefined || !HTTP_DATE.test(text)) return null;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? null : atMs;
}

/** A Retry-After beyond this is a mistake, and says nothing. */
const RETRY_AFTER_SANE_MS = 86_400_000;

/**
 * What Retry-After asks for, as milliseconds here, 0 when it is negative; undefined when the header
 * is absent, unreadable, or asks for more than a day.
 *
 * @param nowMs the exchange's time, to which a date relates
 * @param pace how fast the exchange's time runs
 */
export function parseRetryAfter(
  text: string | undefined,
  nowMs: number,
  pace: number,
): number | undefined {
  if (text === undefined || text.length > MAX_VALUE_LENGTH) return undefined;
  const trimmed = text.trim();
  const dateMs = parseHttpDate(trimmed);
  let waitMs: number;
  if (dateMs !== null) waitMs = (dateMs - nowMs) / pace;
  else if (/^[+-]?\d+(\.\d+)?$/.test(trimmed)) waitMs = Number(trimmed) * 1000;
  else return undefined;
  return waitMs > RETRY_AFTER_SANE_MS ? undefined : Math.max(waitMs, 0);
}

/** A reset above this many seconds is a timestamp, not a duration. */
const RESET_IS_MOMENT_S = 1e9;

function headerNumber(headers: ReplyHeaders, name: string): number | undefined {
  const text = headerText(headers, name)?.trim();
  return text !== undefined && /^-?\d{1,15}(\.\d{1,6})?$/.test(text) ? Number(text) : undefined;
}

/**
 * The family's `x-ratelimit-…` headers (field notes, HTTP), or undefined when incomplete. A reset
 * given as a UNIX time is turned into the time until then.
 */
export function readRateLimit(
  headers: ReplyHeaders,
  exchangeNowMs: number,
): RateLimitHeaders | undefined {
  const remaining = headerNumber(headers, 'x-ratelimit-remaining');
  const reset = headerNumber(headers, 'x-ratelimit-reset');
  if (remaining === undefined || reset === undefined) return undefined;
  const resetS = reset > RESET_IS_MOMENT_S ? reset - exchangeNowMs / 1000 : reset;
  return { limit: headerNumber(headers, 'x-ratelimit-limit'), remaining, resetS };
}
