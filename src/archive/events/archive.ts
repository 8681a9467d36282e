import { z } from 'zod';
import { onlyKeys, refusedOptions } from '../../contract/shape.js';
import { BoundedMap, obtain } from '../../kernel/bounded.js';
import { systemClock } from '../../kernel/clock.js';
import { systemRandom } from '../../kernel/random.js';
import type { SeriesKind } from '../../model/kinds.js';
import { silentStoreEvents } from '../../observe/events.js';
import {
  hasEmbeddedCluster,
  openStore,
  type Store,
  startEmbeddedPostgres,
} from '../../store/index.js';
import { BucketStorage } from '../cold/bucket/bucket.js';
import { coldFolder } from '../cold/folder.js';
import { type ColdStorage, FolderStorage } from '../cold/storage.js';
import { ArchiveError, MOMENT_FORMS } from '../errors.js';
import type {
  BookAt,
  CandleEvent,
  CandleQuery,
  CoverageQuery,
  EventOf,
  EventQuery,
  GapEvent,
  GapPolicy,
  MarketQuery,
  Moment,
  TradeEvent,
} from './event.js';
import { EventStream } from './event-stream.js';
import { followEvents } from './follow.js';
import { readCoverage, type SpanCoverage } from './gaps.js';
import {
  describeMarkets,
  type MarketContents,
  microsOf,
  planEvents,
  planFollowing,
  readMarkets,
} from './plan.js';
import { bookAt, openEvents } from './sources.js';

const marketName = z.string({ error: 'the name of a market' });
const lengthS = z.number({ error: 'a length in seconds' });
const path = z.string({ error: 'the path of a folder' });

/** Times, order, policies and kinds are checked where they are used. */
const unchecked = z.unknown().optional();
const moment = z.custom((given) => given !== undefined, { error: MOMENT_FORMS });
const SPAN = { from: moment, to: moment };
const READ = {
  ...{ ...SPAN, gaps: unchecked },
  signal: z.instanceof(AbortSignal, { error: 'an AbortSignal' }).optional(),
};
const CHOICE = {
  markets: z.array(marketName, { error: 'a list of names' }).optional(),
  kinds: z.array(z.unknown(), { error: 'a list of kinds' }).optional(),
};
const LENGTHS = {
  intervalsS: z.array(lengthS, { error: 'a list of lengths in seconds' }).optional(),
  periodsS: z.array(lengthS, { error: 'a list of lengths in seconds' }).optional(),
};
const EVENTS = onlyKeys({
  ...{ ...CHOICE, order: unchecked, ...LENGTHS, ...READ },
  follow: z.literal(false, { error: 'true or false' }).optional(),
});
const { to: _, ...ENDLESS } = READ;
const FOLLOWED = onlyKeys({ ...CHOICE, ...LENGTHS, ...ENDLESS, follow: z.literal(true) });
const TRADES = onlyKeys({ market: marketName, ...READ });
const CANDLES = onlyKeys({ market: marketName, intervalS: lengthS, ...READ });
const COVERAGE = onlyKeys({
  ...{ market: marketName, kind: unchecked, variantS: lengthS.optional(), ...SPAN },
});
const BOOK_AT = onlyKeys({ market: marketName, at: moment });
const BUCKET_URL = /^s3:\/\/[a-z0-9][a-z0-9.-]+(?:\/[^/]+)*\/?$/;
const OPTIONS = onlyKeys({
  databaseUrl: z.string({ error: 'an address, such as postgres://user@host/database' }),
  ...{ dataDir: path, coldDir: path },
  bucket: z.strictObject({
    url: z.string().regex(BUCKET_URL, { error: 's3://bucket or s3://bucket/prefix' }),
    ...{ endpoint: z.url().optional(), region: path.optional() },
    ...{ pathStyle: z.boolean().optional(), cacheDir: path },
    cacheBytes: z.int().positive().optional(),
  }),
}).partial();
const PLACE = OPTIONS.refine(
  ({ coldDir, bucket }) => coldDir === undefined || bucket === undefined,
  {
    error: 'name the cold files by one of coldDir and bucket',
  },
);

function checkOptions(schema: z.ZodType, given: unknown): void {
  const refused = refusedOptions(schema, given);
  if (refused !== undefined) throw new ArchiveError('bad_option', refused);
}

/** The gaps that may come between events. */
export type MaybeGap<Gaps extends GapPolicy | undefined> = Gaps extends 'mark' ? GapEvent : never;

/**
 * An archive that is open for reading: what was collected, from the database and from files as one.
 * Made by {@link openArchive}; nothing in it is ever changed through this.
 *
 * ```ts
 * const archive = await openArchive({ dataDir: './data' });
 * const query = { markets: ['BTC_USDT'], kinds: ['trades', 'depth'] } as const;
 * for await (const event of archive.events({ ...query, from: '2026-01-15', to: '2026-01-16' })) {
 *   if (event.kind === 'trade') console.log(event.atUs, event.price, event.amount);
 * }
 * await archive.close();
 * ```
 */
export class Archive {
  readonly #store: Store;
  readonly #cold: ColdStorage | null;
  readonly #onClose: () => Promise<void>;
  readonly #open = new Set<{ fail(reason: Error): void; return(): Promise<unknown> }>();
  #closed: Promise<void> | undefined;

  /** Use {@link openArchive}. */
  constructor(store: Store, cold: ColdStorage | null, onClose: () => Promise<void>) {
    this.#store = store;
    this.#cold = cold;
    this.#onClose = onClose;
  }

  /**
   * Everything that happened in a span, in one order: typed events of all kinds and markets, as the
   * archive was when the first of them was asked for.
   *
   * Events are ordered by their time (see {@link EventQuery.order}). At the same microsecond come ends
   * and begins of gaps, then candles, trades, states, tickers and depth; shorter candles and periods
   * before longer ones; markets by name; and what is left by id, sequence or revision. The order is the
   * same on every run, and wherever the rows are kept.
   *
   * Memory does not grow with the span: the reader sets the pace. One exception: trades of the same
   * second, and rows that were received at the same instant, are held until their order is settled.
   *
   * A reader may pause as long as it likes. Until it ends, what it reads stays where it is: partitions
   * wait for it before they leave the database, so leave what you do not read to its end.
   *
   * @throws ArchiveError at once for a query of wrong types (`bad_option`)
   * @throws ArchiveError, by the first `next`, naming what the archive has instead; `archive_gaps`
   * unless the span is proven complete or `gaps` says otherwise; StoreError when the
   * database fails, ColdError when a file is missing or altered; the signal's reason
   */
  events<
    const Kind extends SeriesKind = SeriesKind,
    const Gaps extends GapPolicy | undefined = undefined,
  >(
    query: EventQuery<Kind> & { readonly gaps?: Gaps },
  ): EventStream<EventOf[Kind] | MaybeGap<Gaps>> {
    this.#check();
    // Programs without types may pass nothing.
    const isFollowing = (query as Partial<EventQuery> | undefined)?.follow === true;
    checkOptions(isFollowing ? FOLLOWED : EVENTS, query);
    const stream = new EventStream<EventOf[Kind] | MaybeGap<Gaps>>(
      async (signal) => {
        const store = this.#store;
        const streams = await store.inspection.streams();
        const place = { store, cold: this.#cold };
        const markets = await readMarkets(store);
        if (!isFollowing) {
          const plan = planEvents({ ...query, to: query.to as Moment }, streams, markets);
          return openEvents(place, plan, signal);
        }
        const plan = planFollowing(query, streams, markets, systemClock.wallMs());
        return followEvents(place, plan, { clock: systemClock, random: systemRandom, signal });
      },
      query.signal,
      (ended) => this.#open.delete(ended),
    );
    this.#open.add(stream);
    return stream;
  }

  /** The trades of one market; as {@link events}. */
  trades<const Gaps extends GapPolicy | undefined = undefined>(
    query: MarketQuery & { readonly gaps?: Gaps },
  ): EventStream<TradeEvent | MaybeGap<Gaps>> {
    checkOptions(TRADES, query);
    const { market, ...span } = query;
    return this.events<'trades', Gaps>({ ...span, markets: [market], kinds: ['trades'] });
  }

  /**
   * The candles of one market and length that closed in a span, as the exchange gave them, in the order
   * `happened` in their newest versions, which may be younger than their close; as {@link events}. Those that open in a
   * span close in the one that begins and ends a length later; {@link coverage} counts them by their opening. A minute
   * without trades has none where the exchange leaves it out.
   */
  candles<const Gaps extends GapPolicy | undefined = undefined>(
    query: CandleQuery & { readonly gaps?: Gaps },
  ): EventStream<CandleEvent | MaybeGap<Gaps>> {
    checkOptions(CANDLES, query);
    const { market, intervalS, ...span } = query;
    const markets = [market];
    return this.events<'candles', Gaps>({
      ...{ ...span, markets, kinds: ['candles'], intervalsS: [intervalS] },
    });
  }

  /**
   * The order book of a market as it held at an instant: the last one observed until then. After the
   * newest look at it, as at the present, it is the last book with its age. Null within a gap that is no
   * lag, as what was seen before may have changed; and after the last look at a market that is delisted.
   *
   * @throws ArchiveError `unknown_market`, `not_collected`, `bad_moment`, `bad_option`; StoreError; ColdError
   */
  async bookAt(market: string, at: Moment): Promise<BookAt | null> {
    this.#check();
    checkOptions(BOOK_AT, { market, at });
    const place = { store: this.#store, cold: this.#cold };
    return await bookAt(place, market, microsOf(at));
  }

  /**
   * Returns what of a span is proven complete, and what is missing with the reason.
   *
   * @throws ArchiveError `unknown_market`, `unknown_kind`, `not_collected`, `bad_span`; StoreError
   */
  async coverage(query: CoverageQuery): Promise<SpanCoverage> {
    this.#check();
    checkOptions(COVERAGE, query);
    return await readCoverage(this.#store, query);
  }

  /** All markets by name, with the series that are collected of each and how far they reach. */
  async markets(): Promise<MarketContents[]> {
    this.#check();
    return await describeMarkets(this.#store);
  }

  /**
   * Ends all events that are still read (their next question is refused with `archive_closed`) and
   * closes every connection. Safe to call twice.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const closed = new ArchiveError('archive_closed', 'the archive was closed');
    for (const stream of this.#open) stream.fail(closed);
    await this.#store.stop();
    await this.#onClose();
  }

  #check(): void {
    if (this.#closed !== undefined) {
      throw new ArchiveError('archive_closed', 'the archive is closed: open it again');
    }
  }
}

/** Place of an archive. */
export interface ArchiveOptions {
  /**
   * Address of its database, `postgres://user:password@host:port/database`. A login with no more than
   * the reader's rights is enough.
   */
  readonly databaseUrl?: string;
  /**
   * Data folder of the daemon, for an archive in the Postgres that comes with tapekeep: that of a
   * running daemon is used, else it is started, and stopped by {@link Archive.close}. A program that
   * ends without that call, as by Ctrl-C, leaves the server running until the next process takes it over:
   * call it in a handler of the signal.
   */
  readonly dataDir?: string;
  /**
   * Folder of partitions that have left the database for files (`cold.dir`); `cold` below `dataDir`
   * when left out.
   */
  readonly coldDir?: string;
  /** Bucket of these files in place of a folder (`cold.url`). */
  readonly bucket?: ArchiveBucket;
}

/** Bucket of cold files. Credentials come from the usual places of the AWS SDK. */
export interface ArchiveBucket {
  /** `s3://bucket/prefix`. */
  readonly url: string;
  /** Address of the store; AWS when left out. */
  readonly endpoint?: string;
  /** Region of the bucket; that of the environment or profile when left out. */
  readonly region?: string;
  /** The bucket is in the path of the address, and not in its host. */
  readonly pathStyle?: boolean;
  /** Folder of local copies, bounded; several programs may share it. */
  readonly cacheDir: string;
  /** Default: 10 GB. */
  readonly cacheBytes?: number;
}

/** Local copies of a bucket's files. */
const CACHE_BYTES = 10_000_000_000;
/** Connections for questions; events have their own. */
const POOL_SIZE = 4;

/**
 * Opens an archive for reading; a daemon may go on writing it meanwhile.
 *
 * ```ts
 * const archive = await openArchive({ databaseUrl: 'postgres://reader@localhost/tapekeep' });
 * ```
 *
 * @throws ArchiveError `no_archive` when nothing is there, `bad_option` when neither or both places
 * were named, or an option is none of those allowed; StoreError when the database cannot be reached or is of another version
 */
export async function openArchive(options: ArchiveOptions): Promise<Archive> {
  checkOptions(PLACE, options);
  const { databaseUrl, dataDir } = options;
  if ((databaseUrl === undefined) === (dataDir === undefined)) {
    throw new ArchiveError('bad_option', 'name the archive by one of databaseUrl and dataDir');
  }
  const server = dataDir === undefined ? undefined : await openEmbedded(dataDir);
  const stop = async () => server?.stop();
  try {
    const store = await openStore({
      databaseUrl: databaseUrl ?? server?.url ?? '',
      ...{ clock: systemClock, random: systemRandom, telemetry: silentStoreEvents },
      poolSize: POOL_SIZE,
    });
    const given = options.coldDir ?? null;
    const dir = dataDir === undefined ? given : coldFolder(dataDir, given);
    const folder = dir === null ? null : new FolderStorage(dir);
    return new Archive(store, options.bucket ? bucketOf(options.bucket) : folder, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Buckets of this process by their options: all archives of one share its cache. */
const buckets = new BoundedMap<string, BucketStorage>(16);

function bucketOf(options: ArchiveBucket): ColdStorage {
  const { url, endpoint, region, pathStyle, ...cache } = options;
  return obtain(
    buckets,
    JSON.stringify(options),
    () =>
      new BucketStorage({
        ...{ url, endpoint: endpoint ?? null, region: region ?? null },
        ...{ isPathStyle: pathStyle ?? false, clock: systemClock, random: systemRandom },
        ...{ cacheBytes: CACHE_BYTES, ...cache },
      }),
  );
}

async function openEmbedded(dataDir: string) {
  if (!(await hasEmbeddedCluster(dataDir))) {
    throw new ArchiveError(
      'no_archive',
      `there is no archive in ${dataDir}: "tapekeep start" makes one; or name its database by databaseUrl`,
    );
  }
  return await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry: silentStoreEvents });
}
