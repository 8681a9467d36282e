import { spanContains } from '../../kernel/span.js';
import { orderPage } from '../../ledger/page.js';
import { headSpan, latestMs, provenUntilMs } from '../../ledger/proof.js';
import { PRIORITY, type RequestTurn } from '../ports.js';
import { NOTHING } from './frontier.js';
import { Pace, type WalkPace } from './pace.js';
import type { SourceTrade, TradePage } from './source.js';
import { OTHER_PAGE, PAGE_MAX, SECOND_MS, type Walk } from './walk.js';

/** What one look at the newest trades brought. */
export interface HeadLook {
  /** Trades that this walk saw for the first time. */
  readonly newRows: number;
  /** Their times, exchange milliseconds, as exact as the endpoint tells; newest first. */
  readonly newTimesMs: readonly number[];
  /** Rows asked for, and those that came. */
  readonly asked: number;
  readonly received: number;
  /** Whether the look reached what was stored before; false for the very first one. */
  readonly isConnected: boolean;
}

/** What a stored page brought, in the walk's own terms. */
interface Stored extends HeadLook {
  /** It touches coverage below itself. */
  readonly isMerged: boolean;
}

/** Few sizes, so that what is asked repeats, and a cache in front of the exchange can help it. */
const PAGE_SIZES = [20, 50, 100, 200, 500, PAGE_MAX];
/** In id mode a page that is too short can not be made up for. */
const PAGE_MIN_ID = 200;

/** The newest page of one market's history: what is new, and how far coverage reaches in time. */
export class Head {
  readonly #walk: Walk;
  readonly #pace = new Pace();
  #newPerPoll = PAGE_MAX;
  #hasAskedAll = false;

  constructor(walk: Walk) {
    this.#walk = walk;
  }

  get pace(): WalkPace {
    const { options, newestTid } = this.#walk;
    return { ...this.#pace.now, newestTid, largestPage: options.traits.largestPage };
  }

  /**
   * Asks for the newest trades, and at once for more of them where no deeper page can help.
   *
   * @returns what it brought, and the last page
   */
  async poll(
    signal: AbortSignal,
    turn?: RequestTurn,
  ): Promise<{ look: HeadLook; page: TradePage }> {
    const { source, since, market } = this.#walk.options;
    const isIdMode = since.of(source.endpoint) === 'id';
    // Half-full pages: room for twice what usually is new, so that a burst still connects.
    const room = Math.ceil(this.#newPerPoll * (isIdMode ? 4 : 2));
    const least = isIdMode ? Math.max(PAGE_MIN_ID, room) : room;
    const limit = this.#sizeOf(least);
    const options = { priority: PRIORITY.head, signal };
    let page = await this.#walk.fetch(0, limit, { ...options, ...(turn && { turn }) });
    let look: HeadLook = await this.store(page, limit);
    if (isIdMode && !look.isConnected && limit < PAGE_MAX) {
      page = await this.#walk.fetch(0, PAGE_MAX, options);
      const full = await this.store(page, PAGE_MAX);
      const newTimesMs = [...full.newTimesMs, ...look.newTimesMs];
      const newRows = full.newRows + look.newRows;
      look = { ...full, newRows, newTimesMs, isConnected: full.isMerged };
    }
    if (look.received > 1) await since.look(source, market, signal);
    return { look, page };
  }

  /** Stores a page that was asked for with nothing skipped. */
  async store(page: TradePage, limit: number): Promise<Stored> {
    const { pages, chains, book, options } = this.#walk;
    const { source, cacheMarginMs } = options;
    const rows = orderPage(page.trades);
    const untilMs = provenUntilMs(page, cacheMarginMs);
    const [newest, oldest] = [rows[0], rows.at(-1)];
    if (newest === undefined || oldest === undefined) {
      await this.#empty(page, untilMs);
      const nothing = { newRows: 0, newTimesMs: [], received: 0 };
      return { ...nothing, asked: limit, isConnected: true, isMerged: true };
    }
    const knownTid = this.#walk.newestTid;
    if (newest.tid < knownTid) {
      await pages.commit(page, NOTHING, {});
      throw this.#walk.stalled(
        `its newest trade is ${newest.tid}, older than ${knownTid}, which is stored`,
      );
    }
    if (knownTid === 0) this.#walk.empty.tradedAt(untilMs);
    const fresh = rows.filter((row) => row.tid > knownTid);
    const claim = headSpan(rows, untilMs, latestMs(page));
    // Down to where history begins the page may hold all that is covered, and touch nothing below.
    const isAllKnown = pages.islands.all.some(
      ({ span }) => claim.fromMs <= span.fromMs && span.fromMs <= claim.toMs,
    );
    const { islands, doubtfulEdgesMs } = await pages.commit(page, claim, {
      endpoint: source.endpoint,
      skip: 0,
      asked: limit,
      received: page.rowCount,
      dateMs: page.dateMs,
    });
    this.#walk.newestTid = newest.tid;
    pages.remember(rows);
    this.#newPerPoll = (this.#newPerPoll + fresh.length) / 2;
    for (const edgeMs of doubtfulEdgesMs) book.refused(edgeMs);
    // What the server does not know can not be walked; right below it all is covered.
    const isAtGap = page.gaps.some(
      ({ span }) => spanContains(span, claim.fromMs) && this.#walk.isCovered(span.fromMs - 1),
    );
    const isMerged = isAtGap || islands.some((island) => island.span.fromMs < claim.fromMs);
    const isConnected =
      isMerged || isAllKnown || chains.edgesMs.some((edgeMs) => claim.fromMs <= edgeMs);
    this.#walk.pushed(rows, fresh);
    if (!isMerged) {
      const chain = await this.#walk.endChain(claim, page, oldest, { depth: rows.length });
      const known = chains.at(chain.edgeMs);
      if (known === undefined || known.tid > chain.tid) chains.set(chain);
    }
    if (!isConnected) this.#newPerPoll = PAGE_MAX;
    this.#walk.stepped(1, isConnected);
    this.#notePace(page, rows, knownTid === 0 ? rows.length : fresh.length);
    return {
      newRows: fresh.length,
      newTimesMs: fresh.map((row) => timeMsOf(row)),
      asked: limit,
      received: page.rowCount,
      isConnected,
      isMerged,
    };
  }

  #notePace(page: TradePage, rows: readonly SourceTrade[], newRows: number): void {
    const { telemetry, traits, source, market } = this.#walk.options;
    const oldestS = rows.at(-1)?.tradedAtS ?? 0;
    this.#pace.polled(page.sentAtMs, newRows, page.sentAtMs - oldestS * SECOND_MS);
    const ratio = this.#pace.headroom(Math.min(PAGE_MAX, traits.largestPage));
    if (ratio !== undefined) telemetry.historyHeadroom({ stream: source.kind, market, ratio });
  }

  /** @param least rows that there should be room for */
  #sizeOf(least: number): number {
    if (this.#walk.newestTid > 0) return PAGE_SIZES.find((size) => size >= least) ?? PAGE_MAX;
    // Of a market without trades by turns, so that no cache has one answer for two looks.
    this.#hasAskedAll = !this.#hasAskedAll;
    return this.#hasAskedAll ? PAGE_MAX : OTHER_PAGE;
  }

  /** A market without a single trade, see {@link EmptyMarket}. */
  async #empty(page: TradePage, untilMs: number): Promise<void> {
    const { pages, newestTid, options, empty } = this.#walk;
    if (newestTid > 0 || page.rowCount > 0) {
      await pages.commit(page, NOTHING, {});
      throw this.#walk.stalled('its first page holds no readable trade');
    }
    // A server that does not know all of that time has not seen that nothing happened.
    const claim = page.gaps.length > 0 ? NOTHING : (empty.look(untilMs) ?? NOTHING);
    const { source, keptAtLeastMs } = options;
    const evidence = { endpoint: source.endpoint, empty: true, keptAtLeastS: keptAtLeastMs / 1000 };
    await pages.commit(page, claim, evidence);
    if (claim !== NOTHING && pages.collectFromMs === null) await pages.beginAt(claim.fromMs);
  }
}

function timeMsOf({ executedAtUs, tradedAtS }: SourceTrade): number {
  return executedAtUs === null ? tradedAtS * SECOND_MS : executedAtUs / 1000;
}
