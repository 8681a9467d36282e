import {
  type AsOfReader,
  comparePlaces,
  type KnownStream,
  type TradePlace,
} from '../archive/as-of/reader.js';
import { SECOND_MS } from '../kernel/durations.js';
import { doOverlap, isEmptySpan, type Span } from '../kernel/span.js';
import { FreshCache } from './caches.js';
import type { Sight } from './catalog.js';

/** Missing parts of one stream that are remembered; a stream with more is asked each time. */
const REMEMBERED_MAX = 10_000;
/** How long they are believed: a daemon may fill gaps beside the replay. */
const FRESH_MS = 30_000;
/** Streams of which that is remembered. */
const STREAMS_MAX = 100_000;

/** What the ledger lists as missing of each stream. */
export class GapBook {
  readonly #sight: Sight;
  readonly #streams: FreshCache<readonly Span[] | undefined>;

  constructor(sight: Sight) {
    this.#sight = sight;
    this.#streams = new FreshCache(sight.clock, STREAMS_MAX, FRESH_MS);
  }

  /** The gaps of a stream that touch a span, each whole, oldest first. A stream that is none is missing whole. */
  async touched(stream: KnownStream | undefined, span: Span): Promise<readonly Span[]> {
    if (isEmptySpan(span)) return [];
    if (stream === undefined) return [span];
    const all = await this.#missingOf(stream);
    const missing = all ?? spansOf(await this.#completeness(stream, span));
    return missing.filter((one) => doOverlap(one, span));
  }

  #missingOf(stream: KnownStream): Promise<readonly Span[] | undefined> {
    return this.#streams.get(String(stream.streamId), async () => {
      const found = await this.#completeness(stream, { fromMs: 0, toMs: this.#sight.toMs });
      return found.missingCount > REMEMBERED_MAX ? undefined : spansOf(found);
    });
  }

  #completeness(stream: KnownStream, span: Span) {
    return this.#sight.asOf.completeness(stream, span, REMEMBERED_MAX);
  }
}

function spansOf({ missing }: Awaited<ReturnType<AsOfReader['completeness']>>): Span[] {
  return missing.map(({ span }) => span);
}

/** Late trades of one answer that are listed; all below the last of them is suspect. */
const TRADES_MAX = 1000;

/** A run of late trades with none in it that was known. */
interface Run {
  readonly newest: TradePlace;
  oldest: TradePlace;
}

/** Late trades of an answer. */
interface LateTrades {
  readonly gaps: readonly Span[];
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
      fromMs: oldest.tradedAtS * SECOND_MS,
      toMs: (newest.tradedAtS + 1) * SECOND_MS,
    }));
    return { gaps, lowest: last.oldest };
  }

  /** Begins of candles that lack something, as spans; those that follow each other as one. */
  candles(intervalS: number, openAtS: readonly number[]): Span[] {
    const spans: { fromMs: number; toMs: number }[] = [];
    for (const open of openAtS) {
      const [fromMs, toMs] = [open * SECOND_MS, (open + intervalS) * SECOND_MS];
      const last = spans.at(-1);
      if (last?.toMs === fromMs) last.toMs = toMs;
      else spans.push({ fromMs, toMs });
    }
    return spans;
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
