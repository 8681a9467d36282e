import type { SinceMode } from '../../src/collect/ports.js';
import {
  type SourceTrade,
  type TradePage,
  type TradeSource,
  toPage,
} from '../../src/collect/trades/source.js';
import { seededRandom } from '../../src/kernel/random.js';

export const HISTORY_START_S = 1_700_000_000;

export interface HistoryTraits {
  readonly seed: number;
  readonly mode: SinceMode;
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
  /** Every so many trades one is sent in a form that nobody can read; 0 for never. */
  readonly brokenEvery: number;
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
  readonly #traits: HistoryTraits;
  readonly #random: () => number;
  #nowS = HISTORY_START_S;
  #nextTid = 5_000_000_000;
  #before = 0;

  constructor(traits: HistoryTraits) {
    this.#traits = traits;
    this.#random = seededRandom(traits.seed);
    this.#trade(traits.history);
  }

  get nowMs(): number {
    return this.#nowS * 1000;
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
    return Math.max(0, this.issued.length - Math.floor(this.#random() * 50));
  }

  async fetch(_market: string, offset: number, limit: number): Promise<TradePage> {
    this.requests += 1;
    const { mode, cap, perRequest } = this.#traits;
    const visible = this.#visible();
    const size = Math.min(limit, cap);
    const end = Math.max(0, visible - (mode === 'skip' ? offset : 0));
    const rows = this.issued
      .slice(Math.max(0, end - size), end)
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
