import { SECOND_MS } from '../kernel/durations.js';
import { comparePlaces, type PageRow } from './order.js';
import {
  type EndShown,
  goDeeper,
  goShallower,
  isPastTheEnd,
  type Search,
  searchFrom,
} from './search.js';

/**
 * Reading one page of trade history against what is already known: pure decisions, no I/O.
 *
 * History runs newest first and a request says how many of the newest trades to skip. The head
 * moves while we page, and new trades only push old ones deeper; so a later page may repeat rows,
 * never jump over them — unless a cache, a replica or a cap interferes. That is why every step
 * down must contain the lowest trade of the step before: that overlap is the evidence.
 */

export interface LocateInput {
  /** Newest first, as `orderPage` has them. */
  readonly rows: readonly PageRow[];
  /** The lowest trade known so far: what the page must contain to be contiguous. */
  readonly target: PageRow;
  /** Place of the requested page, and what is known of the way there. */
  readonly search: Search;
  readonly asked: number;
  /** Rows in the reply, with those that were refused or repeated. */
  readonly received: number;
  /** The largest page that this server ever returned. */
  readonly largestPage: number;
  /** Statement of the page about the end of history. */
  readonly end: EndShown;
}

export type Location =
  /** Contiguous with the target, or the edge lies within. */
  | { readonly kind: 'found' }
  /** Nothing lies right below the target. One such answer is a sign; it takes two for a proof. */
  | { readonly kind: 'endOfHistory' }
  /** Some rows are left below the target that cannot be read. */
  | { readonly kind: 'unreadableEnd' }
  /** The server serves neither the target nor anything older: its history ends above. */
  | { readonly kind: 'beyondHistory' }
  /** Nothing is newer than the edge that is sought: this is the newest page. */
  | { readonly kind: 'head' }
  /** Ask again where `search` says. */
  | { readonly kind: 'again'; readonly search: Search; readonly why: string }
  /** The response cannot be reconciled with what it answered before. */
  | { readonly kind: 'broken'; readonly detail: string };

/** Decides what a page below the head means for the walk. */
export function locate(input: LocateInput): Location {
  const { rows, target, search, asked, received, largestPage, end } = input;
  const { skip, lowest } = search;
  const again = (next: Search, why: string): Location => ({ kind: 'again', search: next, why });
  // Back by what a page really holds: by more, a capped server would be walked from its head.
  const pageRows = Math.max(1, rows.length, largestPage || asked);
  const newest = rows[0];
  const oldest = rows.at(-1);
  const isBelowAll = isPastTheEnd(search);
  const isBelowTarget = isBelowAll && lowest !== undefined && comparePlaces(lowest, target) === 0;
  if (newest === undefined || oldest === undefined) {
    if (isBelowTarget && received === 0) return { kind: 'endOfHistory' };
    if (isBelowTarget && received < asked && received < largestPage) {
      return { kind: 'unreadableEnd' };
    }
    if (isBelowTarget || (received > 0 && skip === 0)) {
      return { kind: 'broken', detail: 'a page holds no readable trade' };
    }
    if (skip === 0)
      return { kind: 'broken', detail: 'the history is empty, but it was not before' };
    if (received === 0 && isBelowAll) return { kind: 'beyondHistory' };
    return again(goShallower(search, pageRows, received === 0), 'beyond the end of history');
  }
  const above = comparePlaces(oldest, target);
  const shown = above < 0 ? undefined : end;
  if (shown === 'isEnd') return { kind: above === 0 ? 'endOfHistory' : 'beyondHistory' };
  if (shown !== undefined) return again(shown, 'ended where another page did');
  if (above > 0) {
    // Only newer trades: the head moved by more than a page, or the estimate was too low.
    return again(goDeeper(search, rows.length, oldest), 'too shallow');
  }
  if (comparePlaces(newest, target) < 0) {
    if (isBelowTarget && search.shallowRows === 1) {
      // Rows below the target do exist, but a page cannot hold the target and them: no evidence.
      return { kind: 'broken', detail: 'pages of one trade leave no room for an overlap' };
    }
    if (skip === 0) {
      return { kind: 'broken', detail: 'the newest trade is older than one that is stored' };
    }
    return again(goShallower(search, pageRows), 'jumped over the known trades');
  }
  const index = rows.findIndex((row) => comparePlaces(row, target) === 0);
  if (index < 0) {
    // Within a second the exchange may have another order than ids: the trade may lie above.
    if (newest.tradedAtS === target.tradedAtS && skip > 0) {
      // If ids started again within this second, it lies above older ones with larger ids: nearby.
      const up = Math.max(1, pageRows >> 1);
      return again(
        { ...searchFrom(Math.max(0, skip - up)), deep: skip },
        'began within the second of the known trade',
      );
    }
    return { kind: 'broken', detail: `trade ${target.tid} is missing between its neighbours` };
  }
  if (index < rows.length - 1) return { kind: 'found' };
  // That it is shorter than asked proves nothing: any server may send less. Only a look just below
  // the target that brings nothing does, or one from further below and one more from here.
  const isFirst = lowest === undefined || comparePlaces(lowest, target) !== 0;
  // Right below it first; further each time that newer rows have pushed it down meanwhile.
  const isNext = isFirst || (rows.length === 1 && search.shallowRows > 1);
  const below = goDeeper(isNext ? { ...search, stride: 1 } : search, rows.length, oldest);
  return again(below, index > 0 ? 'ended at the known trade' : 'is anything older?');
}

/** A page that may hold the upper edge of a gap with no known trade above it. */
export interface SeekInput extends Omit<LocateInput, 'target' | 'asked'> {
  readonly edgeMs: number;
  /** Rows that the page shows, with those that are not believed yet. */
  readonly shown: number;
}

/** Decides what a page means for the search of an edge. Pages run in the order of time. */
export function seek(input: SeekInput): Location {
  const { rows, search, received, largestPage, end, edgeMs, shown } = input;
  const [newest, oldest] = [rows[0], rows.at(-1)];
  const why = 'the edge lies elsewhere';
  const isOlder = (row: PageRow) => row.tradedAtS * SECOND_MS < edgeMs;
  if (search.skip === 0 && (newest === undefined || isOlder(newest))) return { kind: 'head' };
  if (newest === undefined || oldest === undefined) {
    if (received === 0 && isPastTheEnd(search)) return { kind: 'beyondHistory' };
    const next = goShallower(search, Math.max(1, largestPage), received === 0);
    return { kind: 'again', search: next, why };
  }
  if (!isOlder(oldest)) {
    if (end === 'isEnd') return { kind: 'beyondHistory' };
    return { kind: 'again', search: end ?? goDeeper(search, shown, oldest), why };
  }
  if (!isOlder(newest)) return { kind: 'found' };
  return { kind: 'again', search: goShallower(search, Math.max(rows.length, largestPage)), why };
}
