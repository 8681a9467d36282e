import { BoundedSet } from '../../kernel/bounded.js';
import { type Clock, sleep } from '../../kernel/clock.js';
import { MINUTE_MS, SECOND_MS, SECOND_US } from '../../kernel/durations.js';
import type { Random } from '../../kernel/random.js';
import { type RetryOptions, retry } from '../../kernel/retry.js';
import { doOverlap, overlapOf, type Span } from '../../kernel/span.js';
import { tableOfKind } from '../../model/kinds.js';
import { type JournalEntry, type Store, StoreError } from '../../store/index.js';
import { ColdEngine } from '../cold-rows.js';
import { type Batches, mergeSources, type Source } from '../merge.js';
import { readRows } from '../rows.js';
import { ColdReader, findSegments } from '../segments.js';
import type { ArchiveEvent } from './event.js';
import { eventMaker, GAP_RANK, numberOf, orderOf, rankOf } from './event-rows.js';
import { markGaps, refuseGaps } from './gaps.js';
import { type EventPlan, type EventSlice, endingAt, type PlannedStream, shiftUs } from './plan.js';
import { assertNamed, type EventPlace, NOWHERE, once, openEvents } from './sources.js';

/**
 * Events of what is committed after the stored ones. An entry of the journal names market, time range and receipt of the
 * rows that a transaction stored, and that is how they are found. Rows of another transaction that look the same were
 * received while this one waited for its commit: the keys of what was received lately tell which were handed out.
 */

/** The journal is read so often. */
const EVERY_MS = SECOND_MS;
/** Entries that are read together: what they stored is held in memory. */
const ENTRIES_MAX = 100;
/** Rows further apart are read by another statement. */
const NEAR_MS = MINUTE_MS;
/** Longest time that a row waits for its commit, and rows that are remembered for it. */
const LATELY_US = 10 * MINUTE_MS * 1000;
const KEYS_MAX = 100_000;
/** About five minutes: a Postgres that recovers takes its time. */
const RETRY = { baseMs: 500, capMs: 10_000, maxAttempts: 60 };

/** Needs of a follower beside its plan. */
export interface FollowSurroundings {
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
}

interface FollowPlace extends EventPlace {
  readonly store: EventPlace['store'] & Pick<Store, 'journal'>;
}

/**
 * Hands out the events of a plan and then those of each commit, until the signal aborts.
 *
 * @throws as openEvents; StoreError `journal_behind` when the reader was too slow: begin again; the last error of a
 * database that stays away
 */
export async function* followEvents(
  place: FollowPlace,
  plan: EventPlan,
  { clock, random, signal }: FollowSurroundings,
): Batches<ArchiveEvent> {
  let number = 0;
  const known = new KnownRows();
  const stored = openEvents(place, plan, signal, async (snapshot) => {
    number = await snapshot.journalNumber();
  });
  for await (const batch of stored) yield known.added(batch);
  const isRetryable = (error: unknown) => error instanceof StoreError && error.action === 'retry';
  const trying: RetryOptions = { ...RETRY, clock, random, signal, isRetryable };
  for (;;) {
    const read = () => readChanges(place, plan, number, clock.wallMs(), signal);
    const { sources, upTo, isWhole } = await retry(trying, read);
    number = upTo;
    for await (const batch of mergeSources(sources, orderOf('happened'))) {
      const fresh = known.added(batch);
      if (fresh.length > 0) yield fresh;
    }
    if (isWhole) await sleep(clock, EVERY_MS, signal);
  }
}

/** Events of some entries of the journal, held in memory: a reading that fails can be repeated. */
interface Changes {
  readonly sources: readonly Source<ArchiveEvent>[];
  readonly upTo: number;
  readonly isWhole: boolean;
}

async function readChanges(
  { store, cold }: FollowPlace,
  { slices, streams, gaps }: EventPlan,
  number: number,
  nowMs: number,
  signal: AbortSignal,
): Promise<Changes> {
  const { entries, ...progress } = await store.journal.changesSince(number, ENTRIES_MAX);
  const stretches = slices.flatMap((slice) => stretchesOf(slice, entries));
  const lost = gaps === 'ignore' ? [] : lostOf(streams, entries, nowMs);
  if (stretches.length === 0 && lost.length === 0) return { ...progress, sources: [] };
  const sources: Source<ArchiveEvent>[] = [];
  const snapshot = await store.snapshot();
  const engine = new ColdEngine(false, signal);
  const reader = new ColdReader(cold ?? NOWHERE, signal);
  try {
    if (gaps === 'throw') await refuseGaps(snapshot, lost);
    const marks = gaps === 'mark' ? await markGaps(snapshot, lost) : [];
    if (marks.length > 0) sources.push({ rank: GAP_RANK, batches: once(marks) });
    for (const { slice, span, brought } of stretches) {
      const { kind, variantS, fromUs } = slice;
      const markets = slice.markets.filter(({ marketId }) => brought.has(marketId));
      const receipts = new Map(
        markets.map(({ market, marketId }) => [market, brought.get(marketId)]),
      );
      const segments = findSegments(kind, span, snapshot.removed);
      assertNamed(cold !== null, segments, 'a part of what changed');
      const rows = {
        ...{ kind, variantS, isByReceipt: false },
        marketIds: markets.map(({ marketId }) => marketId),
        ...{ fromUs: span.fromMs * 1000, toUs: span.toMs * 1000 },
      };
      const maker = { ...orderOf('happened'), make: eventMaker(kind, markets, variantS) };
      const found: ArchiveEvent[] = [];
      for await (const batch of readRows(
        { snapshot, cold: reader, engine, signal },
        rows,
        segments,
        maker,
      )) {
        for (const event of batch) {
          const ms = event.receivedAtUs / 1000;
          const isBrought = receipts
            .get(event.market)
            ?.some(({ fromMs, toMs }) => ms >= fromMs && ms < toMs);
          if (isBrought === true && event.atUs >= fromUs) found.push(event);
        }
      }
      if (found.length > 0) sources.push({ rank: rankOf(kind, variantS), batches: once(found) });
    }
    return { ...progress, sources };
  } finally {
    await snapshot.close();
    await engine.close();
  }
}

/** A time range of a slice in which rows were stored, with their receipts by market. */
interface Stretch {
  readonly slice: EventSlice;
  readonly span: Span;
  readonly brought: ReadonlyMap<number, readonly Span[]>;
}

/** Entries that are close together are read by one statement. */
function stretchesOf(slice: EventSlice, entries: readonly JournalEntry[]): Stretch[] {
  const table = tableOfKind(slice.kind);
  const fromMs = Math.floor((slice.fromUs - shiftUs(slice)) / SECOND_US) * SECOND_MS;
  const ids = new Set(slice.markets.map(({ marketId }) => marketId));
  const own = entries
    .filter((one) => one.series === table && one.variant === slice.variantS)
    .filter(({ marketId, span }) => ids.has(marketId ?? 0) && span.toMs > fromMs)
    .sort((a, b) => a.span.fromMs - b.span.fromMs);
  const stretches: { slice: EventSlice; span: Span; brought: Map<number, Span[]> }[] = [];
  for (const { span, marketId, received } of own) {
    if (received === null || marketId === null) continue;
    const last = stretches.at(-1);
    const isNear = last !== undefined && span.fromMs <= last.span.toMs + NEAR_MS;
    const stretch = isNear ? last : { slice, span, brought: new Map<number, Span[]>() };
    if (!isNear) stretches.push(stretch);
    const toMs = Math.max(stretch.span.toMs, span.toMs);
    stretch.span = { fromMs: stretch.span.fromMs, toMs };
    stretch.brought.set(marketId, [...(stretch.brought.get(marketId) ?? []), received]);
  }
  return stretches;
}

const LOSSES: ReadonlySet<JournalEntry['change']> = new Set(['revoked', 'replaced', 'expired']);

/** Parts of the streams that may not be complete any more. */
function lostOf(
  streams: readonly PlannedStream[],
  entries: readonly JournalEntry[],
  nowMs: number,
): PlannedStream[] {
  const lost: PlannedStream[] = [];
  for (const { series, marketId, variant, span, change } of entries) {
    if (!LOSSES.has(change)) continue;
    for (const planned of streams) {
      const { stream, kind, variantS } = planned;
      const asked = { fromMs: planned.span.fromMs, toMs: nowMs };
      const isOwn =
        (series === null || series === tableOfKind(kind)) &&
        (marketId === null || marketId === stream.marketId) &&
        (variant === null || variant === variantS);
      if (!isOwn || !doOverlap(span, asked)) continue;
      const part = overlapOf(span, asked);
      lost.push(endingAt({ ...planned, span: part }, part.toMs));
    }
  }
  return lost;
}

/** Keys of the rows that were handed out and were received lately. */
class KnownRows {
  readonly #keys = new BoundedSet<string>(KEYS_MAX);
  #newestUs = Number.NEGATIVE_INFINITY;

  /** Remembers events and returns those that were not known. */
  added(events: ArchiveEvent[]): ArchiveEvent[] {
    return events.filter((event) => {
      if (event.kind === 'gap') return true;
      this.#newestUs = Math.max(this.#newestUs, event.receivedAtUs);
      if (event.receivedAtUs < this.#newestUs - LATELY_US) return true;
      const key = keyOf(event);
      const isNew = !this.#keys.has(key);
      this.#keys.add(key);
      return isNew;
    });
  }
}

function keyOf(event: Exclude<ArchiveEvent, { readonly kind: 'gap' }>): string {
  const parts = [event.kind, event.market, numberOf(event)];
  // The exact time of a trade may become known later; its second is the same.
  if (event.kind === 'trade') return [...parts, Math.floor(event.atUs / SECOND_US)].join(' ');
  if (event.kind === 'candle') parts.push(event.intervalS);
  if (event.kind === 'state') parts.push(event.periodS, event.sessionId);
  return [...parts, event.atUs].join(' ');
}
