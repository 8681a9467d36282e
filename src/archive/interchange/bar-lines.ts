import type { Candle } from './candles.js';

type Write = (bytes: Uint8Array) => Promise<void>;

/** Candles as lines of CSV, with all their digits: the reader makes numbers of them. */
interface LineForm {
  readonly heading: readonly string[];
  readonly ending: string;
  readonly line: (candle: Candle) => string;
}

/** `2026-01-31 12:00:00`, UTC. */
const plainTime = (ms: number) => new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
const values = ({ open, high, low, close, volume }: Candle) =>
  `${open},${high},${low},${close},${volume}`;

export const BAR_LINES = {
  /** What `GenericCSVData` reads as it comes: its order of columns and its form of time. */
  backtrader: {
    heading: ['datetime', 'open', 'high', 'low', 'close', 'volume', 'openinterest'],
    ending: '\n',
    line: (candle) => `${plainTime(candle.openMs)},${values(candle)},0`,
  },
  /** What `pandas.read_csv` makes an index with a zone of, under the names that vectorbt looks for. */
  vectorbt: {
    heading: ['Date', 'Open', 'High', 'Low', 'Close', 'Volume'],
    ending: '\n',
    line: (candle) => `${plainTime(candle.openMs)}+00:00,${values(candle)}`,
  },
} as const satisfies Readonly<Record<string, LineForm>>;

/** The file's text in pieces. */
export async function* barLines(
  candles: AsyncIterable<readonly Candle[]>,
  { heading, ending, line }: LineForm,
): AsyncGenerator<Buffer> {
  yield Buffer.from(heading.join(',') + ending);
  for await (const batch of candles) {
    if (batch.length > 0) yield Buffer.from(batch.map((one) => line(one) + ending).join(''));
  }
}

/** Writes everything that comes. */
export async function writeAll(pieces: AsyncIterable<Uint8Array>, write: Write): Promise<void> {
  for await (const piece of pieces) await write(piece);
}
