import { SECOND_MS } from '../../kernel/durations.js';
import type { Gap } from '../../model/gaps.js';
import { comparePlaces, orderPage } from '../../model/order.js';
import { type EndShown, endShown, lookAbove, type Search } from '../../model/search.js';
import { PRIORITY } from '../ports.js';
import type { ChainCursor } from './chains.js';
import { endsUnread, type TradePage } from './source.js';
import { OTHER_PAGE, type Walk } from './walk.js';

/** Looks right below what seems to be the lowest row, of which one must come before newer rows push that down. */
const LOOKS_BELOW_END = 4;

/** Rows that both answers hold which are to show the end of history. */
const roomAtEnd = ({ traits }: Walk): number => Math.min(OTHER_PAGE, traits.largestPage);

/** Returns what a page of a search says of the end of history: see `endShown` of searches. */
export function endShownBy(walk: Walk, search: Search, page: TradePage): EndShown {
  const oldest = orderPage(page.trades).at(-1);
  if (oldest === undefined || endsUnread(page)) return undefined;
  return endShown(search, { oldest, rows: page.rowCount, room: roomAtEnd(walk) });
}

/**
 * Weighs an answer that says that history ends. It is believed when pages of another size say the
 * same, and when all of that was so before, at least a second ago, below the same trade. Until then
 * the gap is put off.
 *
 * @param place the edge that was walked, and the trade right above it; 0 where none is known
 * @param first that answer: empty, or with the end of history in it
 */
export async function isTheEnd(
  walk: Walk,
  place: { readonly edgeMs: number; readonly tid: number },
  search: Search,
  first: TradePage,
  signal: AbortSignal,
): Promise<boolean> {
  const { ends, book } = walk;
  const { edgeMs, tid } = place;
  const { lowest } = search;
  const isSame =
    first.rowCount === 0
      ? await isEmptyAgain(walk, search, signal)
      : await endsAgain(walk, search, first, signal);
  if (isSame) {
    if (lowest !== undefined) ends.seenBelow(lowest);
    if (ends.isAgain(edgeMs, tid)) return true;
    book.awaitSign(edgeMs);
  } else {
    ends.forget(edgeMs);
    book.putOff(edgeMs);
  }
  return false;
}

/** Returns whether nothing comes from right below the lowest row once more, but what was pushed down meanwhile. */
async function isEmptyAgain(walk: Walk, search: Search, signal: AbortSignal): Promise<boolean> {
  const second = await fetchAndKeep(walk, search.skip, signal);
  if (second.rowCount === 0) return true;
  // What was pushed down meanwhile, if it ends at the lowest row: is that the end?
  const pushed = { ...search, unseen: 0 };
  return (
    endShownBy(walk, pushed, second) !== undefined &&
    (await endsAgain(walk, pushed, second, signal))
  );
}

/**
 * Returns whether a second page ends where the first one did, and nothing older comes from below: a server may end
 * its pages at a place of its own, as where it keeps older rows apart.
 */
async function endsAgain(
  walk: Walk,
  search: Search,
  first: TradePage,
  signal: AbortSignal,
): Promise<boolean> {
  const { lowest } = search;
  const firstEnd = search.skip + first.rowCount;
  const { skip } = lookAbove(search, firstEnd, roomAtEnd(walk));
  const second = await fetchAndKeep(walk, skip, signal);
  if (lowest === undefined || endShownBy(walk, search, second) === undefined) return false;
  let end = skip + second.rowCount;
  let fewest = Math.max(1, end - firstEnd);
  for (let look = 0, guess = 1; look < LOOKS_BELOW_END; look += 1, guess = fewest) {
    // Too far below, and the rows that it is to find may be passed over: as far as the fewest that came until a look.
    const from = end + guess;
    const below = await fetchAndKeep(walk, from, signal);
    const oldest = orderPage(below.trades).at(-1);
    if (oldest === undefined) return below.rowCount === 0;
    if (endsUnread(below) || comparePlaces(oldest, lowest) < 0) return false;
    // More came: it begins above the lowest row and ends there once more, which says nothing of what lies below.
    const came = from + below.rowCount - end;
    fewest = Math.min(fewest, came);
    end += came;
  }
  return false;
}

async function fetchAndKeep(walk: Walk, skip: number, signal: AbortSignal): Promise<TradePage> {
  const page = await walk.fetchForStep(skip, OTHER_PAGE, signal);
  await walk.pages.commit(page);
  return page;
}

/**
 * Meets a page of id mode that is shorter than others: it ends where history does, or was cut on its way. As below a
 * chain in skip mode, it takes another page that agrees, and both once more.
 */
export async function meetEnd(
  walk: Walk,
  page: TradePage,
  gaps: readonly Gap[],
  signal: AbortSignal,
): Promise<void> {
  const { book, ends } = walk;
  const size = Math.max(OTHER_PAGE, page.rowCount + 1);
  const second = await walk.fetch(0, size, { priority: PRIORITY.head, signal });
  const oldest = orderPage(page.trades).at(-1);
  const again = orderPage(second.trades).at(-1);
  const isAgreed =
    oldest !== undefined && again !== undefined && comparePlaces(again, oldest) === 0;
  if (isAgreed) ends.seenBelow(oldest);
  await walk.pages.commit(second);
  for (const gap of gaps) {
    const chain = await walk.cursorAt(gap.edgeMs);
    const isLowest = isAgreed && chain !== undefined && comparePlaces(chain, oldest) === 0;
    if (isLowest && ends.isAgain(gap.edgeMs, oldest.tid)) {
      await endOfHistory(walk, gap, chain, page);
    } else if (isAgreed && ends.below(gap.edgeMs, chain) === 'proven') {
      await book.beyondHistory(gap);
    } else if (isLowest) book.awaitSign(gap.edgeMs);
    else book.putOff(gap.edgeMs);
  }
}

/**
 * The server has nothing older than the chain: the proven start of what it still serves. Coverage
 * begins with the next whole second, because a server that keeps so many trades may have dropped a
 * part of the oldest one's second. The rows of that second are stored, but neither covered nor
 * expected.
 */
export async function endOfHistory(
  walk: Walk,
  gap: Gap,
  chain: ChainCursor,
  page: TradePage,
): Promise<void> {
  const { pages, chains, book, options } = walk;
  // Above a covered edge there is nothing to be proven; one that is not may lie within that second.
  const isEdgeCovered = walk.isCovered(gap.edgeMs);
  const startMs = isEdgeCovered ? Math.min(chain.wholeFromMs, gap.edgeMs) : chain.wholeFromMs;
  const below = pages.ranges.all.filter((range) => range.span.fromMs < gap.edgeMs);
  // Where the market was seen empty until just before, that trade is its first one, and its second is
  // whole. After a longer absence the exchange may as well have forgotten what came before.
  const empty = walk.empty.span;
  const isFirst = empty !== undefined && empty.toMs <= startMs;
  // Below a list that was cut there are more of them. And trades that were seen need not be covered:
  // all of them may lie in one second, also those that an earlier run saw.
  const hasForgotten =
    pages.ranges.isCut ||
    (pages.lowest !== undefined && comparePlaces(pages.lowest, chain) < 0) ||
    ((isFirst || below.length > 0) &&
      (await options.archive.hasTradeBefore(options.marketId, chain.tradedAtS * SECOND_MS)));
  const refusedFromMs = below[0]?.span.toMs ?? startMs - SECOND_MS;
  chains.delete(gap.edgeMs);
  if (endsUnread(page)) {
    await pages.commit(page);
    await pages.recordRefused({ fromMs: refusedFromMs, toMs: gap.edgeMs });
    book.refused(gap.edgeMs);
    return;
  }
  if (hasForgotten) {
    await pages.commit(page);
    await book.beyondHistory(gap);
    return;
  }
  const fromMs = isFirst ? empty.fromMs : startMs;
  const span = { fromMs: Math.min(fromMs, gap.edgeMs), toMs: gap.edgeMs };
  const evidence = { endpoint: options.source.endpoint, endOfHistory: true };
  walk.startFoundAt(fromMs);
  const { suspectEdgesMs } = await pages.commit(page, span, evidence);
  for (const edgeMs of suspectEdgesMs) book.refused(edgeMs);
  // What is expected of the time before that cannot be had.
  for (const rest of walk.gaps()) {
    if (rest.edgeMs <= fromMs) await book.beyondHistory(rest);
  }
}
