import assert from 'node:assert/strict';
import {
  type SourceTrade,
  type TradePage,
  type TradeSource,
  toPage,
} from '../../../src/collect/trades/source.js';
import { seededRandom } from '../../../src/kernel/random.js';
import type { Span } from '../../../src/kernel/span.js';
import type { OffsetMode } from '../../../src/store/index.js';
import { lowerBound } from './by-seconds.js';

const CUTS_MAX = 2;
const WHOLE_MIN = 4;
/** Less than the margin of the walk. */
const REPLICA_LAG_MAX_S = 45;
export const HISTORY_START_S = 1_700_000_000;

export interface HistoryTraits {
  readonly seed: number;
  readonly mode: OffsetMode;
  /** Trades before the first request. */
  readonly history: number;
  /** At most so many new trades a request, less one. */
  readonly perRequest: number;
  /** Rows of a page at most. */
  readonly cap: number;
  /** Every so many requests the answer is the history of the request before. */
  readonly staleEvery: number;
  /** Every so many requests a replica answers that lacks the newest trades. */
  readonly replicaEvery: number;
  /** Every so many trades one is sent in an unreadable form; 0 for never. */
  readonly brokenEvery: number;
  /**
   * Share of answers that are cut to three rows or less, down to none; at most two of them in a row,
   * and some whole ones after that, because a server that always lies looks like an empty
   * one.
   */
  readonly shortShare?: number;
}

/**
 * An exchange of one market in the walk's own terms, whose head moves with every request: bursts
 * longer than a page within one second, quiet stretches, page caps, caches and lagging replicas.
 */
export class ModelHistory implements TradeSource {
  readonly kind = 'trades';
  readonly endpoint = 'historyResult';
  readonly issued: SourceTrade[] = [];
  /** Ids of trades that are sent unreadable. */
  readonly broken = new Set<number>();
  isMoving = true;
  requests = 0;
  lies = 0;
  cuts = 0;
  cutsInRow = 0;
  /** Trades, from the oldest on, that are no longer served. */
  forgotten = 0;
  readonly #traits: HistoryTraits;
  readonly #random: () => number;
  #nowS = HISTORY_START_S;
  #nextTid = 5_000_000_000;
  #before = 0;
  /** Answers in a row that were cut, and those that will not be. */
  #cutRun = 0;
  #wholeRun = 0;

  constructor(traits: HistoryTraits) {
    this.#traits = traits;
    this.#random = seededRandom(traits.seed);
    this.#trade(traits.history);
  }

  get nowMs(): number {
    return this.#nowS * 1000;
  }

  get oldestServed(): SourceTrade | undefined {
    return this.issued[this.forgotten];
  }

  isServed(trade: SourceTrade): boolean {
    return trade.tid >= (this.oldestServed?.tid ?? 0);
  }

  /** Time without a reader: trades happen, and all but the newest of them are forgotten. */
  away(seconds: number, kept: number): void {
    this.rest(seconds / 2);
    this.#trade(kept * 2);
    this.rest(seconds / 2);
    // By count, so now and then in the middle of a second.
    this.forgotten = Math.max(this.forgotten, this.issued.length - kept);
    this.#before = this.issued.length;
  }

  /** How many trades happened in a span. */
  countWithin({ fromMs, toMs }: Span): number {
    return lowerBound(this.issued, toMs / 1000) - lowerBound(this.issued, fromMs / 1000);
  }

  /** Time passes without a trade. */
  rest(seconds: number): void {
    this.#nowS += seconds;
  }

  #trade(count: number): void {
    let left = count;
    while (left > 0) {
      // A burst: many trades in one second, now and then more than a page holds.
      const burst = Math.min(left, Math.ceil(this.#random() ** 4 * 500));
      for (let one = 0; one < burst; one += 1) {
        this.#nextTid += 1 + Math.floor(this.#random() * 5);
        this.issued.push({
          tid: this.#nextTid,
          tradedAtS: this.#nowS,
          executedAtUs: null,
          price: '10',
          amount: '1',
          total: '10',
          side: 'buy',
        });
        const { brokenEvery } = this.#traits;
        if (brokenEvery > 0 && this.issued.length % brokenEvery === 0) {
          this.broken.add(this.#nextTid);
        }
      }
      left -= burst;
      if (this.#random() < 0.7) this.#nowS += Math.ceil(this.#random() * 4);
    }
  }

  #visible(): number {
    const { staleEvery, replicaEvery } = this.#traits;
    if (!this.isMoving) return this.issued.length;
    if (this.requests % staleEvery === 0) {
      this.lies += 1;
      return this.#before;
    }
    if (this.requests % replicaEvery !== 0) return this.issued.length;
    this.lies += 1;
    const lagging = this.issued.length - Math.floor(this.#random() * 50);
    return Math.max(0, lagging, lowerBound(this.issued, this.#nowS - REPLICA_LAG_MAX_S));
  }

  #cut(size: number): number {
    const { shortShare = 0 } = this.#traits;
    if (shortShare === 0 || !this.isMoving) return size;
    const isWhole = this.#cutRun >= CUTS_MAX || this.#wholeRun > 0 || this.#random() >= shortShare;
    this.#wholeRun = this.#cutRun >= CUTS_MAX ? WHOLE_MIN : Math.max(0, this.#wholeRun - 1);
    this.#cutRun = isWhole ? 0 : this.#cutRun + 1;
    if (isWhole) return size;
    this.cuts += 1;
    if (this.#cutRun === CUTS_MAX) this.cutsInRow += 1;
    return Math.min(size, Math.floor(this.#random() * 4));
  }

  async fetch(_market: string, offset: number, limit: number): Promise<TradePage> {
    this.requests += 1;
    assert.ok(limit >= 1 && limit <= 1000 && offset >= 0, `limit ${limit}, offset ${offset}`);
    const { mode, cap, perRequest } = this.#traits;
    const visible = this.#visible();
    const size = Math.min(limit, cap);
    const end = Math.max(0, visible - (mode === 'skip' ? offset : 0));
    const from = Math.max(this.forgotten, end - this.#cut(size));
    const rows = this.issued
      .slice(from, Math.max(from, end))
      .filter(({ tid }) => mode === 'skip' || tid > offset)
      .reverse();
    const sentAtMs = this.nowMs;
    this.#before = visible;
    if (this.isMoving) {
      this.#trade(Math.floor(this.#random() * perRequest));
      if (this.#random() < 0.5) this.#nowS += 1;
    }
    const rejected = rows.flatMap((row, at) =>
      this.broken.has(row.tid) ? [{ at, reason: 'price', payload: row }] : [],
    );
    const data = rows.filter(({ tid }) => !this.broken.has(tid));
    const times = { sentAtMs, dateMs: sentAtMs, receivedAtMs: sentAtMs };
    return toPage({ data, rejected, ...times }, (row) => row);
  }
}
