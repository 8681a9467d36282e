import { doOverlap, isEmptySpan, type Span } from '../kernel/span.js';
import { type KnownStream, missingOf } from '../model/explain.js';
import { FreshCache } from './caches.js';
import type { Sight } from './catalog.js';

/** Missing parts of one stream that are remembered; a stream with more is asked each time. */
const REMEMBERED_MAX = 10_000;
/** How long they are believed: a daemon may fill gaps beside the replay. */
const FRESH_MS = 30_000;
/** Streams of which that is remembered. */
const STREAMS_MAX = 100_000;

/** Missing spans of each stream, from the ledger. */
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
    const missing = all ?? (await this.#missing(stream, span));
    return missing.filter((one) => doOverlap(one, span));
  }

  #missingOf(stream: KnownStream): Promise<readonly Span[] | undefined> {
    return this.#streams.get(String(stream.streamId), async () => {
      const found = await this.#missing(stream, { fromMs: 0, toMs: this.#sight.toMs });
      return found.length > REMEMBERED_MAX ? undefined : found;
    });
  }

  async #missing(stream: KnownStream, span: Span): Promise<readonly Span[]> {
    const pieces = await this.#sight.asOf.pieces(stream, span);
    return missingOf(pieces).map((one) => one.span);
  }
}
