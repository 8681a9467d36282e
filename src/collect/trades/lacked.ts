import { BoundedMap } from '../../kernel/bounded.js';
import type { Clock } from '../../kernel/clock.js';
import { type PageRow, placeKey } from '../../model/order.js';

/** Rows that answers may expose at once: more of them are no slip of one answer. */
export const FEW = 5;
/** More of them must be lacked for this long: other answers may come from a cache. */
const LASTING_MS = 20_000;
/** Answers that hold nothing later may all be old ones. They must go on for longer, and expose no more rows. */
const QUIET_MS = 120_000;
const QUIET_MAX = 100;
/** Lacked rows that are remembered: some pages of them. */
const ROWS_MAX = 5000;

interface Lacked {
  readonly sinceMs: number;
  readonly answers: number;
}

/**
 * Known rows of one market that answers of one endpoint lack although they reach them, with the number of these
 * answers. An answer that shows such a row ends its count.
 */
export class LackedRows {
  readonly #clock: Clock;
  readonly #rows = new BoundedMap<string, Lacked>(ROWS_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Counts one answer.
   *
   * @param lacked rows that it reaches and does not show
   * @param shown places that it shows
   */
  answered(lacked: readonly PageRow[], shown: ReadonlySet<string>): void {
    for (const key of [...this.#rows.keys()]) if (shown.has(key)) this.#rows.delete(key);
    const nowMs = this.#clock.monotonicMs();
    for (const row of lacked) {
      const key = placeKey(row);
      const { sinceMs, answers } = this.#rows.get(key) ?? { sinceMs: nowMs, answers: 0 };
      this.#rows.set(key, { sinceMs, answers: answers + 1 });
    }
  }

  /**
   * Those of some rows that never were trades, or are none any more. If that is wrong nothing is lost: their time
   * is fetched again.
   *
   * @param answers number of answers that must lack a row
   * @param isLater the answers hold trades later than these rows, or than those that showed them
   */
  exposed(rows: readonly PageRow[], answers: number, isLater: boolean): PageRow[] {
    if (!isLater && rows.length > QUIET_MAX) return [];
    const atOnceMs = rows.length <= FEW ? 0 : LASTING_MS;
    const leastMs = isLater ? atOnceMs : QUIET_MS;
    const nowMs = this.#clock.monotonicMs();
    return rows.filter((row) => {
      const lacked = this.#rows.get(placeKey(row));
      if (lacked === undefined || lacked.answers < answers) return false;
      return nowMs - lacked.sinceMs >= leastMs;
    });
  }
}
