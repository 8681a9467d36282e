import type { AsOfReader, KnownStream, SpanCompleteness } from '../archive/past/past.js';
import type { ToldGap } from '../contract/told-gaps.js';
import type { Clock } from '../kernel/clock.js';
import type { Span } from '../kernel/span.js';
import type { ReplayedKind } from './catalog.js';

type Missing = SpanCompleteness['missing'][number];

/** A piece of time that an answer needed and the archive does not have whole. */
export interface TouchedGap extends ToldGap {
  readonly kind: ReplayedKind;
}

/** Missing parts of one stream that are remembered; a stream with more is asked each time. */
const REMEMBERED_MAX = 10_000;
/** How long they are believed: a daemon may fill gaps beside the replay. */
const FRESH_MS = 30_000;

const SINCE_MAX_MS = 86_400_000;

interface Remembered {
  readonly atMs: number;
  readonly missing: Promise<readonly Missing[] | undefined>;
}

/** What the ledger lists as missing of each stream. */
export class GapBook {
  readonly #asOf: AsOfReader;
  readonly #clock: Clock;
  readonly #toMs: number;
  readonly #streams = new Map<number, Remembered>();

  /** @param toMs nothing is asked about what comes then or later */
  constructor(asOf: AsOfReader, clock: Clock, toMs: number) {
    this.#asOf = asOf;
    this.#clock = clock;
    this.#toMs = toMs;
  }

  /**
   * The gaps of a stream in a span, each whole as far as it had come by an instant, oldest first. A stream
   * that is none is missing whole.
   */
  async touched(
    kind: ReplayedKind,
    stream: KnownStream | undefined,
    span: Span,
    nowMs: number,
  ): Promise<TouchedGap[]> {
    if (span.toMs <= span.fromMs) return [];
    if (stream === undefined) return [{ kind, span, reason: 'not collected' }];
    const all = await this.#missingOf(stream);
    const missing = all ?? (await this.#asOf.completeness(stream, span, REMEMBERED_MAX)).missing;
    return missing
      .filter((one) => one.span.fromMs < span.toMs && one.span.toMs > span.fromMs)
      .map(({ span: { fromMs, toMs }, reason }) => ({
        ...{ kind, reason, span: { fromMs, toMs: cutAt(nowMs, fromMs, toMs) } },
      }));
  }

  /** Whether an instant lies in a gap. */
  async touchedAt(
    kind: ReplayedKind,
    stream: KnownStream | undefined,
    atMs: number,
  ): Promise<TouchedGap[]> {
    return await this.touched(kind, stream, { fromMs: atMs, toMs: atMs + 1 }, atMs);
  }

  /** Since when a stream is covered until an instant without a break, as far as the last day goes. */
  async coveredSince(
    kind: ReplayedKind,
    stream: KnownStream | undefined,
    atMs: number,
  ): Promise<number> {
    const span = { fromMs: atMs - SINCE_MAX_MS, toMs: atMs + 1 };
    const gaps = await this.touched(kind, stream, span, atMs);
    return Math.max(span.fromMs, gaps.at(-1)?.span.toMs ?? 0);
  }

  async #missingOf(stream: KnownStream): Promise<readonly Missing[] | undefined> {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#streams.get(stream.streamId);
    if (known !== undefined && nowMs - known.atMs < FRESH_MS) return known.missing;
    const missing = this.#asOf
      .completeness(stream, { fromMs: 0, toMs: this.#toMs }, REMEMBERED_MAX)
      .then((found) => (found.missingCount > REMEMBERED_MAX ? undefined : found.missing));
    this.#streams.set(stream.streamId, { atMs: nowMs, missing });
    missing.catch(() => this.#streams.delete(stream.streamId));
    return missing;
  }
}

/** The end of a gap as reported at an instant; the end of a gap that goes on was not known. */
export function cutAt(nowMs: number, fromMs: number, toMs: number): number {
  return Math.min(toMs, Math.max(nowMs, fromMs + 1));
}
