import { partitionSpans } from '../../archive/sealing/plan.js';
import { DAY_MS } from '../../kernel/durations.js';
import { UsageError } from '../../kernel/errors.js';
import { type Span, subtractSpans } from '../../kernel/span.js';
import { isoSpan } from '../../kernel/timestamp.js';
import { countOf, marketNames } from '../../kernel/words.js';
import { gapIdOf } from '../../model/explain.js';
import { MOMENT_STREAMS, type StreamKind, streamName } from '../../model/series.js';
import {
  type Gap,
  type SpanProgress,
  type Store,
  type StreamSpan,
  timestampSql,
} from '../../store/index.js';
import { findGaps, type SelectedGaps } from './selection.js';

/** Filling of gaps: which are meant, how much work they are, how they are made due, and notes on them. */

/** Gaps of one run; the others are named by the next. */
export const FILLED_MAX = 2000;

/** Gaps that are to be filled, and the others. */
export interface FillSelection extends Pick<SelectedGaps, 'streams' | 'cutTo'> {
  /** Newest first. */
  readonly due: readonly Gap[];
  /** There may be more than {@link FILLED_MAX}. */
  readonly isCut: boolean;
  /** False: gaps that are meant are not among those that are due. */
  readonly isAll: boolean;
  /** Sentences on gaps that cannot be filled. */
  readonly leftOut: readonly string[];
  /** Those that are skipped because the exchange does not serve them any more. */
  readonly unfillable: number;
}

/** Gaps by their ids. @throws UsageError */
export async function gapsNamed(
  store: Store,
  ids: readonly string[],
  nowMs: number,
  called: string,
  signal: AbortSignal,
): Promise<Pick<SelectedGaps, 'gaps' | 'streams' | 'cutTo'>> {
  const found = await findGaps(store, ids, nowMs, called, signal);
  return { gaps: found.flatMap(({ gaps }) => gaps), streams: [], cutTo: undefined };
}

/**
 * Sorts gaps into those that can be filled now, and the others.
 *
 * @param how.again unfillable ones as well
 * @param how.isNamed a person named each of them
 */
export async function selectFilling(
  store: Store,
  { gaps, streams, cutTo }: Pick<SelectedGaps, 'gaps' | 'streams' | 'cutTo'>,
  { again, isNamed }: { readonly again: boolean; readonly isNamed: boolean },
): Promise<FillSelection> {
  const leftOut: string[] = [];
  const split = (
    some: readonly Gap[],
    isFit: (gap: Gap) => boolean,
    say: (away: Gap[]) => string,
  ) => {
    const away = some.filter((gap) => !isFit(gap));
    if (away.length > 0) leftOut.push(say(away));
    return some.filter(isFit);
  };
  const fetchable = split(
    gaps,
    ({ kind }) => !MOMENT_STREAMS.has(kind),
    (away) => `Not filled: ${gapsText(away)}, which exist only while they happen.`,
  );
  const unlisted = await unlistedMarkets(store);
  const askable = split(
    fetchable,
    ({ marketId }) => !unlisted.has(marketId),
    (away) => {
      const names = marketNames([...new Set(away.map(({ market }) => market))]);
      return `Not filled: ${gapsText(away)} of ${names}, which the exchange does not list now; a daemon fills what can be fetched once it is listed again.`;
    },
  );
  const gone = await goneSpans(store, askable);
  const present = split(
    askable,
    ({ kind, span }) => subtractSpans(span, gone.get(kind) ?? []).length > 0,
    (away) =>
      `Not filled: ${gapsText(away)}; nothing can be added to partitions that are archived or expired; "tapekeep restore" returns archived ones.`,
  );
  const isOpen = ({ state }: Gap) => again || state !== 'unfillable';
  const due = present.filter(isOpen);
  const isCut = due.length >= FILLED_MAX;
  // An unfillable gap is meant where it is named, or with `again`.
  const meant = isNamed ? gaps : gaps.filter(isOpen);
  const isAll = !isCut && due.length === meant.length;
  return { due, isCut, isAll, leftOut, unfillable: present.length - due.length, streams, cutTo };
}

/** Number of gaps, and of which streams. */
export function gapsText(gaps: readonly Gap[]): string {
  return `${countOf(gaps.length, 'gap')} of ${[...new Set(gaps.map(streamName))].sort().join(', ')}`;
}

/** Nothing can be asked of a market that is not listed: a gap made due there would stay open. */
async function unlistedMarkets(store: Store): Promise<ReadonlySet<number>> {
  const streams = await store.inspection.streams();
  const unlisted = streams.filter(({ delistedAtMs }) => delistedAtMs !== null);
  return new Set(unlisted.map(({ marketId }) => marketId));
}

/** Time to which no rows can be added, by kind. */
async function goneSpans(store: Store, gaps: readonly Gap[]) {
  const gone = new Map<StreamKind, readonly Span[]>();
  for (const kind of new Set(gaps.map((gap) => gap.kind))) {
    gone.set(kind, await partitionSpans(store, kind, 'archived', 'expired'));
  }
  return gone;
}

/** Candles of one response, and trades of one page. */
const PAGE_ROWS = 1000;

/** A gap with the pace of its market. */
export interface SizedGap extends Pick<Gap, 'kind' | 'variant' | 'span'> {
  /** Trades of a day of those around it; null: none is known. */
  readonly rowsPerDay: number | null;
}

/** About how many requests fill a gap: for trades by the pace of the days around, with one more for its edge. */
export function fillRequests({ kind, variant, span, rowsPerDay }: SizedGap): number {
  const lengthMs = Math.max(0, span.toMs - span.fromMs);
  if (kind === 'candles') return Math.max(1, Math.ceil(lengthMs / (variant * 1000 * PAGE_ROWS)));
  const rows = ((rowsPerDay ?? 0) * lengthMs) / DAY_MS;
  return 1 + Math.ceil(rows / PAGE_ROWS);
}

const PACES = `
  SELECT (SELECT avg(r.rows)::float8 FROM rows_by_day r
          WHERE r.market_id = g.market_id AND r.series = 'trade' AND r.variant = 0
            AND r.day BETWEEN (${timestampSql('g.from_ms')} AT TIME ZONE 'UTC')::date - 3
                          AND (${timestampSql('g.to_ms')} AT TIME ZONE 'UTC')::date + 3) AS "rowsPerDay"
  FROM unnest($1::int[], $2::float8[], $3::float8[]) WITH ORDINALITY AS g(market_id, from_ms, to_ms, ord)
  ORDER BY g.ord`;

/** Work that gaps are. */
export interface FillSize {
  readonly lengthMs: number;
  /** About. */
  readonly requests: number;
}

/** Adds up the work that gaps are, by what is stored around them. */
export async function sizeOf(store: Store, gaps: readonly Gap[]): Promise<FillSize> {
  const paces = await store.query<Pick<SizedGap, 'rowsPerDay'>>(PACES, [
    gaps.map(({ marketId }) => marketId),
    gaps.map(({ span }) => span.fromMs),
    gaps.map(({ span }) => span.toMs),
  ]);
  return {
    lengthMs: gaps.reduce((sum, { span }) => sum + span.toMs - span.fromMs, 0),
    requests: gaps.reduce((sum, gap, at) => {
      return sum + fillRequests({ ...gap, rowsPerDay: paces[at]?.rowsPerDay ?? null });
    }, 0),
  };
}

/** Id of the time range of a gap, which stays the same while it is filled: `12@2026-01-31T12:00:00.000Z..2026-01-31T13:00:00.000Z`. */
export function rangeIdOf({ streamId, span }: Pick<Gap, 'streamId' | 'span'>): string {
  const { from, to } = isoSpan(span);
  return `${streamId}@${from}..${to}`;
}

const RANGE_ID = /^(\d{1,9})@([^.\s]{1,30}(?:\.\d{1,3}Z)?)\.\.(\S{1,40})$/;

/** A gap whose next try is later than this is not waited for. */
export const NEXT_TRY_MAX_MS = 10_000;
/** Spans that are asked about in one statement. */
const CHUNK = 500;

/** Progress of the time ranges of some ids, all together. @throws UsageError */
export async function readProgress(
  store: Store,
  ids: readonly string[],
  nowMs: number,
  signal: AbortSignal,
): Promise<Omit<SpanProgress, 'rows'> & { readonly isDone: boolean }> {
  const streams = new Map(
    (await store.inspection.streams()).map((stream) => [stream.streamId, stream]),
  );
  const spans: StreamSpan[] = [];
  const others: string[] = [];
  for (const id of ids) {
    const [, number, from = '', to = ''] = RANGE_ID.exec(id) ?? [];
    const span = { fromMs: Date.parse(from), toMs: Date.parse(to) };
    const stream = streams.get(Number(number));
    const isRange = stream !== undefined && span.fromMs < span.toMs;
    if (isRange) spans.push({ streamId: stream.streamId, marketId: stream.marketId, span });
    else others.push(id);
  }
  for (const { memory, gaps } of await findGaps(store, others, nowMs, 'id', signal)) {
    spans.push(...(memory === null ? gaps : [memory]));
  }
  const sum = { lengthMs: 0, coveredMs: 0, unfillableMs: 0, waitingMs: 0 };
  let isDone = true;
  for (let at = 0; at < spans.length; at += CHUNK) {
    signal.throwIfAborted();
    const chunk = spans.slice(at, at + CHUNK);
    for (const part of await store.inspection.progress(chunk, nowMs + NEXT_TRY_MAX_MS)) {
      sum.lengthMs += part.lengthMs;
      sum.coveredMs += part.coveredMs;
      sum.unfillableMs += part.unfillableMs;
      sum.waitingMs += part.waitingMs;
      isDone &&= isSettled(part);
    }
  }
  return { ...sum, isDone };
}

/** Returns true if nothing of a time range is to be done now. */
export function isSettled(part: SpanProgress): boolean {
  const { lengthMs, coveredMs, unfillableMs, waitingMs } = part;
  // Lengths come as floating point of microseconds.
  return coveredMs + unfillableMs + waitingMs >= lengthMs - 0.5;
}

/**
 * Adds a person's words to gaps; a gap of which nothing is remembered is remembered from then on.
 *
 * @throws UsageError for an id that is none, and for a gap that is filled by now
 */
export async function noteOn(
  store: Store,
  ids: readonly string[],
  text: string,
  nowMs: number,
  called: string,
  signal: AbortSignal,
): Promise<void> {
  const found = await findGaps(store, ids, nowMs, called, signal);
  const filled = found.findIndex(({ gaps }) => gaps.length === 0);
  if (filled >= 0) throw new UsageError(called, ids[filled], 'this gap is filled by now');
  await store.inspection.note(
    found.flatMap(({ gaps }) => gaps),
    text,
    nowMs,
  );
}

/** The id and note of a gap as they are now. @throws UsageError */
export async function readNote(store: Store, id: string, nowMs: number, signal: AbortSignal) {
  const [found] = await findGaps(store, [id], nowMs, 'id', signal);
  const gap = found?.gaps[0];
  return {
    id: gap === undefined ? id : gapIdOf(gap),
    note: found?.memory?.note ?? gap?.note ?? '',
  };
}
