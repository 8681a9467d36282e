import type { Span } from '../../kernel/span.js';
import { isoUs } from '../../kernel/timestamp.js';
import { missingOf, type Piece } from '../../model/explain.js';
import type { ArchiveSnapshot, Store } from '../../store/index.js';
import { ArchiveError, type ArchiveGap, ArchiveGapsError } from '../errors.js';
import { millisOf } from '../segments.js';
import type { CoverageQuery, GapEvent } from './event.js';
import { rankOf } from './event-rows.js';
import { findStream, type PlannedStream, readMarkets, shiftUs, spanOf } from './plan.js';

/** Gaps that an error carries. */
const NAMED_MAX = 100;
/** Gaps of one stream that are marked; each takes some memory for as long as events are read. */
const MARKED_MAX = 100_000;
/** Marks of all streams and markets together. */
const MARKS_MAX = 400_000;

interface Missing {
  readonly planned: PlannedStream;
  readonly gaps: readonly ArchiveGap[];
}

/**
 * The streams that are not covered whole. Asked before the rows are looked at: rows only come to be,
 * so that what was covered then has all its rows by then.
 */
export async function findIncomplete(
  store: Pick<Store, 'inspection'>,
  streams: readonly PlannedStream[],
): Promise<PlannedStream[]> {
  const asked = streams.filter(({ span }) => span.fromMs < span.toMs);
  const progress = await store.inspection.progress(
    asked.map(({ stream, span }) => ({ ...stream, span })),
    0,
  );
  return asked.filter((_, index) => {
    const one = progress[index];
    return one === undefined || one.coveredMs < one.lengthMs;
  });
}

const micros = ({ fromMs, toMs }: Span) => ({ fromUs: fromMs * 1000, toUs: toMs * 1000 });

/** A missing part of a stream, in the times of the ledger: of candles where they open. */
function gapOf(
  { stream, kind, variantS }: Pick<PlannedStream, 'stream' | 'kind' | 'variantS'>,
  { span, reason }: Piece,
): ArchiveGap {
  return { market: stream.market, kind, variantS, reason, ...micros(span) };
}

/** Missing spans of incomplete streams. */
async function readMissing(
  snapshot: ArchiveSnapshot,
  incomplete: readonly PlannedStream[],
): Promise<Missing[]> {
  const found: Missing[] = [];
  for (const planned of incomplete) {
    const missing = missingOf(await snapshot.pieces(planned.stream, planned.span));
    found.push({ planned, gaps: missing.map((one) => gapOf(planned, one)) });
  }
  return found;
}

/** @throws ArchiveGapsError unless all is there */
export async function refuseGaps(
  snapshot: ArchiveSnapshot,
  incomplete: readonly PlannedStream[],
): Promise<void> {
  if (incomplete.length === 0) return;
  const found = await readMissing(snapshot, incomplete);
  const gaps = found.flatMap((one) => one.gaps).sort((a, b) => a.fromUs - b.fromUs);
  const [first] = gaps;
  if (first === undefined) return;
  const opening = first.kind === 'candles' ? ` of ${first.variantS} s that open` : '';
  throw new ArchiveGapsError(
    gaps.slice(0, NAMED_MAX),
    gaps.length,
    `${first.kind} of ${first.market}${opening} from ${isoUs(first.fromUs)} to ${isoUs(first.toUs)}, ${first.reason}`,
  );
}

function compareMarks(a: GapEvent, b: GapEvent): number {
  if (a.atUs !== b.atUs) return a.atUs - b.atUs;
  if (a.edge !== b.edge) return a.edge === 'end' ? -1 : 1;
  const byRank = rankOf(a.of, a.variantS) - rankOf(b.of, b.variantS);
  return byRank || (a.market < b.market ? -1 : 1);
}

/**
 * Start and end of each gap in their order: at one instant ends before begins, then as events.
 *
 * @throws ArchiveError `archive_gaps` when there are too many to be held
 */
export async function markGaps(
  snapshot: ArchiveSnapshot,
  incomplete: readonly PlannedStream[],
  marksMax = MARKS_MAX,
): Promise<GapEvent[]> {
  const marks: GapEvent[] = [];
  for (const { planned, gaps } of await readMissing(snapshot, incomplete)) {
    if (gaps.length > MARKED_MAX) {
      const text = `${planned.kind} of ${planned.stream.market} have ${gaps.length} gaps there, more than ${MARKED_MAX}: choose a shorter time range, or gaps: 'ignore'`;
      throw new ArchiveError('archive_gaps', text);
    }
    if (marks.length + 2 * gaps.length > marksMax) {
      const text = `the gaps of these markets and kinds have more than ${marksMax} starts and ends: choose a shorter time range, fewer markets or kinds, or gaps: 'ignore'`;
      throw new ArchiveError('archive_gaps', text);
    }
    // Candles are known at their close; the one after the last that is missing closes after the end.
    const shift = shiftUs(planned);
    for (const { market, kind, variantS, reason, ...missing } of gaps) {
      const fromUs = missing.fromUs + shift;
      const toUs = Math.min(missing.toUs + shift, planned.untilUs);
      const gap = { kind: 'gap', market, of: kind, variantS, fromUs, reason } as const;
      marks.push({ ...gap, edge: 'begin', toUs: null, atUs: fromUs, receivedAtUs: fromUs });
      marks.push({ ...gap, edge: 'end', toUs, atUs: toUs, receivedAtUs: toUs });
    }
  }
  return marks.sort(compareMarks);
}

/** Spans and gaps that are listed at most. */
const LISTED_MAX = 100_000;

/** Ledger of a span. */
export interface SpanCoverage {
  /** True if nothing is missing. */
  readonly isComplete: boolean;
  /**
   * Spans that are proven complete, oldest first, UNIX microseconds, half-open. Candles count by the
   * time at which they open.
   */
  readonly covered: readonly { readonly fromUs: number; readonly toUs: number }[];
  /** Missing spans, oldest first. */
  readonly missing: readonly ArchiveGap[];
}

/** Asks the ledger; of more than a hundred thousand pieces the newest are left out. */
export async function readCoverage(
  store: Pick<Store, 'query' | 'inspection' | 'snapshot'>,
  query: CoverageQuery,
): Promise<SpanCoverage> {
  const { fromUs, toUs } = spanOf(query);
  const streams = await store.inspection.streams();
  const stream = findStream(query, streams, await readMarkets(store));
  const asked = { stream, kind: query.kind, variantS: stream.variant };
  const span = millisOf(fromUs, toUs);
  const snapshot = await store.snapshot();
  try {
    const pieces = await snapshot.pieces(stream, span);
    const missing = missingOf(pieces);
    const covered = pieces.filter(({ state }) => state === 'covered');
    return {
      isComplete: missing.length === 0,
      covered: covered.slice(0, LISTED_MAX).map((one) => micros(one.span)),
      missing: missing.slice(0, LISTED_MAX).map((one) => gapOf(asked, one)),
    };
  } finally {
    await snapshot.close();
  }
}
