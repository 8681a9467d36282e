import type { AsOfReader } from '../archive/past/past.js';
import type { Clock } from '../kernel/clock.js';
import { CandleView } from './candle-view.js';
import { Catalog } from './catalog.js';
import { GapBook } from './gap-book.js';
import { LateGaps } from './late-gaps.js';
import { Observations } from './observations.js';
import { TradeView } from './trade-view.js';

export interface ReplayContextOptions {
  readonly asOf: AsOfReader;
  readonly clock: Clock;
  /** Names; empty: all. */
  readonly markets: readonly string[];
  /** End of the replayed span: nothing of this instant or later is ever seen. */
  readonly toMs: number;
  readonly isKnownOnly: boolean;
}

/** Everything that can be seen of the archive at some instant; the same for all sessions. */
export class ReplayContext {
  readonly asOf: AsOfReader;
  readonly isKnownOnly: boolean;
  readonly catalog: Catalog;
  readonly gaps: GapBook;
  readonly late: LateGaps;
  readonly trades: TradeView;
  readonly candles: CandleView;
  readonly observations: Observations;
  readonly #toMs: number;

  constructor({ asOf, clock, markets, toMs, isKnownOnly }: ReplayContextOptions) {
    this.asOf = asOf;
    this.isKnownOnly = isKnownOnly;
    this.#toMs = toMs;
    this.catalog = new Catalog({ asOf, clock, markets, isKnownOnly });
    this.gaps = new GapBook(asOf, clock, toMs);
    this.trades = new TradeView(asOf, clock, toMs, isKnownOnly);
    this.late = new LateGaps(asOf, isKnownOnly);
    const { catalog, gaps, late, trades } = this;
    this.candles = new CandleView(clock, { asOf, catalog, gaps, late, trades, isKnownOnly });
    this.observations = new Observations(asOf, clock, toMs, isKnownOnly);
  }

  /** The next instant of which anything is recorded of the replayed markets; undefined: none is left. */
  async nextTimeMs(nowMs: number): Promise<number | undefined> {
    const marketIds = Array.from(this.catalog.markets, ({ marketId }) => marketId);
    return (await this.asOf.nextTimeMs(marketIds, nowMs, this.#toMs)) ?? undefined;
  }
}
