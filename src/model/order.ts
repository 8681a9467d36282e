import { firstNot } from '../kernel/sorted.js';

/**
 * The order of trades, and rows of a page that do not fit into it. Pure decisions, no I/O.
 *
 * History runs by time. Ids grow along with it, but only while the exchange counts on: a counter
 * that begins anew starts another *epoch* of ids. So trades are ordered by their second first, and by
 * id within it, as the archive's key has them.
 */

/** Fields of a trade that the walk needs. */
export interface PageRow {
  readonly tid: number;
  /** Whole UNIX second of the execution. */
  readonly tradedAtS: number;
}

/** How many times the largest other step of ids in its page the step up to a new row may be. */
const ID_STEPS_MAX = 10;
/** Steps between ids of a page that are looked at. */
const STEPS = 50;

/**
 * Returns true if the first row of a page of the newest trades looks unlike one: its id does not follow those
 * below it, or its time lies before theirs, or after the reply's. It may be true all the same.
 *
 * @param rows in the order of the reply
 */
export function isOddHead(rows: readonly PageRow[], latestMs: number): boolean {
  const [first, next] = rows;
  if (first === undefined || next === undefined) return false;
  if (first.tradedAtS < next.tradedAtS || first.tradedAtS * 1000 > latestMs) return true;
  const steps = rows.slice(1, STEPS).map(({ tid }, at) => tid - (rows[at + 2]?.tid ?? tid));
  const step = first.tid - next.tid;
  return step <= 0 || step > ID_STEPS_MAX * Math.max(1, ...steps);
}

/** Negative, zero or positive as `a` lies before, at or after `b` in history. */
export function comparePlaces(a: PageRow, b: PageRow): number {
  return a.tradedAtS - b.tradedAtS || a.tid - b.tid;
}

/** Names a place among those of one market. */
export function placeKey({ tradedAtS, tid }: PageRow): string {
  return `${tradedAtS} ${tid}`;
}

/** Newest first, each place once (the first occurrence stays). */
export function orderPage<T extends PageRow>(rows: readonly T[]): T[] {
  const sorted = [...rows].sort((a, b) => comparePlaces(b, a));
  return sorted.filter((row, index) => {
    const before = sorted[index - 1];
    return before === undefined || comparePlaces(row, before) !== 0;
  });
}

/** Seconds by which trades of a true page may be out of order: clocks of matching engines differ. */
const WOBBLE_S = 2;
/** Returns true if the ids of two trades say that one came first and their times say that the other did. */
export function areAtOdds(a: PageRow, b: PageRow): boolean {
  const apartS = a.tradedAtS - b.tradedAtS;
  return Math.abs(apartS) > WOBBLE_S && Math.sign(apartS) !== Math.sign(a.tid - b.tid);
}

/** How far ahead of its answer a trade may be dated, seconds; the clocks behind the two may differ. */
const AHEAD_S = 60;
/** More trades ahead of the answer than this are no lie of theirs: then the clock is wrong. */
const AHEAD_ROWS_MAX = 3;

export const MISPLACED = 'its time does not lie between those of its neighbours';
export const AHEAD = 'its time lies beyond the present of the exchange';

/**
 * Finds the rows of a page whose time cannot be true.
 *
 * The order to go by is that of the reply; where a reply came shuffled, it is that of the ids. What
 * does not belong to the longest run in order is misplaced.
 *
 * @param rows as the reply has them, newest first if it is well
 * @param latestS the latest time that the reply may speak of, UNIX seconds
 * @returns by index, why the row is refused; `isShuffled` when the order of the reply shows nothing
 */
export function screenPage(
  rows: readonly PageRow[],
  latestS: number,
): { readonly refused: ReadonlyMap<number, string>; readonly isShuffled: boolean } {
  const refused = new Map<number, string>();
  const ahead = rows.flatMap((row, at) => (row.tradedAtS > latestS + AHEAD_S ? [at] : []));
  if (ahead.length <= Math.min(AHEAD_ROWS_MAX, rows.length - ahead.length)) {
    for (const at of ahead) refused.set(at, AHEAD);
  }
  const places = [...rows.keys()].filter((at) => !refused.has(at));
  const byReply = misplaced(rows, places);
  if (byReply.length === 0) return { refused, isShuffled: false };
  const byId = misplaced(
    rows,
    places.toSorted((a, b) => (rows[b]?.tid ?? 0) - (rows[a]?.tid ?? 0)),
  );
  const isShuffled = byId.length < byReply.length;
  for (const at of isShuffled ? byId : byReply) refused.set(at, MISPLACED);
  return { refused, isShuffled };
}

/** Returns the rows, newest first, whose time does not run along with it. */
function misplaced(rows: readonly PageRow[], order: readonly number[]): number[] {
  const secondOf = (at: number | undefined) => rows[at ?? -1]?.tradedAtS ?? 0;
  const isInOrder = order.every(
    (at, place) => place === 0 || secondOf(at) <= secondOf(order[place - 1]),
  );
  if (isInOrder) return [];
  const kept = longestRun(order.toReversed().map(secondOf));
  const away: number[] = [];
  let olderS = Number.NEGATIVE_INFINITY;
  for (const [place, at] of order.toReversed().entries()) {
    const second = secondOf(at);
    if (kept.has(place)) {
      olderS = second;
      continue;
    }
    let next = place + 1;
    while (next < order.length && !kept.has(next)) next += 1;
    const newerS = next < order.length ? secondOf(order[order.length - 1 - next]) : Infinity;
    if (second < olderS - WOBBLE_S || second > newerS + WOBBLE_S) away.push(at);
  }
  return away;
}

/** The indexes of a longest run that never falls; of several, the one that is complete first. */
function longestRun(values: readonly number[]): Set<number> {
  const lastOf: number[] = [];
  const before: (number | undefined)[] = [];
  let end: number | undefined;
  for (const [at, value] of values.entries()) {
    const low = firstNot(lastOf.length, (place) => (values[lastOf[place] ?? 0] ?? 0) <= value);
    if (low === lastOf.length) end = at;
    lastOf[low] = at;
    before[at] = lastOf[low - 1];
  }
  const run = new Set<number>();
  for (let at = end; at !== undefined; at = before[at]) run.add(at);
  return run;
}

/** Trades that must be seen on each side of a seam: fewer may be rows with a wrong id. */
export const SEAM_ROWS_MIN = 3;
/** Trades below a seam that are looked at; some of its second may be new ones. */
const SEAM_ROWS = 9;

/** Start of a new epoch of ids. */
export interface Seam<T extends PageRow = PageRow> {
  /** The first trade of the new epoch that was seen. */
  readonly first: T;
  /** The last one before it. */
  readonly last: T;
}

/**
 * Finds the places of a page where the exchange began its ids anew: all ids above are lower than
 * most of those below. A row with a wrong id is not that: ids go on behind it where they were.
 *
 * @param rows ordered by {@link orderPage}
 */
export function seamsOf<T extends PageRow>(rows: readonly T[]): Seam<T>[] {
  const seams: Seam<T>[] = [];
  for (const [at, last] of rows.entries()) {
    const first = rows[at - 1];
    if (first === undefined || first.tid > last.tid) continue;
    const above = rows.slice(Math.max(0, at - SEAM_ROWS_MIN), at);
    const below = rows.slice(at, at + SEAM_ROWS).map(({ tid }) => tid);
    if (above.length < SEAM_ROWS_MIN || below.length < SEAM_ROWS_MIN) continue;
    const middle = below.sort((a, b) => a - b)[below.length >> 1] ?? 0;
    if (above.every(({ tid }) => tid < middle)) seams.push({ first, last });
  }
  return seams;
}
