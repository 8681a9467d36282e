import { ceilToMs, floorToMs, normalizeSpans, type Span, spanContains } from '../../kernel/span.js';
import type { Island } from '../../ledger/batch.js';
import { findHoles, type Hole } from '../../ledger/holes.js';
import { edgeBelow } from '../../ledger/proof.js';
import { type Search, searchFrom } from '../../ledger/search.js';
import { type CallOptions, PRIORITY, type RequestTurn } from '../ports.js';
import { WalkStalledError } from './errors.js';
import { Chains, chainEnd, type Frontier } from './frontier.js';
import { HoleBook, type HoleBookOptions } from './hole-book.js';
import { PageStore } from './page-store.js';
import type { SinceKnowledge } from './since-mode.js';
import type { SourceTrade, TradePage } from './source.js';

export interface WalkerOptions extends HoleBookOptions {
  /** Age that caches in front of the exchange may add to an answer, exchange milliseconds. */
  readonly cacheMarginMs: number;
  /** What this server was seen to do, shared by all walkers of one endpoint. */
  readonly traits: ServerTraits;
  /** How this server understands its offset, shared by all walkers. */
  readonly since: SinceKnowledge;
}

/** Facts about a server that its answers reveal. */
export interface ServerTraits {
  largestPage: number;
}

export const SECOND_MS = 1000;
export const PAGE_MAX = 1000;
/** Requests that one step may spend on finding its place in a history that moves. */
export const LOCATE_REQUESTS_MAX = 12;
/** Searches that are remembered; one that is forgotten begins anew. */
const SEARCHES_MAX = 100;

/** A request of the exchange failed: what went wrong lies on the way to it or with it. */
export class FetchFailure extends Error {
  constructor(cause: unknown) {
    super('a page could not be fetched', { cause });
  }
}

/** What the parts of one walk share: its pages, its holes, and where its chains end. */
export class Walk {
  readonly options: WalkerOptions;
  readonly pages: PageStore;
  readonly book: HoleBook;
  readonly chains = new Chains();
  newestTid: number;
  /** The right to send a request that was reserved for the step under way. */
  stepTurn: RequestTurn | undefined;
  #wanted: readonly Span[] = [];
  /** Searches for the place of an edge that take several steps. */
  readonly #searches = new Map<number, Search>();
  #known: { readonly key: readonly unknown[]; readonly holes: readonly Hole[] } | undefined;

  constructor(options: WalkerOptions, islands: readonly Island[]) {
    this.options = options;
    this.pages = new PageStore(options, islands);
    this.book = new HoleBook(options, this.pages);
    // The newest island may hold no trade, and yet there are older ones.
    this.newestTid = Math.max(0, ...islands.map((island) => island.lastId ?? 0));
  }

  /** Trades are kept under whole seconds, so what is wanted is widened to them. */
  want({ fromMs, toMs }: Span): void {
    const whole = { fromMs: floorToMs(fromMs, SECOND_MS), toMs: ceilToMs(toMs, SECOND_MS) };
    if (this.#wanted.some((one) => one.fromMs <= whole.fromMs && whole.toMs <= one.toMs)) return;
    this.#wanted = normalizeSpans([...this.#wanted, whole]);
  }

  /** Expected and not covered below the newest coverage, newest first. */
  holes(): readonly Hole[] {
    const { islands, collectFromMs } = this.pages;
    const edgesMs = this.chains.edgesMs;
    const key = [islands.all, collectFromMs, this.#wanted, ...edgesMs];
    const known = this.#known;
    if (known?.key.length === key.length && key.every((one, at) => one === known.key[at])) {
      return known.holes;
    }
    const topMs = Math.max(islands.top?.span.toMs ?? -Infinity, ...edgesMs);
    const always = { fromMs: collectFromMs ?? -Infinity, toMs: topMs };
    // While the start of history is open, what is wanted has a begin of its own to be listed with.
    const beginsMs = collectFromMs === null ? this.#wanted.map(({ fromMs }) => fromMs) : [];
    const cutsMs = [...edgesMs, ...beginsMs];
    const holes = findHoles([always, ...this.#wanted], islands.spans, topMs, cutsMs);
    this.#known = { key, holes };
    return holes;
  }

  /** Lets the holes that a span touches be tried at once; they may reach beyond it. */
  release(span: Span): void {
    this.book.release(span);
    for (const { fromMs, edgeMs } of this.holes()) {
      if (fromMs >= span.toMs || span.fromMs >= edgeMs) continue;
      this.book.release({ fromMs: edgeMs - 1, toMs: edgeMs });
    }
  }

  openHoles(): Hole[] {
    return this.holes().filter((hole) => !this.book.isBlocked(hole.edgeMs));
  }

  /** From where the walk can go down below an edge; undefined when the place must be sought. */
  frontierAt(edgeMs: number): Frontier | undefined {
    const chain = this.chains.at(edgeMs);
    if (chain !== undefined) return chain;
    const { islands } = this.pages;
    const island = islands.all.find(({ span }) => span.fromMs === edgeMs);
    if (island === undefined || island.firstId === null) return undefined;
    const depth = islands.rowsDownTo(island);
    return { edgeMs, tid: island.firstId, secondMs: edgeMs, depth };
  }

  /** Goes on with the search for the place of an edge, or begins one at an estimated depth. */
  searchFor(edgeMs: number, depth: number): Search {
    const known = this.#searches.get(edgeMs);
    this.#searches.delete(edgeMs);
    return known ?? searchFrom(depth);
  }

  /** The next step for this edge goes on from here. */
  putAside(edgeMs: number, search: Search): void {
    this.#searches.set(edgeMs, search);
    if (this.#searches.size > SEARCHES_MAX) {
      const [oldest] = this.#searches.keys();
      if (oldest !== undefined) this.#searches.delete(oldest);
    }
  }

  /**
   * The chain that a page leaves behind below its claim. What refused rows put in doubt right below
   * the claim is listed as a gap, and left alone for a while.
   */
  async endChain(
    claim: Span,
    page: TradePage,
    oldest: SourceTrade,
    depth: number,
  ): Promise<Frontier> {
    const edgeMs = edgeBelow(claim, page.doubts);
    if (edgeMs < claim.fromMs) {
      await this.pages.recordRefused({ fromMs: edgeMs, toMs: claim.fromMs });
      this.book.refused(claim.fromMs);
    }
    return chainEnd(edgeMs, oldest, depth);
  }

  isCovered(instantMs: number): boolean {
    return this.pages.islands.spans.some((span) => spanContains(span, instantMs));
  }

  /**
   * A page for a step into a hole: the first one with the turn that was reserved for the step; any
   * more of them soon, because looks at the head wait for the end of a step.
   *
   * @throws FetchFailure
   */
  fetchForStep(skip: number, limit: number, signal: AbortSignal): Promise<TradePage> {
    const { stepTurn: turn } = this;
    this.stepTurn = undefined;
    const how =
      turn === undefined ? { priority: PRIORITY.head } : { priority: PRIORITY.fill, turn };
    return this.fetch(skip, limit, { ...how, signal });
  }

  /** @throws FetchFailure */
  async fetch(skip: number, limit: number, options: CallOptions): Promise<TradePage> {
    const { source, market, traits } = this.options;
    const page = await source.fetch(market, skip, limit, options).catch((error: unknown) => {
      throw new FetchFailure(error);
    });
    traits.largestPage = Math.max(traits.largestPage, page.rowCount);
    return page;
  }

  /**
   * Whether a page that was to skip rows shows the head all the same: only a server that takes the
   * number for an id does that, or one whose head moves faster than the walk.
   */
  looksLikeIdMode(skip: number, rows: readonly SourceTrade[]): boolean {
    return skip > 0 && (rows[0]?.tid ?? 0) >= this.newestTid;
  }

  stepped(pages: number, connected: boolean): void {
    const { telemetry, source, market } = this.options;
    telemetry.walkStepped({ stream: source.kind, market, pages, connected });
  }

  stalled(detail: string): WalkStalledError {
    const { telemetry, market, source } = this.options;
    telemetry.walkStalled({ stream: source.kind, market, detail });
    return new WalkStalledError(market, source.endpoint, detail);
  }
}
