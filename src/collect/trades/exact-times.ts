import type { CallOptions, RequestTurn } from '../../client/index.js';
import { BoundedMap } from '../../kernel/bounded.js';
import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { Agreement, BELIEVED } from '../../model/agreement.js';
import { comparePlaces, orderPage, type PageRow, placeKey } from '../../model/order.js';
import { seek } from '../../model/page.js';
import { provenUntilMs } from '../../model/proof.js';
import { type Search, searchFrom } from '../../model/search.js';
import type { UntimedTrades } from '../../store/index.js';
import { PRIORITY } from '../ports.js';
import type { HeadLook } from './head.js';
import { holdBack, sureRows } from './known.js';
import { PAGE_MAX, Pace, pageSize } from './pace.js';
import { type TradePage, type TradeSource, timeMsOf } from './source.js';
import { LOCATE_REQUESTS_MAX, type ServerTraits, type Walk } from './walk.js';

/** Stored rows that new ones are compared with. */
const STORED_MAX = 2 * PAGE_MAX;
/** Between two passes over the days, unless a gap was filled. */
const PASS_MS = 3_600_000;
/** After a failed request. */
const RETRY_MS = 60_000;
/** How long rows rest whose times a pass did not bring. */
const REST_MS = 86_400_000;
/** Days that are remembered as resting. */
const RESTING_MAX = 1000;

/** Rows of one partition without exact times, and how far down they were asked for. */
interface Pass extends UntimedTrades {
  search: Search;
  /** Requests that may still seek the upper end of these rows. */
  tries: number;
  /** The oldest row so far. */
  lowest: PageRow | undefined;
  /** Rows that learned their time. */
  gained: number;
}

/**
 * Exact times of one market's trades, from an endpoint that proves nothing while another one does. New trades are
 * stored from it first, without a claim, and are compared with those of the other endpoint. Older rows without exact time get
 * it in passes from the newest such row down, with what the request budget leaves over.
 *
 * States: *resting* → *pass* (one partition after the other, a page a step) → *resting*. Only the place of the pass is kept
 * in memory; what lacks its time is asked of the archive.
 */
export class ExactTimes {
  readonly #walk: Walk;
  readonly #source: TradeSource;
  readonly #onNews: (spans: readonly Span[], note: string) => Promise<void>;
  readonly #pace = new Pace();
  readonly #pageEnds = new Agreement<string>(BELIEVED.pageEnd);
  #newest: PageRow | undefined;
  #pass: Pass | undefined;
  /** Partitions that begin before are next. */
  #beforeMs = Number.POSITIVE_INFINITY;
  #restUntilMs = Number.NEGATIVE_INFINITY;
  /** By start of partition: until when rows up to a time rest. */
  readonly #resting = new BoundedMap<number, { untilMs: number; toMs: number }>(RESTING_MAX);
  readonly isBusy = false;

  /** @param onNews revokes coverage of spans, of which new trades came */
  constructor(
    walk: Walk,
    source: TradeSource,
    onNews: (spans: readonly Span[], note: string) => Promise<void>,
  ) {
    this.#walk = walk;
    this.#source = source;
    this.#onNews = onNews;
  }

  get market(): string {
    return this.#walk.options.market;
  }

  get endpoint(): TradeSource['endpoint'] {
    return this.#source.endpoint;
  }

  get largestPage(): number {
    return this.#traits.largestPage;
  }

  /** Pushed trades have their exact times. */
  get isPushed(): boolean {
    return this.#walk.options.pushed?.isKept === true;
  }

  get #traits(): ServerTraits {
    return this.#walk.options.traits[this.#source.endpoint];
  }

  /**
   * Asks for the newest trades and stores them without a claim.
   *
   * @throws the errors of the exchange and of the archive
   */
  async pollHead(signal: AbortSignal, turn?: RequestTurn): Promise<HeadLook> {
    const { time, market, offsets, evidence, cacheMarginMs } = this.#walk.options;
    const asked = pageSize(this.#pace.room(time.nowMs()));
    const page = await this.#fetch(0, asked, true, {
      ...{ priority: PRIORITY.head, signal },
      ...(turn && { turn }),
    });
    const rows = sureRows(page);
    const [newest, oldest] = [rows[0], rows.at(-1)];
    evidence?.provenUntilMs(this.endpoint, page, newest, provenUntilMs(page, cacheMarginMs));
    await this.#revokeNews(rows);
    await this.#walk.pages.commit(page);
    this.#walk.pages.remember(rows);
    this.#walk.shown.add(rows);
    const known = this.#newest;
    const fresh = rows.filter((row) => known === undefined || comparePlaces(row, known) > 0);
    this.#newest = fresh[0] ?? known;
    if (oldest !== undefined) {
      this.#pace.polled(page.sentAtMs, fresh.length, page.sentAtMs - startMs(oldest));
    }
    if (page.rowCount > 1) await offsets.look(this.#source, market, signal);
    const isConnected =
      known !== undefined && oldest !== undefined && comparePlaces(oldest, known) <= 0;
    const newTimesMs = fresh.map((row) => timeMsOf(row));
    const received = page.rowCount;
    return { newRows: fresh.length, newTimesMs, asked, received, isConnected, isOpen: false };
  }

  /** New rows of covered time: the endpoint that proved it lacked them, so that their seconds are asked for again. */
  async #revokeNews(rows: readonly PageRow[]): Promise<void> {
    const walk = this.#walk;
    const unknown = rows.filter((row) => walk.isCovered(startMs(row)) && !walk.known.has(row));
    const [newest, oldest] = [unknown[0], unknown.at(-1)];
    if (newest === undefined || oldest === undefined) return;
    const { archive, marketId } = walk.options;
    const span = { fromMs: startMs(oldest), toMs: startMs(newest) + SECOND_MS };
    const stored = new Set((await archive.storedTrades(marketId, span, STORED_MAX)).map(placeKey));
    const news = unknown.filter((row) => !stored.has(placeKey(row)));
    if (news.length === 0) return;
    walk.disputed();
    const seconds = [...new Set(news.map(startMs))];
    const spans = seconds.map((fromMs) => ({ fromMs, toMs: fromMs + SECOND_MS }));
    await this.#onNews(spans, `${this.endpoint} shows trades of it that an earlier answer lacked`);
  }

  /** True if rows may lack their times and nothing else is missing. */
  get isDue(): boolean {
    const { clock, offsets } = this.#walk.options;
    return (
      clock.monotonicMs() >= this.#restUntilMs &&
      offsets.of(this.endpoint) === 'skip' &&
      this.#walk.newest !== undefined &&
      this.#walk.openGaps().length === 0
    );
  }

  /** A gap was filled: its rows lack their times. */
  wake(): void {
    this.#beforeMs = Number.POSITIVE_INFINITY;
    this.#restUntilMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * Asks for one more page of rows that lack their times.
   *
   * @throws the errors of the exchange and of the archive; the next try is a minute later
   */
  async fillStep(signal: AbortSignal): Promise<void> {
    const { clock } = this.#walk.options;
    this.#restUntilMs = clock.monotonicMs() + RETRY_MS;
    this.#pass ??= await this.#nextPass();
    if (this.#pass === undefined) {
      this.#restUntilMs = clock.monotonicMs() + PASS_MS;
      this.#beforeMs = Number.POSITIVE_INFINITY;
      return;
    }
    await this.#goDown(this.#pass, signal);
    this.#restUntilMs = Number.NEGATIVE_INFINITY;
  }

  async #nextPass(): Promise<Pass | undefined> {
    const { archive, marketId, clock } = this.#walk.options;
    for (;;) {
      const found = await archive.untimedTrades(marketId, this.#beforeMs);
      if (found === undefined) return undefined;
      const { partition, lacking } = found;
      const rest = this.#resting.get(partition.fromMs);
      const isRested = rest === undefined || clock.monotonicMs() >= rest.untilMs;
      if (isRested || lacking.toMs > rest.toMs) {
        const search = searchFrom((await archive.storedAbove(marketId, lacking.toMs)) - 1);
        return { ...found, search, tries: LOCATE_REQUESTS_MAX, lowest: undefined, gained: 0 };
      }
      this.#beforeMs = partition.fromMs;
    }
  }

  async #goDown(pass: Pass, signal: AbortSignal): Promise<void> {
    const { search, lacking } = pass;
    const options = { priority: PRIORITY.fill, signal };
    const page = await this.#fetch(search.skip, PAGE_MAX, false, options);
    const { outcomes } = await this.#walk.pages.commit(page);
    pass.gained += outcomes?.updated ?? 0;
    const rows = orderPage(page.trades);
    const { largestPage } = this;
    const place = seek({
      ...{ rows, search, received: page.rowCount, largestPage, end: undefined },
      ...{ edgeMs: lacking.toMs, shown: rows.length },
    });
    if (place.kind === 'again' && pass.tries > 0) {
      pass.tries -= 1;
      pass.search = place.search;
      return;
    }
    pass.tries = 0;
    const oldest = rows.at(-1);
    const isLower =
      oldest !== undefined &&
      (pass.lowest === undefined || comparePlaces(oldest, pass.lowest) < 0) &&
      startMs(oldest) >= lacking.fromMs;
    if (!isLower) return this.#end(pass);
    pass.lowest = oldest;
    // The last row is asked for once more: another page must show it as well.
    pass.search = searchFrom(search.skip + Math.max(1, page.rowCount - 1));
  }

  /** Ends a pass. Rows without times rest, unless the pass brought some: then the others are tried once more. */
  #end({ partition, lacking, gained }: Pass): void {
    this.#pass = undefined;
    if (gained > 0) return;
    const untilMs = this.#walk.options.clock.monotonicMs() + REST_MS;
    this.#resting.set(partition.fromMs, { untilMs, toMs: lacking.toMs });
  }

  /** @param isHead the newest row is believed at once: it is compared with the other endpoint. */
  async #fetch(
    skip: number,
    limit: number,
    isHead: boolean,
    options: CallOptions,
  ): Promise<TradePage> {
    const { market, evidence } = this.#walk.options;
    const page = await this.#source.fetch(market, skip, limit, options);
    this.#traits.largestPage = Math.max(this.#traits.largestPage, page.rowCount);
    const isShown = (row: PageRow) =>
      this.#walk.known.has(row) || evidence?.isShownBy(this.endpoint, row) === true;
    return holdBack(page, isHead, isShown, this.#pageEnds);
  }
}

const startMs = ({ tradedAtS }: PageRow) => tradedAtS * SECOND_MS;
