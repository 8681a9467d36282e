import { comparePlaces, isOddHead, type PageRow, placeKey } from '../../model/order.js';
import { latestMs } from '../../model/proof.js';
import type { SourceTrade, TradePage } from './source.js';

/** Ends of pages that are remembered; a forgotten one is held back once more. */
const SEEN_MAX = 200;

/**
 * Holds back the rows at the ends of pages. A row between two others has a time that fits both; the
 * last row of a page has one neighbour only, and so has the first. What such a row says of its time and
 * id is believed once a second answer says the same, or shows what lies beyond it. Only the newest row
 * of all is believed at once, unless it looks odd.
 */
export class PageEnds {
  readonly #seen = new Set<string>();

  /** Takes note of a row that is known from elsewhere. */
  confirm(row: PageRow): void {
    const key = placeKey(row);
    this.#seen.delete(key);
    this.#seen.add(key);
    const [oldest] = this.#seen;
    if (oldest !== undefined && this.#seen.size > SEEN_MAX) this.#seen.delete(oldest);
  }

  /**
   * The page with those of its ends held back that no other answer has shown so far; they are
   * remembered.
   *
   * @param isHead nothing was skipped: the first row is as new as trades are
   */
  holdBack(page: TradePage, isHead: boolean, isKnown: (row: PageRow) => boolean): TradePage {
    const { first, last } = page.ends;
    const isFirstSure = isHead && !isOddHead(page.trades, latestMs(page));
    const ends = [...(isFirstSure || first === last ? [] : [first]), last];
    const held = ends
      .filter((end) => end !== undefined)
      .filter((end) => !this.#isSure(end, isKnown));
    for (const row of held) this.confirm(row);
    return held.length === 0 ? page : { ...page, held };
  }

  #isSure(row: PageRow, isKnown: (row: PageRow) => boolean): boolean {
    return this.#seen.has(placeKey(row)) || isKnown(row);
  }
}

/** Rows of a page that are not held back, newest first. */
export function sureRows(page: TradePage, rows: readonly SourceTrade[]): readonly SourceTrade[] {
  const { held } = page;
  if (held.length === 0) return rows;
  return rows.filter((row) => held.every((one) => comparePlaces(one, row) !== 0));
}
