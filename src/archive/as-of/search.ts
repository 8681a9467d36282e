import type { Clock } from '../../kernel/clock.js';
import { DAY_MS, MINUTE_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { type MergedKind, type RowOfKind, tableOfKind } from '../../model/kinds.js';
import { millisSql, type Store } from '../../store/index.js';
import type { ArchiveReader } from '../reading.js';
import type { Segment } from '../segments.js';
import {
  firstHot,
  hotRows,
  newestOfMarkets,
  type RowQuestion,
  type SeenAt,
  type Series,
  timeOfRow,
} from './hot-rows.js';
import type { Held, ReadingLease } from './lease.js';

/** How much further each look goes than the one before. */
const WIDENING = 8;
/** Rows of files that a look takes at first; each further one takes twice as many. */
const COLD_ROWS = 1000;
/** How long it is believed where a series begins. */
const OLDEST_FOR_MS = 30_000;
/** The start of each table's oldest partition. */
const OLDEST = `
  SELECT table_name AS "table", ${millisSql('min(lower(span))')} AS "oldestMs"
  FROM partition_state GROUP BY table_name`;

/** How rows of the database and of files become what is asked for. */
interface Made<Kind extends MergedKind, Value> {
  readonly hot: (span: Span, limit: number) => Promise<Value[]>;
  readonly cold: (row: RowOfKind<Kind>) => Value;
}

/** How a first instant is looked for. */
interface Look<Row> {
  readonly seenAt?: SeenAt<Row>;
  /** True if a part that is in files is taken for full from its start on, without a look at them. */
  readonly isColdAssumed?: boolean;
}

/** Segments from one end of a span on, a day at first and then ever more together. */
function* widening(
  reader: ArchiveReader,
  kind: MergedKind,
  span: Span,
  from: 'newest' | 'oldest',
): Generator<Segment> {
  let { fromMs, toMs } = span;
  for (let widthMs = DAY_MS; fromMs < toMs; widthMs *= WIDENING) {
    if (from === 'newest') {
      const lookMs = Math.max(fromMs, toMs - widthMs);
      yield* reader.segments(kind, { fromMs: lookMs, toMs }).toReversed();
      toMs = lookMs;
    } else {
      const lookMs = Math.min(toMs, fromMs + widthMs);
      yield* reader.segments(kind, { fromMs, toMs: lookMs });
      fromMs = lookMs;
    }
  }
}

/**
 * Looks for rows next to an instant, in the database and in files as one. A look takes a day at first
 * and then ever more, because a statement over all partitions costs its planner more than the rows.
 */
export class AsOfSearch {
  readonly #store: Pick<Store, 'query'>;
  readonly #lease: ReadingLease;
  readonly #clock: Clock;
  #oldest: { readonly atMs: number; readonly of: ReadonlyMap<string, number> } | undefined;

  constructor(store: Pick<Store, 'query'>, lease: ReadingLease, clock: Clock) {
    this.#store = store;
    this.#lease = lease;
    this.#clock = clock;
  }

  /** The newest `limit` rows before an instant, newest first. */
  async newest<Kind extends MergedKind>(
    question: RowQuestion<Kind>,
    beforeMs: number,
    limit: number,
  ): Promise<RowOfKind<Kind>[]> {
    const span = { fromMs: await this.#oldestMs(question.kind), toMs: beforeMs };
    return await this.find(question, 'newest', span, limit, {
      hot: (part, left) => hotRows(this.#store, question, part, 'newest', left),
      cold: (row) => row,
    });
  }

  /** The newest row before an instant of each of several markets, in any order. */
  async newestOfEach<Kind extends MergedKind>(
    question: Omit<RowQuestion<Kind>, 'marketId'>,
    marketIds: readonly number[],
    beforeMs: number,
  ): Promise<RowOfKind<Kind>[]> {
    const span = { fromMs: await this.#oldestMs(question.kind), toMs: beforeMs };
    return await this.#lease.hold(async (held) => {
      const found = new Map<number, RowOfKind<Kind>>();
      for (const part of widening(held.reader, question.kind, span, 'newest')) {
        const left = marketIds.filter((id) => !found.has(id));
        if (left.length === 0) break;
        if (part.state === 'hot') {
          const rows = await newestOfMarkets(this.#store, question, left, part.span);
          for (const row of rows) found.set(row.marketId, row);
        }
        for (const marketId of part.state === 'cold' ? left : []) {
          const ofMarket = { ...question, marketId };
          const [row] = await coldNewest(held, ofMarket, part.span, 1);
          if (row !== undefined) found.set(marketId, row);
        }
      }
      return [...found.values()];
    });
  }

  /** The oldest `limit` rows of a span, oldest first. */
  async oldest<Kind extends MergedKind>(
    question: RowQuestion<Kind>,
    span: Span,
    limit: number,
  ): Promise<RowOfKind<Kind>[]> {
    return await this.find(question, 'oldest', span, limit, {
      hot: (part, left) => hotRows(this.#store, question, part, 'oldest', left),
      cold: (row) => row,
    });
  }

  /** Looks from one end of a span on until there are `limit` rows, as the values that are made of them. */
  async find<Kind extends MergedKind, Value>(
    question: RowQuestion<Kind>,
    end: 'newest' | 'oldest',
    span: Span,
    limit: number,
    { hot, cold }: Made<Kind, Value>,
  ): Promise<Value[]> {
    const coldRows = end === 'newest' ? coldNewest : coldOldest;
    return await this.#lease.hold(async (held) => {
      const found: Value[] = [];
      for (const part of widening(held.reader, question.kind, span, end)) {
        const left = limit - found.length;
        if (left <= 0) break;
        for (const one of part.state === 'hot' ? await hot(part.span, left) : []) found.push(one);
        if (part.state !== 'cold') continue;
        for (const row of await coldRows(held, question, part.span, left)) found.push(cold(row));
      }
      return found;
    });
  }

  /** The first instant in a span of any of several series, UNIX milliseconds. */
  async first<Kind extends MergedKind>(
    { kind, where }: Pick<RowQuestion<Kind>, 'kind' | 'where'>,
    series: readonly Series[],
    { fromMs, toMs }: Span,
    { seenAt, isColdAssumed = false }: Look<RowOfKind<Kind>> = {},
  ): Promise<number | null> {
    const timeOf = seenAt?.of ?? timeOfRow(kind);
    const span = { fromMs: Math.max(fromMs, await this.#oldestMs(kind)), toMs };
    return await this.#lease.hold(async (held) => {
      for (const part of widening(held.reader, kind, span, 'oldest')) {
        if (part.state === 'cold' && isColdAssumed) return part.span.fromMs;
        let firstMs: number | null = null;
        if (part.state === 'hot') {
          firstMs = await firstHot(this.#store, kind, series, where, part.span, seenAt?.sql);
        }
        for (const one of part.state === 'cold' ? series : []) {
          const look: Span = {
            fromMs: part.span.fromMs,
            toMs: Math.min(part.span.toMs, Math.ceil(firstMs ?? part.span.toMs)),
          };
          const question = { kind, where, ...one };
          const [row] = await coldOldest(held, question, look, 1);
          if (row !== undefined) firstMs = Math.min(timeOf(row), firstMs ?? timeOf(row));
        }
        if (firstMs !== null) return firstMs;
      }
      return null;
    });
  }

  /**
   * Hands each part of a span to `visit`, from one of its ends on, until it answers false, with the
   * reading that reads what is in files.
   */
  async eachPart(
    kind: MergedKind,
    span: Span,
    order: 'ascending' | 'descending',
    visit: (part: Segment, held: Held) => Promise<boolean>,
  ): Promise<void> {
    const fromMs = Math.max(await this.#oldestMs(kind), span.fromMs);
    if (span.toMs <= fromMs) return;
    await this.#lease.hold(async (held) => {
      const parts = held.reader.segments(kind, { fromMs, toMs: span.toMs });
      for (const part of order === 'ascending' ? parts : parts.toReversed()) {
        if (!(await visit(part, held))) return;
      }
    });
  }

  /** Earliest start of a series; its rows may begin later. */
  async #oldestMs(kind: MergedKind): Promise<number> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#oldest === undefined || nowMs - this.#oldest.atMs > OLDEST_FOR_MS) {
      const rows = await this.#store.query<{ table: string; oldestMs: number }>(OLDEST);
      const of = new Map(rows.map(({ table, oldestMs }) => [table, oldestMs]));
      this.#oldest = { atMs: nowMs, of };
    }
    return this.#oldest.of.get(tableOfKind(kind)) ?? Number.POSITIVE_INFINITY;
  }
}

/** The newest rows of files that meet conditions, newest first, at most `limit`. */
export async function coldNewest<Kind extends MergedKind>(
  { reader, alone }: Held,
  { kind, marketId, variantS, where }: RowQuestion<Kind>,
  span: Span,
  limit: number,
): Promise<RowOfKind<Kind>[]> {
  const slice = { kind, marketId, variantS, span };
  for (let asked = Math.max(COLD_ROWS, limit); ; asked *= 2) {
    let read = 0;
    const meant: RowOfKind<Kind>[] = [];
    await alone.run(async () => {
      for await (const batch of reader.newest(slice, asked)) {
        read += batch.length;
        for (const row of batch) if (where.every(({ isMet }) => isMet(row))) meant.push(row);
      }
    });
    if (meant.length >= limit || read < asked) return meant.slice(0, limit);
  }
}

async function coldOldest<Kind extends MergedKind>(
  { reader, alone }: Held,
  { kind, marketId, variantS, where }: RowQuestion<Kind>,
  { fromMs, toMs }: Span,
  limit: number,
): Promise<RowOfKind<Kind>[]> {
  const found: RowOfKind<Kind>[] = [];
  let atMs = fromMs;
  // A wide span would open more files than are looked at.
  for (let widthMs = MINUTE_MS; atMs < toMs && found.length < limit; widthMs *= WIDENING) {
    const span = { fromMs: atMs, toMs: Math.min(toMs, atMs + widthMs) };
    await alone.run(async () => {
      for await (const batch of reader.typed({ kind, marketId, variantS, span })) {
        for (const row of batch) if (where.every(({ isMet }) => isMet(row))) found.push(row);
        if (found.length >= limit) return;
      }
    });
    atMs = span.toMs;
  }
  return found.slice(0, limit);
}
