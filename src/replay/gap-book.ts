import type { KnownStream, PastArchive, SpanCompleteness } from '../archive/past/past.js';
import type { Clock } from '../kernel/clock.js';
import { type Span, spanContains } from '../kernel/span.js';
import type { ReplayedKind } from './catalog.js';

/** The header that names the gaps that an answer touches. */
export const GAP_HEADER = 'x-tapekeep-gap';

type Missing = SpanCompleteness['missing'][number];

/** A piece of time that an answer needed and the archive does not have whole. */
export interface TouchedGap {
  readonly kind: ReplayedKind;
  readonly span: Span;
  readonly reason: string;
}

/** Missing parts of one stream that are remembered; a stream with more is asked each time. */
const REMEMBERED_MAX = 10_000;
/** How long they are believed: a daemon may fill gaps beside the replay. */
const FRESH_MS = 30_000;
/** Gaps that a header names; the others are counted. */
const NAMED_MAX = 5;

interface Remembered {
  readonly atMs: number;
  readonly missing: Promise<readonly Missing[] | undefined>;
}

/** What is missing of each stream, as the ledger says. */
export class GapBook {
  readonly #past: PastArchive;
  readonly #clock: Clock;
  readonly #toMs: number;
  readonly #streams = new Map<number, Remembered>();

  /** @param toMs nothing is asked about what comes then or later */
  constructor(past: PastArchive, clock: Clock, toMs: number) {
    this.#past = past;
    this.#clock = clock;
    this.#toMs = toMs;
  }

  /** The gaps of a stream in a span, each whole, oldest first. A stream that is none is missing whole. */
  async touched(
    kind: ReplayedKind,
    stream: KnownStream | undefined,
    span: Span,
  ): Promise<TouchedGap[]> {
    if (span.toMs <= span.fromMs) return [];
    if (stream === undefined) return [{ kind, span, reason: 'not collected' }];
    const all = await this.#missingOf(stream);
    const missing = all ?? (await this.#past.completeness(stream, span, REMEMBERED_MAX)).missing;
    return missing
      .filter((one) => one.span.fromMs < span.toMs && one.span.toMs > span.fromMs)
      .map((one) => ({ kind, span: one.span, reason: one.reason }));
  }

  /** Whether a moment lies in a gap. */
  async touchedAt(
    kind: ReplayedKind,
    stream: KnownStream | undefined,
    atMs: number,
  ): Promise<TouchedGap[]> {
    const gaps = await this.touched(kind, stream, { fromMs: atMs, toMs: atMs + 1 });
    return gaps.filter(({ span }) => spanContains(span, atMs));
  }

  async #missingOf(stream: KnownStream): Promise<readonly Missing[] | undefined> {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#streams.get(stream.streamId);
    if (known !== undefined && nowMs - known.atMs < FRESH_MS) return known.missing;
    const missing = this.#past
      .completeness(stream, { fromMs: 0, toMs: this.#toMs }, REMEMBERED_MAX)
      .then((found) => (found.missingCount > REMEMBERED_MAX ? undefined : found.missing));
    this.#streams.set(stream.streamId, { atMs: nowMs, missing });
    missing.catch(() => this.#streams.delete(stream.streamId));
    return missing;
  }
}

/** `trades 2026-01-31T12:00:00.000Z 2026-01-31T12:05:00.000Z not collected`, several with commas. */
export function describeGaps(gaps: readonly TouchedGap[]): string {
  const named = gaps.slice(0, NAMED_MAX).map(({ kind, span, reason }) => {
    const [from, to] = [new Date(span.fromMs), new Date(span.toMs)];
    return `${kind} ${from.toISOString()} ${to.toISOString()} ${reason.replace(/[^\x20-\x2b\x2d-\x7e]/g, ' ')}`;
  });
  const more = gaps.length - named.length;
  return [...named, ...(more > 0 ? [`and ${more} more`] : [])].join(', ');
}
