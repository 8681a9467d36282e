import type { Clock } from '../../kernel/clock.js';
import { DAY_MS, MINUTE_MS } from '../../kernel/durations.js';
import type { Mutex } from '../../kernel/mutex.js';
import type { Span } from '../../kernel/span.js';
import { type MergedKind, type RowOfKind, tableOfKind } from '../../model/kinds.js';
import type { Store } from '../../store/index.js';
import type { Reading } from '../reading.js';
import { OLDEST } from './hot-sql.js';
import type { ReadingLease } from './reading-lease.js';

/** How much further each look goes than the one before. */
const WIDENING = 8;
/** Rows of files that a look takes at first; each further one takes twice as many. */
const COLD_ROWS = 1000;
/** How long it is believed where a series begins. */
const OLDEST_FOR_MS = 30_000;

/** Rows of one series, wherever they are. */
export interface PartQuestion<K extends MergedKind> {
  readonly kind: K;
  readonly marketId: number;
  /** Interval or period in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** Rows of a piece of time that is in the database, in the order asked for. */
  readonly hot: (span: Span, limit: number) => Promise<Array<RowOfKind<K>>>;
  /** Of the rows of files in that time: which are meant. */
  readonly isMeant: (row: RowOfKind<K>) => boolean;
}

/** The same of several markets, of each its newest row. */
interface MarketsQuestion<K extends MergedKind>
  extends Pick<PartQuestion<K>, 'kind' | 'variantS' | 'isMeant'> {
  readonly hot: (span: Span, marketIds: readonly number[]) => Promise<Array<RowOfKind<K>>>;
}

interface OldestQuestion<K extends MergedKind, R>
  extends Pick<PartQuestion<K>, 'kind' | 'marketId' | 'variantS' | 'isMeant'> {
  readonly hot: (span: Span, limit: number) => Promise<R[]>;
  readonly read: (row: RowOfKind<K>) => R;
}

interface FirstQuestion<K extends MergedKind> extends Pick<PartQuestion<K>, 'kind' | 'isMeant'> {
  /** Markets, each with interval or period, and from when on where that is not the same of all. */
  readonly series: ReadonlyArray<
    Pick<PartQuestion<K>, 'marketId' | 'variantS'> & { readonly fromMs?: number }
  >;
  /** The first moment of a piece of time that is in the database. */
  readonly hot: (span: Span) => Promise<number | null>;
  readonly momentOf: (row: RowOfKind<K>) => number;
}

/** A piece of time as {@link PartSearch.eachPart} shows it. */
export interface VisitedPart<R> {
  readonly span: Span;
  readonly state: 'hot' | 'cold' | 'expired';
  /** Within it alone may rows be read. */
  readonly alone: Mutex;
  /** Its rows: all of them when ascending, else the newest, at most `limit`. */
  readonly rows: (limit: number) => AsyncIterable<readonly R[]>;
}

/**
 * Looks for rows next to a moment, in the database and in files as one. A look takes a day at first
 * and then ever more, because a statement over all partitions costs its planner more than the rows.
 */
export class PartSearch {
  readonly #store: Pick<Store, 'query'>;
  readonly #lease: ReadingLease;
  readonly #clock: Clock;
  #oldest: { readonly atMs: number; readonly of: ReadonlyMap<string, number> } | undefined;

  constructor(store: Pick<Store, 'query'>, lease: ReadingLease, clock: Clock) {
    this.#store = store;
    this.#lease = lease;
    this.#clock = clock;
  }

  /** The newest `limit` rows before a moment, newest first; none from before `fromMs`. */
  async newest<K extends MergedKind>(
    question: PartQuestion<K>,
    beforeMs: number,
    limit: number,
    fromMs = Number.NEGATIVE_INFINITY,
  ): Promise<Array<RowOfKind<K>>> {
    const oldestMs = Math.max(fromMs, await this.oldestMs(question.kind));
    return await this.#lease.hold(async (reading, alone) => {
      const found: Array<RowOfKind<K>> = [];
      let toMs = beforeMs;
      for (let widthMs = DAY_MS; toMs > oldestMs && found.length < limit; widthMs *= WIDENING) {
        const span = { fromMs: Math.max(oldestMs, toMs - widthMs), toMs };
        for (const part of [...reading.parts(question.kind, span)].reverse()) {
          const left = limit - found.length;
          if (left <= 0) break;
          if (part.state === 'hot') found.push(...(await question.hot(part.span, left)));
          if (part.state !== 'cold') continue;
          found.push(...(await coldNewest({ reading, alone }, question, part.span, left)));
        }
        toMs = span.fromMs;
      }
      return found;
    });
  }

  /** The newest row before a moment of each of several markets, in any order. */
  async newestOfEach<K extends MergedKind>(
    { kind, variantS, hot, isMeant }: MarketsQuestion<K>,
    marketIds: readonly number[],
    beforeMs: number,
  ): Promise<Array<RowOfKind<K>>> {
    const oldestMs = await this.oldestMs(kind);
    return await this.#lease.hold(async (reading, alone) => {
      const found = new Map<number, RowOfKind<K>>();
      const left = () => marketIds.filter((id) => !found.has(id));
      let toMs = beforeMs;
      for (let widthMs = DAY_MS; toMs > oldestMs && left().length > 0; widthMs *= WIDENING) {
        const span = { fromMs: Math.max(oldestMs, toMs - widthMs), toMs };
        for (const part of [...reading.parts(kind, span)].reverse()) {
          const rows = part.state === 'hot' ? await hot(part.span, left()) : [];
          for (const row of rows) found.set(row.marketId, row);
          for (const marketId of part.state === 'cold' ? left() : []) {
            const question = { kind, marketId, variantS, isMeant };
            const [row] = await coldNewest({ reading, alone }, question, part.span, 1);
            if (row !== undefined) found.set(marketId, row);
          }
        }
        toMs = span.fromMs;
      }
      return [...found.values()];
    });
  }

  /** The oldest `limit` rows of a span, oldest first; those of files as `read` makes them. */
  async oldest<K extends MergedKind, R>(
    question: OldestQuestion<K, R>,
    { fromMs, toMs }: Span,
    limit: number,
  ): Promise<R[]> {
    return await this.#lease.hold(async (reading, alone) => {
      const found: R[] = [];
      let atMs = fromMs;
      for (let widthMs = DAY_MS; atMs < toMs && found.length < limit; widthMs *= WIDENING) {
        const span = { fromMs: atMs, toMs: Math.min(toMs, atMs + widthMs) };
        for (const part of reading.parts(question.kind, span)) {
          const left = limit - found.length;
          if (left <= 0) break;
          const rows =
            part.state === 'hot'
              ? await question.hot(part.span, left)
              : part.state === 'cold'
                ? await coldOldest({ reading, alone }, question, part.span, left)
                : [];
          for (const row of rows) found.push(row);
        }
        atMs = span.toMs;
      }
      return found;
    });
  }

  /** The first moment in a span of any of several series. */
  async first<K extends MergedKind>(
    { kind, series, hot, isMeant, momentOf: read }: FirstQuestion<K>,
    { fromMs, toMs }: Span,
  ): Promise<number | null> {
    return await this.#lease.hold(async (reading, alone) => {
      let firstMs: number | null = null;
      let atMs = Math.max(fromMs, await this.oldestMs(kind));
      for (let widthMs = DAY_MS; atMs < toMs && firstMs === null; widthMs *= WIDENING) {
        const span = { fromMs: atMs, toMs: Math.min(toMs, atMs + widthMs) };
        for (const part of reading.parts(kind, span)) {
          if (part.state === 'hot') firstMs = await hot(part.span);
          for (const one of part.state === 'cold' ? series : []) {
            const before = Math.min(part.span.toMs, Math.ceil(firstMs ?? part.span.toMs));
            const look = {
              fromMs: Math.max(part.span.fromMs, one.fromMs ?? part.span.fromMs),
              toMs: before,
            };
            const question = { ...one, kind, isMeant, read };
            const [found] = await coldOldest({ reading, alone }, question, look, 1);
            if (found !== undefined) firstMs = Math.min(found, firstMs ?? found);
          }
          if (firstMs !== null) break;
        }
        atMs = span.toMs;
      }
      return firstMs;
    });
  }

  /**
   * Hands each part of a span to `visit`, in the order of time, until it answers false. Parts in
   * files come with what reads them.
   */
  async eachPart<K extends MergedKind>(
    series: Pick<PartQuestion<K>, 'kind' | 'marketId' | 'variantS'>,
    span: Span,
    order: 'ascending' | 'descending',
    visit: (part: VisitedPart<RowOfKind<K>>) => Promise<boolean>,
  ): Promise<void> {
    const fromMs = Math.max(await this.oldestMs(series.kind), span.fromMs);
    if (span.toMs <= fromMs) return;
    await this.#lease.hold(async (reading, alone) => {
      const parts = [...reading.parts(series.kind, { fromMs, toMs: span.toMs })];
      if (order === 'descending') parts.reverse();
      for (const part of parts) {
        const slice = { ...series, span: part.span };
        const isAscending = order === 'ascending';
        const rows = (limit: number) =>
          isAscending ? reading.typed(slice) : reading.newest(slice, limit);
        if (!(await visit({ ...part, alone, rows }))) return;
      }
    });
  }

  /** Where a series begins at the earliest; its rows may begin later. */
  async oldestMs(kind: MergedKind): Promise<number> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#oldest === undefined || nowMs - this.#oldest.atMs > OLDEST_FOR_MS) {
      const rows = await this.#store.query<{ table: string; oldestMs: number }>(OLDEST);
      const of = new Map(rows.map(({ table, oldestMs }) => [table, oldestMs]));
      this.#oldest = { atMs: nowMs, of };
    }
    return this.#oldest.of.get(tableOfKind(kind)) ?? Number.POSITIVE_INFINITY;
  }
}

interface Look {
  readonly reading: Reading;
  readonly alone: Mutex;
}

async function coldNewest<K extends MergedKind>(
  { reading, alone }: Look,
  { kind, marketId, variantS, isMeant }: Omit<PartQuestion<K>, 'hot'>,
  span: Span,
  limit: number,
): Promise<Array<RowOfKind<K>>> {
  const slice = { kind, marketId, variantS, span };
  for (let asked = Math.max(COLD_ROWS, limit); ; asked *= 2) {
    const rows = await alone.run(async () => {
      const found: Array<RowOfKind<K>> = [];
      for await (const batch of reading.newest(slice, asked)) found.push(...batch);
      return found;
    });
    const meant = rows.filter(isMeant);
    if (meant.length >= limit || rows.length < asked) return meant.slice(0, limit);
  }
}

async function coldOldest<K extends MergedKind, R>(
  { reading, alone }: Look,
  { kind, marketId, variantS, isMeant, read }: Omit<OldestQuestion<K, R>, 'hot'>,
  { fromMs, toMs }: Span,
  limit: number,
): Promise<R[]> {
  const found: R[] = [];
  let atMs = fromMs;
  // A wide span would open more files than are looked at.
  for (let widthMs = MINUTE_MS; atMs < toMs && found.length < limit; widthMs *= WIDENING) {
    const span = { fromMs: atMs, toMs: Math.min(toMs, atMs + widthMs) };
    const slice = { kind, marketId, variantS, span };
    await alone.run(async () => {
      for await (const batch of reading.typed(slice)) {
        for (const row of batch) if (found.length < limit && isMeant(row)) found.push(read(row));
        if (found.length >= limit) return;
      }
    });
    atMs = span.toMs;
  }
  return found;
}
