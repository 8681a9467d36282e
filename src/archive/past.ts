import { DAY_MS, SECOND_MS } from '../kernel/durations.js';
import { firstNot } from '../kernel/sorted.js';
import type { Span } from '../kernel/span.js';
import type { DepthRow, TickerRow } from '../model/batch.js';
import type { KnownStream, Piece } from '../model/explain.js';
import type { RowOf } from '../model/series.js';
import type { Store, StreamPlace } from '../store/index.js';
import { type BlockOptions, BlockSource, type Days } from './block-source.js';
import type { Block, BlockSeries, PastTrade } from './blocks.js';
import { appendCandles, type BuiltCandle } from './candles.js';
import {
  IDENTITY,
  type PastIdentity,
  type PastMarket,
  type PastSession,
  readMarketsWithTerms,
  SESSIONS,
} from './past-facts.js';

export type {
  BlockOptions,
  BuiltCandle,
  KnownStream,
  PastIdentity,
  PastMarket,
  PastSession,
  PastTrade,
};

type PastStore = Pick<Store, 'snapshot' | 'query' | 'inspection' | 'journal'>;

/** Place of a state record among those of its market and period. */
export type StatePlace = Pick<RowOf<'market_state'>, 'observedAtMs' | 'seq'>;

/** A pushed state as the contract writes it. */
export interface PastUpdate extends StatePlace {
  /** The record in JSON: period, prices and volumes as texts; no change. */
  readonly recordText: string;
}

/** A state, pushed or asked for. */
export interface PastState extends PastUpdate {
  readonly change: string | null;
}

/** Below this, passing over trades costs less than counting them. */
const COUNTED_FROM = 20_000;

/**
 * The archive as of past instants, asked the way an exchange is asked about the present. It holds rows in blocks, which
 * are loaded when they are first touched and dropped when the journal says that they changed.
 *
 * Times are UNIX milliseconds of exchange time unless a name says otherwise.
 */
export class Past {
  readonly #store: PastStore;
  readonly #blocks: BlockSource;

  /** @param store stays the caller's */
  constructor(store: PastStore, options: BlockOptions) {
    this.#store = store;
    this.#blocks = new BlockSource(store, options);
  }

  /** Null while nothing was ever collected into it. */
  async identity(): Promise<PastIdentity | null> {
    return (await this.#store.query<PastIdentity>(IDENTITY))[0] ?? null;
  }

  markets(): Promise<PastMarket[]> {
    return readMarketsWithTerms(this.#store);
  }

  streams(): Promise<KnownStream[]> {
    return this.#store.inspection.streams();
  }

  /** Returns the pieces of a span of a stream, covered or missing. */
  pieces(stream: StreamPlace, span: Span): Promise<Piece[]> {
    return this.#store.inspection.pieces(stream, span);
  }

  /** Connections of a state stream that lived in a span, oldest first. */
  sessions({ streamId, marketId }: StreamPlace, { fromMs, toMs }: Span): Promise<PastSession[]> {
    return this.#store.query<PastSession>(SESSIONS, [streamId, marketId, fromMs, toMs]);
  }

  /**
   * A page of the trades that are visible at a time, newest first, after `skip` of them.
   *
   * A trade is visible from its exact time on, or where that is not known from the end of its second; and never before
   * one that comes before it in the order of ids. Without that last rule a trade could appear below others that were
   * shown already, where no client would look for it again.
   */
  async trades(marketId: number, nowUs: number, skip: number, limit: number): Promise<PastTrade[]> {
    const of = await this.#blocks.daysOf({ kind: 'trades', marketId, variantS: 0 });
    const page: PastTrade[] = [];
    const isOver = ({ toMs }: Span) => toMs * 1000 <= nowUs;
    let left = skip;
    for (const { dayMs, rows } of daysBefore(of, nowUs / 1000)) {
      if (page.length >= limit) break;
      const day = { fromMs: dayMs, toMs: dayMs + DAY_MS };
      // At its end all trades of a day are visible.
      if (left >= rows && isOver(day)) {
        left -= rows;
        continue;
      }
      const slices = [...this.#blocks.slicesOf(of, day)].reverse();
      const isFar = left > COUNTED_FROM;
      // Read while the slices are counted.
      if (isFar)
        this.#blocks.loadAlong(
          of,
          slices.find(({ fromMs }) => fromMs * 1000 <= nowUs),
        );
      const counts = isFar ? await this.#blocks.countsOf(of.series, slices) : undefined;
      for (const slice of slices) {
        if (page.length >= limit) break;
        if (slice.fromMs * 1000 > nowUs) continue;
        const counted = counts?.get(slice.fromMs) ?? 0;
        if (counts !== undefined && left >= counted && isOver(slice)) {
          left -= counted;
          continue;
        }
        const block = await this.#blocks.block(of, slice, nowUs / 1000);
        const visible = block.visible(nowUs);
        const top = visible - left;
        left = Math.max(0, left - visible);
        const bottom = Math.max(0, top - (limit - page.length));
        for (let at = top - 1; at >= bottom; at -= 1) page.push(block.trade(at));
      }
    }
    return page;
  }

  /** Candles of the visible trades whose second lies in a span, oldest first. */
  async candlesOfTrades(
    marketId: number,
    intervalS: number,
    span: Span,
    nowUs: number,
  ): Promise<BuiltCandle[]> {
    const candles: BuiltCandle[] = [];
    const of = await this.#blocks.daysOf({ kind: 'trades', marketId, variantS: 0 });
    const slices = [...this.#blocks.slicesOf(of, span)];
    for (const [index, slice] of slices.entries()) {
      this.#blocks.loadAlong(of, slices[index + 1]);
      const block = await this.#blocks.block(of, slice, nowUs / 1000);
      const end = Math.min(block.before(span.toMs), block.visible(nowUs));
      appendCandles(candles, block.candles(intervalS, block.before(span.fromMs), end));
    }
    return candles;
  }

  /** Candles that open in a span, oldest first; at most `limit`. */
  async klines(
    marketId: number,
    intervalS: number,
    span: Span,
    limit: number,
  ): Promise<BuiltCandle[]> {
    const of = await this.#blocks.daysOf({ kind: 'candles', marketId, variantS: intervalS });
    const candles: BuiltCandle[] = [];
    for (const slice of this.#blocks.slicesOf(of, span)) {
      const block = await this.#blocks.block(of, slice, span.fromMs);
      const end = block.before(span.toMs);
      for (let at = block.before(span.fromMs); at < end && candles.length < limit; at += 1) {
        candles.push(candleOf(JSON.parse(block.text(at)) as RowOf<'kline'>));
      }
    }
    return candles;
  }

  /** The last ticker of each market that has one. */
  async lastTickers(marketIds: readonly number[], atMs: number): Promise<TickerRow[]> {
    const series = marketIds.map(
      (marketId) => ({ kind: 'tickers', marketId, variantS: 0 }) as const,
    );
    let left = await Promise.all(
      series.map(async (one) => ({ of: await this.#blocks.daysOf(one), beforeMs: atMs + 1 })),
    );
    const rows: TickerRow[] = [];
    while (left.length > 0) {
      const looks = left.flatMap(({ of, beforeMs }) => {
        const slice = this.#blocks.sliceBefore(of, beforeMs);
        return slice === undefined ? [] : [{ of, slice }];
      });
      const blocks = await this.#blocks.blocks(looks, atMs);
      left = looks.flatMap(({ of, slice }, index) => {
        const block = blocks[index] as Block;
        const at = block.before(atMs + 1) - 1;
        if (at >= 0) rows.push(JSON.parse(block.text(at)) as TickerRow);
        return at >= 0 ? [] : [{ of, beforeMs: slice.fromMs }];
      });
    }
    return rows;
  }

  async lastDepth(marketId: number, atMs: number): Promise<DepthRow | undefined> {
    const row = await this.#last({ kind: 'depth', marketId, variantS: 0 }, atMs, () => true);
    return row === undefined ? undefined : (JSON.parse(row.block.text(row.at)) as DepthRow);
  }

  /** @param isUpdate only what the exchange pushed */
  async lastState(
    marketId: number,
    periodS: number,
    atMs: number,
    isUpdate: boolean,
  ): Promise<PastState | undefined> {
    const series = { kind: 'states', marketId, variantS: periodS } as const;
    const isMeant = (block: Block, at: number) => !isUpdate || block.isFlagged(at);
    const row = await this.#last(series, atMs, isMeant);
    if (row === undefined) return undefined;
    const { block, at } = row;
    const [recordText = '', change = null] = block.text(at).split('\n');
    return { observedAtMs: block.timeMs(at), seq: block.id(at), recordText, change };
  }

  /** Pushed states after a place and before a time, oldest first; at most `limit`. */
  async updatesAfter(
    marketId: number,
    periodS: number,
    { observedAtMs, seq }: StatePlace,
    beforeMs: number,
    limit: number,
  ): Promise<PastUpdate[]> {
    const of = await this.#blocks.daysOf({ kind: 'states', marketId, variantS: periodS });
    const updates: PastUpdate[] = [];
    for (const slice of this.#blocks.slicesOf(of, { fromMs: observedAtMs, toMs: beforeMs })) {
      if (updates.length >= limit) break;
      const block = await this.#blocks.block(of, slice, observedAtMs);
      const end = block.before(beforeMs);
      for (let at = block.before(observedAtMs); at < end && updates.length < limit; at += 1) {
        const timeMs = block.timeMs(at);
        const isAfter = timeMs > observedAtMs || block.id(at) > seq;
        if (!isAfter || !block.isFlagged(at)) continue;
        const [recordText = ''] = block.text(at).split('\n');
        updates.push({ observedAtMs: timeMs, seq: block.id(at), recordText });
      }
    }
    return updates;
  }

  /** When the first trade of a market became visible after the start of a span and before its end; null: none did. */
  async firstTradeMs(marketId: number, { fromMs, toMs }: Span): Promise<number | null> {
    const of = await this.#blocks.daysOf({ kind: 'trades', marketId, variantS: 0 });
    // A trade may be seen a second after the one that it is kept under.
    for (const slice of this.#blocks.slicesOf(of, { fromMs: fromMs - SECOND_MS, toMs })) {
      const block = await this.#blocks.block(of, slice, fromMs);
      const at = block.visible(fromMs * 1000);
      if (at === block.rows) continue;
      const seenMs = block.seenUs(at) / 1000;
      return seenMs < toMs ? seenMs : null;
    }
    return null;
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
    let nextMs = beforeMs;
    for (const marketId of marketIds) {
      const span = { fromMs: afterMs, toMs: nextMs };
      nextMs = (await this.firstTradeMs(marketId, span)) ?? nextMs;
    }
    const states = (await this.streams()).filter(
      ({ kind, marketId }) => kind === 'states' && marketIds.includes(marketId),
    );
    const series: BlockSeries[] = [
      ...marketIds.map((marketId) => ({ kind: 'tickers', marketId, variantS: 0 }) as const),
      ...marketIds.map((marketId) => ({ kind: 'depth', marketId, variantS: 0 }) as const),
      ...states.map(({ marketId, variant: variantS }) => {
        return { kind: 'states', marketId, variantS } as const;
      }),
    ];
    // Each is looked for only as far as the one before it was found.
    for (const one of series) {
      nextMs = (await this.#nextMs(one, { fromMs: afterMs + 1, toMs: nextMs })) ?? nextMs;
    }
    return nextMs < beforeMs ? nextMs : null;
  }

  /** Lets go of what it holds; the store stays open. Safe to call twice. */
  close(): Promise<void> {
    return this.#blocks.close();
  }

  /** Time of the first row in a span. */
  async #nextMs(series: BlockSeries, span: Span): Promise<number | null> {
    const of = await this.#blocks.daysOf(series);
    for (const slice of this.#blocks.slicesOf(of, span)) {
      const block = await this.#blocks.block(of, slice, span.fromMs);
      const at = block.before(span.fromMs);
      if (at === block.rows) continue;
      return block.timeMs(at) < span.toMs ? block.timeMs(at) : null;
    }
    return null;
  }

  /** The newest row up to a time that is meant. */
  async #last(
    series: BlockSeries,
    atMs: number,
    isMeant: (block: Block, at: number) => boolean,
  ): Promise<{ readonly block: Block; readonly at: number } | undefined> {
    const of = await this.#blocks.daysOf(series);
    for (let beforeMs = atMs + 1; ; ) {
      const slice = this.#blocks.sliceBefore(of, beforeMs);
      if (slice === undefined) return undefined;
      const block = await this.#blocks.block(of, slice, atMs);
      for (let at = block.before(beforeMs) - 1; at >= 0; at -= 1) {
        if (isMeant(block, at)) return { block, at };
      }
      beforeMs = slice.fromMs;
    }
  }
}

/** Days that begin up to a time, newest first. */
function* daysBefore({ days }: Days, ms: number) {
  for (
    let at = firstNot(days.length, (one) => (days[one]?.dayMs ?? 0) <= ms) - 1;
    at >= 0;
    at -= 1
  ) {
    yield days[at] as Days['days'][number];
  }
}

function candleOf(row: RowOf<'kline'>): BuiltCandle {
  const { openAtS, open, close, high, low, volume, quoteVolume } = row;
  return { openAtS, open, close, high, low, volume, quoteVolume };
}
