import type { CandleOpen, EmptyCandles } from './candles.js';
import type { GeneratedMarket } from './markets.js';

/** A recorded tape in a file; see `readCsvTape` for its format. */
export interface RecordedTape {
  readonly market: string;
  readonly path: string;
  /** Places of amounts and prices; default: the most that the file shows. */
  readonly stockPrec?: number;
  readonly moneyPrec?: number;
}

export interface RecordedTapes {
  readonly kind: 'recorded';
  /** One tape per market; all run on one clock. */
  readonly tapes: readonly RecordedTape[];
}

export interface GeneratedTapes {
  readonly kind: 'generated';
  /** Markets by name, or described in full; default: four, from busy to quiet. */
  readonly markets?: readonly (string | GeneratedMarket)[];
  /** History begins here, UNIX milliseconds; default: `startOffsetS` before the start. */
  readonly originMs?: number;
}

/** What a tape exchange plays, and how its time runs. */
export interface TapeOptions {
  readonly source: RecordedTapes | GeneratedTapes;
  /** Draws order books and generated trades; default 7. */
  readonly seed?: number;
  /**
   * Seconds of the exchange per second of this machine; default 1. `instant` shows a recorded tape
   * whole at once, and the exchange's time stands at its end and runs on from there at pace 1.
   */
  readonly pace?: number | 'instant';
  /**
   * `tape`: the tape's own time; the default of recorded tapes, and for generated ones it means
   * that time starts at `originMs` + `startOffsetS` instead of now. `now`: times are moved so that
   * the exchange's start is this machine's wall time; the default of generated tapes.
   */
  readonly time?: 'tape' | 'now';
  /** How much history lies before the start, seconds; default 0 recorded, 900 generated. */
  readonly startOffsetS?: number;
  /** Most trades of a market that are served; default: all recorded, 100,000 generated. */
  readonly historyMax?: number;
  /** Default `omitted`. */
  readonly emptyCandles?: EmptyCandles;
  /** Default `first`. */
  readonly candleOpen?: CandleOpen;
  /** Activated API keys with their secrets; default none. */
  readonly keys?: Readonly<Record<string, string>>;
}
