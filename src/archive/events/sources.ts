import { setMaxListeners } from 'node:events';
import { SECOND_US } from '../../kernel/durations.js';
import { tableOfKind } from '../../model/kinds.js';
import type { ArchiveSnapshot, Store } from '../../store/index.js';
import { cutIntoParts } from '../reading/parts.js';
import { ColdEngine } from './cold-engine.js';
import { ColdReader } from './cold-events.js';
import { ArchiveError } from './errors.js';
import type { ArchiveEvent } from './event.js';
import { findIncomplete, markGaps, refuseGaps } from './gap-marks.js';
import { hotEvents, type RowSpan } from './hot-events.js';
import { type Batches, mergeSources, type Source } from './merge.js';
import { compareWithin, type EventOrder, GAP_RANK, rankOf, timeOf } from './order.js';
import type { EventPlan } from './plan.js';
import { type EventSlice, rowSpanOf } from './slice.js';

/** Connections and readers that one stream of events may have. */
const SOURCES_MAX = 24;

/** Where the rows are. */
export interface EventPlace {
  readonly store: Pick<Store, 'snapshot' | 'inspection'>;
  /** Null where nobody said where cold partitions are. */
  readonly coldDir: string | null;
}

type LocatedPart = ReturnType<typeof cutIntoParts>[number];

/** A slice with the pieces of its time, and where the rows of each are. */
interface LocatedSlice {
  readonly slice: EventSlice;
  readonly parts: readonly { readonly part: LocatedPart; readonly span: RowSpan }[];
}

function locate(slice: EventSlice, snapshot: ArchiveSnapshot): LocatedSlice {
  const table = tableOfKind(slice.kind);
  const { fromUs, toUs } = rowSpanOf(slice);
  const whole = { fromMs: Math.floor(fromUs / 1000), toMs: Math.ceil(toUs / 1000) };
  const departed = snapshot.departed.filter((one) => one.table === table);
  const parts = cutIntoParts(whole, departed).map((part) => ({
    part,
    span: {
      fromUs: Math.max(fromUs, part.span.fromMs * 1000),
      toUs: Math.min(toUs, part.span.toMs * 1000),
    },
  }));
  return { slice, parts };
}

/** All that was opened for one stream of events, and its end. */
class Opened {
  readonly #closers: (() => Promise<void>)[] = [];

  add(close: () => Promise<void>): void {
    this.#closers.push(close);
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0)) await close();
  }
}

/**
 * Opens all that events of a plan come from, as of one moment, and merges them. Whatever happens, all
 * of it is closed when the events end, fail, or are left.
 *
 * @throws ArchiveGapsError, ArchiveError, StoreError, ColdError, ParquetError; the signal's reason
 */
export async function* openEvents(
  { store, coldDir }: EventPlace,
  plan: EventPlan,
  signal: AbortSignal,
): Batches {
  const { order, gaps } = plan;
  setMaxListeners(0, signal);
  const opened = new Opened();
  try {
    const incomplete = gaps === 'ignore' ? [] : await findIncomplete(store, plan.streams);
    signal.throwIfAborted();
    const snapshot = await store.snapshot();
    opened.add(() => snapshot.close());
    if (gaps === 'throw') await refuseGaps(snapshot, incomplete);
    const sources: Source[] = [];
    if (gaps === 'mark') {
      const marks = await markGaps(snapshot, incomplete);
      if (marks.length > 0) sources.push({ rank: GAP_RANK, batches: inTurn([marks]) });
    }
    const engine = new ColdEngine(order, signal);
    opened.add(() => engine.close());
    for (const located of plan.slices.flatMap((one) => versionsOf(one, order))) {
      const slice = locate(located, snapshot);
      sources.push(
        ...(await openSlice(slice, { snapshot, coldDir, engine, order, signal, opened })),
      );
      if (sources.length > SOURCES_MAX) throw tooMany();
    }
    // Each source has a connection of its own that sees the same moment.
    await snapshot.close();
    yield* mergeSources(sources, timeOf(order), compareWithin(order));
  } finally {
    await opened.close();
  }
}

function tooMany(): ArchiveError {
  return new ArchiveError(
    'bad_option',
    `these are more than ${SOURCES_MAX} kinds and lengths at once: name fewer with kinds, intervalsS or periodsS`,
  );
}

/** In the order of receipt every version of a candle is told when it became known. */
function versionsOf(slice: EventSlice, order: EventOrder): EventSlice[] {
  if (slice.kind !== 'klines' || order === 'happened') return [slice];
  return [{ ...slice, kind: 'kline_revisions' }, slice];
}

interface Surroundings {
  readonly snapshot: ArchiveSnapshot;
  readonly coldDir: string | null;
  readonly engine: ColdEngine;
  readonly order: EventOrder;
  readonly signal: AbortSignal;
  readonly opened: Opened;
}

async function openSlice(located: LocatedSlice, around: Surroundings): Promise<Source[]> {
  const { slice, parts } = located;
  const { snapshot, order, signal, opened } = around;
  const rank = rankOf(slice.kind, slice.variantS);
  const isHot = parts.some(({ part }) => part.state === 'hot');
  const isCold = parts.some(({ part }) => part.state === 'cold');
  const twin = isHot ? await snapshot.twin() : undefined;
  if (twin !== undefined) opened.add(() => twin.close());
  const cold = isCold ? new ColdReader(knownDir(around.coldDir), around.engine, signal) : undefined;
  const coldParts = (from: LocatedSlice['parts']) =>
    from.flatMap(({ part: { partition }, span }) =>
      partition?.state === 'archived' ? [{ partition, span }] : [],
    );
  if (order === 'received') {
    // The database has no rows of what has left it, so that one statement finds all that are hot.
    const hot = twin && hotEvents(twin, slice, rowSpanOf(slice), order, signal);
    const files = cold?.events(slice, coldParts(parts), order);
    return [hot, files].flatMap((batches) =>
      batches === undefined ? [] : [{ rank, batches: within(slice, batches) }],
    );
  }
  const pieces = parts.map(({ part, span }) => () => {
    if (part.state === 'hot') return twin && hotEvents(twin, slice, span, order, signal);
    return cold?.events(slice, coldParts([{ part, span }]), order);
  });
  const whole = async function* (): Batches {
    for (const piece of pieces) {
      const batches = piece();
      if (batches !== undefined) yield* batches;
    }
    // What has been read to its end need not wait for the others.
    await twin?.close();
  };
  return [{ rank, batches: within(slice, whole()) }];
}

/** @throws ArchiveError when nobody said where it is */
function knownDir(coldDir: string | null): string {
  if (coldDir !== null) return coldDir;
  throw new ArchiveError(
    'bad_option',
    'a part of the span has left the database for files: name their folder with coldDir',
  );
}

async function* inTurn(lists: readonly ArchiveEvent[][]): Batches {
  for (const list of lists) yield list;
}

/** Leaves out what the whole seconds of rows brought in beyond the span. */
function within({ kind, fromUs, toUs }: EventSlice, batches: Batches): Batches {
  const isExact = kind !== 'trades' || (fromUs % SECOND_US === 0 && toUs % SECOND_US === 0);
  return isExact ? batches : cut(batches, fromUs, toUs);
}

async function* cut(batches: Batches, fromUs: number, toUs: number): Batches {
  for await (const batch of batches) {
    const kept = batch.filter(({ atUs }) => atUs >= fromUs && atUs < toUs);
    if (kept.length > 0) yield kept;
  }
}
