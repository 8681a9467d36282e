import type { ArchiveIdentity, SpanCompleteness } from '../../store/index.js';
import { completenessOf, type MarketPart } from '../export/manifest.js';
import type { Content, InterchangePart, InterchangeRequest, Source, Tool } from './request.js';

/** What a file for another tool is, beside it. */
export interface InterchangeManifest {
  readonly tapekeep: string;
  /** Clock of this machine. */
  readonly madeAt: string;
  readonly archive: ArchiveIdentity | null;
  readonly for: Tool;
  readonly content: Content;
  readonly market: string;
  /** A step of prices and of amounts, as the exchange lists the market. */
  readonly tickSize: string;
  readonly lotSize: string;
  readonly from: string;
  readonly to: string;
  /** Of candles: their length, and whether they come from the exchange or from trades. */
  readonly intervalS?: number;
  readonly candlesFrom?: 'exchange' | 'trades';
  readonly file: string | null;
  readonly bytes: number;
  readonly sha256: string;
  readonly rows: number;
  /** Nothing of the span is missing in what was read. */
  readonly isComplete: boolean;
  /** What was counted on the way; what counts zero is left out. */
  readonly counts: Readonly<Record<string, number>>;
  readonly notes: readonly string[];
  readonly sources: readonly (Pick<MarketPart, 'coverage' | 'gaps'> & {
    readonly kind: Source['kind'];
  })[];
}

/** Facts that a writer returns of its file. */
export interface Written {
  readonly rows: number;
  readonly counts: Readonly<Record<string, number>>;
}

const iso = (ms: number) => new Date(ms).toISOString();
/** `0.01` for two digits. */
const step = (digits: number) =>
  digits > 0 ? `0.${'1'.padStart(digits, '0')}` : '1'.padEnd(1 - digits, '0');

const FLOATS =
  'Numbers are doubles, as the tool has them: each is the double nearest to the exact decimal of the archive.';
const DIGITS =
  'Numbers have every digit of the archive; the tool makes of them what it calculates with.';
const NOTES: Readonly<Record<Tool, Readonly<Partial<Record<Content, readonly string[]>>>>> = {
  freqtrade: {
    candles: [
      FLOATS,
      'A candle that is absent had no trades; freqtrade itself puts the close before in its place. It does the same over gaps.',
    ],
    trades: [
      FLOATS,
      'timestamp is the exact time where the archive has it, else the whole second.',
    ],
  },
  backtrader: {
    candles: [DIGITS, 'A slot without trades has the close before it, and no volume. UTC.'],
  },
  vectorbt: {
    candles: [DIGITS, 'A slot without trades has the close before it, and no volume. UTC.'],
  },
  hftbacktest: {
    events: [
      FLOATS,
      'The book comes from observations of its best levels: the first as a snapshot, then what changed from one to the next.',
      'exch_ts of a trade is its exact time where the archive has it, else its whole second. Times are nanoseconds.',
    ],
  },
};

/** Puts together the manifest of a file. */
export function interchangeManifest(
  { tool, content, intervalS, archive, version }: InterchangeRequest,
  { market, span, sources }: InterchangePart,
  known: readonly SpanCompleteness[],
  file: Pick<InterchangeManifest, 'file' | 'bytes' | 'sha256' | 'madeAt'> & Written,
): InterchangeManifest {
  const candlesFrom = sources[0]?.kind === 'klines' ? 'exchange' : 'trades';
  const counts = Object.entries(file.counts).filter(([, count]) => count !== 0);
  return {
    ...{ tapekeep: version, madeAt: file.madeAt, archive, for: tool, content },
    ...{ market: market.name, tickSize: step(market.moneyPrec), lotSize: step(market.stockPrec) },
    ...{ from: iso(span.fromMs), to: iso(span.toMs) },
    ...(content === 'candles' ? { intervalS, candlesFrom } : {}),
    ...{ file: file.file, bytes: file.bytes, sha256: file.sha256, rows: file.rows },
    isComplete: known.every(({ missingCount }) => missingCount === 0),
    counts: Object.fromEntries(counts),
    notes: NOTES[tool][content] ?? [],
    sources: known.map((one, index) => ({
      kind: sources[index]?.kind ?? 'trades',
      ...completenessOf(one),
    })),
  };
}
