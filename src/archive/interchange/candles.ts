import { linesOf, MomentReader, placesOf } from './text-rows.js';

/** A candle on its way into another tool; decimals are text with all their digits. */
export interface Candle {
  readonly openMs: number;
  readonly open: string;
  readonly high: string;
  readonly low: string;
  readonly close: string;
  /** In the stock currency. */
  readonly volume: string;
}

/** The exchange's candles, of rows in the form `csv`. */
export async function* exchangeCandles(pieces: AsyncIterable<Buffer>): AsyncGenerator<Candle[]> {
  const place = placesOf('klines');
  const moments = new MomentReader();
  const [openAt, volume] = [place('open_at'), place('volume')];
  const [open, high, low, close] = [place('open'), place('high'), place('low'), place('close')];
  for await (const lines of linesOf(pieces)) {
    yield lines.map((line): Candle => {
      const fields = line.split(',');
      return {
        openMs: moments.us(fields[openAt] ?? '') / 1000,
        open: fields[open] ?? '',
        high: fields[high] ?? '',
        low: fields[low] ?? '',
        close: fields[close] ?? '',
        volume: fields[volume] ?? '',
      };
    });
  }
}
