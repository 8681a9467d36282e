import { SECOND_MS } from '../../kernel/durations.js';
import type { Store } from '../../store/index.js';
import * as sql from './hot-sql.js';
import type { PartSearch } from './part-search.js';
import type { TradeRow } from './past.js';

const US_PER_MS = 1000;

/** From its exact time on a trade is seen, or from the end of its second on. */
export function seenAtMs({ executedAtUs, tradedAtS }: TradeRow): number {
  return executedAtUs === null ? (tradedAtS + 1) * SECOND_MS : executedAtUs / US_PER_MS;
}

const observedAt = ({ observedAtMs }: { readonly observedAtMs: number }) => observedAtMs;

/**
 * The next moment after `afterMs` and before `beforeMs` of which anything is recorded of these markets: a
 * trade, a ticker, depth or a state, in the database or in files. It may lie between two milliseconds.
 * Null when there is none.
 */
export async function findNextMoment(
  store: Pick<Store, 'query' | 'inspection'>,
  search: PartSearch,
  marketIds: readonly number[],
  afterMs: number,
  beforeMs: number,
): Promise<number | null> {
  const series = marketIds.map((marketId) => ({ marketId, variantS: 0 }));
  const states = (await store.inspection.streams())
    .filter(({ kind, marketId }) => kind === 'state' && marketIds.includes(marketId))
    .map(({ marketId, variant }) => ({ marketId, variantS: variant }));
  const ask = async (text: string, ...values: ReadonlyArray<number | readonly number[]>) => {
    const [row] = await store.query<{ readonly atMs: number | null }>(text, [...values]);
    return row?.atMs ?? null;
  };
  const isNext = (row: TradeRow) => seenAtMs(row) > afterMs;
  // Each kind is looked for only as far as the one before it was found.
  let nextMs = beforeMs;
  const note = (foundMs: number | null) => {
    if (foundMs !== null) nextMs = Math.min(nextMs, foundMs);
  };
  const rest = () => ({ fromMs: afterMs + 1, toMs: Math.ceil(nextMs) });
  // A trade may be seen a second after the one that it is kept under.
  const trades = {
    fromMs: Math.floor(afterMs / SECOND_MS) * SECOND_MS - SECOND_MS,
    toMs: beforeMs,
  };
  note(
    await search.first(
      {
        ...({ kind: 'trades', series, isMeant: isNext, momentOf: seenAtMs } as const),
        hot: ({ fromMs, toMs }) => ask(sql.NEXT_TRADE, marketIds, fromMs, toMs, afterMs),
      },
      trades,
    ),
  );
  const all = { isMeant: () => true, momentOf: observedAt };
  note(
    await search.first(
      {
        ...({ kind: 'tickers', series, ...all } as const),
        hot: ({ fromMs, toMs }) => ask(sql.NEXT_TICKER, marketIds, fromMs, toMs),
      },
      rest(),
    ),
  );
  note(
    await search.first(
      {
        ...({ kind: 'depth', series, ...all } as const),
        hot: ({ fromMs, toMs }) => ask(sql.NEXT_DEPTH, marketIds, fromMs, toMs),
      },
      rest(),
    ),
  );
  const [ids, periods] = [
    states.map(({ marketId }) => marketId),
    states.map(({ variantS }) => variantS),
  ];
  note(
    await search.first(
      {
        ...({ kind: 'states', series: states, ...all } as const),
        hot: ({ fromMs, toMs }) => ask(sql.NEXT_STATE, ids, fromMs, toMs, periods),
      },
      rest(),
    ),
  );
  return nextMs < beforeMs ? nextMs : null;
}
