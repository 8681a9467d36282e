import { DAY_S } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { SeriesKind } from '../../model/kinds.js';
import type { ArchiveIdentity } from '../../store/index.js';
import { OutputError } from '../errors.js';
import type { Latency } from './feed.js';

/** The programs whose own files can be written. */
export const TOOLS = ['freqtrade', 'backtrader', 'vectorbt', 'hftbacktest'] as const;
export type Tool = (typeof TOOLS)[number];

/** What a file holds: candles, trades, or trades and the book as one feed of events. */
export type Content = 'candles' | 'trades' | 'events';

/** What each program takes. */
export const CONTENTS: Readonly<Record<Tool, readonly Content[]>> = {
  freqtrade: ['candles', 'trades'],
  backtrader: ['candles'],
  vectorbt: ['candles'],
  hftbacktest: ['events'],
};

export interface InterchangeMarket extends NamedMarket {
  readonly marketId: number;
  /** Digits after the point of amounts, and of prices. */
  readonly stockPrec: number;
  readonly moneyPrec: number;
}

/** A series that is read, and the stream that covers it. */
export interface Source {
  readonly kind: Extract<SeriesKind, 'trades' | 'klines' | 'depth'>;
  readonly stream: { readonly streamId: number; readonly marketId: number };
}

/** What is written of one market. */
export interface InterchangePart {
  readonly market: InterchangeMarket;
  readonly span: Span;
  /** Candles: of the exchange (`klines`), or computed (`trades`). Events: trades, then depth. */
  readonly sources: readonly Source[];
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

/** A market as other tools name it. */
export interface NamedMarket {
  readonly name: string;
  readonly stock: string;
  readonly money: string;
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
const PLAIN = /^[A-Za-z0-9_-]{1,80}$/;

/**
 * What stands for a market in the name of a file: `BTC_USDT`, from which freqtrade makes the pair
 * `BTC/USDT` again.
 *
 * @throws OutputError for currencies that no such name can hold
 */
export function pairName({ name, stock, money }: NamedMarket): string {
  return plain(`${stock}_${money}`, name);
}

function plain(text: string, market: string): string {
  if (PLAIN.test(text)) return text;
  throw new OutputError(
    text,
    `the currencies of ${market} make no name of a file that the tool would know; use another format`,
  );
}
