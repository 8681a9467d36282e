import type { CallOptions, RequestTurn } from '../../client/index.js';
import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { CoveredRange } from '../../model/batch.js';
import {
  comparePlaces,
  orderPage,
  type PageRow,
  placeKey,
  SEAM_ROWS_MIN,
} from '../../model/order.js';
import { headSpan, latestMs, provenUntilMs } from '../../model/proof.js';
import { PRIORITY } from '../ports.js';
import { exposeLacked, exposeShown, noteLacked, storedWithin } from './exposure.js';
import { sureRows } from './known.js';
import { PAGE_MAX, Pace, pageSize } from './pace.js';
import { type SourceTrade, type TradePage, timeMsOf } from './source.js';
import { OTHER_PAGE, type Walk } from './walk.js';

/** What one look at the newest trades brought. */
export interface HeadLook {
  /** Trades that this walk saw for the first time. */
  readonly newRows: number;
  /** Their times, exchange milliseconds, as exact as the endpoint gives them; newest first. */
  readonly newTimesMs: readonly number[];
  /** Rows asked for, and those that came. */
  readonly asked: number;
  readonly received: number;
  /** Whether the look reached what was stored before; false for the very first one. */
  readonly isConnected: boolean;
  /** The other endpoint is to be asked: rows lack their exact time, or it shows newer ones. */
  readonly isOpen: boolean;
}

/** What was stored of a page. */
interface Stored {
  /** Newest first. */
  readonly rows: readonly SourceTrade[];
  /** It reached what was stored before, or an end of a chain. */
  readonly isConnected: boolean;
  /** It touches coverage below itself. */
  readonly isMerged: boolean;
  readonly isOpen: boolean;
}

/** In id mode a page that is too short can be made up for once: the longest must still reach down. */
const PAGE_MIN_ID = 50;
/** A page that did not reach what is known is made up for by one so many times as long. */
const LONGER = 4;
/**
 * A page that contradicts what is known is asked for again so often: in another size, past whatever
 * cached it, and in none that would not reach down to what is missing.
 */
const AGAIN_SIZES = [PAGE_MAX - 1, PAGE_MAX];
/** Stored trades that the first page of a run is held against. */
const RECALLED_MAX = 2 * PAGE_MAX;

/** Age of a cached page that goes unnoticed by other sources at most, of what one answer has claimed. */
const HIDDEN_MAX_MS = 10_000;

/** The newest page of one market's history: what is new, and how far coverage reaches in time. */
export class Head {
  readonly #walk: Walk;
  readonly #pace = new Pace();
  #isRecalled = false;
  #hasStored = false;
  #hasAskedAll = false;

  constructor(walk: Walk) {
    this.#walk = walk;
  }

  /**
   * Asks for the newest trades, as many as are expected to be new, and at once for more of them where
   * that was too few.
   *
   * @returns what it brought, and the last page
   */
  async poll(
    signal: AbortSignal,
    turn?: RequestTurn,
  ): Promise<{ look: HeadLook; page: TradePage }> {
    const { source, offsets, market } = this.#walk.options;
    const isIdMode = offsets.of(source.endpoint) === 'id';
    const canBeLonger = isIdMode || this.#hasStored;
    const room = this.#pace.room(this.#walk.options.time.nowMs());
    const limit = this.#sizeOf(isIdMode ? Math.max(PAGE_MIN_ID, 2 * room) : room);
    const options = { priority: PRIORITY.head, signal };
    const first = await this.#walk.fetch(0, limit, { ...options, ...(turn && { turn }) });
    let { page, asked } = await this.#agreed(first, limit, options);
    const known = this.#walk.newest;
    let { rows, isConnected, isOpen } = await this.store(page, asked);
    while (canBeLonger && !isConnected && asked < PAGE_MAX) {
      asked = isIdMode ? PAGE_MAX : this.#sizeOf(LONGER * asked);
      page = await this.#walk.fetch(0, asked, options);
      const longer = await this.store(page, asked);
      rows = longer.rows;
      isOpen ||= longer.isOpen;
      // The first page has left an end of a chain, which this one touches in any case.
      isConnected = longer.isMerged;
    }
    if (page.rowCount > 1) await offsets.look(source, market, signal);
    const fresh = above(rows, known);
    if (rows.length > 0) this.#notePace(page, rows, fresh.length);
    const newTimesMs = fresh.map((row) => timeMsOf(row));
    const received = page.rowCount;
    const newRows = fresh.length;
    return { look: { newRows, newTimesMs, asked, received, isConnected, isOpen }, page };
  }

  /**
   * Asks on while a page lacks trades that earlier ones showed: it may be stale, or not whole. Trades
   * that several answers in a row lack, and that are shown to be older than these, never were or are no more:
   * they go to quarantine, and what is covered around them is taken back.
   *
   * @returns the last page, and how many rows were asked for
   */
  async #agreed(
    first: TradePage,
    limit: number,
    options: CallOptions,
  ): Promise<{ page: TradePage; asked: number }> {
    let [page, asked] = [first, limit];
    let rows = sureRows(page);
    if (rows.length === 0 && page.held.length > 0) {
      // The only trade that there is has no neighbour: a second answer must show it as well.
      asked = limit === PAGE_MAX ? OTHER_PAGE : PAGE_MAX;
      page = await this.#walk.fetch(0, asked, options);
      rows = sureRows(page);
    }
    await this.#recall(rows);
    const { pages, known, shown } = this.#walk;
    known.add(shown.takeUpTo(rows[0]));
    let found = known.against(page, rows);
    for (const size of AGAIN_SIZES) {
      noteLacked(this.#walk, found.missing, rows);
      if (found.missing.length === 0) return { page, asked };
      // Its rows come again with the next page, if they are true.
      await pages.refuse(page);
      page = await this.#walk.fetch(0, size, options);
      asked = size;
      rows = sureRows(page);
      const { missing, isLater } = known.against(page, rows);
      const own = new Set(rows.map(placeKey));
      // Pages that lack different rows contradict each other, and expose none.
      if (found.missing.some((row) => own.has(placeKey(row)))) {
        noteLacked(this.#walk, missing, rows);
        return { page, asked };
      }
      found = { missing, isLater: isLater || found.isLater };
    }
    // More is stored of that time than is remembered.
    const { strangers } = await storedWithin(this.#walk, page, rows, rows);
    const all = orderPage([...found.missing, ...strangers]);
    noteLacked(this.#walk, all, rows);
    const { isLater } = found;
    const how = { rows, skip: 0, isDeep: false, isLater, toMs: Infinity };
    await exposeLacked(this.#walk, all, how, options);
    return { page, asked };
  }

  /** Once in a run: what is stored already of the time of its first page, and after it. */
  async #recall(rows: readonly SourceTrade[]): Promise<void> {
    const oldest = rows.at(-1);
    if (this.#isRecalled || oldest === undefined) return;
    const { archive, marketId } = this.#walk.options;
    const span = { fromMs: oldest.tradedAtS * SECOND_MS, toMs: Number.POSITIVE_INFINITY };
    const stored = await archive.storedTrades(marketId, span, RECALLED_MAX);
    this.#walk.known.add(this.#walk.shown.without(stored));
    this.#walk.newest = this.#walk.known.rows[0];
    this.#isRecalled = true;
  }

  /** Stores a page that was asked for with nothing skipped. */
  async store(page: TradePage, limit: number): Promise<Stored> {
    const { pages, chains, book, options } = this.#walk;
    const { source, cacheMarginMs } = options;
    const rows = sureRows(page);
    const [newest, oldest] = [rows[0], rows.at(-1)];
    const shownMs = provenUntilMs(page, cacheMarginMs);
    const untilMs =
      options.evidence?.provenUntilMs(source.endpoint, page, newest, shownMs) ?? shownMs;
    const isCurrent = untilMs === shownMs;
    if (newest === undefined || oldest === undefined) {
      await this.#empty(page, untilMs, isCurrent);
      return { rows: [], isConnected: true, isMerged: true, isOpen: !isCurrent };
    }
    await this.#recall(rows);
    const { missing } = this.#walk.known.against(page, rows);
    if (missing.length > 0) {
      // What lies between two others may be kept; no later page would show the first row.
      const [first] = page.trades;
      const held = first === undefined ? page.held : [...page.held, first];
      await pages.commit({ ...page, held });
      this.#walk.known.add(rows);
      throw this.#walk.stalled(describeMissing(missing, newest));
    }
    if (!this.#walk.hasTrades) this.#walk.empty.tradedAt(untilMs);
    const known = this.#walk.newest;
    const fresh = above(rows, known);
    const isRefuted = await this.#takeBack(rows, fresh, known);
    const unseen = this.#walk.shown.above(newest);
    // Both endpoints lack them by now.
    if (unseen.lies.length > 0) await exposeShown(this.#walk, unseen.lies);
    const ownMs = isRefuted ? [newest.tradedAtS * SECOND_MS] : [];
    const aboveMs = unseen.trades.map(({ tradedAtS }) => tradedAtS * SECOND_MS);
    const sureMs = Math.min(untilMs, ...ownMs, ...aboveMs);
    const claim = untilOdd(page, headSpan(rows, sureMs, latestMs(page)));
    // Down to where history begins the page may hold all that is covered, and touch nothing below.
    const isAllKnown = pages.ranges.all.some(
      ({ span }) => claim.fromMs <= span.fromMs && span.fromMs <= claim.toMs,
    );
    const topBefore = pages.ranges.top;
    const { ranges, suspectEdgesMs, outcomes } = await pages.commit(page, claim, {
      endpoint: source.endpoint,
      skip: 0,
      asked: limit,
      received: page.rowCount,
      dateMs: page.dateMs,
    });
    if (topBefore !== undefined) await this.#seamInGap(rows, topBefore, claim.fromMs);
    const hasNews = outcomes !== undefined && outcomes.stored > 0;
    const lacksTimes = hasNews && rows.some(({ executedAtUs }) => executedAtUs === null);
    this.#hasStored = true;
    this.#walk.newest = newest;
    this.#walk.known.add(rows);
    options.pushed?.settled(newest);
    await pages.noteSeams(rows);
    pages.remember(rows);
    for (const edgeMs of suspectEdgesMs) book.refused(edgeMs);
    const isMerged = ranges.some((range) => range.span.fromMs < claim.fromMs);
    const isConnected =
      isMerged || isAllKnown || [...chains.keys()].some((edgeMs) => claim.fromMs <= edgeMs);
    chains.push(fresh);
    if (!isMerged) {
      const chain = await this.#walk.endChain(claim, page, oldest, { depth: rows.length });
      const other = chains.get(chain.edgeMs);
      if (other === undefined || comparePlaces(other, chain) > 0) {
        chains.set(chain.edgeMs, chain);
      }
    }
    this.#walk.stepped(1, isConnected);
    return { rows, isConnected, isMerged, isOpen: !isCurrent || lacksTimes };
  }

  /**
   * Takes back the end of what is covered where this page shows that it was claimed by an old one, or
   * where no answer was held against it.
   *
   * - New trades of covered time: whatever claimed that did not know them. The page may be as old, so it
   *   proves its own rows only.
   * - A page that does not reach down to what is known: one look alone has claimed the end. Where deeper
   *   pages can be had they show what it lacked; else it is taken back down to its newest trade, at most
   *   as much as a cache may have hidden.
   * - The first trades of all, of time that was seen empty: three looks have claimed that. Nothing says
   *   since when they were hidden, so that all of it is taken back.
   *
   * @returns whether the page refutes what was claimed
   */
  async #takeBack(
    rows: readonly PageRow[],
    fresh: readonly PageRow[],
    known: PageRow | undefined,
  ): Promise<boolean> {
    const { pages, options, hasTrades } = this.#walk;
    const { top } = pages.ranges;
    const [newest] = rows;
    if (top === undefined || newest === undefined) return false;
    const { toMs } = top.span;
    const isRefuted = fresh.some(({ tradedAtS }) => tradedAtS * SECOND_MS < toMs);
    const oldestMs = (rows.at(-1)?.tradedAtS ?? 0) * SECOND_MS;
    // The pages that fill the gap below this one are held against what is covered there.
    const isWalked = oldestMs >= toMs && options.offsets.of(options.source.endpoint) === 'skip';
    let seenMs = toMs;
    if (!hasTrades) seenMs = isRefuted ? top.span.fromMs : toMs;
    else if (!isWalked && this.#hasStored) seenMs = seenUntilMs(rows, known, toMs);
    else if (!isWalked) seenMs = await this.#storedUntilMs(rows, top);
    const ownMs = isRefuted ? newest.tradedAtS * SECOND_MS : toMs;
    const fromMs = Math.max(top.span.fromMs, Math.min(seenMs, ownMs));
    if (fromMs >= toMs) return isRefuted;
    const { endpoint } = options.source;
    const note = isRefuted
      ? `${endpoint} shows trades of it that an earlier answer lacked`
      : `one answer of ${endpoint} showed it, and the next does not reach down to it`;
    this.#walk.suspect({ fromMs, toMs }, note);
    return isRefuted;
  }

  /** Second of the newest trade that an earlier run stored below the first page of this one. */
  async #storedUntilMs(rows: readonly PageRow[], { span }: CoveredRange): Promise<number> {
    const { archive, marketId } = this.#walk.options;
    const oldestMs = (rows.at(-1)?.tradedAtS ?? 0) * SECOND_MS;
    if (oldestMs <= span.toMs - HIDDEN_MAX_MS) return span.toMs;
    const [newest] = await archive.storedTrades(marketId, span, 1, 'newest');
    if (newest !== undefined && rows.some((row) => comparePlaces(row, newest) === 0)) {
      return span.toMs;
    }
    const fromMs = Math.max(span.fromMs, Math.min(span.toMs, oldestMs) - HIDDEN_MAX_MS);
    // A trade of the second after it has shown that nothing was missing.
    const toMs = Math.min(span.toMs + SECOND_MS, oldestMs);
    const stored = await archive.storedTrades(marketId, { fromMs, toMs }, RECALLED_MAX);
    return (stored.at(-1)?.tradedAtS ?? fromMs / SECOND_MS) * SECOND_MS;
  }

  /** A head whose ids all lie below those of the coverage that it does not reach. */
  async #seamInGap(
    rows: readonly PageRow[],
    { span }: CoveredRange,
    fromMs: number,
  ): Promise<void> {
    if (fromMs <= span.toMs || rows.length < SEAM_ROWS_MIN) return;
    const { archive, marketId } = this.#walk.options;
    const [newest] = await archive.storedTrades(marketId, span, 1, 'newest');
    if (newest === undefined || rows.some(({ tid }) => tid > newest.tid)) return;
    const gap = { fromMs: span.toMs, toMs: fromMs };
    const finding = { span: gap, state: 'open', reason: 'ids begun anew', waitMs: null } as const;
    await this.#walk.pages.record(finding);
  }

  #notePace(page: TradePage, rows: readonly SourceTrade[], newRows: number): void {
    const { traits, options } = this.#walk;
    const { telemetry, market } = options;
    const oldestS = rows.at(-1)?.tradedAtS ?? 0;
    this.#pace.polled(page.sentAtMs, newRows, page.sentAtMs - oldestS * SECOND_MS);
    const ratio = this.#pace.headroom(Math.min(PAGE_MAX, traits.largestPage));
    if (ratio !== undefined) telemetry.historyHeadroom({ stream: 'trades', market, ratio });
  }

  /** @param least rows that there should be room for */
  #sizeOf(least: number): number {
    if (this.#walk.hasTrades) return pageSize(least);
    // Of a market without trades by turns, so that no cache has one answer for two looks.
    this.#hasAskedAll = !this.#hasAskedAll;
    return this.#hasAskedAll ? PAGE_MAX : OTHER_PAGE;
  }

  /** A market without a single trade, see {@link EmptyMarket}. */
  async #empty(page: TradePage, untilMs: number, isCurrent: boolean): Promise<void> {
    const { pages, hasTrades, options, empty } = this.#walk;
    if (hasTrades || page.rowCount > 0) {
      await pages.commit(page);
      const { rejected, rowCount } = page;
      if (rejected.length === 0)
        throw this.#walk.stalled('its history is empty, and was not before');
      const why = `none of the ${rowCount} trades of its first page could be read (${rejected[0]?.reason})`;
      throw this.#walk.stalled(why, 'refused rows');
    }
    const claim = isCurrent ? empty.look(untilMs) : undefined;
    const { source, keptAtLeastMs } = options;
    const evidence = { endpoint: source.endpoint, empty: true, keptAtLeastS: keptAtLeastMs / 1000 };
    if (claim !== undefined && pages.collectFromMs === null) {
      pages.beginAt(claim.fromMs, 'history begins');
    }
    await pages.commit(page, claim, evidence);
  }
}

/** Rows newer than those that were known. */
function above(rows: readonly SourceTrade[], known: PageRow | undefined): SourceTrade[] {
  return rows.filter((row) => known === undefined || comparePlaces(row, known) > 0);
}

/** Up to where what is covered was seen by this run; all of it where the page reaches down to that. */
function seenUntilMs(rows: readonly PageRow[], known: PageRow | undefined, toMs: number): number {
  const oldest = rows.at(-1);
  if (known === undefined || oldest === undefined || comparePlaces(oldest, known) <= 0) return toMs;
  const knownMs = known.tradedAtS * SECOND_MS;
  const isRefuted = oldest.tradedAtS * SECOND_MS < toMs;
  return isRefuted ? knownMs : Math.max(knownMs, toMs - HIDDEN_MAX_MS);
}

/** Of a head whose first row is held back nothing is claimed from that row's second on. */
function untilOdd({ trades, held }: TradePage, { fromMs, toMs }: Span): Span {
  const [first, next] = trades;
  if (first === undefined || !held.includes(first)) return { fromMs, toMs };
  const oddMs = Math.min(first.tradedAtS, next?.tradedAtS ?? Infinity) * SECOND_MS;
  const untilMs = Math.min(toMs, oddMs);
  return { fromMs: Math.min(fromMs, untilMs), toMs: untilMs };
}

function describeMissing(missing: readonly PageRow[], newest: PageRow): string {
  const [row] = missing;
  if (row === undefined) return '';
  const others = missing.length === 1 ? '' : ` and ${missing.length - 1} more`;
  return comparePlaces(newest, row) < 0
    ? `its newest trade is ${newest.tid}, older than ${row.tid}${others}, which is stored`
    : `it lacks trade ${row.tid}${others}, which it held before`;
}
