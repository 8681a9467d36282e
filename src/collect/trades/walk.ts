import type { CallOptions, RequestTurn } from '../../client/index.js';
import { BoundedMap } from '../../kernel/bounded.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { type Span, spanContains } from '../../kernel/span.js';
import { Agreement, BELIEVED } from '../../model/agreement.js';
import type { CoveredRange } from '../../model/batch.js';
import { findGaps, type Gap } from '../../model/gaps.js';
import { comparePlaces, type PageRow, placeKey } from '../../model/order.js';
import { edgeBelow } from '../../model/proof.js';
import { type Search, searchFrom } from '../../model/search.js';
import { PRIORITY } from '../ports.js';
import { type ChainCursor, Chains, type SeenDepth } from './chains.js';
import type { TradeEvidence } from './evidence.js';
import { GapBook, type GapBookOptions } from './gap-book.js';
import { EmptyMarket, HistoryEnds } from './history-ends.js';
import { holdBack, KnownTrades, ShownTrades } from './known.js';
import type { OffsetKnowledge } from './offset-mode.js';
import { PageStore } from './page-store.js';
import type { PushedTrades } from './pushed.js';
import {
  ProvingSource,
  type SourceTrade,
  type TradePage,
  type TradeSource,
  withoutNewest,
} from './source.js';
import { FetchFailure, WalkStalledError } from './walk-errors.js';
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
/** How often a start of history that was found is looked for again. */
const START_RECHECK_MS = 3_600_000;
/** Requests that one step may spend on finding its place in a history that moves. */
export const LOCATE_REQUESTS_MAX = 12;
/** Searches that are remembered; one that is forgotten begins anew. */
const SEARCHES_MAX = 100;

/** What the parts of one walk share: its pages, its gaps, and where its chains end. */
export class Walk {
  readonly options: WalkerOptions;
  /** Chooses the endpoint that proves trades, where there are two. */
  readonly proving: ProvingSource | undefined;
  readonly pages: PageStore;
  readonly book: GapBook;
  readonly chains = new Chains();
  readonly ends: HistoryEnds;
  /** The newest trades, as pages of the head showed them. */
  readonly known = new KnownTrades();
  readonly shown = new ShownTrades();
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
    this.#hasTrades = hasTrades;
  }

  /** Observed behaviour of the endpoint that proves trades. */
  get traits(): ServerTraits {
    const { traits, source } = this.options;
    return traits[source.endpoint];
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
    this.shown.forget(rows);
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
