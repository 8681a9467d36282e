import {
  type AsOfReader,
  comparePlaces,
  type SeriesFrom,
  type TradePlace,
} from '../archive/past/past.js';
import type { ReplayedKind } from './catalog.js';
import { cutAt, type TouchedGap } from './gap-book.js';

/** Late trades of one answer that are listed; all below the last of them is suspect. */
const TRADES_MAX = 1000;
const MS_PER_S = 1000;
const REASON = 'received later';

/** A run of late trades with none in it that was known. */
interface Run {
  readonly newest: TradePlace;
  oldest: TradePlace;
}

/** Late trades of an answer. */
interface LateTrades {
  readonly gaps: TouchedGap[];
  /** The lowest of them; undefined where there is none. */
  readonly lowest: TradePlace | undefined;
}

const NONE: LateTrades = { gaps: [], lowest: undefined };

/**
 * What was missing at an instant because it was received later, where only what was known at the time
 * counts. The ledger has only what is covered today.
 */
export class LateGaps {
  readonly #asOf: AsOfReader;
  readonly #isKnownOnly: boolean;

  constructor(asOf: AsOfReader, isKnownOnly: boolean) {
    this.#asOf = asOf;
    this.#isKnownOnly = isKnownOnly;
  }

  /** @param known the trades of the run that were known, newest first */
  async trades(
    marketId: number,
    run: { readonly from: TradePlace; readonly before: TradePlace },
    known: readonly TradePlace[],
    nowMs: number,
  ): Promise<LateTrades> {
    if (!this.#isKnownOnly) return NONE;
    const late = await this.#asOf.lateTrades(marketId, run, nowMs, TRADES_MAX);
    const isCut = late.length >= TRADES_MAX;
    const runs = runsOf(late, known);
    const last = runs.at(-1);
    if (last === undefined) return NONE;
    if (isCut) last.oldest = run.from;
    const gaps = runs.toReversed().map(({ newest, oldest }) => ({
      ...({ kind: 'trades', reason: REASON } as const),
      span: {
        fromMs: oldest.tradedAtS * MS_PER_S,
        toMs: cutAt(nowMs, oldest.tradedAtS * MS_PER_S, (newest.tradedAtS + 1) * MS_PER_S),
      },
    }));
    return { gaps, lowest: last.oldest };
  }

  /** Begins of candles that lack something, as spans; those that follow each other as one. */
  candles(
    kind: 'trades' | 'kline',
    intervalS: number,
    openAtS: readonly number[],
    nowMs: number,
  ): TouchedGap[] {
    const spans: { fromMs: number; toMs: number }[] = [];
    for (const open of openAtS) {
      const [fromMs, toMs] = [open * MS_PER_S, (open + intervalS) * MS_PER_S];
      const last = spans.at(-1);
      if (last?.toMs === fromMs) last.toMs = toMs;
      else spans.push({ fromMs, toMs });
    }
    return spans.map(({ fromMs, toMs }) => ({
      ...{ kind, reason: REASON, span: { fromMs, toMs: cutAt(nowMs, fromMs, toMs) } },
    }));
  }

  /** Candles that the exchange gave: those that begin in a span and are not among the known ones. */
  async klines(
    marketId: number,
    intervalS: number,
    span: { readonly fromMs: number; readonly toMs: number },
    known: readonly { readonly openAtS: number }[],
    nowMs: number,
    limit: number,
  ): Promise<TouchedGap[]> {
    if (!this.#isKnownOnly || span.toMs <= span.fromMs) return [];
    const late = await this.#asOf.lateKlines(marketId, intervalS, span, nowMs, limit);
    const there = new Set(known.map(({ openAtS }) => openAtS));
    const missing = late.filter((openAtS) => !there.has(openAtS));
    return this.candles('kline', intervalS, missing, nowMs);
  }

  /** @param series each from what was known last, which is outdated if anything came after it */
  async observed(
    kind: 'ticker' | 'depth' | 'state',
    series: readonly SeriesFrom[],
    nowMs: number,
  ): Promise<TouchedGap[]> {
    if (!this.#isKnownOnly || series.length === 0) return [];
    const firstMs = await this.#asOf.lateObserved(SERIES[kind], series, nowMs);
    if (firstMs === null) return [];
    const fromMs = Math.floor(firstMs);
    return [{ kind, reason: REASON, span: { fromMs, toMs: Math.max(nowMs, fromMs + 1) } }];
  }
}

const SERIES = { ticker: 'tickers', depth: 'depth', state: 'states' } as const satisfies Partial<
  Record<ReplayedKind, string>
>;

/** Both newest first. */
function runsOf(late: readonly TradePlace[], known: readonly TradePlace[]): Run[] {
  const runs: Run[] = [];
  let at = 0;
  for (const place of late) {
    const before = at;
    for (let one = known[at]; one !== undefined && comparePlaces(one, place) > 0; one = known[at]) {
      at += 1;
    }
    const last = runs.at(-1);
    if (last === undefined || at > before) runs.push({ newest: place, oldest: place });
    else last.oldest = place;
  }
  return runs;
}
