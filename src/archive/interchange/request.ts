import { DAY_S } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { SeriesKind } from '../../model/kinds.js';
import type { ArchiveIdentity, StreamPlace } from '../../store/index.js';
import { OutputError } from '../errors.js';
import type { Latency } from './feed.js';

/** The programs whose own files can be written. */
export const TOOLS = ['freqtrade', 'backtrader', 'vectorbt', 'hftbacktest'] as const;
export type Tool = (typeof TOOLS)[number];

/** What a file holds: candles, trades, or trades and the book as one feed of events. */
export type Content = 'candles' | 'trades' | 'events';

const FLOATS =
  'Numbers are doubles, as the tool has them: each is the double nearest to the exact decimal of the archive.';
const BARS = [
  'Numbers have every digit of the archive; the tool makes of them what it calculates with.',
  'A slot without trades has the close before it, and no volume. UTC.',
];
/** What each program takes, the usual first, with what its manifests note. */
export const CONTENTS: Readonly<Record<Tool, Readonly<Partial<Record<Content, string[]>>>>> = {
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
  backtrader: { candles: BARS },
  vectorbt: { candles: BARS },
  hftbacktest: {
    events: [
      FLOATS,
      'The book comes from observations of its best levels: the first as a snapshot, then what changed from one to the next.',
      'exch_ts of a trade is its exact time where the archive has it, else its whole second. Times are nanoseconds.',
    ],
  },
};

export interface InterchangeMarket {
  readonly marketId: number;
  readonly name: string;
  readonly stock: string;
  readonly money: string;
  /** Digits after the point of amounts, and of prices. */
  readonly stockPrec: number;
  readonly moneyPrec: number;
}

/** A series that is read, and the stream that covers it. */
export interface Source {
  readonly kind: Extract<SeriesKind, 'trades' | 'candles' | 'depth'>;
  readonly stream: StreamPlace;
}

/** What is written of one market. */
export interface InterchangePart {
  readonly market: InterchangeMarket;
  readonly span: Span;
  /** Candles: of the exchange (`candles`), or computed (`trades`). Events: trades, then depth. */
  readonly sources: readonly Source[];
  /** What a reader has to know of it beside its rows. */
  readonly notes: readonly string[];
}

export interface InterchangeRequest {
  readonly tool: Tool;
  readonly content: Content;
  /** Length of candles in seconds; 0 for the other contents. */
  readonly intervalS: number;
  readonly latency: Latency;
  /** Writes events although the times at which they were received cannot be used. */
  readonly isAnyLatency: boolean;
  readonly parts: readonly InterchangePart[];
  /** The folder of the tool; made if it is not there. */
  readonly dir: string;
  readonly allowGaps: boolean;
  /** Replaces files that are there. */
  readonly isForced: boolean;
  readonly archive: ArchiveIdentity | null;
  readonly version: string;
}

const UNITS: readonly (readonly [seconds: number, letter: string])[] = [
  [7 * DAY_S, 'w'],
  [DAY_S, 'd'],
  [3600, 'h'],
  [60, 'm'],
  [1, 's'],
];

/** A length as freqtrade and ccxt write it: `1m`, `4h`, `1d`. */
export function timeframeOf(seconds: number): string {
  const [unit, letter] = UNITS.find(([one]) => seconds % one === 0) ?? [1, 's'];
  return `${seconds / unit}${letter}`;
}

/** Names come from outside and must not lead out of the folder, nor mean something else there. */
const PLAIN = /^[\p{L}\p{M}\p{N}\p{Emoji_Presentation}_-]+$/u;
/** What a file system takes, less the ending. */
const NAME_BYTES = 200;

/**
 * What stands for a market in the name of a file: `BTC_USDT`, from which freqtrade makes the pair
 * `BTC/USDT` again.
 *
 * @throws OutputError for currencies that no such name can hold
 */
export function pairName({ name, stock, money }: InterchangeMarket): string {
  const pair = `${stock}_${money}`;
  if (PLAIN.test(pair) && Buffer.byteLength(pair) <= NAME_BYTES) return pair;
  throw new OutputError(
    pair,
    `the currencies of ${name} make no name of a file that the tool would know; use another format`,
  );
}
