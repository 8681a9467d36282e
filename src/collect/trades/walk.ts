import type { CallOptions, RequestTurn } from '../../client/index.js';
import { BoundedMap, BoundedSet } from '../../kernel/bounded.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { TapekeepError } from '../../kernel/errors.js';
import { type Span, spanContains } from '../../kernel/span.js';
import { Agreement, BELIEVED } from '../../model/agreement.js';
import type { CoveredRange } from '../../model/batch.js';
import { findGaps, type Gap } from '../../model/gaps.js';
import {
  comparePlaces,
  orderPage,
  type PageRow,
  placeKey,
  type Seam,
  seamsOf,
} from '../../model/order.js';
import { edgeBelow } from '../../model/proof.js';
import { type EndShown, endShown, lookAbove, type Search, searchFrom } from '../../model/search.js';
import { PRIORITY } from '../ports.js';
import { type ChainCursor, Chains, type SeenDepth } from './chains.js';
import type { TradeEvidence } from './evidence.js';
import { GapBook, type GapBookOptions } from './gap-book.js';
import { EmptyMarket, HistoryEnds } from './history-ends.js';
import { holdBack, KnownTrades } from './known.js';
import type { OffsetKnowledge } from './offset-mode.js';
import { PageStore, type PageStoreOptions } from './page-store.js';
import type { PushedTrades } from './pushed.js';
import {
  endsUnread,
  ProvingSource,
  type SourceTrade,
  type TradePage,
  type TradeSource,
  withoutNewest,
} from './source.js';
import { WantedSpans } from './wanted.js';

export interface WalkerOptions extends GapBookOptions {
  /** Age that caches in front of the exchange may add to an answer, exchange milliseconds. */
  readonly cacheMarginMs: number;
  /** How long the exchange is trusted to keep a trade at least, exchange milliseconds. */
  readonly keptAtLeastMs: number;
  /** Observed behaviour of the server, shared by all walkers. */
  readonly traits: Traits;
  /** What other sources show of the market's newest trades; left out: nothing does. */
  readonly evidence?: TradeEvidence;
  /** Trades as the exchange pushes them; left out: it does not. */
  readonly pushed?: PushedTrades | undefined;
  /** How this server understands its offset, shared by all walkers. */
  readonly offsets: OffsetKnowledge;
  /** The endpoint with exact times, beside one that proves trades without them; left out: it is not asked. */
  readonly timed?: TradeSource | undefined;
  /**
   * Everything that the exchange has is wanted, so that a start of history which was found once is
   * looked for again, below it.
   */
  readonly isAllWanted: boolean;
  /** Fills requests alone, and polls the head only as far as they need it. */
  readonly isOnRequest?: boolean;
}

/** Facts that the answers of an endpoint reveal. */
export interface ServerTraits {
  largestPage: number;
}

export type Traits = Readonly<Record<TradeSource['endpoint'], ServerTraits>>;

export const noTraits = (): Traits => ({
  historyResult: { largestPage: 0 },
  history: { largestPage: 0 },
});

/** Size of the page that must agree with an empty one: no cache has one answer for both. */
export const OTHER_PAGE = 500;
/** Looks right below what seems to be the lowest row, of which one must come before newer rows push that down. */
const LOOKS_BELOW_END = 4;
/** How often a start of history that was found is looked for again. */
const START_RECHECK_MS = 3_600_000;
/** Requests that one step may spend on finding its place in a history that moves. */
export const LOCATE_REQUESTS_MAX = 12;
/** Searches that are remembered; one that is forgotten begins anew. */
const SEARCHES_MAX = 100;

/** Trades that are remembered as stored without a claim. */
const SHOWN_MAX = 2000;

interface ShownRow extends PageRow {
  /** The last answer of its own endpoint lacks it. */
  readonly isLacked?: boolean;
}

/** A request of the exchange failed: what went wrong lies on the way to it or with it. */
export class FetchFailure extends Error {
  constructor(cause: unknown) {
    super('a page could not be fetched', { cause });
  }
}

/** What the parts of one walk share: its pages, its gaps, and where its chains end. */
export class Walk {
  readonly options: WalkerOptions;
  /** Chooses the endpoint that proves trades, where there are two. */
  readonly proving: ProvingSource | undefined;
  readonly pages: PageStore;
  readonly book: GapBook;
  readonly chains = new Chains();
  readonly ends: HistoryEnds;
  readonly epochs: IdEpochs;
  /** The newest trades, as pages of the head showed them. */
  readonly known = new KnownTrades();
  /** Known trades that answers lack although they reach them. */
  readonly lacked = new Agreement<string>(BELIEVED.lacked);
  readonly #pageEnds = new Agreement<string>(BELIEVED.pageEnd);
  /** The newest trade that is believed; undefined until the first page of this run. */
  newest: PageRow | undefined;
  readonly #hasTrades: boolean;
  readonly empty: EmptyMarket;
  /** The right to send a request that was reserved for the step under way. */
  stepTurn: RequestTurn | undefined;
  readonly wanted = new WantedSpans();
  /** Rows of before are not kept any more. */
  #keptFromMs = Number.NEGATIVE_INFINITY;
  /** Searches for the place of an edge that take several steps. */
  readonly #searches = new BoundedMap<number, Search>(SEARCHES_MAX);
  #startFoundAtMs = Number.NEGATIVE_INFINITY;
  /** Trades that were stored without a claim, and that no page of the head had to show yet. */
  #shown: readonly ShownRow[] = [];
  #known: { readonly key: readonly unknown[]; readonly gaps: readonly Gap[] } | undefined;

  /** @param hasTrades whether a trade of the market is stored */
  constructor(options: WalkerOptions, ranges: readonly CoveredRange[], hasTrades: boolean) {
    const { source, timed, clock } = options;
    this.proving = timed && new ProvingSource(source, timed, clock);
    this.options = { ...options, source: this.proving ?? source };
    this.pages = new PageStore(this.options, ranges);
    this.book = new GapBook(this.options, this.pages);
    this.ends = new HistoryEnds(options.clock);
    this.empty = new EmptyMarket(hasTrades ? undefined : ranges[0]?.span, options.keptAtLeastMs);
    this.epochs = new IdEpochs(this.options);
    this.#hasTrades = hasTrades;
  }

  /** Observed behaviour of the endpoint that proves trades. */
  get traits(): ServerTraits {
    const { traits, source } = this.options;
    return traits[source.endpoint];
  }

  /** Takes note of trades that were stored without a claim, newest first: the next pages must show them. */
  shown(rows: readonly PageRow[]): void {
    const held = new Set(rows.map(placeKey));
    const oldestS = rows.at(-1)?.tradedAtS ?? Number.POSITIVE_INFINITY;
    const before = this.#shown.map(({ tid, tradedAtS }): ShownRow => {
      const isLacked = tradedAtS > oldestS && !held.has(placeKey({ tid, tradedAtS }));
      return { tid, tradedAtS, isLacked };
    });
    this.#shown = orderPage<ShownRow>([...before, ...rows]).slice(0, SHOWN_MAX);
  }

  /** Those of some stored rows that were there before this run stored any without a claim. */
  withoutShown(rows: readonly PageRow[]): PageRow[] {
    const shown = new Set(this.#shown.map(placeKey));
    return rows.filter((row) => !shown.has(placeKey(row)));
  }

  /** Those above the newest row of a page: nothing is claimed beyond one that is a trade. */
  shownAbove(newest: PageRow): {
    readonly trades: readonly PageRow[];
    readonly lies: readonly PageRow[];
  } {
    const above = this.#shown.filter((row) => comparePlaces(row, newest) > 0);
    const isLie = ({ isLacked }: ShownRow) => isLacked === true;
    return { trades: above.filter((row) => !isLie(row)), lies: above.filter(isLie) };
  }

  /** A page of the head must show those that lie below its newest row. @param rows newest first */
  expectShown([newest]: readonly PageRow[]): void {
    if (newest === undefined) return;
    const isBelow = (row: PageRow) => comparePlaces(row, newest) <= 0;
    this.known.add(this.#shown.filter(isBelow));
    this.#shown = this.#shown.filter((row) => !isBelow(row));
  }

  /** Whether a trade of this market is known. */
  get hasTrades(): boolean {
    return this.#hasTrades || this.newest !== undefined;
  }

  /**
   * What is wanted anew may lie in the gap below all that is covered, which is put off for long once the start of history was
   * looked for there in vain: that gap is tried at once. Between steps only, because a step may yet put it off.
   */
  releaseWanted(): void {
    const lowest = this.pages.ranges.all.at(-1);
    if (lowest === undefined || !this.wanted.takeNew()) return;
    for (const gap of this.gaps()) {
      const { edgeMs } = gap;
      if (!this.wanted.touches(gap) || edgeMs > lowest.span.fromMs) continue;
      this.book.release({ fromMs: edgeMs - 1, toMs: edgeMs });
    }
  }

  /** Nothing of before an instant is kept any more: nothing of it is expected, nor looked for. */
  keepFrom(ms: number): void {
    if (ms <= this.#keptFromMs) return;
    this.#keptFromMs = ms;
    this.pages.keepFrom(ms);
  }

  /** Expected and not covered below the newest coverage, newest first. */
  gaps(): readonly Gap[] {
    const { ranges, collectFromMs } = this.pages;
    const edgesMs = [...this.chains.keys()];
    const isStartOpen = collectFromMs === null || this.#isStartDue();
    const keptFromMs = this.#keptFromMs;
    const key = [ranges.all, collectFromMs, isStartOpen, keptFromMs, this.wanted.all, ...edgesMs];
    const known = this.#known;
    if (known?.key.length === key.length && key.every((one, at) => one === known.key[at])) {
      return known.gaps;
    }
    const topMs = Math.max(ranges.top?.span.toMs ?? -Infinity, ...edgesMs);
    const startMs = isStartOpen ? keptFromMs : Math.max(keptFromMs, collectFromMs);
    const always = { fromMs: startMs, toMs: topMs };
    const wanted = this.wanted.all.flatMap(({ fromMs, toMs }) =>
      toMs <= keptFromMs ? [] : [{ fromMs: Math.max(fromMs, keptFromMs), toMs }],
    );
    // While the start of history is open, what is expected has a start of its own to be listed with.
    const beginsMs = isStartOpen ? wanted.map(({ fromMs }) => fromMs) : [];
    const floorsMs = isStartOpen && collectFromMs !== null ? [collectFromMs] : [];
    const cutsMs = [...edgesMs, ...beginsMs, ...floorsMs];
    const gaps = findGaps([always, ...wanted], ranges.spans, topMs, cutsMs);
    this.#known = { key, gaps };
    return gaps;
  }

  /** Whether a start of history that is known is to be looked for again. */
  #isStartDue(): boolean {
    const { clock, offsets, source, isAllWanted } = this.options;
    if (!isAllWanted || !this.hasTrades || offsets.of(source.endpoint) !== 'skip') {
      return false;
    }
    return clock.monotonicMs() - this.#startFoundAtMs >= START_RECHECK_MS;
  }

  /** The proven start of what the exchange has; one that is known only ever moves down. */
  startFoundAt(startMs: number): void {
    const { collectFromMs } = this.pages;
    if (collectFromMs === null || (this.options.isAllWanted && startMs < collectFromMs)) {
      this.pages.beginAt(startMs, 'history begins');
    }
    this.#startFoundAtMs = this.options.clock.monotonicMs();
  }

  /** Rows that both answers hold which are to show the end of history. */
  get #roomAtEnd(): number {
    return Math.min(OTHER_PAGE, this.traits.largestPage);
  }

  /** What a page of a search says of the end of history: see `endShown` of searches. */
  endShown(search: Search, page: TradePage): EndShown {
    const oldest = orderPage(page.trades).at(-1);
    if (oldest === undefined || endsUnread(page)) return undefined;
    const room = this.#roomAtEnd;
    return endShown(search, { oldest, rows: page.rowCount, room });
  }

  /**
   * Weighs an answer that says that history ends. It is believed when pages of another size say the
   * same, and when all of that was so before, at least a second ago, below the same trade. Until then
   * the gap is put off.
   *
   * @param place the edge that was walked, and the trade right above it; 0 where none is known
   * @param first that answer: empty, or with the end of history in it
   */
  async isTheEnd(
    place: { readonly edgeMs: number; readonly tid: number },
    search: Search,
    first: TradePage,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { edgeMs, tid } = place;
    const { lowest } = search;
    const isSame =
      first.rowCount === 0
        ? await this.#isEmptyAgain(search, signal)
        : await this.#endsAgain(search, first, signal);
    if (isSame) {
      if (lowest !== undefined) this.ends.seenBelow(lowest);
      if (this.ends.isAgain(edgeMs, tid)) return true;
      this.book.awaitSign(edgeMs);
    } else {
      this.ends.forget(edgeMs);
      this.book.putOff(edgeMs);
    }
    return false;
  }

  /** Whether nothing comes from right below the lowest row once more, but what was pushed down meanwhile. */
  async #isEmptyAgain(search: Search, signal: AbortSignal): Promise<boolean> {
    const second = await this.#fetchAndKeep(search.skip, signal);
    if (second.rowCount === 0) return true;
    // What was pushed down meanwhile, if it ends at the lowest row: is that the end?
    const pushed = { ...search, unseen: 0 };
    return (
      this.endShown(pushed, second) !== undefined && (await this.#endsAgain(pushed, second, signal))
    );
  }

  /**
   * Whether a second page ends where the first one did, and nothing older comes from below: a server may end
   * its pages at a place of its own, as where it keeps older rows apart.
   */
  async #endsAgain(search: Search, first: TradePage, signal: AbortSignal): Promise<boolean> {
    const { lowest } = search;
    const firstEnd = search.skip + first.rowCount;
    const { skip } = lookAbove(search, firstEnd, this.#roomAtEnd);
    const second = await this.#fetchAndKeep(skip, signal);
    if (lowest === undefined || this.endShown(search, second) === undefined) return false;
    let end = skip + second.rowCount;
    let fewest = Math.max(1, end - firstEnd);
    for (let look = 0, guess = 1; look < LOOKS_BELOW_END; look += 1, guess = fewest) {
      // Too far below, and the rows that it is to find may be passed over: as far as the fewest that came until a look.
      const from = end + guess;
      const below = await this.#fetchAndKeep(from, signal);
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

  async #fetchAndKeep(skip: number, signal: AbortSignal): Promise<TradePage> {
    const page = await this.fetchForStep(skip, OTHER_PAGE, signal);
    await this.pages.commit(page);
    return page;
  }

  /** Lets the gaps that a span touches be tried at once; they may reach beyond it. */
  release(span: Span): void {
    this.ends.askAnew();
    this.book.release(span);
    for (const { fromMs, edgeMs } of this.gaps()) {
      if (fromMs >= span.toMs || span.fromMs >= edgeMs) continue;
      this.book.release({ fromMs: edgeMs - 1, toMs: edgeMs });
    }
  }

  /**
   * Gaps that may be tried now, newest first. While the walk back through history goes on, those within what is wanted
   * go before, and so does what is wanted far below all that is covered: it is had before the walk comes there.
   */
  openGaps(): Gap[] {
    const isOpen = ({ edgeMs }: Gap) => !this.book.isBlocked(edgeMs);
    const open = this.gaps().filter(isOpen);
    const { offsets, source } = this.options;
    const { collectFromMs, ranges } = this.pages;
    if (collectFromMs !== null || offsets.of(source.endpoint) !== 'skip') return open;
    const first = open.filter((gap) => this.wanted.isFirst(gap));
    const others = open.filter((gap) => !first.includes(gap));
    // Below all that is covered.
    const below = others.find(({ edgeMs }) => edgeMs === ranges.all.at(-1)?.span.fromMs);
    const apart = below === undefined ? [] : this.wanted.within(below).filter(isOpen);
    return [...first, ...apart, ...others];
  }

  /** From where the walk can go down below an edge; undefined when the place must be sought. */
  async cursorAt(edgeMs: number): Promise<ChainCursor | undefined> {
    const cursor = await this.#cursorAt(edgeMs);
    if (cursor !== undefined) this.#pageEnds.say(placeKey(cursor));
    return cursor;
  }

  async #cursorAt(edgeMs: number): Promise<ChainCursor | undefined> {
    const chain = this.chains.get(edgeMs);
    if (chain !== undefined) return chain;
    const { archive, marketId } = this.options;
    const { ranges } = this.pages;
    const range = ranges.all.find(({ span }) => span.fromMs === edgeMs);
    if (range === undefined) return undefined;
    const [oldest] = await archive.storedTrades(marketId, range.span, 1);
    if (oldest === undefined) return undefined;
    const depth = await archive.storedAbove(marketId, edgeMs);
    return { edgeMs, ...oldest, wholeFromMs: edgeMs, depth };
  }

  /**
   * Goes on with the search for the place of an edge, or begins one at an estimated depth.
   *
   * @param depth left out: below all stored trades that are newer
   */
  async searchFor(edgeMs: number, depth?: number): Promise<Search> {
    const known = this.#searches.get(edgeMs);
    this.#searches.delete(edgeMs);
    if (known !== undefined) return known;
    const { archive, marketId } = this.options;
    return searchFrom(depth ?? (await archive.storedAbove(marketId, edgeMs)) - 1);
  }

  /** The next step for this edge goes on from here. */
  putAside(edgeMs: number, search: Search): void {
    this.#searches.set(edgeMs, search);
  }

  /**
   * The chain that a page leaves behind below its claim. What refused rows make suspect right below
   * the claim is listed as a gap, and left alone for a while.
   */
  async endChain(
    claim: Span,
    page: TradePage,
    oldest: SourceTrade,
    seen: SeenDepth,
  ): Promise<ChainCursor> {
    const edgeMs = edgeBelow(claim, page.unread);
    if (edgeMs < claim.fromMs) {
      // A newest row that the page does not show: the next look does.
      if (page.rejected.length === 0) this.book.putOff(claim.fromMs);
      else {
        await this.pages.recordRefused({ fromMs: edgeMs, toMs: claim.fromMs });
        this.book.refused(claim.fromMs);
      }
    }
    const { tid, tradedAtS } = oldest;
    return { edgeMs, tid, tradedAtS, wholeFromMs: (tradedAtS + 1) * SECOND_MS, ...seen };
  }

  isCovered(instantMs: number): boolean {
    return this.pages.ranges.spans.some((span) => spanContains(span, instantMs));
  }

  /**
   * A page for a step into a gap: the first one with the turn that was reserved for the step; any
   * more of them soon, because looks at the head wait for the end of a step.
   *
   * @throws FetchFailure
   */
  fetchForStep(skip: number, limit: number, signal: AbortSignal): Promise<TradePage> {
    const { stepTurn: turn } = this;
    this.stepTurn = undefined;
    const how = { priority: PRIORITY.head, signal };
    return this.fetch(skip, limit, turn === undefined ? how : { ...how, turn });
  }

  /** @throws FetchFailure */
  async fetch(skip: number, limit: number, options: CallOptions): Promise<TradePage> {
    const { source, market, offsets, evidence } = this.options;
    const { traits } = this;
    const fetched = await source.fetch(market, skip, limit, options).catch((error: unknown) => {
      throw new FetchFailure(error);
    });
    const isBelowNewest = fetched.isRaised && offsets.of(source.endpoint) !== 'id';
    const shown = isBelowNewest ? withoutNewest(fetched) : fetched;
    traits.largestPage = Math.max(traits.largestPage, shown.rowCount);
    const page = skip === 0 ? this.#withPushed(shown) : shown;
    const isShown = (row: PageRow) =>
      this.known.has(row) || evidence?.isShownBy(source.endpoint, row) === true;
    return holdBack(page, skip === 0, isShown, this.#pageEnds);
  }

  /** A page of the newest trades, made longer by what was pushed; where both disagree, nothing is added. */
  #withPushed(page: TradePage): TradePage {
    const { pushed, telemetry, market } = this.options;
    const joined = pushed?.join(page);
    if (joined === undefined) return page;
    const { unshown, unpushed } = joined;
    if (unshown.length + unpushed.length > 0) {
      // The next pages show whether they are trades.
      this.known.add(unshown);
      const counts = { unshown: unshown.length, unpushed: unpushed.length };
      telemetry.tradeFeedRefuted({ stream: 'trades', market, ...counts });
    }
    return joined.page;
  }

  /**
   * Whether a page that was to skip rows shows the head all the same: only a server that takes the
   * number for an id does that, or one whose head moves faster than the walk.
   */
  looksLikeIdMode(skip: number, rows: readonly SourceTrade[]): boolean {
    const [newest] = rows;
    if (skip === 0 || newest === undefined) return false;
    return this.newest === undefined ? !this.hasTrades : comparePlaces(newest, this.newest) >= 0;
  }

  /** Rows that are no trades are not missed any more. */
  forget(rows: readonly PageRow[]): void {
    const count = this.known.rows.length;
    this.known.forget(rows);
    const gone = new Set(rows.map(placeKey));
    this.#shown = this.#shown.filter((row) => !gone.has(placeKey(row)));
    if (this.known.rows.length < count) this.newest = this.known.rows[0];
  }

  /** Revokes coverage of a span with the next commit. */
  suspect(span: Span, note: string): void {
    this.pages.suspect(span, note);
    this.#forgetWithin(span);
  }

  /** Reads coverage anew, of which a span was taken back. */
  async revoked(span: Span): Promise<void> {
    await this.pages.reload();
    this.#forgetWithin(span);
  }

  #forgetWithin(span: Span): void {
    this.chains.dropWithin(span);
    this.empty.clear();
    this.release(span);
  }

  /** @param connected whether a look at the head reached what was stored; a step into a gap is none */
  stepped(pages: number, connected = false): void {
    const { telemetry, market } = this.options;
    telemetry.walkStepped({ stream: 'trades', market, pages, connected });
  }

  /** Counts that the endpoint that proves trades lacked some which the other one shows. */
  disputed(): void {
    const { telemetry, market } = this.options;
    const what = { source: 'history', behindMs: null, isFirst: true } as const;
    telemetry.historyStale({ stream: 'trades', market, ...what });
  }

  stalled(detail: string, reason?: WalkStalledError['reason']): WalkStalledError {
    const { telemetry, market, source } = this.options;
    telemetry.walkStalled({ stream: 'trades', market, detail });
    return new WalkStalledError(market, source.endpoint, detail, reason);
  }
}

/** Seams that are remembered as recorded; beyond it they are recorded once more, which changes nothing. */
const RECORDED_MAX = 100;

/**
 * Records where the exchange began the ids of a market anew. Nothing else depends on it: trades are
 * ordered by time first, so that the walk and the archive go on over a seam as over any second.
 */
class IdEpochs {
  readonly #options: PageStoreOptions;
  readonly #recorded = new BoundedSet<string>(RECORDED_MAX);

  constructor(options: PageStoreOptions) {
    this.#options = options;
  }

  /**
   * Looks for seams in what one page, or a page and what is known below it, shows.
   *
   * @param rows newest first
   */
  async look(rows: readonly SourceTrade[]): Promise<void> {
    for (const seam of seamsOf(rows)) await this.#record(seam);
  }

  async #record({ first, last }: Seam): Promise<void> {
    const key = placeKey(first);
    if (this.#recorded.has(key)) return;
    const { archive, marketId, market, source, telemetry, time } = this.#options;
    const beginsMs = first.tradedAtS * SECOND_MS;
    const isNew = await archive.recordIdEpoch({
      ...{ marketId, beginsMs, firstId: first.tid, lastIdBefore: last.tid },
      lastBeforeMs: last.tradedAtS * SECOND_MS,
      ...{ endpoint: source.endpoint, atMs: Math.floor(time.nowMs()) },
    });
    this.#recorded.add(key);
    if (!isNew) return;
    telemetry.idsBegunAnew({ market, firstId: first.tid, lastIdBefore: last.tid, atMs: beginsMs });
  }
}

/**
 * The exchange's answers do not let the walk through history get on: a request made no progress, or
 * contradicts what was answered before. The walk stops at its edge, backs off and tries again; the
 * span stays a gap meanwhile.
 */
export class WalkStalledError extends TapekeepError {
  /** Why the span is a gap. */
  readonly reason: 'walk stalled' | 'refused rows';

  constructor(
    market: string,
    endpoint: string,
    detail: string,
    reason: WalkStalledError['reason'] = 'walk stalled',
  ) {
    super(
      'walk_stalled',
      `${market}: paging through ${endpoint} made no progress: ${detail}. It is tried again later; the span stays listed as a gap.`,
    );
    this.reason = reason;
  }
}
