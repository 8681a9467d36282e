import { SECOND_MS } from '../../kernel/durations.js';
import { spanContains } from '../../kernel/span.js';
import type { Hole } from '../../model/holes.js';
import { comparePlaces, orderPage, placeKey } from '../../model/order.js';
import { locate } from '../../model/page.js';
import { deeperSpan } from '../../model/proof.js';
import { type ChainCursor, NOTHING, seenDepth } from './frontier.js';
import { isUnread } from './known.js';
import { sureRows } from './page-ends.js';
import type { SourceTrade, TradePage } from './source.js';
import { LOCATE_REQUESTS_MAX, PAGE_MAX, type Walk } from './walk.js';

/** Stored rows that a page is held against, and how many of them it may expose. */
const STORED_MAX = 2 * PAGE_MAX;
const STRANGERS_MAX = 5;
/** How far below the newest row under a hole its pages should reach, and requests spent on that. */
const SEEN_ONCE_S = 3;
const LOOKS_BELOW_MAX = 6;

/**
 * Goes one page deeper below a chain of known trades. The page must contain the chain's lowest
 * trade: that overlap is the evidence that nothing lies between.
 *
 * @throws WalkStalledError when the place is not found, or the answers contradict each other
 */
export async function deepen(
  walk: Walk,
  hole: Hole,
  chain: ChainCursor,
  signal: AbortSignal,
): Promise<void> {
  const { traits, since, source } = walk.options;
  let search = walk.searchFor(hole.edgeMs, chain.depth - 1);
  let isProbe = false;
  let why = '';
  let headsSeen = 0;
  let lowest: SourceTrade | undefined;
  let size = PAGE_MAX;
  for (let request = 1; request <= LOCATE_REQUESTS_MAX; request += 1) {
    const { skip } = search;
    const page = await walk.fetchForStep(skip, size, signal);
    const rows = orderPage(page.trades);
    if (walk.looksLikeIdMode(skip, rows)) headsSeen += 1;
    lowest = rows.at(-1) ?? lowest;
    const location = locate({
      rows,
      target: chain,
      search,
      asked: size,
      received: page.rowCount,
      largestPage: traits.largestPage,
      isProbe,
    });
    switch (location.kind) {
      case 'again':
        ({ search, isProbe, why } = location);
        await walk.pages.commit(page, NOTHING, {});
        continue;
      case 'broken':
        await walk.pages.commit(page, NOTHING, {});
        if (headsSeen === request) since.invalidate(source.endpoint);
        throw walk.stalled(location.detail);
      case 'beyondHistory':
        await walk.pages.commit(page, NOTHING, {});
        walk.stepped(request, false);
        if (await walk.isTheEnd({ edgeMs: chain.edgeMs, above: chain, lowest }, skip, signal)) {
          walk.chains.delete(hole.edgeMs);
          await walk.book.beyondHistory(hole);
        }
        return;
      case 'endOfHistory':
        walk.stepped(request, false);
        if (await walk.isTheEnd({ edgeMs: chain.edgeMs, above: chain, lowest }, skip, signal)) {
          await endOfHistory(walk, hole, chain, page);
        }
        return;
      case 'unreadableEnd':
        walk.stepped(request, false);
        return endOfHistory(walk, hole, chain, page);
      case 'found': {
        const sure = sureRows(page, rows);
        if (!sure.some((row) => comparePlaces(row, chain) < 0)) {
          // Below it lies but one row, which a second answer must show as well.
          why = 'one row is shown below it, and not twice the same';
          size = size === PAGE_MAX ? PAGE_MAX - 1 : PAGE_MAX;
          continue;
        }
        walk.stepped(request, false);
        walk.foundAt(chain, skip + location.olderFrom, page);
        return goOn(walk, hole, chain, page, sure, skip, signal);
      }
    }
  }
  // The next try goes on from here: an estimate that is far off must not stop it for good.
  walk.putAside(hole.edgeMs, search);
  if (headsSeen === LOCATE_REQUESTS_MAX) since.invalidate(source.endpoint);
  throw walk.stalled(`${LOCATE_REQUESTS_MAX} requests in a row did not find the place (${why})`);
}

/** Stores a page that connects to the chain above it, and moves the chain's end down. */
async function goOn(
  walk: Walk,
  hole: Hole,
  chain: ChainCursor,
  page: TradePage,
  rows: readonly SourceTrade[],
  skip: number,
  signal: AbortSignal,
): Promise<void> {
  const oldest = rows.at(-1);
  if (oldest === undefined) return;
  const { pages, chains, book, options } = walk;
  const claim = deeperSpan(rows, hole.edgeMs);
  const isNews = await compareStored(walk, hole, page, skip, signal);
  if (claim.fromMs <= hole.fromMs) await lookBelow(walk, hole, { rows, skip, isNews }, signal);
  const { ranges, suspectEdgesMs } = await pages.commit(page, claim, {
    endpoint: options.source.endpoint,
    skip,
    received: page.rowCount,
    overlapTid: chain.tid,
  });
  await walk.epochs.look(rows);
  await book.passed(hole);
  for (const edgeMs of suspectEdgesMs) book.refused(edgeMs);
  chains.delete(hole.edgeMs);
  const isMerged = ranges.some((range) => range.span.fromMs < claim.fromMs);
  const seen = seenDepth(skip + rows.length, page);
  if (!isMerged) chains.set(await walk.endChain(claim, page, oldest, seen));
}

/**
 * Looks once more at the newest rows below a hole: one answer alone has shown them, the last one before
 * it, and that one may have been old. The rows that are looked at reach well below the newest one there,
 * and down to a page that shows nothing new.
 *
 * @param last the page that closes the hole
 */
async function lookBelow(
  walk: Walk,
  hole: Hole,
  last: { rows: readonly SourceTrade[]; skip: number; isNews: boolean },
  signal: AbortSignal,
): Promise<void> {
  let { rows, skip, isNews } = last;
  let newestBelowS: number | undefined;
  for (let request = 0; request < LOOKS_BELOW_MAX; request += 1) {
    const oldestS = rows.at(-1)?.tradedAtS ?? Number.NEGATIVE_INFINITY;
    newestBelowS ??= rows.find(({ tradedAtS }) => tradedAtS * SECOND_MS < hole.fromMs)?.tradedAtS;
    const isReached = newestBelowS !== undefined && oldestS < newestBelowS - SEEN_ONCE_S;
    if (isReached && !isNews) return;
    skip += Math.max(1, Math.floor(rows.length / 2));
    const below = await walk.fetchForStep(skip, PAGE_MAX, signal);
    isNews = await compareStored(walk, hole, below, skip, signal);
    await walk.pages.commit(below, NOTHING, {});
    rows = sureRows(below, orderPage(below.trades));
    // There is nothing older.
    if ((rows.at(-1)?.tradedAtS ?? oldestS) >= oldestS) return;
  }
}

/**
 * Holds a page against what is stored. What an earlier run stored between its rows, and it does not hold,
 * never was: where that run ended before its next look, only this shows it. A second answer must agree.
 *
 * @returns whether the page shows trades of the time covered right below the hole that are not stored
 * @throws WalkStalledError when the two contradict each other
 */
async function compareStored(
  walk: Walk,
  hole: Hole,
  page: TradePage,
  skip: number,
  signal: AbortSignal,
): Promise<boolean> {
  const all = orderPage(page.trades);
  const rows = sureRows(page, all);
  const [newest, oldest] = [rows[0], rows.at(-1)];
  // Below all that is known nothing was stored but pages of this very walk.
  if (newest === undefined || oldest === undefined || hole.fromMs === -Infinity) {
    return false;
  }
  const { archive, marketId } = walk.options;
  const fromMs = (oldest.tradedAtS + 1) * SECOND_MS;
  const span = { fromMs, toMs: newest.tradedAtS * SECOND_MS };
  if (span.fromMs >= span.toMs) return false;
  const stored = await archive.storedTrades(marketId, span, STORED_MAX);
  const held = new Set(all.map(placeKey));
  const strangers = stored.filter((row) => !held.has(placeKey(row)) && !isUnread(page, row));
  const known = new Set(stored.map(placeKey));
  const below = walk.pages.ranges.all.find((range) => range.span.toMs === hole.fromMs);
  const covered = {
    fromMs: Math.max(span.fromMs, below?.span.fromMs ?? hole.fromMs),
    toMs: Math.min(span.toMs, hole.fromMs),
  };
  const isNews = rows.some(
    (row) => spanContains(covered, row.tradedAtS * SECOND_MS) && !known.has(placeKey(row)),
  );
  if (strangers.length === 0) return isNews;
  const again = await walk.fetchForStep(skip, PAGE_MAX - 1, signal);
  const other = new Set(again.trades.map(placeKey));
  const lowest = orderPage(again.trades).at(-1);
  const isShown = strangers.some((row) => other.has(placeKey(row)));
  const isBelow = strangers.some((row) => lowest === undefined || comparePlaces(row, lowest) < 0);
  const isFew = strangers.length <= STRANGERS_MAX;
  if (isShown || !isFew) throw walk.stalled('its pages contradict what they held before');
  // A shorter page that does not reach them says nothing of them.
  if (isBelow) return isNews;
  const [first, last] = [strangers[0], strangers.at(-1)];
  if (first === undefined || last === undefined) return isNews;
  const lower = rows.find((row) => comparePlaces(row, first) < 0) ?? first;
  const above = rows.findLast((row) => comparePlaces(row, last) > 0) ?? last;
  await walk.expose(strangers, {
    fromMs: lower.tradedAtS * SECOND_MS,
    toMs: (above.tradedAtS + 1) * SECOND_MS,
  });
  return isNews;
}

/**
 * The server has nothing older than the chain: the proven start of what it still serves. Coverage
 * begins with the next whole second, because a server that keeps so many trades may have dropped a
 * part of the oldest one's second. The rows of that second are stored, but neither covered nor
 * expected.
 */
export async function endOfHistory(
  walk: Walk,
  hole: Hole,
  chain: ChainCursor,
  page: TradePage,
): Promise<void> {
  const { pages, chains, book, options } = walk;
  // Above a covered edge there is nothing to be proven; one that is not may lie within that second.
  const isEdgeCovered = walk.isCovered(hole.edgeMs);
  const startMs = isEdgeCovered ? Math.min(chain.wholeFromMs, hole.edgeMs) : chain.wholeFromMs;
  const below = pages.ranges.all.filter((range) => range.span.fromMs < hole.edgeMs);
  // Below a list that was cut there are more of them. And trades that were seen need not be covered:
  // all of them may lie in one second.
  const hasForgotten =
    pages.ranges.isCut ||
    (pages.lowest !== undefined && comparePlaces(pages.lowest, chain) < 0) ||
    below.some((range) => range.firstId !== null);
  // Each refused row with a readable one below it is listed as unread; more of them lie at the very end.
  const endsUnreadable = page.rejected.length > page.unread.length;
  const refusedFromMs = below[0]?.span.toMs ?? startMs - SECOND_MS;
  chains.delete(hole.edgeMs);
  if (endsUnreadable) {
    await pages.commit(page, NOTHING, {});
    await pages.recordRefused({ fromMs: refusedFromMs, toMs: hole.edgeMs });
    book.refused(hole.edgeMs);
    return;
  }
  if (hasForgotten) {
    await pages.commit(page, NOTHING, {});
    await book.beyondHistory(hole);
    return;
  }
  // Where the market was seen empty until just before, that trade is its first one, and its second is
  // whole. After a longer absence the exchange may as well have forgotten what came before.
  const empty = walk.empty.span;
  const isFirst = empty !== undefined && empty.toMs <= startMs;
  const fromMs = isFirst ? empty.fromMs : startMs;
  const span = { fromMs: Math.min(fromMs, hole.edgeMs), toMs: hole.edgeMs };
  const evidence = { endpoint: options.source.endpoint, endOfHistory: true };
  const { suspectEdgesMs } = await pages.commit(page, span, evidence);
  for (const edgeMs of suspectEdgesMs) book.refused(edgeMs);
  await walk.startFoundAt(fromMs);
  // What is expected of the time before that cannot be had.
  for (const rest of walk.holes()) {
    if (rest.edgeMs <= fromMs) await book.beyondHistory(rest);
  }
}
