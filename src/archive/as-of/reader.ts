import type { Clock } from '../../kernel/clock.js';
import { DAY_MS, SECOND_MS } from '../../kernel/durations.js';
import { floorToMs, type Span } from '../../kernel/span.js';
import type { KnownStream, Piece } from '../../model/explain.js';
import type { SeriesKind } from '../../model/kinds.js';
import type { RowOf } from '../../model/series.js';
import { type Store, type StreamPlace, timestampSql } from '../../store/index.js';
import type { BuiltCandle } from '../candles.js';
import { openReading } from '../reading.js';
import { fieldIs, placeIs, type RowQuestion, type Series } from './hot-rows.js';
import { ReadingLease } from './lease.js';
import {
  type AsOfIdentity,
  type AsOfMarket,
  type AsOfSession,
  IDENTITY,
  readMarketsWithTerms,
  SESSIONS,
} from './markets.js';
import { AsOfSearch } from './search.js';
import { TRADE_SEEN, type TradePlace, TradeRuns, tradeIsSeenAfter, tradesOf } from './trades.js';

export type { DepthRow, StateRow, TickerRow, TradeRow } from '../../model/batch.js';
export type { BuiltCandle } from '../candles.js';
export type { AsOfIdentity, AsOfMarket, AsOfSession } from './markets.js';
export { comparePlaces, startOfSecond, type TradeMarks, type TradePlace } from './trades.js';
export type { KnownStream };

type AsOfStore = Pick<Store, 'snapshot' | 'query' | 'inspection'>;

/** Place of a state record among those of its market and period. */
export type StatePlace = Pick<RowOf<'market_state'>, 'observedAtMs' | 'seq'>;

/** Latest row, and until when it stays the latest. */
export interface Seen<Row> {
  readonly row: Row | undefined;
  /** Until then nothing else can be the last; at the latest a day later. */
  readonly nextAtMs: number;
}

/** A pushed state as the contract writes it. */
export interface AsOfUpdate extends StatePlace {
  /** The record in JSON: period, prices and volumes as texts; no change. */
  readonly recordText: string;
}

const US_PER_MS = 1000;
/** Whole microseconds, which a session's form of floating-point numbers cannot round. */
const microsText = (expression: string) => `(extract(epoch FROM ${expression}) * 1000000)::bigint`;

/**
 * $1 market, $2 $3 span, $4 period, $5 $6 place, $7 limit. One text with a line for each row: instant,
 * number, record. A feed at full speed would spend most of its time on taking rows apart, and
 * columns, and putting them together again.
 */
const UPDATES_AFTER = `
  SELECT string_agg(line, E'\\n') AS lines FROM (
    SELECT concat(${microsText('observed_at')}, E'\\t', seq, E'\\t',
      '{"period":', period_s, ',"last":"', last, '","open":"', open, '","close":"', close,
      '","high":"', high, '","low":"', low, '","deal":"', quote_volume, '","volume":"', volume, '"}') AS line
    FROM market_state
    WHERE market_id = $1 AND period_s = $4 AND observed_at >= ${timestampSql('$2')}
      AND observed_at < ${timestampSql('$3')}
      AND (observed_at, seq) > (${timestampSql('$5')}, $6::int) AND origin = 'update'
    ORDER BY observed_at, seq LIMIT $7) written`;

/** A line of `UPDATES_AFTER`. */
function readUpdate(line: string): AsOfUpdate {
  const seqAt = line.indexOf('\t') + 1;
  const recordAt = line.indexOf('\t', seqAt) + 1;
  return {
    observedAtMs: Number(line.slice(0, seqAt - 1)) / US_PER_MS,
    seq: Number(line.slice(seqAt, recordAt - 1)),
    recordText: line.slice(recordAt),
  };
}

/** A row of a file, as the database would have written it. */
function writeUpdate(row: RowOf<'market_state'>): AsOfUpdate {
  const { periodS: period, last, open, close, high, low, quoteVolume: deal, volume } = row;
  const { observedAtMs, seq } = row;
  const recordText = JSON.stringify({ period, last, open, close, high, low, deal, volume });
  return { observedAtMs, seq, recordText };
}

const candleOf = (row: BuiltCandle): BuiltCandle => {
  const { openAtS, open, close, high, low, volume, quoteVolume } = row;
  return { openAtS, open, close, high, low, volume, quoteVolume };
};

/**
 * The archive as of past instants, queried the way an exchange is asked about the present: what
 * was seen last, the newest rows before here, the next ones after. All times are UNIX
 * milliseconds of exchange time unless a name says otherwise.
 */
export class AsOfReader {
  /** Runs of trades: counted, and summed up to candles. */
  readonly runs: TradeRuns;
  readonly #store: AsOfStore;
  readonly #lease: ReadingLease;
  readonly #search: AsOfSearch;

  /**
   * @param store stays the caller's
   * @param options.coldDir the folder of cold partitions; it need not exist
   */
  constructor(
    store: AsOfStore,
    { clock, coldDir }: { readonly clock: Clock; readonly coldDir: string },
  ) {
    this.#store = store;
    this.#lease = new ReadingLease(clock, () => openReading(store, { coldDir }));
    this.#search = new AsOfSearch(store, this.#lease, clock);
    this.runs = new TradeRuns(store, this.#search);
  }

  /** Null while nothing was ever collected into it. */
  async identity(): Promise<AsOfIdentity | null> {
    return (await this.#store.query<AsOfIdentity>(IDENTITY))[0] ?? null;
  }

  markets(): Promise<AsOfMarket[]> {
    return readMarketsWithTerms(this.#store);
  }

  streams(): Promise<KnownStream[]> {
    return this.#store.inspection.streams();
  }

  /** Returns the pieces of a span of a stream, covered or missing. */
  pieces(stream: StreamPlace, span: Span): Promise<Piece[]> {
    return this.#lease.hold(({ reader, alone }) => alone.run(() => reader.pieces(stream, span)));
  }

  /** Connections of a state stream that lived in a span, oldest first. */
  sessions({ streamId, marketId }: StreamPlace, { fromMs, toMs }: Span): Promise<AsOfSession[]> {
    return this.#store.query<AsOfSession>(SESSIONS, [streamId, marketId, fromMs, toMs]);
  }

  /** The newest trades before a place, newest first, at most `limit`. */
  tradesBefore(marketId: number, before: TradePlace, limit: number): Promise<RowOf<'trade'>[]> {
    const where = [placeIs('trades', '<', before)];
    const beforeMs = (before.tradedAtS + 1) * SECOND_MS;
    return this.#search.newest({ ...tradesOf(marketId), where }, beforeMs, limit);
  }

  /** All trades of one second, in the order of their ids. */
  tradesOfSecond(marketId: number, second: number): Promise<RowOf<'trade'>[]> {
    const span = { fromMs: second * SECOND_MS, toMs: (second + 1) * SECOND_MS };
    const question = { ...tradesOf(marketId), where: [] };
    return this.#search.oldest(question, span, Number.MAX_SAFE_INTEGER);
  }

  /** Candles that open in a span, oldest first; at most `limit`. */
  async klines(
    marketId: number,
    intervalS: number,
    span: Span,
    limit: number,
  ): Promise<BuiltCandle[]> {
    const question = { kind: 'candles', marketId, variantS: intervalS, where: [] } as const;
    return (await this.#search.oldest(question, span, limit)).map(candleOf);
  }

  /** Returns the last ticker of each market, and when the next one of any of them came. */
  async lastTickers(
    marketIds: readonly number[],
    atMs: number,
  ): Promise<{ readonly rows: readonly RowOf<'ticker'>[]; readonly nextAtMs: number }> {
    const question = { kind: 'tickers', variantS: 0, where: [] } as const;
    const rows = await this.#search.newestOfEach(question, marketIds, atMs + 1);
    const nextAtMs = await this.#nextAfter(question, marketIds, atMs);
    return { rows, nextAtMs };
  }

  lastDepth(marketId: number, atMs: number): Promise<Seen<RowOf<'depth'>>> {
    return this.#last({ kind: 'depth', marketId, variantS: 0, where: [] }, atMs);
  }

  /** @param isUpdate only what the exchange pushed */
  lastState(
    marketId: number,
    periodS: number,
    atMs: number,
    isUpdate: boolean,
  ): Promise<Seen<RowOf<'market_state'>>> {
    const where = isUpdate ? [fieldIs('states', 'origin', 'update')] : [];
    return this.#last({ kind: 'states', marketId, variantS: periodS, where }, atMs);
  }

  /** Pushed states after a place and before an instant, oldest first; at most `limit`. */
  updatesAfter(
    marketId: number,
    periodS: number,
    after: StatePlace,
    beforeMs: number,
    limit: number,
  ): Promise<AsOfUpdate[]> {
    const { observedAtMs, seq } = after;
    const where = [fieldIs('states', 'origin', 'update'), placeIs('states', '>', after)];
    return this.#search.find(
      { kind: 'states', marketId, variantS: periodS, where },
      'oldest',
      { fromMs: observedAtMs, toMs: beforeMs },
      limit,
      {
        hot: async ({ fromMs, toMs }, left) => {
          const values = [marketId, fromMs, toMs, periodS, observedAtMs, seq, left];
          const [row] = await this.#store.query<{ lines: string | null }>(UPDATES_AFTER, values);
          return row?.lines?.split('\n').map(readUpdate) ?? [];
        },
        cold: writeUpdate,
      },
    );
  }

  /** When the first trade of a market was seen after the start of a span and before its end; null: none was. */
  firstTradeMs(marketId: number, span: Span): Promise<number | null> {
    return this.#firstTrade([{ marketId, variantS: 0 }], span);
  }

  #firstTrade(series: readonly Series[], { fromMs: afterMs, toMs }: Span): Promise<number | null> {
    // A trade may be seen a second after the one that it is kept under.
    const span = { fromMs: floorToMs(afterMs, SECOND_MS) - SECOND_MS, toMs };
    const trades = { kind: 'trades', where: [tradeIsSeenAfter(afterMs)] } as const;
    return this.#search.first(trades, series, span, { seenAt: TRADE_SEEN });
  }

  /**
   * The next instant after `afterMs` and before `beforeMs` of which anything is recorded of these markets:
   * a trade, a ticker, depth or a state. It may lie between two milliseconds. Null when there is none.
   */
  async nextTimeMs(
    marketIds: readonly number[],
    afterMs: number,
    beforeMs: number,
  ): Promise<number | null> {
    const series = marketIds.map((marketId) => ({ marketId, variantS: 0 }));
    const states = (await this.streams())
      .filter(({ kind, marketId }) => kind === 'states' && marketIds.includes(marketId))
      .map(({ marketId, variant }) => ({ marketId, variantS: variant }));
    const found = await this.#firstTrade(series, { fromMs: afterMs, toMs: beforeMs });
    // Each kind is looked for only as far as the one before it was found.
    let nextMs = Math.min(beforeMs, found ?? beforeMs);
    for (const kind of ['tickers', 'depth', 'states'] as const) {
      const of = kind === 'states' ? states : series;
      const rest = { fromMs: afterMs + 1, toMs: Math.ceil(nextMs) };
      nextMs = Math.min(
        nextMs,
        (await this.#search.first({ kind, where: [] }, of, rest)) ?? nextMs,
      );
    }
    return nextMs < beforeMs ? nextMs : null;
  }

  /** Lets go of what it holds; the store stays open. Safe to call twice. */
  close(): Promise<void> {
    return this.#lease.stop();
  }

  /** The last observation at an instant or before it, and when the next one came. */
  async #last<Kind extends 'depth' | 'states'>(question: RowQuestion<Kind>, atMs: number) {
    const [row] = await this.#search.newest(question, atMs + 1, 1);
    return { row, nextAtMs: await this.#nextAfter(question, [question.marketId], atMs) };
  }

  /** Within the day after an instant; what comes later is looked for then. */
  async #nextAfter<Kind extends SeriesKind>(
    { kind, variantS, where }: Omit<RowQuestion<Kind>, 'marketId'>,
    marketIds: readonly number[],
    atMs: number,
  ): Promise<number> {
    const after = { fromMs: atMs + 1, toMs: atMs + 1 + DAY_MS };
    const series = marketIds.map((marketId) => ({ marketId, variantS }));
    // Files are not searched for what may never be asked: the answer holds for its instant only.
    const isColdAssumed = true;
    const nextAtMs = await this.#search.first({ kind, where }, series, after, { isColdAssumed });
    return nextAtMs ?? after.toMs;
  }
}
