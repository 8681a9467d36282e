import type { TickerEntry } from '../../contract/resources.js';
import { compareDecimals } from '../../kernel/decimal.js';

/**
 * What a change of a market's figures says: `trade` – there was one, for certain; `maybe` – the
 * figures of the window fell while the last price stayed, which an old trade does that leaves the
 * window, and which can hide a new one.
 */
export type TradeSign = 'trade' | 'maybe';

/** The figures of a window of time that only trades change. */
export interface WindowFigures {
  readonly last: string;
  readonly volume: string;
  readonly deal: string;
}

/** Compares two looks at one window; undefined when nothing moved. */
export function tradeSign(before: WindowFigures, now: WindowFigures): TradeSign | undefined {
  if (compareDecimals(now.last, before.last) !== 0) return 'trade';
  const volume = compareDecimals(now.volume, before.volume);
  const deal = compareDecimals(now.deal, before.deal);
  if (volume > 0 || deal > 0) return 'trade';
  return volume < 0 || deal < 0 ? 'maybe' : undefined;
}

/** Tells from one answer of `tickers` to the next which markets moved. */
export class TickerSweep {
  #before = new Map<string, WindowFigures>();

  /** Signs by market, of those that moved since the answer before. */
  compare(entries: Readonly<Record<string, TickerEntry>>): Map<string, TradeSign> {
    const now = new Map<string, WindowFigures>();
    const signs = new Map<string, TradeSign>();
    for (const [market, { ticker }] of Object.entries(entries)) {
      const figures = { last: ticker.last, volume: ticker.vol, deal: ticker.deal };
      now.set(market, figures);
      const before = this.#before.get(market);
      const sign = before && tradeSign(before, figures);
      if (sign !== undefined) signs.set(market, sign);
    }
    this.#before = now;
    return signs;
  }
}
