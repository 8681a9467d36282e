import { SECOND_MS } from '../../kernel/durations.js';
import { spanContains } from '../../kernel/span.js';
import { FEW } from '../../model/agreement.js';
import type { Gap } from '../../model/gaps.js';
import { comparePlaces, orderPage, placeKey } from '../../model/order.js';
import { locate, seek } from '../../model/page.js';
import { coveredSpan, deeperSpan } from '../../model/proof.js';
import { PRIORITY } from '../ports.js';
import { type ChainCursor, seenDepth } from './chains.js';
import { endOfHistory, endShownBy, isTheEnd } from './end.js';
import { exposeLacked, noteLacked, storedWithin } from './exposure.js';
import type { Head } from './head.js';
import { sureRows } from './known.js';
import { PAGE_MAX } from './pace.js';
import type { SourceTrade, TradePage } from './source.js';
import { LOCATE_REQUESTS_MAX, type Walk } from './walk.js';

const CONTRADICTED = 'its pages contradict what they held before';
/** How far below the newest row under a gap its pages should reach, and requests spent on that. */
const SEEN_ONCE_S = 3;
const LOOKS_BELOW_MAX = 6;

/**
 * Goes one page deeper into a gap.
 *
 * Below a chain of known trades the page must contain its lowest one: that overlap is the evidence that nothing lies
 * between. Without a chain the page that holds the upper edge is sought, without walking what lies between, and
 * stored as a covered range of its own.
 *
 * @param chain undefined: no trade above the gap is known
 * @throws WalkStalledError when the place is not found within a bounded number of requests, where the next step goes
 * on, or the answers contradict each other
 */
export async function goInto(
  walk: Walk,
  head: Head,
  gap: Gap,
  chain: ChainCursor | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { options, pages, book, traits } = walk;
  const { edgeMs } = gap;
  let search = await walk.searchFor(edgeMs, chain && chain.depth - 1);
  let why = '';
  let headsSeen = 0;
  let asked = PAGE_MAX;
  for (let request = 1; request <= LOCATE_REQUESTS_MAX; request += 1) {
    const { skip } = search;
    const page = await walk.fetchForStep(skip, asked, signal);
    const all = orderPage(page.trades);
    const sure = sureRows(page, all);
    // Where nothing is sure, even that shows the way.
    const rows = chain === undefined && sure.length > 0 ? sure : all;
    if (walk.looksLikeIdMode(skip, rows)) headsSeen += 1;
    const { largestPage } = traits;
    const end = endShownBy(walk, search, page);
    const seen = { rows, search, asked, received: page.rowCount, largestPage, end };
    const location =
      chain === undefined
        ? seek({ ...seen, edgeMs, shown: all.length })
        : locate({ ...seen, target: chain });
    switch (location.kind) {
      case 'again':
        ({ search, why } = location);
        await pages.commit(page);
        continue;
      case 'broken':
        await pages.commit(page);
        if (headsSeen === request) options.offsets.invalidate(options.source.endpoint);
        throw walk.stalled(location.detail);
      case 'head':
        if (page.rowCount === 0 && !walk.hasTrades)
          await meetNothing(walk, head, gap, page, signal);
        else await head.store(page, PAGE_MAX);
        return walk.stepped(request);
      case 'beyondHistory':
        await pages.commit(page);
        walk.stepped(request);
        if (!(await isTheEnd(walk, chain ?? { edgeMs, tid: 0 }, search, page, signal))) return;
        walk.chains.delete(edgeMs);
        return book.beyondHistory(gap);
      case 'endOfHistory':
      case 'unreadableEnd':
        walk.stepped(request);
        if (chain === undefined) return;
        if (
          location.kind === 'unreadableEnd' ||
          (await isTheEnd(walk, chain, search, page, signal))
        )
          await endOfHistory(walk, gap, chain, page);
        return;
      case 'found': {
        const isShown =
          chain === undefined ? sure.length > 0 : sure.some((row) => comparePlaces(row, chain) < 0);
        if (isShown) {
          walk.stepped(request);
          return goOn(walk, gap, chain, page, sure, skip, signal);
        }
        // Below it lies but one row, which a second answer must show as well.
        why = 'one row is shown below it, and not twice the same';
        asked = asked === PAGE_MAX ? PAGE_MAX - 1 : PAGE_MAX;
      }
    }
  }
  // The next try goes on from here: an estimate that is far off must not stop it for good.
  walk.putAside(edgeMs, search);
  if (headsSeen === LOCATE_REQUESTS_MAX) options.offsets.invalidate(options.source.endpoint);
  throw walk.stalled(`${LOCATE_REQUESTS_MAX} requests in a row did not find the place (${why})`);
}

/** The exchange shows no trade of a market of which none is known: the gap is settled once another answer agrees. */
async function meetNothing(
  walk: Walk,
  head: Head,
  gap: Gap,
  page: TradePage,
  signal: AbortSignal,
): Promise<void> {
  const { pages, book, ends } = walk;
  await pages.commit(page);
  await head.poll(signal);
  if (walk.hasTrades) book.putOff(gap.edgeMs);
  else if (ends.isAgain(gap.edgeMs, 0)) await book.beyondHistory(gap);
  else book.awaitSign(gap.edgeMs);
}

/**
 * Stores a page that connects to the chain above it, or that was sought, and leaves the end of a chain below its
 * claim, unless that touches what is covered there.
 */
async function goOn(
  walk: Walk,
  gap: Gap,
  chain: ChainCursor | undefined,
  page: TradePage,
  rows: readonly SourceTrade[],
  skip: number,
  signal: AbortSignal,
): Promise<void> {
  const { pages, chains, book, options } = walk;
  const claim = chain === undefined ? coveredSpan(rows) : deeperSpan(rows, gap.edgeMs);
  if (chain !== undefined) {
    const isNews = await compareStored(walk, gap, page, skip, signal);
    if (claim.fromMs <= gap.fromMs) await lookBelow(walk, gap, { rows, skip, isNews }, signal);
  }
  const { ranges, suspectEdgesMs } = await pages.commit(page, claim, {
    ...{ endpoint: options.source.endpoint, skip, received: page.rowCount },
    ...(chain === undefined ? { sought: true } : { overlapTid: chain.tid }),
  });
  await pages.noteSeams(rows);
  if (chain !== undefined) await book.passed(gap);
  for (const edgeMs of suspectEdgesMs) book.refused(edgeMs);
  chains.delete(gap.edgeMs);
  const oldest = rows.at(-1);
  const isMerged = ranges.some((range) => range.span.fromMs < claim.fromMs);
  if (oldest === undefined || isMerged) return;
  const seen = seenDepth(skip + rows.length, page);
  const below = await walk.endChain(claim, page, oldest, seen);
  chains.set(below.edgeMs, below);
}

/**
 * Looks once more at the newest rows below a gap: one answer alone has shown them, the last one before
 * it, and that one may have been old. The rows that are looked at reach well below the newest one there,
 * and down to a page that shows nothing new.
 *
 * @param last the page that closes the gap
 */
async function lookBelow(
  walk: Walk,
  gap: Gap,
  last: { rows: readonly SourceTrade[]; skip: number; isNews: boolean },
  signal: AbortSignal,
): Promise<void> {
  let { rows, skip, isNews } = last;
  let newestBelowS: number | undefined;
  for (let request = 0; request < LOOKS_BELOW_MAX; request += 1) {
    const oldestS = rows.at(-1)?.tradedAtS ?? Number.NEGATIVE_INFINITY;
    newestBelowS ??= rows.find(({ tradedAtS }) => tradedAtS * SECOND_MS < gap.fromMs)?.tradedAtS;
    const isReached = newestBelowS !== undefined && oldestS < newestBelowS - SEEN_ONCE_S;
    if (isReached && !isNews) return;
    skip += Math.max(1, Math.floor(rows.length / 2));
    const below = await walk.fetchForStep(skip, PAGE_MAX, signal);
    isNews = await compareStored(walk, gap, below, skip, signal);
    await walk.pages.commit(below);
    rows = sureRows(below);
    // There is nothing older.
    if ((rows.at(-1)?.tradedAtS ?? oldestS) >= oldestS) return;
  }
}

/**
 * Holds a page against what is stored. What an earlier run stored between its rows, and it does not hold,
 * never was: where that run ended before its next look, only this shows it. A second answer must agree, and of more
 * than a few rows later ones too.
 *
 * @returns whether the page shows trades of the time covered right below the gap that are not stored
 * @throws WalkStalledError when the two contradict each other
 */
async function compareStored(
  walk: Walk,
  gap: Gap,
  page: TradePage,
  skip: number,
  signal: AbortSignal,
): Promise<boolean> {
  // Below all that is known nothing was stored but pages of this very walk.
  if (gap.fromMs === -Infinity) return false;
  const all = orderPage(page.trades);
  const rows = sureRows(page, all);
  const { stored, strangers, span } = await storedWithin(walk, page, all, rows);
  const known = new Set(stored.map(placeKey));
  const below = walk.pages.ranges.all.find((range) => range.span.toMs === gap.fromMs);
  const covered = {
    fromMs: Math.max(span.fromMs, below?.span.fromMs ?? gap.fromMs),
    toMs: Math.min(span.toMs, gap.fromMs),
  };
  const isNews = rows.some(
    (row) => spanContains(covered, row.tradedAtS * SECOND_MS) && !known.has(placeKey(row)),
  );
  if (strangers.length === 0) return isNews;
  noteLacked(walk, strangers, all);
  const again = await walk.fetchForStep(skip, PAGE_MAX - 1, signal);
  const shown = new Set(again.trades.map(placeKey));
  const lowest = orderPage(again.trades).at(-1);
  // A shorter page that does not reach some says nothing of them.
  const reached = strangers.filter(
    (row) => lowest !== undefined && comparePlaces(row, lowest) >= 0,
  );
  noteLacked(walk, reached, again.trades);
  if (strangers.some((row) => shown.has(placeKey(row)))) throw walk.stalled(CONTRADICTED);
  const how = { rows, skip, isDeep: true, isLater: true, toMs: -Infinity };
  const options = { priority: PRIORITY.head, signal };
  const exposed = await exposeLacked(walk, reached.toReversed(), how, options);
  // A few may be trades that this endpoint leaves out, and the other one shows.
  if (reached.length - exposed.length > FEW) throw walk.stalled(CONTRADICTED);
  return isNews || exposed.length > 0;
}
