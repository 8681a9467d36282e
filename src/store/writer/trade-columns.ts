import {
  compareDecimals,
  equalDecimals,
  multiplyDecimals,
  subtractDecimals,
  toPlainDecimal,
} from '../../kernel/decimal.js';
import { DAY_MS } from '../../kernel/durations.js';
import type { Batch, TradeRow } from '../../model/batch.js';
import { decimalFault, isInt4, isTimestampMs } from '../../model/columns.js';
import { type Outcome, type SaneWindow, type TradeRun, timeFault } from './series.js';
import { TradeEncoder } from './trade-encoder.js';

/**
 * The trades of a group of batches, screened, each once and in the order of the key. A trade is a
 * place in these columns: whatever is asked of ten thousands of them reads a column from one end to
 * the other, and not the rows, which lie all over the memory.
 */
export interface TradeColumnSet {
  readonly length: number;
  readonly rows: readonly TradeRow[];
  /** Which batch each came with. */
  readonly batches: Uint32Array;
  readonly ms: Float64Array;
  readonly tids: Float64Array;
  /** One where the exact time is known. */
  readonly timed: Uint8Array;
  readonly runs: readonly TradeRun[];
  readonly encoder: TradeEncoder;
  /** Which line is that of each. */
  readonly lineNumbers: Uint32Array;
  /** The lines of all of them as an empty table takes them best, see dense-order.ts. */
  readonly denseLines: Buffer;
}

/** Both endpoints report one trade with seconds that are this far apart at most. */
export const BESIDE_S = 1;

/** What screening settles at once. */
interface TradeScreening {
  settle(batch: number, outcome: Outcome): void;
  refuse(reason: string, row: TradeRow): void;
}

/**
 * All of a trade but its decimals, as the shape of its series checks any row. By hand: of 100,000
 * trades the shape takes 80 ms and this 2 ms, where all columns take 290 ms.
 */
export function tradeKeyFault(row: TradeRow, window: SaneWindow): string | undefined {
  const us = row.executedAtUs;
  if (!isInt4(row.marketId) || row.marketId === 0) return 'market id not storable';
  if (!Number.isInteger(row.tradedAtS)) return 'time not a whole second';
  const outside = timeFault(row.tradedAtS * 1_000, window);
  if (outside !== undefined) return outside;
  if (!Number.isSafeInteger(row.tid) || row.tid <= 0) return 'tid not storable';
  if (row.side !== 'buy' && row.side !== 'sell') return 'side not known';
  if (!isTimestampMs(row.receivedAtMs)) return 'received_at not storable';
  if (us === null) return undefined;
  if (!Number.isSafeInteger(us) || us < 0) return 'executed_at not storable';
  const isWithin = Math.floor(us / 1e6) === row.tradedAtS;
  return isWithin ? undefined : 'executed_at is not within its second';
}

function tradeDecimalsFault({ price, amount, total }: TradeRow): string | undefined {
  const of = (name: string, text: string, least: 0 | 1) => {
    const fault = decimalFault(text, least);
    return fault === undefined ? undefined : `${name} ${fault}`;
  };
  return of('price', price, 1) ?? of('amount', amount, 1) ?? of('total', total, 0);
}

/** The columns as trades come in. */
class Arrivals {
  readonly rows: TradeRow[] = [];
  readonly batches: Uint32Array;
  readonly ms: Float64Array;
  readonly tids: Float64Array;
  readonly timed: Uint8Array;
  readonly encoder: TradeEncoder;
  /** Numbers of the trades of each market, as they came. */
  readonly markets = new Map<number, number[]>();

  constructor(most: number) {
    this.batches = new Uint32Array(most);
    this.ms = new Float64Array(most);
    this.tids = new Float64Array(most);
    this.timed = new Uint8Array(most);
    this.encoder = new TradeEncoder(most);
  }

  /** @returns the reason why it cannot be stored */
  add(row: TradeRow, batch: number, window: SaneWindow): string | undefined {
    const reason = tradeKeyFault(row, window);
    if (reason !== undefined) return reason;
    if (!this.encoder.addUsual(row)) {
      const decimals = tradeDecimalsFault(row);
      if (decimals !== undefined) return decimals;
      this.encoder.add(row);
    }
    const number = this.rows.length;
    this.rows.push(row);
    this.batches[number] = batch;
    this.ms[number] = row.tradedAtS * 1_000;
    this.tids[number] = row.tid;
    this.timed[number] = row.executedAtUs === null ? 0 : 1;
    const market = this.markets.get(row.marketId);
    if (market === undefined) this.markets.set(row.marketId, [number]);
    else market.push(number);
    return undefined;
  }

  /** The trades of a market, each once and in order. */
  ofMarket(numbers: readonly number[], screening: TradeScreening): readonly number[] {
    if (this.#isGrowing(numbers)) return numbers;
    const turned = numbers.toReversed();
    if (this.#isGrowing(turned)) return turned;
    return this.#once(numbers, screening).sort(
      (a, b) => (this.ms[a] ?? 0) - (this.ms[b] ?? 0) || (this.tids[a] ?? 0) - (this.tids[b] ?? 0),
    );
  }

  /** Ids that grow along with time, as those of a page do, are in order and each there once. */
  #isGrowing(numbers: readonly number[]): boolean {
    let before = -1;
    for (const number of numbers) {
      if (before >= 0) {
        if ((this.tids[before] ?? 0) >= (this.tids[number] ?? 0)) return false;
        if ((this.ms[before] ?? 0) > (this.ms[number] ?? 0)) return false;
      }
      before = number;
    }
    return true;
  }

  /** Ids that began anew come again at another time: only close by they are the same trade. */
  #once(numbers: readonly number[], screening: TradeScreening): number[] {
    const held = new Map<number, number[]>();
    for (const number of numbers) {
      const row = this.rows[number];
      if (row === undefined) continue;
      const same = held.get(row.tid) ?? [];
      const at = same.findIndex(
        (one) => Math.abs((this.rows[one]?.tradedAtS ?? 0) - row.tradedAtS) <= BESIDE_S,
      );
      const before = same[at];
      const beforeRow = before === undefined ? undefined : this.rows[before];
      if (before === undefined || beforeRow === undefined) {
        held.set(row.tid, [...same, number]);
        continue;
      }
      // Of the two that one stays that knows its exact time, else the first: what the table makes of
      // them is reported of it. Also in conflict, for a claim of exact times may come with it.
      const knowsMore =
        beforeRow.tradedAtS === row.tradedAtS &&
        beforeRow.executedAtUs === null &&
        row.executedAtUs !== null;
      const goes = knowsMore ? before : number;
      if (knowsMore) same[at] = number;
      const isSame = isSameTrade(beforeRow, row);
      screening.settle(this.batches[goes] ?? 0, isSame ? 'duplicate' : 'conflict');
      if (!isSame) screening.refuse('conflict', knowsMore ? beforeRow : row);
    }
    return [...held.values()].flat();
  }
}

/** As SAME_TRADE of trade-rows.ts: equal, or one is the exact product and the other rounds it. */
function isSameTotal(held: TradeRow, again: TradeRow): boolean {
  if (equalDecimals(held.total, again.total)) return true;
  const product = multiplyDecimals(again.price, again.amount);
  const [rounded, exact] = equalDecimals(held.total, product)
    ? [again.total, held.total]
    : [held.total, again.total];
  if (!equalDecimals(exact, product)) return false;
  const digits = Math.min(digitsOf(rounded), digitsOf(exact));
  const difference = subtractDecimals(rounded, exact).replace('-', '');
  return compareDecimals(difference, `1e-${digits}`) < 0;
}

const digitsOf = (text: string) => toPlainDecimal(text).split('.')[1]?.length ?? 0;

/** The two history endpoints return one trade twice, and only one of them knows its exact time. */
function isSameTrade(held: TradeRow, again: TradeRow): boolean {
  return (
    held.tradedAtS === again.tradedAtS &&
    held.side === again.side &&
    equalDecimals(held.price, again.price) &&
    equalDecimals(held.amount, again.amount) &&
    isSameTotal(held, again) &&
    (held.executedAtUs === null ||
      again.executedAtUs === null ||
      held.executedAtUs === again.executedAtUs)
  );
}

export function tradeColumnSet(
  batches: readonly Batch[],
  window: SaneWindow,
  screening: TradeScreening,
): TradeColumnSet {
  const most = batches.reduce((sum, { trades }) => sum + (trades?.length ?? 0), 0);
  const arrivals = new Arrivals(most);
  for (const [batch, { trades }] of batches.entries()) {
    for (const row of trades ?? []) {
      const reason = arrivals.add(row, batch, window);
      if (reason === undefined) continue;
      screening.settle(batch, 'rejected');
      screening.refuse(reason, row);
    }
  }
  const markets = [...arrivals.markets].sort(([a], [b]) => a - b);
  const runs: TradeRun[] = [];
  const order = new Uint32Array(arrivals.rows.length);
  let start = 0;
  for (const [marketId, numbers] of markets) {
    const ordered = arrivals.ofMarket(numbers, screening);
    order.set(ordered, start);
    const end = start + ordered.length;
    runs.push({ marketId, start, end });
    start = end;
  }
  return inOrder(arrivals, order.subarray(0, start), runs);
}

function inOrder(
  { rows: came, batches, ms, tids, timed, encoder }: Arrivals,
  order: Uint32Array,
  runs: readonly TradeRun[],
): TradeColumnSet {
  const { length } = order;
  const rows: TradeRow[] = [];
  const columns = {
    ...{ length, rows, runs, encoder, lineNumbers: order },
    batches: new Uint32Array(length),
    ms: new Float64Array(length),
    tids: new Float64Array(length),
    timed: new Uint8Array(length),
  };
  for (let place = 0; place < length; place += 1) {
    const number = order[place] ?? 0;
    const row = came[number];
    if (row === undefined) continue;
    rows.push(row);
    columns.batches[place] = batches[number] ?? 0;
    columns.ms[place] = ms[number] ?? 0;
    columns.tids[place] = tids[number] ?? 0;
    columns.timed[place] = timed[number] ?? 0;
  }
  return { ...columns, denseLines: denseLines(columns, allPlaces(length)) };
}

export const allPlaces = (length: number) => new Uint32Array(length).map((_, place) => place);

/**
 * Times on each day that has trades, and so in each partition. Those of a market are in order: where
 * less than a day is between the first and the last, these two will do.
 */
export function timesOf({ ms, runs }: TradeColumnSet): number[] {
  return runs.flatMap(({ start, end }) => {
    const ofRun = ms.subarray(start, end);
    const [first = 0, last = 0] = [ofRun[0], ofRun.at(-1)];
    return last - first < DAY_MS ? [first, last] : [...ofRun];
  });
}

/** The lines at some places, which are in order, as the table takes them best. */
export function denseLines(
  { encoder, lineNumbers, runs }: Pick<TradeColumnSet, 'encoder' | 'lineNumbers' | 'runs'>,
  places: Uint32Array,
): Buffer {
  return encoder.pick(denseOrder(runs, places).map((place) => lineNumbers[place] ?? 0));
}

/**
 * The order in which new trades fill their index.
 *
 * A full page of an index is split in two halves, and trades that only ever follow each other never
 * come back to the left one: it stays half empty, 67 bytes a trade instead of 40. (Postgres fills up
 * the last page of an index, where the market with the highest id is, and pages of keys of up to 16
 * bytes; ours are 24: market, time and id.) So of many trades of one market a little more than every
 * second one goes first. That leaves pages half full all over their span, and the others fill
 * them up.
 *
 * It takes effect from several hundred trades of a market at once, as a walk through history brings
 * them. What comes in drops stays half empty until its partition is sealed.
 */

/** Share that goes first. At one half the others fit in exactly, or just not: that costs a split. */
const FIRST_SHARE = 0.53;
/** Below, all of them fit into a page or two. */
const LEAST_RUN = 256;

/** @returns the same places of columns whose markets are these runs; they are in the order of the key. */
export function denseOrder(runs: readonly TradeRun[], places: Uint32Array): Uint32Array {
  if (places.length < LEAST_RUN) return places;
  const ordered = new Uint32Array(places.length);
  let start = 0;
  for (const run of runs) {
    let end = start;
    while (end < places.length && (places[end] ?? 0) < run.end) end += 1;
    const ofRun = places.subarray(start, end);
    if (ofRun.length < LEAST_RUN) ordered.set(ofRun, start);
    else ordered.set(firstThenOthers(ofRun), start);
    start = end;
  }
  return ordered;
}

function firstThenOthers(places: Uint32Array): Uint32Array {
  const firstCount = Math.floor(places.length * FIRST_SHARE);
  const ordered = new Uint32Array(places.length);
  let first = 0;
  let other = firstCount;
  for (const place of places) {
    const index = first + other - firstCount;
    if (Math.floor((index + 1) * FIRST_SHARE) > first) {
      ordered[first] = place;
      first += 1;
    } else {
      ordered[other] = place;
      other += 1;
    }
  }
  return ordered;
}
