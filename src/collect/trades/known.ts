import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { Agreement } from '../../model/agreement.js';
import { comparePlaces, isOddHead, orderPage, type PageRow, placeKey } from '../../model/order.js';
import { latestMs } from '../../model/proof.js';
import type { SourceTrade, TradePage } from './source.js';

/** The newest trades that are remembered, to hold the next page against them. */
const KNOWN_MAX = 1000;

/** Rows that a page should hold and does not. */
export interface Contradiction {
  readonly missing: readonly PageRow[];
  /** The page is newer than the ones that showed them: it holds trades that these did not, or later ones. */
  readonly isLater: boolean;
}

/**
 * The newest trades of one market as the answers of one endpoint showed them. A page must hold all of
 * them that lie above its oldest second. One that does not is stale, or not whole, or some of them
 * never were; which of these it is, the next pages show.
 */
export class KnownTrades {
  /** Newest first. */
  #rows: readonly PageRow[] = [];

  /** Newest first. */
  get rows(): readonly PageRow[] {
    return this.#rows;
  }

  has(row: PageRow): boolean {
    return this.#rows.some((one) => comparePlaces(one, row) === 0);
  }

  /** Takes over what a page shows, or what is stored besides. What a page could not contradict stays. */
  add(rows: readonly PageRow[]): void {
    const places = rows.map(({ tid, tradedAtS }) => ({ tid, tradedAtS }));
    this.#rows = orderPage([...this.#rows, ...places]).slice(0, KNOWN_MAX);
  }

  /** Forgets rows that are no trades after all. */
  forget(rows: readonly PageRow[]): void {
    const gone = new Set(rows.map(placeKey));
    this.#rows = this.#rows.filter((row) => !gone.has(placeKey(row)));
  }

  /**
   * Returns what a page of the head contradicts. Rows that it holds in a form that cannot be read are not missing.
   *
   * @param rows of the page, newest first
   */
  against(page: TradePage, rows: readonly PageRow[]): Contradiction {
    const oldest = rows.at(-1);
    if (oldest === undefined) return { missing: [], isLater: false };
    const held = new Set(rows.map(placeKey));
    const missing = this.#rows.filter(
      (row) => row.tradedAtS > oldest.tradedAtS && !held.has(placeKey(row)) && !isUnread(page, row),
    );
    const known = new Set(this.#rows.map(placeKey));
    const lowest = this.#rows.at(-1);
    const isNews = rows.some(
      (row) => lowest !== undefined && comparePlaces(row, lowest) > 0 && !known.has(placeKey(row)),
    );
    const [newest] = rows;
    const isInner = newest !== undefined && missing.every((row) => comparePlaces(row, newest) < 0);
    return { missing, isLater: isNews || isInner };
  }

  /**
   * From the second of the row below the lowest of some rows to that of the one above the highest. Where the page
   * shows no whole second below them, from the one in which it ends: more of them may lie below the page.
   */
  spanAround(missing: readonly PageRow[], page: readonly PageRow[], toMs: number): Span {
    const [highest, lowest] = [missing[0], missing.at(-1)];
    if (highest === undefined || lowest === undefined) return { fromMs: 0, toMs: 0 };
    const below = page.find((row) => comparePlaces(row, lowest) < 0) ?? lowest;
    const above = page.findLast((row) => comparePlaces(row, highest) > 0);
    const upperMs = above === undefined ? toMs : (above.tradedAtS + 1) * SECOND_MS;
    const oldestS = page.at(-1)?.tradedAtS ?? lowest.tradedAtS;
    const isConfirmed = page.some(
      ({ tradedAtS }) => oldestS < tradedAtS && tradedAtS < lowest.tradedAtS,
    );
    const fromS = isConfirmed ? below.tradedAtS : Math.min(below.tradedAtS, oldestS);
    const fromMs = fromS * SECOND_MS;
    return { fromMs, toMs: Math.max(upperMs, (highest.tradedAtS + 1) * SECOND_MS) };
  }
}

/** Trades that are remembered as stored without a claim. */
const SHOWN_MAX = 2000;

interface ShownRow extends PageRow {
  /** The last answer of its own endpoint lacks it. */
  readonly isLacked?: boolean;
}

/** Trades that were stored without a claim, and that no page of the head had to show yet. */
export class ShownTrades {
  /** Newest first. */
  #rows: readonly ShownRow[] = [];

  /** @param rows of another answer, newest first */
  add(rows: readonly PageRow[]): void {
    const held = new Set(rows.map(placeKey));
    const oldestS = rows.at(-1)?.tradedAtS ?? Number.POSITIVE_INFINITY;
    const before = this.#rows.map(({ tid, tradedAtS }): ShownRow => {
      const isLacked = tradedAtS > oldestS && !held.has(placeKey({ tid, tradedAtS }));
      return { tid, tradedAtS, isLacked };
    });
    this.#rows = orderPage<ShownRow>([...before, ...rows]).slice(0, SHOWN_MAX);
  }

  forget(rows: readonly PageRow[]): void {
    const gone = new Set(rows.map(placeKey));
    this.#rows = this.#rows.filter((row) => !gone.has(placeKey(row)));
  }

  /** Those of some rows that are none of these. */
  without(rows: readonly PageRow[]): PageRow[] {
    const shown = new Set(this.#rows.map(placeKey));
    return rows.filter((row) => !shown.has(placeKey(row)));
  }

  /** Those above the newest row of a page: nothing is claimed beyond one that is a trade. */
  above(newest: PageRow): {
    readonly trades: readonly PageRow[];
    readonly lies: readonly PageRow[];
  } {
    const above = this.#rows.filter((row) => comparePlaces(row, newest) > 0);
    const isLie = ({ isLacked }: ShownRow) => isLacked === true;
    return { trades: above.filter((row) => !isLie(row)), lies: above.filter(isLie) };
  }

  /** Takes out those that a page with this newest row must show. */
  takeUpTo(newest: PageRow | undefined): PageRow[] {
    if (newest === undefined) return [];
    const due = this.#rows.filter((row) => comparePlaces(row, newest) <= 0);
    this.forget(due);
    return due;
  }
}

/** Returns true if a row may be one of those that a page holds in a form that cannot be read. */
export function isUnread({ unread }: TradePage, { tradedAtS }: PageRow): boolean {
  return unread.some(
    ({ newerS, olderS }) => olderS <= tradedAtS && tradedAtS <= (newerS ?? tradedAtS),
  );
}

/**
 * Holds back the rows at the ends of a page. A row between two others has a time that fits both; the
 * last row of a page has one neighbour only, and so has the first. What such a row says of its time and
 * id is believed once a second answer says the same, or shows what lies beyond it. Only the newest row
 * of all is believed at once, unless it looks odd.
 *
 * @param isHead nothing was skipped: the first row is as new as trades are
 * @param said ends that answers showed, which this one is added to
 */
export function holdBack(
  page: TradePage,
  isHead: boolean,
  isKnown: (row: PageRow) => boolean,
  said: Agreement<string>,
): TradePage {
  const { first, last } = page.ends;
  const isFirstSure = isHead && !isOddHead(page.trades, latestMs(page));
  const held = (isFirstSure ? [last] : [first, last])
    .filter((end) => end !== undefined)
    .filter((end) => !isKnown(end))
    .filter((end) => !said.say(placeKey(end)));
  return held.length === 0 ? page : { ...page, held };
}

/**
 * Rows of a page that are not held back, newest first.
 *
 * @param rows all of them, where they are in order already
 */
export function sureRows(
  { trades, held }: TradePage,
  rows: readonly SourceTrade[] = orderPage(trades),
): readonly SourceTrade[] {
  if (held.length === 0) return rows;
  return rows.filter((row) => held.every((one) => comparePlaces(one, row) !== 0));
}
