import type { Clock } from '../../kernel/clock.js';
import type { Span } from '../../kernel/span.js';
import type { MergedKind } from '../../model/kinds.js';
import type { Store } from '../../store/index.js';
import { openReading } from '../reading.js';
import * as sql from './hot-sql.js';
import { PastLateRows } from './late-rows.js';
import { findNextMoment } from './next-moment.js';
import { PartSearch } from './part-search.js';
import type {
  BuiltCandle,
  DepthRow,
  KnownAt,
  KnownStream,
  LateRows,
  MadeCandles,
  PastArchive,
  PastIdentity,
  PastMarket,
  PastSession,
  PastUpdate,
  Seen,
  SpanCompleteness,
  StatePlace,
  StateRow,
  TickerRow,
  TradeMarks,
  TradePlace,
  TradeRow,
} from './past.js';
import { type FormerTerms, type MarketRecord, marketOf } from './past-markets.js';
import { PastTrades } from './past-trades.js';
import { ReadingLease } from './reading-lease.js';
import { readUpdate, writeUpdate } from './updates.js';

export interface PastOptions {
  readonly clock: Clock;
  /** The folder of cold partitions. It need not exist. */
  readonly coldDir: string;
}

type PastStore = Pick<Store, 'snapshot' | 'query' | 'inspection'>;

/** Opens an archive for questions about moments; `store` stays the caller's. */
export function openPast(store: PastStore, { clock, coldDir }: PastOptions): PastArchive {
  return new PostgresPast(
    store,
    clock,
    new ReadingLease(clock, () => openReading(store, { coldDir })),
  );
}

/** One observation, of those that a stream has. */
interface ObservedRow {
  readonly observedAtMs: number;
  readonly receivedAtMs: number;
}

interface ObservedSeries {
  readonly kind: 'depth' | 'states';
  readonly source: typeof sql.DEPTHS;
  readonly marketId: number;
  readonly variantS: number;
  readonly isUpdate: boolean;
}

/** The day after a moment: what changes within it is foreseen, what comes later is looked for then. */
const FORESEEN_MS = 86_400_000;

class PostgresPast implements PastArchive {
  readonly #store: PastStore;
  readonly #lease: ReadingLease;
  readonly #search: PartSearch;
  readonly #trades: PastTrades;
  readonly late: LateRows;

  constructor(store: PastStore, clock: Clock, lease: ReadingLease) {
    this.#store = store;
    this.#lease = lease;
    this.#search = new PartSearch(store, lease, clock);
    this.#trades = new PastTrades(store, this.#search);
    this.late = new PastLateRows(store, this.#search);
  }

  async identity(): Promise<PastIdentity | null> {
    const [row] = await this.#store.query<PastIdentity>(sql.IDENTITY);
    return row ?? null;
  }

  async markets(): Promise<PastMarket[]> {
    const rows = await this.#store.query<MarketRecord>(sql.MARKETS);
    const former = await this.#store.query<FormerTerms>(sql.FORMER_TERMS);
    return rows.map((row) => marketOf(row, former));
  }

  streams(): Promise<KnownStream[]> {
    return this.#store.inspection.streams();
  }

  completeness(
    stream: { readonly streamId: number; readonly marketId: number },
    span: Span,
    limit: number,
  ): Promise<SpanCompleteness> {
    return this.#lease.hold((reading, alone) =>
      alone.run(() => reading.completeness(stream, span, limit)),
    );
  }

  sessions(
    { streamId, marketId }: { readonly streamId: number; readonly marketId: number },
    { fromMs, toMs }: Span,
  ): Promise<PastSession[]> {
    return this.#store.query<PastSession>(sql.SESSIONS, [streamId, marketId, fromMs, toMs]);
  }

  tradesBefore(marketId: number, before: TradePlace, limit: number, knownAt: KnownAt) {
    return this.#trades.before(marketId, before, limit, knownAt);
  }

  tradesOfSecond(marketId: number, second: number): Promise<TradeRow[]> {
    return this.#trades.ofSecond(marketId, second);
  }

  tradeMarks(
    marketId: number,
    before: TradePlace,
    downTo: TradePlace | undefined,
    limits: { readonly step: number; readonly maxCount: number },
  ): Promise<TradeMarks> {
    return this.#trades.marks(marketId, before, downTo, limits);
  }

  candlesOfTrades(
    marketId: number,
    intervalS: number,
    from: TradePlace,
    before: TradePlace,
    knownAt: KnownAt,
  ): Promise<MadeCandles> {
    return this.#trades.candles(marketId, intervalS, from, before, knownAt);
  }

  async klines(
    marketId: number,
    intervalS: number,
    span: Span,
    limit: number,
    knownAt: KnownAt,
  ): Promise<BuiltCandle[]> {
    const series = { marketId, variantS: intervalS };
    const from = (table: string) => (part: Span, left: number) =>
      this.#store.query<BuiltCandle>(table, [
        ...[marketId, part.fromMs, part.toMs, intervalS, left, knownAt],
      ]);
    const read = ({ openAtS, open, close, high, low, volume, amount }: BuiltCandle) => ({
      ...{ openAtS, open, close, high, low, volume, amount },
    });
    const newest = await this.#search.oldest(
      {
        ...({ kind: 'klines', ...series, read } as const),
        hot: from(sql.KLINES),
        isMeant: ({ receivedAtMs }) => knownAt === null || receivedAtMs <= knownAt,
      },
      span,
      limit,
    );
    if (knownAt === null) return newest;
    // Asked afterwards: a version that is replaced meanwhile is in both answers, and in one at least.
    const former = await this.#search.oldest(
      {
        ...({ kind: 'kline_revisions', ...series, read } as const),
        hot: from(sql.FORMER_KLINES),
        isMeant: ({ knownFromMs, knownToMs }) => knownFromMs <= knownAt && knownToMs > knownAt,
      },
      span,
      limit,
    );
    const versions = new Map([...newest, ...former].map((one) => [one.openAtS, one]));
    return [...versions.values()].sort((a, b) => a.openAtS - b.openAtS).slice(0, limit);
  }

  async lastTickers(marketIds: readonly number[], atMs: number, knownAt: KnownAt) {
    const isMeant = (row: TickerRow) => knownAt === null || row.receivedAtMs <= knownAt;
    const hot = ({ fromMs, toMs }: Span, ids: readonly number[]) =>
      this.#store.query<TickerRow>(sql.LAST_TICKERS, [ids, fromMs, toMs, knownAt]);
    const question = { kind: 'tickers', variantS: 0, hot, isMeant } as const;
    const rows = await this.#search.newestOfEach(question, marketIds, atMs + 1);
    const nextAtMs = await this.#nextAfter(
      { kind: 'tickers', marketId: marketIds[0] ?? 0, variantS: 0 },
      atMs,
      ({ fromMs, toMs }) =>
        this.#store.query<{ atMs: number | null }>(sql.NEXT_TICKER, [marketIds, fromMs, toMs]),
    );
    return { rows, nextAtMs };
  }

  lastDepth(marketId: number, atMs: number, knownAt: KnownAt): Promise<Seen<DepthRow>> {
    const series = { kind: 'depth', source: sql.DEPTHS, marketId } as const;
    return this.#last<DepthRow>({ ...series, variantS: 0, isUpdate: false }, atMs, knownAt);
  }

  lastState(
    marketId: number,
    periodS: number,
    atMs: number,
    isUpdate: boolean,
    knownAt: KnownAt,
  ): Promise<Seen<StateRow>> {
    const series = { kind: 'states', source: sql.STATES, marketId } as const;
    return this.#last<StateRow>({ ...series, variantS: periodS, isUpdate }, atMs, knownAt);
  }

  updatesAfter(
    marketId: number,
    periodS: number,
    after: StatePlace,
    beforeMs: number,
    limit: number,
  ): Promise<PastUpdate[]> {
    const { observedAtMs, seq } = after;
    return this.#search.oldest(
      {
        ...({ kind: 'states', marketId, variantS: periodS } as const),
        hot: async ({ fromMs, toMs }, left) => {
          const values = [marketId, fromMs, toMs, periodS, observedAtMs, seq, left];
          const [row] = await this.#store.query<{ lines: string | null }>(
            sql.UPDATES_AFTER,
            values,
          );
          return row?.lines?.split('\n').map(readUpdate) ?? [];
        },
        read: writeUpdate,
        isMeant: (row) =>
          row.origin === 'update' &&
          (row.observedAtMs > observedAtMs || (row.observedAtMs === observedAtMs && row.seq > seq)),
      },
      { fromMs: observedAtMs, toMs: beforeMs },
      limit,
    );
  }

  nextMomentMs(
    marketIds: readonly number[],
    afterMs: number,
    beforeMs: number,
  ): Promise<number | null> {
    return findNextMoment(this.#store, this.#search, marketIds, afterMs, beforeMs);
  }

  close(): Promise<void> {
    return this.#lease.stop();
  }

  /** The last observation at a moment or before it, and when the next one came. */
  async #last<R extends ObservedRow>(
    { kind, source, marketId, variantS, isUpdate }: ObservedSeries,
    atMs: number,
    knownAt: KnownAt,
  ): Promise<Seen<R>> {
    const more = kind === 'states' ? [variantS, isUpdate] : [];
    const series = { kind: kind as Exclude<MergedKind, 'kline_revisions'>, marketId, variantS };
    const isKind = (row: object) => !isUpdate || (row as StateRow).origin === 'update';
    const rows = await this.#search.newest(
      {
        ...series,
        hot: ({ fromMs, toMs }) =>
          this.#store.query(sql.lastBefore(source), [marketId, fromMs, toMs, knownAt, ...more]),
        isMeant: (row) => isKind(row) && (knownAt === null || row.receivedAtMs <= knownAt),
      },
      atMs + 1,
      1,
    );
    const nextAtMs = await this.#nextAfter(series, atMs, ({ fromMs, toMs }) =>
      this.#store.query<{ atMs: number }>(sql.firstAfter(source), [
        ...[marketId, fromMs, toMs, ...more],
      ]),
    );
    return { row: rows[0] as unknown as R | undefined, nextAtMs };
  }

  async #nextAfter(
    series: { readonly kind: MergedKind; readonly marketId: number; readonly variantS: number },
    atMs: number,
    first: (span: Span) => Promise<ReadonlyArray<{ readonly atMs: number | null }>>,
  ): Promise<number> {
    const after = { fromMs: atMs + 1, toMs: atMs + 1 + FORESEEN_MS };
    let nextAtMs: number | null = null;
    await this.#search.eachPart(series, after, 'ascending', async (part) => {
      if (part.state === 'hot') nextAtMs = (await first(part.span))[0]?.atMs ?? null;
      // Files are not searched for what nobody asked for: the answer holds for its moment only.
      if (part.state === 'cold') nextAtMs = part.span.fromMs;
      return nextAtMs === null;
    });
    return nextAtMs ?? after.toMs;
  }
}
