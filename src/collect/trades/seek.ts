import { SECOND_MS } from '../../kernel/durations.js';
import type { Hole } from '../../model/holes.js';
import { orderPage } from '../../model/order.js';
import { coveredSpan } from '../../model/proof.js';
import { goDeeper, goShallower, isPastTheEnd } from '../../model/search.js';
import { NOTHING, seenDepth } from './frontier.js';
import type { Head } from './head.js';
import { sureRows } from './page-ends.js';
import type { SourceTrade } from './source.js';
import { LOCATE_REQUESTS_MAX, PAGE_MAX, type Walk } from './walk.js';

/**
 * Finds the page that holds the upper edge of a hole with no known trade above it, without walking
 * what lies between, and stores it as a covered range of its own. From there the hole is walked
 * down like any other. Pages run in the order of time, so the way there is a search.
 *
 * @throws WalkStalledError when the place is not found within a bounded number of requests; the
 * next step goes on from there
 */
export async function seek(walk: Walk, head: Head, hole: Hole, signal: AbortSignal): Promise<void> {
  const { options, pages, book, chains } = walk;
  const { edgeMs } = hole;
  let search = walk.searchFor(edgeMs, pages.ranges.rowsAbove(edgeMs) - 1);
  let headsSeen = 0;
  let lowest: SourceTrade | undefined;
  for (let request = 1; request <= LOCATE_REQUESTS_MAX; request += 1) {
    const { skip } = search;
    const page = await walk.fetchForStep(skip, PAGE_MAX, signal);
    const all = orderPage(page.trades);
    const sure = sureRows(page, all);
    // Where nothing is sure, even that shows the way.
    const rows = sure.length > 0 ? sure : all;
    if (walk.looksLikeIdMode(skip, rows)) headsSeen += 1;
    const [newest, oldest] = [rows[0], rows.at(-1)];
    if (skip === 0 && page.rowCount === 0 && !walk.hasTrades) {
      await pages.commit(page, NOTHING, {});
      await head.poll(signal);
      walk.stepped(request, false);
      if (walk.hasTrades) return;
      if (walk.ends.isAgain(edgeMs, 0)) await book.beyondHistory(hole);
      else book.putOff(edgeMs);
      return;
    }
    if (skip === 0 && (newest === undefined || newest.tradedAtS * SECOND_MS < edgeMs)) {
      // Nothing is newer than the edge: this is the head, and it proves more than a covered range does.
      await head.store(page, PAGE_MAX);
      walk.stepped(request, false);
      return;
    }
    if (newest === undefined || oldest === undefined) {
      await pages.commit(page, NOTHING, {});
      if (page.rowCount === 0 && isPastTheEnd(search)) {
        walk.stepped(request, false);
        const place = { edgeMs, above: undefined, lowest };
        if (await walk.isTheEnd(place, skip, signal)) await book.beyondHistory(hole);
        return;
      }
      const pageRows = Math.max(1, options.traits.largestPage);
      search = goShallower(search, pageRows, page.rowCount === 0);
    } else if (oldest.tradedAtS * SECOND_MS >= edgeMs) {
      lowest = oldest;
      await pages.commit(page, NOTHING, {});
      search = goDeeper(search, rows.length);
    } else if (newest.tradedAtS * SECOND_MS < edgeMs) {
      await pages.commit(page, NOTHING, {});
      search = goShallower(search, Math.max(rows.length, options.traits.largestPage));
    } else {
      if (rows !== sure) continue;
      const claim = coveredSpan(rows);
      const { ranges, suspectEdgesMs } = await pages.commit(page, claim, {
        endpoint: options.source.endpoint,
        skip,
        received: page.rowCount,
        sought: true,
      });
      await walk.epochs.look(rows);
      for (const suspectMs of suspectEdgesMs) book.refused(suspectMs);
      const isMerged = ranges.some((range) => range.span.fromMs < claim.fromMs);
      const seen = seenDepth(skip + rows.length, page);
      if (!isMerged) chains.set(await walk.endChain(claim, page, oldest, seen));
      walk.stepped(request, false);
      return;
    }
  }
  walk.putAside(edgeMs, search);
  if (headsSeen === LOCATE_REQUESTS_MAX) options.since.invalidate(options.source.endpoint);
  throw walk.stalled(`${LOCATE_REQUESTS_MAX} requests in a row did not find the time asked for`);
}
