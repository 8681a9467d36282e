import type { RowOfKind } from '../../model/kinds.js';
import type { Store } from '../../store/index.js';
import { shortest } from '../parquet/texts.js';
import { openReading } from '../reading.js';
import { ArchiveError } from './errors.js';
import type { DepthEvent, PriceLevel } from './event.js';
import { readMarkets } from './markets.js';
import { findStream } from './plan.js';

/** The book of a market as it held at a moment; null where nobody was looking. */
export async function bookAt(
  place: { readonly store: Store; readonly coldDir: string | null },
  market: string,
  atUs: number,
): Promise<DepthEvent | null> {
  const { store, coldDir } = place;
  const streams = await store.inspection.streams();
  const known = await readMarkets(store);
  const { stream, marketId } = findStream({ market, kind: 'depth' }, streams, known);
  const atMs = Math.floor(atUs / 1000);
  const after = { fromMs: atMs + 1, toMs: atMs + 1 };
  const { before } = await store.inspection.neighbours({ ...stream, span: after });
  if (before === null || before.span.toMs <= atMs) return null;
  const reading = await openReading(store, { coldDir: coldDir ?? '' });
  try {
    const span = { fromMs: before.span.fromMs, toMs: atMs + 1 };
    if (coldDir === null && reading.parts('depth', span).some(({ state }) => state === 'cold')) {
      const text = 'this book has left the database for files: name their folder with coldDir';
      throw new ArchiveError('bad_option', text);
    }
    const slice = { kind: 'depth', marketId, variantS: 0, span } as const;
    for await (const [row] of reading.newest(slice, 1)) {
      if (row !== undefined) return bookOf(market, row);
    }
    return null;
  } finally {
    await reading.close();
  }
}

function bookOf(market: string, row: RowOfKind<'depth'>): DepthEvent {
  return {
    kind: 'depth',
    market,
    atUs: Math.round(row.observedAtMs * 1000),
    receivedAtUs: Math.round(row.receivedAtMs * 1000),
    bids: side(row.bidPrices, row.bidAmounts),
    asks: side(row.askPrices, row.askAmounts),
  };
}

function side(prices: readonly string[], amounts: readonly string[]): PriceLevel[] {
  return prices.map((price, at) => [shortest(price), shortest(amounts[at] ?? '')]);
}
