import { BoundedMap, obtain } from '../kernel/bounded.js';
import type { Clock } from '../kernel/clock.js';
import { DAY_MS } from '../kernel/durations.js';
import { AbortedError, codeOf } from '../kernel/errors.js';
import { firstNot } from '../kernel/sorted.js';
import { doOverlap, floorToMs, type Span } from '../kernel/span.js';
import { tableOfKind } from '../model/kinds.js';
import { millisSql, type Store } from '../store/index.js';
import { BlockCache, type BlockChange, isTouched } from './block-cache.js';
import { type Block, BlockMaker, type BlockSeries, sliceAt } from './blocks.js';
import type { ColdStorage } from './cold/storage.js';
import { openReading } from './reading.js';
import { Readings } from './readings.js';

/** The blocks of an archive that is written meanwhile: loaded when first touched, dropped by what the journal says. */

type BlockStore = Pick<Store, 'snapshot' | 'query' | 'journal'>;

/** Options of {@link BlockSource}. */
export interface BlockOptions {
  readonly clock: Clock;
  readonly cold: ColdStorage;
  /** Memory for rows; default 256 MB. */
  readonly cacheBytes?: number;
  /** Called once when rows had to go that were still in use. */
  readonly onCrowded?: (usedBytes: number) => void;
}

const CACHE_BYTES = 256 * 2 ** 20;

/** The days of a series that have rows, oldest first. */
export interface Days {
  readonly series: BlockSeries;
  readonly days: readonly { readonly dayMs: number; readonly rows: number }[];
}

/** A slice of a series that is asked for. */
interface Look {
  readonly of: Days;
  readonly slice: Span;
}

interface KnownDays {
  readonly series: BlockSeries;
  readonly days: Promise<Days>;
}

const DAYS = `
  SELECT ${millisSql(`day::timestamp AT TIME ZONE 'UTC'`)} AS "dayMs", rows::float8 AS rows FROM rows_by_day
  WHERE market_id = $1 AND series = $2 AND variant = $3 AND rows > 0 ORDER BY day`;

/** Series whose days are remembered; those of a thousand markets. */
const DAYS_MAX = 5000;
/** Days whose slices were counted. */
const COUNTS_MAX = 500;
/** The journal is read so often while somebody asks. */
const JOURNAL_EVERY_MS = 1000;
/** After a longer rest the first question waits for the journal. */
const RESTED_MS = 3 * JOURNAL_EVERY_MS;
/** Part of a slice after which the next one is loaded. */
const AHEAD_PART = 0.75;
const keyOf = ({ kind, marketId, variantS }: BlockSeries) => `${kind} ${marketId} ${variantS}`;

/** Blocks on their way from the archive. */
interface Load {
  readonly series: BlockSeries;
  readonly span: Span;
  readonly block: Promise<Block>;
  /** A change came meanwhile: it serves those who wait, and is not kept. */
  isStale: boolean;
}

/** Trades by the slices of a day. */
interface Counts {
  readonly series: BlockSeries;
  readonly span: Span;
  readonly rows: Promise<ReadonlyMap<number, number>>;
}

const ALL_TIME: Span = { fromMs: -Infinity, toMs: Infinity };
const EVERYTHING: BlockChange = {
  ...{ change: 'restarted', series: null, marketId: null, variant: null, span: ALL_TIME },
};

export class BlockSource {
  readonly #store: BlockStore;
  readonly #clock: Clock;
  readonly #cache: BlockCache;
  readonly #readings: Readings;
  readonly #onCrowded: (usedBytes: number) => void;
  readonly #loading = new Map<string, Load>();
  readonly #days = new BoundedMap<string, KnownDays>(DAYS_MAX);
  readonly #counts = new BoundedMap<string, Counts>(COUNTS_MAX);
  /** Number of the newest entry of the journal that was read. */
  #version: number | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  #isAway = false;
  #isClosed = false;

  /** @param store stays the caller's */
  constructor(store: BlockStore, { clock, cold, cacheBytes, onCrowded }: BlockOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#cache = new BlockCache(cacheBytes ?? CACHE_BYTES);
    this.#readings = new Readings(clock, () => openReading(store, { cold }));
    this.#onCrowded = onCrowded ?? (() => undefined);
  }

  /** Slices that hold rows and overlap a span, oldest first. */
  *slicesOf(of: Days, span: Span): Generator<Span> {
    const { days, series } = of;
    let endMs = Number.NEGATIVE_INFINITY;
    const isOfMonths = series.kind === 'candles';
    const first = firstNot(days.length, (at) => {
      const { toMs } = sliceAt(days[at]?.dayMs ?? 0, isOfMonths ? 0 : DAY_MS);
      return toMs <= span.fromMs;
    });
    for (const { dayMs, rows } of days.slice(first)) {
      if (dayMs >= span.toMs && !isOfMonths) return;
      const widthMs = isOfMonths ? 0 : this.#cache.sliceMs(series.kind, rows);
      for (let atMs = dayMs; atMs < dayMs + DAY_MS; atMs = endMs) {
        const slice = sliceAt(atMs, widthMs);
        if (slice.fromMs >= span.toMs) return;
        const isNew = slice.toMs > endMs;
        endMs = slice.toMs;
        if (isNew && doOverlap(slice, span)) yield slice;
      }
    }
  }

  /** The newest slice that holds rows and begins before a time. */
  sliceBefore(of: Days, beforeMs: number): Span | undefined {
    const { days, series } = of;
    const found = days[firstNot(days.length, (at) => (days[at]?.dayMs ?? 0) < beforeMs) - 1];
    if (found === undefined) return undefined;
    const atMs = Math.min(beforeMs, found.dayMs + DAY_MS) - 1;
    return sliceAt(atMs, this.#cache.sliceMs(series.kind, found.rows));
  }

  /** A block, at once where it is there. @param nowMs time of the session, to load what comes next */
  block(of: Days, slice: Span, nowMs: number): Block | Promise<Block> {
    const kept = this.#cache.get(of.series, slice, this.#clock.monotonicMs());
    if (kept === undefined) return this.#load([of.series], slice)[0] as Promise<Block>;
    this.loadAlong(of, this.#sliceAhead(of, slice, nowMs));
    return kept;
  }

  /** Begins to load a block that is needed soon. Whoever asks for it meets its failure. */
  loadAlong(of: Days, slice: Span | undefined): void {
    if (slice === undefined || this.#cache.has(of.series, slice)) return;
    for (const load of this.#load([of.series], slice)) load.catch(() => undefined);
  }

  /** Blocks of several series; those of one slice are read together. */
  async blocks(looks: readonly Look[], nowMs: number): Promise<Block[]> {
    const atMs = this.#clock.monotonicMs();
    const missing: Look[] = [];
    const ahead: Look[] = [];
    const found = looks.map(({ of, slice }) => {
      const kept = this.#cache.get(of.series, slice, atMs);
      const next = this.#sliceAhead(of, slice, nowMs);
      if (kept === undefined) missing.push({ of, slice });
      else if (next !== undefined) ahead.push({ of, slice: next });
      return kept;
    });
    const loads = missing.length === 0 ? [] : this.#loadAll(missing);
    for (const load of this.#loadAll(ahead)) load.catch(() => undefined);
    const loaded = (await Promise.all(loads)).values();
    return found.map((kept) => kept ?? (loaded.next().value as Block));
  }

  /** The next slice, when a session is about to come there and it needs no room of others. */
  #sliceAhead(of: Days, { fromMs, toMs }: Span, nowMs: number): Span | undefined {
    const isLate = nowMs >= fromMs + AHEAD_PART * (toMs - fromMs) && nowMs < toMs;
    // Nobody who waits for a block waits for this one as well.
    const isIdle = this.#loading.size === 0 && !this.#isAway && !this.#isClosed;
    if (!isLate || !isIdle) return undefined;
    const day = of.days.find(({ dayMs }) => dayMs === floorToMs(toMs, DAY_MS));
    if (day === undefined) return undefined;
    const { kind } = of.series;
    const next = sliceAt(toMs, this.#cache.sliceMs(kind, day.rows));
    if (this.#cache.has(of.series, next)) return undefined;
    return this.#cache.hasRoom(kind, day.rows, this.#clock.monotonicMs()) ? next : undefined;
  }

  /** One load for each slice. In the order of the looks. */
  #loadAll(looks: readonly Look[]): Promise<Block>[] {
    const slices = new Map<number, { readonly slice: Span; readonly series: BlockSeries[] }>();
    for (const { of, slice } of looks) {
      const key = slice.fromMs + slice.toMs;
      obtain(slices, key, () => ({ slice, series: [] })).series.push(of.series);
    }
    const loads = new Map<BlockSeries, Promise<Block>>();
    for (const { slice, series } of slices.values()) {
      for (const [at, load] of this.#load(series, slice).entries()) {
        loads.set(series[at] as BlockSeries, load);
      }
    }
    return looks.map(({ of }) => loads.get(of.series) as Promise<Block>);
  }

  /** Loads blocks of one slice in one reading; those on their way are waited for. */
  #load(all: readonly BlockSeries[], span: Span): Promise<Block>[] {
    const key = (series: BlockSeries) => `${keyOf(series)} ${span.fromMs} ${span.toMs}`;
    const missing = all.filter((one) => !this.#loading.has(key(one)));
    if (missing.length > 0) {
      const read = this.#read(missing, span);
      for (const [index, series] of missing.entries()) {
        const block = read.then((blocks) => blocks[index] as Block);
        const load: Load = { series, span, block, isStale: false };
        this.#loading.set(key(series), load);
        const keep = (loaded: Block) => {
          if (load.isStale) return;
          const isCrowded = this.#cache.add(series, loaded, this.#clock.monotonicMs());
          if (isCrowded) this.#onCrowded(this.#cache.bytes);
        };
        const end = () => this.#loading.delete(key(series));
        void block.then(keep, () => undefined).finally(end);
      }
    }
    return all.map((one) => (this.#loading.get(key(one)) as Load).block);
  }

  async #read(all: readonly BlockSeries[], span: Span): Promise<Block[]> {
    const [{ kind, variantS }] = all as readonly [BlockSeries, ...BlockSeries[]];
    const marketIds = all.map(({ marketId }) => marketId);
    const maker = new BlockMaker(all);
    return await this.#readings.use(this.#version ?? 0, async (reader) => {
      for await (const _ of reader.made({ kind, marketIds, variantS, span }, maker));
      return maker.blocks(span);
    });
  }

  /** Trades of each slice of a day. */
  countsOf(series: BlockSeries, slices: readonly Span[]): Promise<ReadonlyMap<number, number>> {
    const span = { fromMs: slices.at(-1)?.fromMs ?? 0, toMs: slices[0]?.toMs ?? 0 };
    const widthMs = (slices[0]?.toMs ?? 0) - (slices[0]?.fromMs ?? 0);
    const key = `${keyOf(series)} ${span.fromMs} ${widthMs}`;
    const known = this.#counts.get(key);
    if (known !== undefined) return known.rows;
    const rows = this.#readings.use(this.#version ?? 0, (reader) =>
      reader.countEach({ ...series, span }, widthMs),
    );
    this.#counts.set(key, { series, span, rows });
    rows.catch(() => this.#counts.delete(key));
    return rows;
  }

  async daysOf(series: BlockSeries): Promise<Days> {
    const fresh = this.#fresh();
    if (fresh !== undefined) await fresh;
    const key = keyOf(series);
    const known = this.#days.get(key);
    if (known !== undefined) return await known.days;
    const values = [series.marketId, tableOfKind(series.kind), series.variantS];
    const days = this.#store
      .query<Days['days'][number]>(DAYS, values)
      .then((rows): Days => ({ series, days: rows }));
    this.#days.set(key, { series, days });
    days.catch(() => this.#days.delete(key));
    return await days;
  }

  /** Follows the journal while somebody asks. What is loaded is served while the database is away. */
  #fresh(): Promise<void> | undefined {
    if (this.#isClosed) throw new AbortedError('the archive is closed');
    const restMs = this.#clock.monotonicMs() - this.#readAtMs;
    if (restMs < JOURNAL_EVERY_MS) return undefined;
    this.#reading ??= this.#follow().finally(() => {
      this.#reading = undefined;
      this.#readAtMs = this.#clock.monotonicMs();
    });
    const mustWait = this.#version === undefined || (restMs > RESTED_MS && !this.#isAway);
    return mustWait ? this.#reading : undefined;
  }

  async #follow(): Promise<void> {
    const { journal } = this.#store;
    try {
      if (this.#version === undefined) {
        this.#version = await journal.number();
      }
      for (let isWhole = false; !isWhole; ) {
        const changes = await journal.changesSince(this.#version);
        for (const entry of changes.entries) this.#drop(entry);
        this.#version = changes.upTo;
        isWhole = changes.isWhole;
      }
      this.#isAway = false;
    } catch (error) {
      if (this.#version === undefined) throw error;
      if (codeOf(error) === 'journal_behind') {
        // Loads that begin now see at least this number.
        this.#version = await journal.number();
        this.#drop(EVERYTHING);
        return;
      }
      this.#isAway = true;
    }
  }

  #drop(change: BlockChange): void {
    // Coverage is not held here.
    if (change.change === 'revoked') return;
    this.#cache.drop(change);
    for (const load of this.#loading.values()) {
      if (isTouched(load.series, load.span, change)) load.isStale = true;
    }
    for (const [key, { series }] of this.#days) {
      if (isTouched(series, ALL_TIME, change)) this.#days.delete(key);
    }
    for (const [key, { series, span }] of this.#counts) {
      if (isTouched(series, span, change)) this.#counts.delete(key);
    }
  }

  /** Waits for the loads under way. Safe to call twice. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#readings.stop();
    await this.#reading?.catch(() => undefined);
  }
}
