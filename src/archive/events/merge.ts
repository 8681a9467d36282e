import type { ArchiveEvent } from './event.js';
import type { Compare } from './order.js';

/** Events in order, some at a time; none of the lists is empty. */
export type Batches = AsyncGenerator<ArchiveEvent[], void, undefined>;

/** A part of the events, in order by itself. */
export interface Source {
  /** Decides among events of the same moment; sources with the same rank compare their events. */
  readonly rank: number;
  readonly batches: Batches;
}

/** Events that go out together at most; less when a source has to be waited for. */
const BATCH_MAX = 256;

/** A source and how far it was read. */
interface Cursor {
  readonly source: Source;
  batch: readonly ArchiveEvent[];
  at: number;
  event: ArchiveEvent;
  time: number;
}

/**
 * One order of several. It holds one batch of each source, and asks a source for more only when its
 * batch is used up, so that the slowest reader sets the pace of all. When it is left early the sources
 * are ended.
 */
export async function* mergeSources(
  sources: readonly Source[],
  timeOf: (event: ArchiveEvent) => number,
  compare: Compare,
): Batches {
  try {
    const opened = await Promise.all(sources.map((source) => openCursor(source, timeOf)));
    let cursors = opened.filter((one) => one !== undefined);
    let out: ArchiveEvent[] = [];
    while (cursors.length > 0) {
      const first = firstOf(cursors, compare);
      const isLeft = drain(first, limitOf(cursors, first), out, timeOf);
      if (isLeft && out.length < BATCH_MAX) continue;
      if (out.length > 0) {
        yield out;
        out = [];
      }
      if (isLeft || (await refill(first, timeOf))) continue;
      cursors = cursors.filter((one) => one !== first);
    }
    if (out.length > 0) yield out;
  } finally {
    await Promise.all(sources.map(({ batches }) => batches.return(undefined)));
  }
}

async function openCursor(
  source: Source,
  timeOf: (event: ArchiveEvent) => number,
): Promise<Cursor | undefined> {
  const next = await source.batches.next();
  if (next.done === true) return undefined;
  const [event] = next.value;
  if (event === undefined) return undefined;
  return { source, batch: next.value, at: 0, event, time: timeOf(event) };
}

/** Whether there was more. */
async function refill(cursor: Cursor, timeOf: (event: ArchiveEvent) => number): Promise<boolean> {
  const next = await cursor.source.batches.next();
  if (next.done === true) return false;
  const [event] = next.value;
  if (event === undefined) return false;
  cursor.batch = next.value;
  cursor.at = 0;
  cursor.event = event;
  cursor.time = timeOf(event);
  return true;
}

function firstOf(cursors: readonly Cursor[], compare: Compare): Cursor {
  let first = cursors[0] as Cursor;
  for (let index = 1; index < cursors.length; index += 1) {
    const one = cursors[index] as Cursor;
    if (one.time > first.time) continue;
    const isBefore =
      one.time < first.time ||
      one.source.rank < first.source.rank ||
      (one.source.rank === first.source.rank && compare(one.event, first.event) < 0);
    if (isBefore) first = one;
  }
  return first;
}

/** The earliest moment of the others: up to it nothing needs to be compared. */
function limitOf(cursors: readonly Cursor[], first: Cursor): number {
  let limit = Number.POSITIVE_INFINITY;
  for (const one of cursors) if (one !== first && one.time < limit) limit = one.time;
  return limit;
}

/** Moves the first event, and those after it that come before all others. Whether any are left. */
function drain(
  cursor: Cursor,
  limit: number,
  out: ArchiveEvent[],
  timeOf: (event: ArchiveEvent) => number,
): boolean {
  const { batch } = cursor;
  let { at } = cursor;
  out.push(cursor.event);
  at += 1;
  while (at < batch.length) {
    const event = batch[at] as ArchiveEvent;
    const time = timeOf(event);
    if (time >= limit || out.length >= BATCH_MAX) {
      cursor.at = at;
      cursor.event = event;
      cursor.time = time;
      return true;
    }
    out.push(event);
    at += 1;
  }
  return false;
}
