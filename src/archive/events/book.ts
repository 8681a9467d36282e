import type { DepthJson, Store } from '../../store/index.js';
import { shortest } from '../parquet/texts.js';
import { openReading } from '../reading/open-reading.js';
import { ArchiveError } from './errors.js';
import type { DepthEvent, PriceLevel } from './event.js';
import { readMarkets } from './markets.js';
import { microsOf } from './moments.js';
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
    let text = '';
    for await (const piece of reading.newest(slice, 'json', 1)) text += piece.toString();
    return text === '' ? null : bookOf(market, JSON.parse(text) as DepthJson);
  } finally {
    await reading.close();
  }
}

function bookOf(market: string, row: DepthJson): DepthEvent {
  return {
    kind: 'depth',
    market,
    atUs: microsOf(row.observed_at),
    receivedAtUs: microsOf(row.received_at),
    bids: side(row.bid_prices, row.bid_amounts),
    asks: side(row.ask_prices, row.ask_amounts),
  };
}

function side(prices: readonly string[], amounts: readonly string[]): PriceLevel[] {
  return prices.map((price, at) => [shortest(price), shortest(amounts[at] ?? '')]);
}
