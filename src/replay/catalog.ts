import type { Past, PastMarket } from '../archive/past.js';
import type { Market } from '../contract/resources.js';
import type { Clock } from '../kernel/clock.js';
import { DAY_MS, SECOND_MS } from '../kernel/durations.js';
import type { Span } from '../kernel/span.js';
import type { KnownStream } from '../model/explain.js';
import type { StreamKind } from '../model/series.js';

/** How often it is read anew: a daemon may write beside the replay. */
const FRESH_MS = 30_000;

/** A trade of so long after the list that lacked a market first is none of before, whatever the precision of its time. */
const LEAVING_MS = 2000;
/** So long after a return its trades are there, if they ever will be. */
const FILLED_AFTER_MS = DAY_MS;

/** An archive, and what of it may be seen. */
export interface Sight {
  readonly past: Past;
  readonly clock: Clock;
  /** Names of the markets that are replayed; empty: all. */
  readonly markets: readonly string[];
  /** End of the replayed span: nothing of this instant or later is ever seen. */
  readonly toMs: number;
}

/** The last time that may be seen at a time: UNIX milliseconds, and microseconds for trades. */
export function lastSeen({ toMs }: Pick<Sight, 'toMs'>, nowMs: number) {
  return { ms: Math.min(nowMs, toMs - 1), us: Math.min(nowMs * 1000, toMs * 1000 - 1) };
}

/** The markets and streams of the archive, and what was listed when. */
export class Catalog {
  readonly #sight: Sight;
  #markets: ReadonlyMap<string, PastMarket> = new Map();
  #streams: ReadonlyMap<string, KnownStream> = new Map();
  #firstKnown: ReadonlyMap<number, KnownStream> = new Map();
  #firstListMs = Number.NEGATIVE_INFINITY;
  #covered: Span = coveredBy([], []);
  /** When a market was back for certain, by the list that had it again. */
  readonly #returns = new Map<string, number>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(sight: Sight) {
    this.#sight = sight;
  }

  /** Reads it; later calls read it again when it is no longer fresh. */
  async refresh(): Promise<void> {
    if (this.#sight.clock.monotonicMs() - this.#readAtMs < FRESH_MS) return;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  /** All that are replayed, listed now or not. */
  get markets(): Iterable<PastMarket> {
    return this.#markets.values();
  }

  market(name: string): PastMarket | undefined {
    return this.#markets.get(name);
  }

  /** Those of the markets that are replayed. */
  get streams(): Iterable<KnownStream> {
    const ids = new Set(Array.from(this.#markets.values(), ({ marketId }) => marketId));
    return [...this.#streams.values()].filter(({ marketId }) => ids.has(marketId));
  }

  stream(kind: StreamKind, marketId: number, variant = 0): KnownStream | undefined {
    return this.#streams.get(keyOf(kind, marketId, variant));
  }

  /** Replayed range, as {@link coveredBy} has it. */
  get covered(): Span {
    return this.#covered;
  }

  /** The oldest instant of which anything is archived of what is replayed. */
  get startMs(): number {
    return this.#covered.fromMs;
  }

  /** Start of the first known data of a market; undefined: none. */
  knownFromMs(marketId: number): number | undefined {
    return this.#firstKnown.get(marketId)?.oldestCoveredMs ?? undefined;
  }

  /**
   * Returns true if a market was listed at an instant. That of which anything older is archived than the first
   * look at the list was listed before it, and so may be all that the first list had. One that came back was
   * listed again as soon as it was traded.
   */
  isListed({ marketId, firstSeenMs, delistedMs, away }: PastMarket, atMs: number): boolean {
    if (delistedMs !== null && atMs >= delistedMs) return false;
    const backMs = (toMs: number) => this.#returns.get(keyOfReturn(marketId, toMs)) ?? toMs;
    if (away.some(({ fromMs, toMs }) => fromMs <= atMs && atMs < backMs(toMs))) return false;
    if (firstSeenMs <= atMs) return true;
    const isOfFirstList = firstSeenMs <= this.#firstListMs;
    const knownFromMs = isOfFirstList ? this.startMs : this.knownFromMs(marketId);
    return knownFromMs !== undefined && knownFromMs <= atMs;
  }

  listed(atMs: number): PastMarket[] {
    return [...this.#markets.values()].filter((market) => this.isListed(market, atMs));
  }

  async #read(): Promise<void> {
    const { past, clock, markets: wanted } = this.#sight;
    const [markets, streams] = await Promise.all([past.markets(), past.streams()]);
    const chosen = markets.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
    this.#markets = new Map(chosen.map((market) => [market.name, market]));
    this.#streams = new Map(
      streams.map((one) => [keyOf(one.kind, one.marketId, one.variant), one]),
    );
    this.#firstKnown = firstKnownOf(streams);
    this.#firstListMs = Math.min(...markets.map(({ firstSeenMs }) => firstSeenMs));
    const ids = chosen.map(({ marketId }) => marketId);
    this.#covered = coveredBy(streams, ids);
    await this.#findReturns();
    this.#readAtMs = clock.monotonicMs();
  }

  /** Finds for each market that came back since when its trades show that. */
  async #findReturns(): Promise<void> {
    for (const { marketId, away } of this.#markets.values()) {
      for (const { fromMs, toMs } of away) {
        const key = keyOfReturn(marketId, toMs);
        const isFilled = toMs < this.#covered.toMs - FILLED_AFTER_MS;
        if (this.#returns.has(key) && (isFilled || this.#returns.get(key) !== toMs)) continue;
        const span = { fromMs: fromMs + LEAVING_MS, toMs };
        const backMs = await this.#sight.past.firstTradeMs(marketId, span);
        this.#returns.set(key, backMs ?? toMs);
      }
    }
  }
}

/**
 * From the oldest to the newest time that is covered of some markets. Where nothing is, the end lies before
 * the start.
 */
export function coveredBy(streams: readonly KnownStream[], marketIds: readonly number[]): Span {
  const ids = new Set(marketIds);
  const ours = streams.filter(({ marketId }) => ids.has(marketId));
  return {
    fromMs: Math.min(...ours.flatMap(({ oldestCoveredMs }) => oldestCoveredMs ?? [])),
    toMs: Math.max(...ours.flatMap(({ newestCoveredMs }) => newestCoveredMs ?? [])),
  };
}

/** By market the stream that shows it first. */
function firstKnownOf(streams: readonly KnownStream[]): ReadonlyMap<number, KnownStream> {
  const first = new Map<number, KnownStream>();
  for (const stream of streams) {
    const known = first.get(stream.marketId);
    if (known === undefined || shownMs(stream) < shownMs(known)) first.set(stream.marketId, stream);
  }
  return first;
}

/**
 * When a stream shows that its market is there. A candle does at its end only: the one of the day on which
 * a market came begins before the market.
 */
function shownMs({ kind, variant, oldestCoveredMs }: KnownStream): number {
  const fromMs = oldestCoveredMs ?? Number.POSITIVE_INFINITY;
  return kind === 'candles' ? fromMs + variant * SECOND_MS : fromMs;
}

const keyOfReturn = (marketId: number, listedMs: number) => `${marketId} ${listedMs}`;

function keyOf(kind: string, marketId: number, variant: number): string {
  return `${kind} ${marketId} ${variant}`;
}

/**
 * The terms of a market at an instant; before the first that is known, those. One that came back did so with those that
 * the list had then.
 */
export function termsAt({ terms, away }: PastMarket, atMs: number): Market | undefined {
  const { toMs = atMs } = away.find(({ fromMs, toMs }) => fromMs <= atMs && atMs < toMs) ?? {};
  return terms.find(({ untilMs }) => untilMs === null || toMs < untilMs)?.market;
}
