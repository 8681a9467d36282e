import { setMaxListeners } from 'node:events';
import { SECOND_US } from '../../kernel/durations.js';
import type { ArchiveSnapshot, MergedSlice, Store } from '../../store/index.js';
import { type ColdStorage, FolderStorage } from '../cold/storage.js';
import { ColdEngine } from '../cold-rows.js';
import { ArchiveError } from '../errors.js';
import { type Batches, mergeSources, type Source } from '../merge.js';
import { openReading } from '../reading.js';
import { type RowPlace, readRows } from '../rows.js';
import { ColdReader, findSegments, millisOf, type Segment } from '../segments.js';
import type { ArchiveEvent, BookAt, EventOrder } from './event.js';
import { eventMaker, GAP_RANK, orderOf, rankOf } from './event-rows.js';
import { findIncomplete, markGaps, refuseGaps } from './gaps.js';
import { type EventPlan, type EventSlice, findStream, readMarkets, shiftUs } from './plan.js';

/** Connections and readers that one stream of events may have. */
const SOURCES_MAX = 24;

/** Stands in where no cold files were named: none is read there. */
export const NOWHERE = new FolderStorage('');

/** Place of the rows. */
export interface EventPlace {
  readonly store: Pick<Store, 'snapshot' | 'inspection'>;
  /** Null where cold partitions were not named. */
  readonly cold: ColdStorage | null;
}

/**
 * Opens all that events of a plan come from, as of one instant, and merges them. Whatever happens, all
 * of it is closed when the events end, fail, or are left.
 *
 * @param onSeen is given the snapshot that all of it is read from
 * @throws ArchiveGapsError, ArchiveError, StoreError, ColdError, ParquetError; the signal's reason
 */
export async function* openEvents(
  { store, cold }: EventPlace,
  plan: EventPlan,
  signal: AbortSignal,
  onSeen?: (snapshot: ArchiveSnapshot) => Promise<void>,
): Batches<ArchiveEvent> {
  const { order, gaps } = plan;
  const slices = plan.slices.flatMap((one) => versionsOf(one, order));
  if (slices.length > SOURCES_MAX) {
    const text = `these are more than ${SOURCES_MAX} kinds and lengths at once: name fewer with kinds, intervalsS or periodsS`;
    throw new ArchiveError('bad_option', text);
  }
  setMaxListeners(0, signal);
  const closers: (() => Promise<void>)[] = [];
  try {
    const incomplete = gaps === 'ignore' ? [] : await findIncomplete(store, plan.streams);
    signal.throwIfAborted();
    const snapshot = await store.snapshot();
    closers.push(() => snapshot.close());
    await onSeen?.(snapshot);
    if (gaps === 'throw') await refuseGaps(snapshot, incomplete);
    const sources: Source<ArchiveEvent>[] = [];
    if (gaps === 'mark') {
      const marks = await markGaps(snapshot, incomplete);
      if (marks.length > 0) sources.push({ rank: GAP_RANK, batches: once(marks) });
    }
    const engine = new ColdEngine(order === 'received', signal);
    closers.push(() => engine.close());
    const reader = new ColdReader(cold ?? NOWHERE, signal);
    const around = { snapshot, cold: reader, engine, signal, order, closers };
    const isNamed = cold !== null;
    for (const slice of slices) sources.push(await openSlice(slice, isNamed, around));
    // Each source has a connection of its own that sees the same instant.
    await snapshot.close();
    yield* mergeSources(sources, orderOf(order));
  } finally {
    for (const close of closers) await close();
  }
}

/** In the order of receipt every version of a candle comes when it became known. */
function versionsOf(slice: EventSlice, order: EventOrder): EventSlice[] {
  if (slice.kind !== 'candles' || order === 'happened') return [slice];
  return [{ ...slice, kind: 'candle_revisions' }, slice];
}

/**
 * The rows that make all events of a slice, and perhaps some more: trades are kept under whole seconds.
 */
function rowsFor(slice: EventSlice, order: EventOrder): MergedSlice {
  const { kind, variantS, markets } = slice;
  const shift = shiftUs(slice);
  const fromUs = slice.fromUs - shift;
  return {
    ...{ kind, variantS, isByReceipt: order === 'received' },
    marketIds: markets.map(({ marketId }) => marketId),
    fromUs: kind === 'trades' ? Math.floor(fromUs / SECOND_US) * SECOND_US : fromUs,
    toUs: slice.toUs - shift,
  };
}

interface Surroundings extends RowPlace, Pick<EventPlan, 'order'> {
  readonly closers: (() => Promise<void>)[];
}

async function openSlice(
  slice: EventSlice,
  isNamed: boolean,
  { order, closers, ...place }: Surroundings,
): Promise<Source<ArchiveEvent>> {
  const { snapshot } = place;
  const { kind, variantS, markets } = slice;
  const rows = rowsFor(slice, order);
  const span = millisOf(rows.fromUs, rows.toUs);
  const segments = findSegments(kind, span, snapshot.removed);
  assertNamed(isNamed, segments, 'a part of the span');
  const fork = segments.some(({ state }) => state === 'hot') ? await snapshot.fork() : snapshot;
  closers.push(() => fork.close());
  const maker = { ...orderOf(order), make: eventMaker(kind, markets, variantS) };
  const batches = async function* (): Batches<ArchiveEvent> {
    yield* readRows({ ...place, snapshot: fork }, rows, segments, maker);
    // A source read to its end need not wait for the others.
    await fork.close();
  };
  return { rank: rankOf(kind, variantS), batches: within(slice, batches()) };
}

/** @throws ArchiveError where rows are in files and their folder was not named */
export function assertNamed(isNamed: boolean, segments: readonly Segment[], what: string): void {
  if (isNamed || segments.every(({ state }) => state !== 'cold')) return;
  const text = `${what} has left the database for files: name their folder with coldDir`;
  throw new ArchiveError('bad_option', text);
}

export async function* once(events: ArchiveEvent[]): Batches<ArchiveEvent> {
  yield events;
}

/** Leaves out what the whole seconds of rows brought in beyond the span. */
function within(
  { kind, fromUs, toUs }: EventSlice,
  batches: Batches<ArchiveEvent>,
): Batches<ArchiveEvent> {
  const isExact = kind !== 'trades' || (fromUs % SECOND_US === 0 && toUs % SECOND_US === 0);
  return isExact ? batches : cut(batches, fromUs, toUs);
}

async function* cut(
  batches: Batches<ArchiveEvent>,
  fromUs: number,
  toUs: number,
): Batches<ArchiveEvent> {
  for await (const batch of batches) {
    const kept = batch.filter(({ atUs }) => atUs >= fromUs && atUs < toUs);
    if (kept.length > 0) yield kept;
  }
}

/** The book of a market as it held at an instant; of an instant newer than all that is known of it, the last one. */
export async function bookAt(
  place: { readonly store: Store; readonly cold: ColdStorage | null },
  market: string,
  atUs: number,
): Promise<BookAt | null> {
  const { store, cold } = place;
  const streams = await store.inspection.streams();
  const known = await readMarkets(store);
  const stream = findStream({ market, kind: 'depth' }, streams, known);
  const atMs = Math.floor(atUs / 1000);
  const pieces = await store.inspection.pieces(stream, { fromMs: 0, toMs: atMs + 1 });
  const before = pieces.findLast(({ state }) => state === 'covered');
  const last = pieces.at(-1);
  if (before === undefined || (last !== before && last?.state !== 'later')) return null;
  const reader = await openReading(store, { cold: cold ?? NOWHERE });
  try {
    const span = { fromMs: before.span.fromMs, toMs: atMs + 1 };
    assertNamed(cold !== null, reader.segments('depth', span), 'this book');
    const { marketId } = stream;
    const slice = { kind: 'depth', marketId, variantS: 0, span } as const;
    const make = eventMaker('depth', [{ market, marketId }], 0);
    for await (const [book] of reader.newestAs(slice, 1, { make, ...orderOf('happened') })) {
      if (book?.kind !== 'depth') continue;
      return { ...book, ageUs: Math.max(0, atUs - before.span.toMs * 1000) };
    }
    return null;
  } finally {
    await reader.close();
  }
}
