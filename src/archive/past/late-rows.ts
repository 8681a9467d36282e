import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { KlineRow } from '../../ledger/batch.js';
import { tableOfKind } from '../../model/kinds.js';
import type { Store } from '../../store/index.js';
import * as sql from './hot-sql.js';
import { seenAtMs } from './next-moment.js';
import type { PartSearch } from './part-search.js';
import type { LateRows, SeriesFrom, TradePlace, TradeRow } from './past.js';
import { comparePlaces } from './places.js';

/** Finds what was received later than it happened, in the database and in files. */
export class PastLateRows implements LateRows {
  readonly #store: Pick<Store, 'query'>;
  readonly #search: PartSearch;

  constructor(store: Pick<Store, 'query'>, search: PartSearch) {
    this.#store = store;
    this.#search = search;
  }

  trades(
    marketId: number,
    { from, before }: { readonly from: TradePlace; readonly before: TradePlace },
    nowMs: number,
    limit: number,
  ): Promise<TradeRow[]> {
    const values = [from.tradedAtS, from.tid, before.tradedAtS, before.tid, nowMs];
    return this.#search.newest(
      {
        ...({ kind: 'trades', marketId, variantS: 0 } as const),
        hot: ({ fromMs, toMs }, left) =>
          this.#store.query(sql.LATE_TRADES, [marketId, fromMs, toMs, ...values, left]),
        isMeant: (row) =>
          comparePlaces(row, from) >= 0 &&
          comparePlaces(row, before) < 0 &&
          row.receivedAtMs > nowMs &&
          seenAtMs(row) <= nowMs,
      },
      (before.tradedAtS + 1) * SECOND_MS,
      limit,
      from.tradedAtS * SECOND_MS,
    );
  }

  klines(
    marketId: number,
    intervalS: number,
    span: Span,
    nowMs: number,
    limit: number,
  ): Promise<number[]> {
    const openOf = ({ openAtS }: Pick<KlineRow, 'openAtS'>) => openAtS;
    return this.#search.oldest(
      {
        ...({ kind: 'klines', marketId, variantS: intervalS, read: openOf } as const),
        hot: async ({ fromMs, toMs }, left) => {
          const values = [marketId, fromMs, toMs, intervalS, left, nowMs];
          return (await this.#store.query<{ openAtS: number }>(sql.LATE_KLINES, values)).map(
            openOf,
          );
        },
        isMeant: ({ receivedAtMs }) => receivedAtMs > nowMs,
      },
      span,
      limit,
    );
  }

  observed(
    kind: 'tickers' | 'depth' | 'states',
    series: readonly SeriesFrom[],
    nowMs: number,
  ): Promise<number | null> {
    const ids = series.map(({ marketId }) => marketId);
    const froms = series.map(({ fromMs }) => fromMs);
    const periods = series.map(({ variantS }) => variantS);
    return this.#search.first(
      {
        ...({ kind, series } as const),
        hot: async ({ fromMs, toMs }) => {
          const [row] = await this.#store.query<{ readonly atMs: number | null }>(
            sql.firstLate(tableOfKind(kind)),
            [ids, fromMs, toMs, froms, periods, nowMs],
          );
          return row?.atMs ?? null;
        },
        isMeant: ({ receivedAtMs }) => receivedAtMs > nowMs,
        momentOf: ({ observedAtMs }) => observedAtMs,
      },
      { fromMs: Math.min(...froms), toMs: nowMs + 1 },
    );
  }
}
