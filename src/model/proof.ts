import { SECOND_MS } from '../kernel/durations.js';
import { floorToMs, type Span, subtractSpans } from '../kernel/span.js';
import type { PageRow } from './order.js';

/** When a reply was asked for and what time its server showed. Exchange time, milliseconds. */
export interface ReplyTimes {
  readonly sentAtMs: number;
  /** The Date header; null when the server sent none. */
  readonly dateMs: number | null;
}

/**
 * The time up to which a reply proves that nothing more had happened: the start of the request,
 * never later than the server's own Date, less a margin for caches on the way. Always a whole
 * second, because a trade is kept under its whole second: one that happens later in the same second
 * would else lie in a span that was called covered before it happened.
 */
export function provenUntilMs(times: ReplyTimes, marginMs: number): number {
  const seenMs = times.dateMs === null ? times.sentAtMs : Math.min(times.sentAtMs, times.dateMs);
  return floorToMs(seenMs - marginMs, SECOND_MS);
}

/** The latest time that a reply may speak of: the later of its request and the server's Date. */
export function latestMs(times: ReplyTimes): number {
  return Math.max(times.sentAtMs, times.dateMs ?? times.sentAtMs);
}

/**
 * The span that a contiguous page from the head proves: every whole second after the one in which
 * its oldest trade lies (that second may go on below the page), up to the second of its newest
 * trade (more trades may still join that one), or further if the clock allows. A trade that is
 * dated into the future proves nothing of the time until then.
 *
 * @param rows ordered newest first, not empty
 * @param untilMs what the clock proves, see {@link provenUntilMs}
 * @param endMs the latest time that the reply may speak of, see {@link latestMs}
 */
export function headSpan(rows: readonly PageRow[], untilMs: number, endMs: number): Span {
  const newestMs = (rows[0]?.tradedAtS ?? 0) * SECOND_MS;
  const toMs = newestMs <= endMs ? Math.max(newestMs, untilMs) : untilMs;
  return { fromMs: Math.min(toMs, edgeAbove(rows)), toMs };
}

/**
 * The span that a page below the head adds, given that it connects to coverage that begins at
 * `edgeMs`.
 */
export function deeperSpan(rows: readonly PageRow[], edgeMs: number): Span {
  return { fromMs: Math.min(edgeMs, edgeAbove(rows)), toMs: edgeMs };
}

/**
 * The span that a page from the midst of history proves by itself: every whole second between that
 * of its oldest trade and that of its newest, both of which may go on outside the page.
 */
export function coveredSpan(rows: readonly PageRow[]): Span {
  const toMs = (rows[0]?.tradedAtS ?? 0) * SECOND_MS;
  return { fromMs: Math.min(toMs, edgeAbove(rows)), toMs };
}

function edgeAbove(rows: readonly PageRow[]): number {
  return ((rows.at(-1)?.tradedAtS ?? 0) + 1) * SECOND_MS;
}

/** A row of a page that could not be read, between its readable neighbours in page order. */
export interface UnreadRow {
  /** Undefined when no readable row of the page is newer. */
  readonly newerS: number | undefined;
  readonly olderS: number;
}

/**
 * Cuts out of a claim what refused rows make suspect: the seconds from that of the readable row
 * below to that of the one above, both whole. A refused row with no readable row below it lies
 * under the claim anyway.
 */
export function withoutUnread(claim: Span, unread: readonly UnreadRow[]): Span[] {
  const unclear = unread.map(({ newerS, olderS }) => ({
    fromMs: olderS * SECOND_MS,
    toMs: newerS === undefined ? claim.toMs : (newerS + 1) * SECOND_MS,
  }));
  return subtractSpans(claim, unclear);
}

/**
 * Place where a chain may continue below a claim: at the claim's lower edge, unless a refused row may lie in
 * the second below it, in which the page ended. That second can then not be proven any more, and
 * the chain goes on below it.
 */
export function edgeBelow(claim: Span, unread: readonly UnreadRow[]): number {
  const lowestMs = Math.min(...unread.map(({ olderS }) => olderS * SECOND_MS));
  return Math.min(claim.fromMs, lowestMs);
}
