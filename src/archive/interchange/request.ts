import type { Span } from '../../kernel/span.js';
import type { SeriesKind } from '../../model/kinds.js';
import type { ArchiveIdentity } from '../../store/index.js';
import type { Latency } from './feed-file.js';
import type { NamedMarket } from './names.js';

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
  /** Writes events although the times at which they were received can not be used. */
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
