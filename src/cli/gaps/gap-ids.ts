import { spanContains } from '../../kernel/span.js';
import type { StreamKind } from '../../model/series.js';
import type { Gap, GapDetail, KnownStream, Store } from '../../store/index.js';
import { UsageError } from '../failure.js';
import { isLag } from './gap-selection.js';
import { whyNoGap } from './no-gap.js';

/**
 * How people name gaps: by the number of what is remembered, or, where nothing is remembered, by
 * stream and begin (`12@2026-01-31T12:00:00Z`). The begin stays while a gap is filled from above.
 */
export function gapIdOf({ gapId, streamId, span }: Pick<Gap, 'gapId' | 'streamId' | 'span'>) {
  if (gapId !== null) return String(gapId);
  return `${streamId}@${new Date(span.fromMs).toISOString().replace('.000Z', 'Z')}`;
}

const ID = /^(\d{1,15})(?:@(\S+))?$/;
/** Pieces of one gap that are looked at. */
const PIECES_MAX = 1000;

/** What an id stands for now. */
export interface NamedGap {
  /** What is missing of it; empty when it was filled meanwhile. */
  readonly gaps: readonly Gap[];
  /** What is remembered, also of a gap that is filled. */
  readonly memory: GapDetail | null;
}

/** @throws UsageError for an id that is none, or stands for nothing */
export async function findGap(store: Store, id: string, nowMs: number): Promise<NamedGap> {
  const [, number, begin] = ID.exec(id.trim()) ?? [];
  if (number === undefined) {
    throw new UsageError(
      '<id>',
      id,
      'write an id as "tapekeep gaps" shows it: 17, or 12@2026-01-31T12:00:00Z',
    );
  }
  if (begin === undefined) return findRemembered(store, Number(number), id, nowMs);
  const atMs = Date.parse(begin);
  const streams = await store.inspection.streams();
  const stream = streams.find(({ streamId }) => streamId === Number(number));
  if (Number.isNaN(atMs) || stream === undefined) throw noSuchGap(id);
  const gap = await gapAt(store, stream, atMs, nowMs);
  if (gap === undefined) throw new UsageError('<id>', id, await whyNoGap(store, stream, atMs));
  return { gaps: [gap], memory: gap.gapId === null ? null : await store.inspection.gap(gap.gapId) };
}

function noSuchGap(id: string): UsageError {
  return new UsageError(
    '<id>',
    id,
    'there is no such gap; "tapekeep gaps" lists those that are left',
  );
}

async function findRemembered(
  store: Store,
  gapId: number,
  id: string,
  nowMs: number,
): Promise<NamedGap> {
  const memory = await store.inspection.gap(gapId);
  if (memory === null) throw noSuchGap(id);
  const { marketId, span } = memory;
  const gaps = await store.listGaps({ marketIds: [marketId], span, limit: PIECES_MAX }, nowMs);
  return { gaps: gaps.filter((gap) => gap.gapId === gapId), memory };
}

/** The gap of one stream that holds a moment; undefined when nothing is missing there. */
async function gapAt(
  store: Store,
  stream: KnownStream,
  atMs: number,
  nowMs: number,
): Promise<Gap | undefined> {
  const { marketId, streamId, kind } = stream;
  const moment = { fromMs: atMs + 1, toMs: atMs + 1 };
  const { before, after } = await store.inspection.neighbours({ streamId, marketId, span: moment });
  if (before !== null && before.span.toMs > atMs) return undefined;
  const span = { fromMs: before?.span.toMs ?? 0, toMs: after?.span.fromMs ?? nowMs };
  if (span.fromMs >= span.toMs) return undefined;
  const filter = { marketIds: [marketId], kinds: [kind], span, limit: PIECES_MAX };
  const gaps = await store.listGaps(filter, nowMs);
  return gaps.find((gap) => gap.streamId === streamId && spanContains(gap.span, atMs));
}

/**
 * The gaps of a market at a moment, one for each stream of the kind that has one; and of the other
 * streams, why they have none.
 *
 * @throws UsageError when the market has no stream of the kind
 */
export async function findGapsAt(
  store: Store,
  streams: readonly KnownStream[],
  kind: StreamKind,
  atMs: number,
  nowMs: number,
): Promise<{ readonly gaps: readonly Gap[]; readonly others: readonly string[] }> {
  const gaps: Gap[] = [];
  const others: string[] = [];
  const asked = streams.filter((one) => one.kind === kind);
  if (asked.length === 0) {
    const advice = 'the archive has no such stream of this market; "tapekeep status" lists all';
    throw new UsageError('<kind>', kind, advice);
  }
  for (const stream of asked) {
    const gap = await gapAt(store, stream, atMs, nowMs);
    if (gap !== undefined && !isLag(gap, stream.newestCoveredMs, nowMs)) gaps.push(gap);
    else others.push(await whyNoGap(store, stream, atMs));
  }
  return { gaps, others };
}
