import { BoundedMap } from '../kernel/bounded.js';
import { doOverlap, isEmptySpan, type Span } from '../kernel/span.js';
import { type KnownStream, missingOf } from '../model/explain.js';
import type { Sight } from './catalog.js';

/** Missing parts of one stream that are remembered; a stream with more is asked each time. */
const REMEMBERED_MAX = 10_000;
/** How long they are believed: a daemon may fill gaps beside the replay. */
const FRESH_MS = 30_000;
/** Streams of which that is remembered. */
const STREAMS_MAX = 100_000;

interface Known {
  readonly readAtMs: number;
  /** Undefined: too many to be remembered. */
  readonly spans: Promise<readonly Span[] | undefined>;
}

/** Missing spans of each stream, from the ledger. */
export class GapBook {
  readonly #sight: Sight;
  readonly #streams = new BoundedMap<number, Known>(STREAMS_MAX);

  constructor(sight: Sight) {
    this.#sight = sight;
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
    const { clock, toMs } = this.#sight;
    const nowMs = clock.monotonicMs();
    const known = this.#streams.get(stream.streamId);
    if (known !== undefined && nowMs - known.readAtMs < FRESH_MS) return known.spans;
    const spans = this.#missing(stream, { fromMs: 0, toMs }).then((found) =>
      found.length > REMEMBERED_MAX ? undefined : found,
    );
    this.#streams.set(stream.streamId, { readAtMs: nowMs, spans });
    spans.catch(() => this.#streams.delete(stream.streamId));
    return spans;
  }

  async #missing(stream: KnownStream, span: Span): Promise<readonly Span[]> {
    const pieces = await this.#sight.past.pieces(stream, span);
    return missingOf(pieces).map((one) => one.span);
  }
}
