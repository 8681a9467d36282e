import { SECOND_MS } from '../../kernel/durations.js';
import { areAtOdds, comparePlaces, orderPage, type PageRow, placeKey } from '../../model/order.js';
import type { SourceTrade, TradePage } from './source.js';

/** Pushed trades of one market that are kept at most, to be joined to a page of history. */
const KEPT_MAX = 20_000;
/** Runs that are kept: what no page has joined by then never will be. */
const RUNS_MAX = 4;
/** Trades of the first moments of a subscription may have happened before it, and are not missed. */
const BEGINNING_MS = 2000;
/** How late a trade may be pushed after history shows it. */
const LATE_MS = 5000;
/** Rows of a page that all follow each other by one, and so show that the ids of a market are counted. */
const COUNTED_ROWS = 50;
/** Rows below the newest one that is stored which are kept: a row that both have ties a page to it. */
const OVERLAP = 50;
/** Rows at odds with others that are kept until a page comes. */
const ODD_MAX = 100;
/** Trades that pages showed before they were pushed which are remembered. */
const AWAITED_MAX = 1000;

/** What a page of history and the pushed trades make of each other. */
export interface Joined {
  /** The page, and below it the pushed trades that follow on it without a break. */
  readonly page: TradePage;
  /** Trades that were pushed, and that the page should show and does not, or that are at odds with others. */
  readonly unshown: readonly PageRow[];
  /** Trades that the page shows, and that should have been pushed and were not. */
  readonly unpushed: readonly PageRow[];
}

interface Connection {
  /** Since when it pushes, exchange milliseconds. */
  openedMs: number;
  /** Whether the last page agreed with what it pushed. */
  isKept: boolean;
  /** Newest trade of a frame that may be older than what ended the last run, as may the frame behind it. */
  floor: PageRow | 'next frame' | undefined;
}

/**
 * The newest trades of one market as they were pushed, in runs: trades of one run follow each other
 * without a break. That is so within one connection, and within one answer; runs that share a trade are
 * one. Where the ids of a market count its trades, an id that is left out ends a run. Where the ids and times of
 * two rows are at odds, one of them is false, and the run that has both is dropped.
 *
 * A run is evidence only where pages of history agree with it: between a page and the page before it
 * the run stands for the rows that neither of them holds, and only if both ends lie in it, and it has
 * there what they have. Anything else is a contradiction, and then nothing that was pushed so far counts.
 */
export class PushedTrades {
  /** Each newest first; the last one grows while there is a connection and it is live. */
  #runs: SourceTrade[][] = [];
  #connection: Connection | undefined;
  /** The last run is that of this connection; it is loose until an answer or a page has met it. */
  #live: 'no' | 'loose' | 'met' = 'no';
  /** Of the rows that were pushed, the one with the highest id. */
  #highest: PageRow | undefined;
  /** Rows at odds with one that was pushed later, or with an answer, since the last page. */
  #odd: readonly PageRow[] = [];
  /** What pages showed that was not pushed by then, newest first. */
  #awaited: SourceTrade[] = [];
  #isCounted = false;
  readonly #onUnpushed: (tradedMs: number) => void;

  /** @param onUnpushed called when a page shows a trade that should have been pushed, exchange milliseconds */
  constructor(onUnpushed: (tradedMs: number) => void = () => undefined) {
    this.#onUnpushed = onUnpushed;
  }

  /** Whether the last page agreed, and new trades are pushed: history need not be asked so often. */
  get isKept(): boolean {
    return this.#connection?.isKept === true;
  }

  /** Whether trades are pushed that an answer might join to those from before. */
  get isLoose(): boolean {
    return this.#live === 'loose';
  }

  /** Trades that are kept. */
  get kept(): number {
    return this.#runs.reduce((sum, run) => sum + run.length, 0);
  }

  /** The run of this connection. */
  get #liveRun(): SourceTrade[] | undefined {
    return this.#live === 'no' ? undefined : this.#runs.at(-1);
  }

  /** Nothing that was pushed so far counts any more. */
  forget(): void {
    this.#runs = [];
    this.#broken();
  }

  /** The last run has ended, and nothing shows yet that the next one is whole. */
  #broken(): void {
    this.#live = 'no';
    if (this.#connection !== undefined) this.#connection.isKept = false;
  }

  /** A connection was made: from now on all trades are pushed. */
  opened(exchangeMs: number): void {
    this.#connection = { openedMs: exchangeMs, isKept: false, floor: undefined };
    this.#live = 'no';
  }

  /** Something was pushed that cannot be read: between which trades it lay is not known. */
  unread(exchangeMs: number): void {
    if (this.#connection === undefined) return;
    this.opened(exchangeMs);
    this.#connection.floor = 'next frame';
  }

  closed(): void {
    this.#connection = undefined;
  }

  /** Trades of one frame, which follow on those of the frame before. */
  push(trades: readonly SourceTrade[]): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    const { floor } = connection;
    const ordered = orderPage(trades);
    connection.floor = floor === 'next frame' ? ordered[0] : undefined;
    if (floor === 'next frame') return;
    let last = this.#liveRun?.[0];
    let rows: SourceTrade[] = [];
    for (const row of ordered.toReversed()) {
      if (floor !== undefined && comparePlaces(row, floor) <= 0) continue;
      if (this.#isAtOdds(row)) {
        [last, rows] = [undefined, []];
        continue;
      }
      if (this.#isCounted && last !== undefined && row.tid > last.tid + 1) {
        this.#pushRows(rows);
        this.#live = 'no';
        rows = [];
      }
      rows.push(row);
      last = row;
    }
    this.#pushRows(rows);
  }

  /**
   * Whether a row and one before it cannot both be true. Which of them is false is not known, nor what it stands
   * in the place of: the run of the one is dropped, the other must not become part of any.
   */
  #isAtOdds(row: PageRow): boolean {
    const highest = this.#highest;
    if (highest === undefined || !areAtOdds(row, highest)) {
      if (highest === undefined || row.tid > highest.tid) this.#highest = row;
      return false;
    }
    this.#runs = this.#runs.filter((run) => run.every((one) => comparePlaces(one, highest) !== 0));
    this.#broken();
    this.#odd = [...this.#odd, highest].slice(-ODD_MAX);
    this.#highest = undefined;
    return true;
  }

  /** @param oldestFirst without a break */
  #pushRows(oldestFirst: readonly SourceTrade[]): void {
    if (oldestFirst.length === 0) return;
    const rows = oldestFirst.toReversed();
    const live = this.#liveRun;
    if (live === undefined) {
      this.#add(rows);
      this.#live = 'loose';
      return;
    }
    const [newest, lowest] = [live[0], live.at(-1)];
    if (newest === undefined || lowest === undefined) return;
    const isInOrder = rows.every((row) => comparePlaces(row, newest) > 0);
    // What lies below the run is old news, and says nothing of what lies between.
    const grown = isInOrder
      ? [...rows, ...live]
      : orderPage([...live, ...rows.filter((row) => comparePlaces(row, lowest) > 0)]);
    this.#runs[this.#runs.length - 1] = grown.slice(0, KEPT_MAX);
  }

  /**
   * The newest trades, as they were asked for on this connection: they may join it to the one before. They may come
   * from a cache, so that what is pushed follows on them only where both have a trade.
   */
  answered(trades: readonly SourceTrade[]): void {
    const rows = orderPage(trades);
    if (rows.length === 0 || this.#connection === undefined) return;
    if (rows.toReversed().some((row) => this.#isAtOdds(row))) return;
    const { unshown, unpushed } = this.#contradiction(rows);
    if (unshown.length + unpushed.length > 0) {
      this.forget();
      this.#odd = [...this.#odd, ...unshown, ...unpushed].slice(-ODD_MAX);
    } else if (this.#live !== 'no') this.#link(rows);
    else this.#add(rows);
  }

  /** Holds a page of the newest trades against what was pushed, and makes it longer by it. */
  join(page: TradePage): Joined {
    const rows = orderPage(page.trades);
    const [newest, oldest] = [rows[0], rows.at(-1)];
    const nothing = { page, unshown: [], unpushed: [] };
    const isPlain = page.unread.length === 0;
    if (newest === undefined || oldest === undefined || !isPlain) return nothing;
    this.#isCounted = isCounted(rows, this.#isCounted);
    const odd = this.#odd;
    this.#odd = [];
    const { unshown, unpushed } = this.#contradiction(rows, this.#awaited);
    this.#await(rows);
    if (unshown.length + unpushed.length > 0) this.#refuted(page);
    if (odd.length + unshown.length + unpushed.length > 0) {
      return { page, unshown: [...odd, ...unshown], unpushed };
    }
    const late = this.#unpushedOf(rows, page);
    if (this.#connection !== undefined) this.#connection.isKept = late === undefined;
    if (late !== undefined) this.#onUnpushed(late.tradedAtS * SECOND_MS);
    this.#link(rows);
    const run = this.#runs.find((one) => one.some((row) => comparePlaces(row, oldest) === 0));
    const below = run?.filter((row) => comparePlaces(row, oldest) < 0) ?? [];
    if (below.length === 0) return nothing;
    const last = below.at(-1) ?? page.ends.last;
    const longer = { ...page, trades: [...page.trades, ...below], ends: { ...page.ends, last } };
    return { ...nothing, page: longer };
  }

  /** All is stored and covered down from here: of what lies below, only so much is kept as ties a page to it. */
  settled(newest: PageRow): void {
    this.#runs = this.#runs.flatMap((run, index) => {
      const at = run.findIndex((row) => comparePlaces(row, newest) <= 0);
      const isOver = at === 0 && index < this.#runs.length - 1;
      return isOver ? [] : [at < 0 ? run : run.slice(0, at + OVERLAP)];
    });
  }

  #add(rows: SourceTrade[]): void {
    this.#runs = [...this.#runs, rows.slice(0, KEPT_MAX)].slice(-RUNS_MAX);
    this.#link(rows);
  }

  /** Rows that follow each other without a break join all runs that share one with them. */
  #link(rows: readonly SourceTrade[]): void {
    const keys = new Set(rows.map(placeKey));
    const touched = this.#runs.filter((run) => run.some((row) => keys.has(placeKey(row))));
    const live = this.#liveRun;
    const own = live !== undefined && touched.includes(live) ? live[0] : undefined;
    if (touched.length === 0) return;
    // Newer ones than were pushed will be pushed; if they are not, that must show.
    const known = own === undefined ? rows : rows.filter((row) => comparePlaces(row, own) <= 0);
    const joined = orderPage([...touched.flat(), ...known]).slice(0, KEPT_MAX);
    const apart = this.#runs.filter((run) => !touched.includes(run));
    if (own !== undefined) this.#live = 'met';
    const isLast = touched.includes(this.#runs.at(-1) ?? []);
    this.#runs = isLast ? [...apart, joined] : [...apart.slice(0, -1), joined, ...apart.slice(-1)];
  }

  /**
   * What a page and a run that overlap do not both have where they do.
   *
   * @param awaited what earlier pages showed above all that was pushed
   */
  #contradiction(rows: readonly SourceTrade[], awaited: readonly SourceTrade[] = []) {
    const [newest, oldest] = [rows[0], rows.at(-1)];
    const shown = new Set(rows.map(placeKey));
    const unshown: PageRow[] = [];
    const unpushed: PageRow[] = [];
    if (newest === undefined || oldest === undefined) return { unshown, unpushed };
    for (const run of this.#runs) {
      const [top, bottom] = [run[0], run.at(-1)];
      if (top === undefined || bottom === undefined) continue;
      const pushed = new Set(run.map(placeKey));
      for (const row of run) {
        // The second in which a page ends may go on below it, and the newest one above.
        const isWithin = row.tradedAtS > oldest.tradedAtS && comparePlaces(row, newest) < 0;
        if (isWithin && !shown.has(placeKey(row))) unshown.push(row);
      }
      for (const row of orderPage([...awaited, ...rows])) {
        const isWithin = comparePlaces(row, bottom) > 0 && comparePlaces(row, top) < 0;
        if (isWithin && !pushed.has(placeKey(row))) unpushed.push(row);
      }
    }
    return { unshown, unpushed };
  }

  /** Newer trades than were pushed will be pushed; where others are that are newer still, that must show. */
  #await(rows: readonly SourceTrade[]): void {
    const newest = this.#liveRun?.[0];
    const isAwaited = (row: PageRow) => newest === undefined || comparePlaces(row, newest) > 0;
    this.#awaited = orderPage([...this.#awaited, ...rows])
      .filter(isAwaited)
      .slice(0, AWAITED_MAX);
  }

  /** The newest trade that the page shows, and that should have been pushed over this connection by now. */
  #unpushedOf(rows: readonly SourceTrade[], { sentAtMs }: TradePage): SourceTrade | undefined {
    if (this.#connection === undefined) return undefined;
    const { openedMs } = this.#connection;
    const newest = this.#liveRun?.[0];
    return rows.find((row) => {
      const ms = row.tradedAtS * SECOND_MS;
      if (ms < openedMs + BEGINNING_MS || ms + LATE_MS > sentAtMs) return false;
      return newest === undefined || comparePlaces(row, newest) > 0;
    });
  }

  #refuted({ sentAtMs }: TradePage): void {
    this.forget();
    this.#highest = undefined;
    this.#awaited = [];
    const connection = this.#connection;
    if (connection !== undefined) connection.openedMs = Math.max(connection.openedMs, sentAtMs);
  }
}

/** Whether the ids of a market count its trades, as far as a page shows. @param before what is known */
function isCounted(rows: readonly PageRow[], before: boolean): boolean {
  const isByOne = rows.every((row, at) => at === 0 || (rows[at - 1]?.tid ?? 0) - row.tid === 1);
  return isByOne && (before || rows.length >= COUNTED_ROWS);
}
