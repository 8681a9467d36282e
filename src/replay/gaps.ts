import {
  type AsOfMarket,
  comparePlaces,
  type KnownStream,
  type SeriesFrom,
  type SpanCompleteness,
  type TradePlace,
} from '../archive/as-of/reader.js';
import type { GapNotice } from '../contract/gap-notices.js';
import { obtain } from '../kernel/bounded.js';
import { SECOND_MS } from '../kernel/durations.js';
import type { Span } from '../kernel/span.js';
import { BEFORE_COLLECTING, type GapReason } from '../model/gap-reasons.js';
import { MOMENT_STREAMS, type StreamKind } from '../model/series.js';
import { FreshCache } from './caches.js';
import type { Catalog, Sight } from './catalog.js';

type Missing = SpanCompleteness['missing'][number];

/** A piece of time that an answer needed and the archive does not have whole. */
export interface TouchedGap extends GapNotice {
  readonly kind: StreamKind;
}

const NOT_COLLECTED: GapReason = 'not collected';
const NOT_OBSERVED: GapReason = 'not observed';
const LEFT: GapReason = 'delisted';

/** Missing parts of one stream that are remembered; a stream with more is asked each time. */
const REMEMBERED_MAX = 10_000;
/** How long they are believed: a daemon may fill gaps beside the replay. */
const FRESH_MS = 30_000;

/** Markets of one answer whose gaps are looked up; of more only that they are in one is reported. */
const NAMED_MAX = 20;

/** Streams of which that is remembered. */
const STREAMS_MAX = 100_000;

/** What the ledger lists as missing of each stream. */
export class GapBook {
  readonly #sight: Sight;
  readonly #catalog: Catalog;
  readonly #streams: FreshCache<readonly Missing[] | undefined>;

  constructor(sight: Sight, catalog: Catalog) {
    this.#sight = sight;
    this.#catalog = catalog;
    this.#streams = new FreshCache(sight.clock, STREAMS_MAX, FRESH_MS);
  }

  /**
   * The gaps of a stream in a span, each whole as far as it had come by an instant, oldest first. Of the
   * time before anything was archived, or history is known to begin, only what lies in the span is named.
   * A stream that is none is missing whole.
   */
  async touched(
    kind: StreamKind,
    stream: KnownStream | undefined,
    span: Span,
    nowMs: number,
  ): Promise<TouchedGap[]> {
    if (span.toMs <= span.fromMs) return [];
    if (stream === undefined) return [{ kind, span, reason: NOT_COLLECTED }];
    const all = await this.#missingOf(stream);
    const floorMs = Math.min(historyBeginsMs(stream) ?? this.#catalog.startMs, span.fromMs);
    const missing = all ?? withHistory((await this.#completeness(stream, span)).missing);
    return missing
      .filter((one) => one.span.fromMs < span.toMs && one.span.toMs > span.fromMs)
      .map((one) => {
        const { fromMs, toMs } = one.span;
        const reason = this.#reasonAt(stream, one, nowMs);
        const startMs = Math.max(fromMs, floorMs);
        return { kind, reason, span: { fromMs: startMs, toMs: cutAt(nowMs, startMs, toMs) } };
      });
  }

  /** That a market would leave was not known before a list lacked it; a gap from before that was open then. */
  #reasonAt({ kind, marketId }: KnownStream, one: Missing, nowMs: number): string {
    const { span, reason } = one;
    if (reason !== LEFT) return reason;
    if (this.#catalog.wasMissing(marketId, span, nowMs)) return reason;
    return MOMENT_STREAMS.has(kind) ? NOT_OBSERVED : NOT_COLLECTED;
  }

  /** Whether an instant lies in a gap; that at which the replay ends is judged by the one before, up to which it knows all. */
  async touchedAt(
    kind: StreamKind,
    stream: KnownStream | undefined,
    atMs: number,
  ): Promise<TouchedGap[]> {
    const fromMs = Math.min(atMs, this.#sight.toMs - 1);
    return await this.touched(kind, stream, { fromMs, toMs: fromMs + 1 }, atMs);
  }

  /**
   * What is known of an instant: since when that is without a break, by the name of the market, and the gaps of
   * the others, each with the names of its markets unless it is of all. Markets of which nothing of the kind was
   * ever collected are left out, unless that are all.
   */
  async knownAt(
    kind: 'tickers' | 'depth',
    markets: readonly AsOfMarket[],
    nowMs: number,
  ): Promise<{ since: ReadonlyMap<string, number>; gaps: readonly TouchedGap[] }> {
    const atMs = Math.min(nowMs, this.#sight.toMs - 1);
    const found = markets.flatMap(({ name, marketId }) => {
      const stream = this.#catalog.stream(kind, marketId);
      return stream === undefined ? [] : [{ name, stream }];
    });
    if (found.length === 0) {
      return { since: new Map(), gaps: await this.touchedAt(kind, undefined, nowMs) };
    }
    const covered = await this.#sight.asOf.coveredSince(
      found.map(({ stream }) => stream),
      atMs,
    );
    const since = new Map<string, number>();
    const unknown: typeof found = [];
    for (const one of found) {
      const sinceMs = covered.get(one.stream.streamId);
      if (sinceMs === undefined) unknown.push(one);
      else since.set(one.name, sinceMs);
    }
    const gaps = await this.#named(kind, unknown, nowMs);
    const isOfAll = since.size === 0 && gaps.length === 1;
    return { since, gaps: isOfAll ? gaps.map(({ markets: _all, ...gap }) => gap) : gaps };
  }

  /** The gaps in which streams are at an instant, those of the same span and reason as one. */
  async #named(
    kind: StreamKind,
    unknown: readonly { readonly name: string; readonly stream: KnownStream }[],
    nowMs: number,
  ): Promise<TouchedGap[]> {
    const named = new Map<string, TouchedGap & { readonly markets: string[] }>();
    for (const { name, stream } of unknown.slice(0, NAMED_MAX)) {
      for (const gap of await this.touchedAt(kind, stream, nowMs)) {
        const { fromMs, toMs } = gap.span;
        const key = `${fromMs} ${toMs} ${gap.reason}`;
        obtain(named, key, () => ({ ...gap, markets: [] })).markets.push(name);
      }
    }
    const rest = unknown.slice(NAMED_MAX).map(({ name }) => name);
    if (rest.length === 0) return [...named.values()];
    const span = { fromMs: Math.floor(nowMs), toMs: Math.floor(nowMs) + 1 };
    return [
      ...named.values(),
      { kind, span, reason: `${rest.length} more at this time`, markets: rest },
    ];
  }

  #missingOf(stream: KnownStream): Promise<readonly Missing[] | undefined> {
    return this.#streams.get(String(stream.streamId), async () => {
      const found = await this.#completeness(stream, { fromMs: 0, toMs: this.#sight.toMs });
      return found.missingCount > REMEMBERED_MAX ? undefined : withHistory(found.missing);
    });
  }

  #completeness(stream: KnownStream, span: Span) {
    return this.#sight.asOf.completeness(stream, span, REMEMBERED_MAX);
  }
}

/** From where on a stream is expected, where the history of its market is known to begin; else undefined. */
export function historyBeginsMs(stream: KnownStream): number | undefined {
  const { startReason, collectFromMs } = stream;
  return startReason === 'history begins' ? (collectFromMs ?? undefined) : undefined;
}

const BEYOND: GapReason = 'beyond history';

/** What was never asked for, now or by the settings. */
const UNASKED: ReadonlySet<string> = new Set([NOT_COLLECTED, BEFORE_COLLECTING]);

/** The oldest that was not asked for, where what follows is beyond history, is so as well. */
function withHistory(missing: readonly Missing[]): Missing[] {
  const [oldest, next, ...others] = missing;
  if (oldest === undefined || !UNASKED.has(oldest.reason) || next?.reason !== BEYOND) {
    return [...missing];
  }
  const isNext = next.span.fromMs === oldest.span.toMs;
  return [isNext ? { ...oldest, reason: BEYOND } : oldest, next, ...others];
}

/** The end of a gap as reported at an instant; the end of a gap that goes on was not known. */
function cutAt(nowMs: number, fromMs: number, toMs: number): number {
  return Math.min(toMs, Math.max(nowMs, fromMs + 1));
}

/** Late trades of one answer that are listed; all below the last of them is suspect. */
const TRADES_MAX = 1000;
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
  readonly #sight: Sight;

  constructor(sight: Sight) {
    this.#sight = sight;
  }

  /** @param known the trades of the run that were known, newest first */
  async trades(
    marketId: number,
    run: { readonly from: TradePlace; readonly before: TradePlace },
    known: readonly TradePlace[],
    nowMs: number,
  ): Promise<LateTrades> {
    if (!this.#sight.isKnownOnly) return NONE;
    const late = await this.#sight.asOf.lateTrades(marketId, run, nowMs, TRADES_MAX);
    const isCut = late.length >= TRADES_MAX;
    const runs = runsOf(late, known);
    const last = runs.at(-1);
    if (last === undefined) return NONE;
    if (isCut) last.oldest = run.from;
    const gaps = runs.toReversed().map(({ newest, oldest }) => ({
      ...({ kind: 'trades', reason: REASON } as const),
      span: {
        fromMs: oldest.tradedAtS * SECOND_MS,
        toMs: cutAt(nowMs, oldest.tradedAtS * SECOND_MS, (newest.tradedAtS + 1) * SECOND_MS),
      },
    }));
    return { gaps, lowest: last.oldest };
  }

  /** Begins of candles that lack something, as spans; those that follow each other as one. */
  candles(
    kind: 'trades' | 'candles',
    intervalS: number,
    openAtS: readonly number[],
    nowMs: number,
  ): TouchedGap[] {
    const spans: { fromMs: number; toMs: number }[] = [];
    for (const open of openAtS) {
      const [fromMs, toMs] = [open * SECOND_MS, (open + intervalS) * SECOND_MS];
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
    span: Span,
    known: readonly { readonly openAtS: number }[],
    nowMs: number,
    limit: number,
  ): Promise<TouchedGap[]> {
    if (!this.#sight.isKnownOnly || span.toMs <= span.fromMs) return [];
    const late = await this.#sight.asOf.lateKlines(marketId, intervalS, span, nowMs, limit);
    const there = new Set(known.map(({ openAtS }) => openAtS));
    const missing = late.filter((openAtS) => !there.has(openAtS));
    return this.candles('candles', intervalS, missing, nowMs);
  }

  /** @param series each from what was known last, which is outdated if anything came after it */
  async observed(
    kind: 'tickers' | 'depth' | 'states',
    series: readonly SeriesFrom[],
    nowMs: number,
  ): Promise<TouchedGap[]> {
    if (!this.#sight.isKnownOnly || series.length === 0) return [];
    const firstMs = await this.#sight.asOf.lateObserved(kind, series, nowMs);
    if (firstMs === null) return [];
    const fromMs = Math.floor(firstMs);
    return [{ kind, reason: REASON, span: { fromMs, toMs: Math.max(nowMs, fromMs + 1) } }];
  }
}

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
