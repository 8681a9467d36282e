import { finished } from 'node:stream/promises';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { systemClock } from '../../src/kernel/clock.js';
import { systemRandom } from '../../src/kernel/random.js';
import type { Batch, StreamRef, TradeRow } from '../../src/model/batch.js';
import { openStore, type Store } from '../../src/store/index.js';
import { TRADE } from '../../src/store/writer/series.js';
import { allPlaces, tradeColumnSet } from '../../src/store/writer/trade-columns.js';
import {
  copyDatabase,
  quietStoreEvents,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import {
  BATCH_ROWS,
  type Load,
  type Shape,
  ShapedTrades,
} from '../support/worlds/ingest-trades.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'trades made durable with their ledger, against a raw COPY of the same bytes';

/*
 * Ours: Store.commit of batches of 10,000 rows, a page of 1,000 of each of ten markets with the claim
 * that it proves, three batches under way at a time as collectors have them, each its own transaction.
 * The baseline: one connection that sends the very bytes that ours would send, made before the clock
 * starts, one COPY and so one transaction a batch, into the same table. Both wait for the disk.
 * Overlap: half of each page is stored already, as the second half of the page before; baseline is the
 * COPY of as many rows.
 */

const BATCHES = 20;
const ROUNDS = 3;
const UNDER_WAY = 3;
const MARKETS = 200;

/** Pages of a walk, and trades as they drip in from all markets. */
const PAGES: Shape = { markets: 20, pageRows: 1_000 };
const DRIPS: Shape = { markets: MARKETS, pageRows: 50 };

const COPY_TRADES = `COPY trade (${TRADE.columns.join(', ')}) FROM STDIN`;

interface Measured {
  readonly rowsPerS: number;
  readonly heapBytes: number;
  readonly indexBytes: number;
}

interface World {
  readonly url: string;
  readonly streams: ReadonlyMap<number, StreamRef>;
  /** The same moment as that of the trades. */
  readonly nowMs: number;
}

async function openWorld(server: string): Promise<World> {
  const name = 'bench_ingest';
  const url = await copyDatabase(server, name);
  const { span } = new ShapedTrades(PAGES);
  const store = await openIngest(url, span.toMs);
  const market = { stock: 'S', money: 'USDT', stockPrec: 8, moneyPrec: 2, feePrec: 4 };
  const markets = Array.from({ length: MARKETS }, (_, n) => n + 1);
  const listed = markets.map((n) => ({ ...market, name: `S${n}_USDT`, minAmount: '0' }));
  await store.ensureMarkets(listed, span.fromMs);
  const streams = new Map<number, StreamRef>();
  for (const marketId of markets) {
    streams.set(marketId, await store.ensureStream({ kind: 'trades', marketId, variant: 0 }));
  }
  await store.makePartitionsAhead(span.fromMs);
  await store.stop();
  return { url, streams, nowMs: span.toMs };
}

async function openIngest(databaseUrl: string, nowMs: number): Promise<Store> {
  const given = { clock: systemClock, random: systemRandom, telemetry: quietStoreEvents() };
  const limits = { commitLatencyMs: 0, maxGroupRows: BATCH_ROWS };
  return await openStore({ databaseUrl, ...given, ...limits, exchangeNowMs: () => nowMs });
}

/** Every contestant begins with the same empty table. */
async function clear({ url }: World): Promise<void> {
  await runSql(
    url,
    'SET session_replication_role = replica; TRUNCATE trade, coverage, candle_recheck',
  );
  await runSql(url, 'CHECKPOINT');
}

async function sizesOf({ url }: World): Promise<{ heapBytes: number; indexBytes: number }> {
  const [sizes] = await runSql<{ heap: number; index: number }>(
    url,
    `SELECT sum(pg_relation_size(inhrelid))::float8 / n AS heap,
            sum(pg_indexes_size(inhrelid))::float8 / n AS index
     FROM pg_inherits, (SELECT count(*) AS n FROM trade) counted
     WHERE inhparent = 'trade'::regclass GROUP BY n`,
  );
  return { heapBytes: sizes?.heap ?? Number.NaN, indexBytes: sizes?.index ?? Number.NaN };
}

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startMs) / 1000;
}

function encode(rows: readonly TradeRow[], isSorted: boolean): Buffer {
  const ignore = () => undefined;
  const window = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };
  const sheet = tradeColumnSet([{ trades: rows }], window, { settle: ignore, refuse: ignore });
  return isSorted ? sheet.denseLines : sheet.encoder.pick(allPlaces(rows.length));
}

async function rawCopy(world: World, pieces: readonly Buffer[]): Promise<Measured> {
  await clear(world);
  const client = new pg.Client({ connectionString: world.url });
  await client.connect();
  await client.query('SET synchronous_commit = on');
  const seconds = await secondsOf(async () => {
    for (const piece of pieces) {
      const copy = client.query(copyFrom(COPY_TRADES));
      copy.end(piece);
      await finished(copy);
    }
  });
  await client.end();
  return { rowsPerS: (pieces.length * BATCH_ROWS) / seconds, ...(await sizesOf(world)) };
}

/** @param known rows that are there before the clock starts */
async function ours(
  world: World,
  loads: readonly Load[],
  known: readonly Batch[] = [],
): Promise<Measured> {
  await clear(world);
  const store = await openIngest(world.url, world.nowMs);
  // As the baseline's, the connection is open before the clock starts.
  await store.commit({});
  for (const batch of known) await store.commit(batch);
  const batches = loads.map(({ rows, spans }) => ({
    trades: rows,
    claims: [...spans].flatMap(([marketId, span]) => {
      const stream = world.streams.get(marketId);
      return stream === undefined ? [] : [{ stream, span, evidence: { page: 'synthetic' } }];
    }),
  }));
  let next = 0;
  const commitOneByOne = async () => {
    for (let batch = batches[next]; batch !== undefined; batch = batches[next]) {
      next += 1;
      await store.commit(batch);
    }
  };
  const seconds = await secondsOf(() =>
    Promise.all(Array.from({ length: UNDER_WAY }, commitOneByOne)),
  );
  await store.stop();
  return { rowsPerS: (loads.length * BATCH_ROWS) / seconds, ...(await sizesOf(world)) };
}

const CONTESTANTS = {
  copy: 'raw COPY of the same bytes',
  new: 'ours, new rows',
  overlap: 'ours, pages half known',
  scattered: 'ours, every other row known',
} as const;
type Contestant = keyof typeof CONTESTANTS;

/** @param options none */
export async function run(): Promise<BenchReport> {
  const server = await startTestPostgres();
  try {
    const world = await openWorld(server.url);
    const trades = new ShapedTrades(PAGES);
    const fresh = trades.loads(BATCHES, 0);
    const halves = trades.loads(BATCHES, PAGES.pageRows / 2);
    const bytes = fresh.map(({ rows }) => encode(rows, true));
    const everyOther = fresh.map(({ rows }) => ({
      trades: rows.filter(({ tid }) => tid % 2 === 0),
    }));
    const baseMb = process.memoryUsage().rss / 2 ** 20;
    let peakMb = baseMb;
    const rounds: Record<Contestant, Measured>[] = [];
    for (let round = -1; round < ROUNDS; round += 1) {
      const measured = {
        copy: await rawCopy(world, bytes),
        new: await ours(world, fresh),
        overlap: await ours(world, halves),
        scattered: await ours(world, fresh, everyOther),
      };
      // The first round warms everything up.
      if (round >= 0) rounds.push(measured);
      peakMb = Math.max(peakMb, process.memoryUsage().rss / 2 ** 20);
    }
    const drips = new ShapedTrades(DRIPS).loads(BATCHES, 0);
    const plain = (loads: readonly Load[]) => loads.map(({ rows }) => encode(rows, false));
    const bytesPerRow = {
      plainPages: await rawCopy(world, plain(fresh)),
      plainDrips: await rawCopy(world, plain(drips)),
      oursDrips: await ours(world, drips),
    };
    return report(rounds, bytesPerRow, { baseMb, peakMb });
  } finally {
    await server.stop();
  }
}

const tenth = (value: number) => Math.round(value * 10) / 10;
const hundredth = (value: number) => Math.round(value * 100) / 100;

function report(
  rounds: readonly Record<Contestant, Measured>[],
  sizes: Readonly<Record<'plainPages' | 'plainDrips' | 'oursDrips', Measured>>,
  { baseMb, peakMb }: { readonly baseMb: number; readonly peakMb: number },
): BenchReport {
  const names = Object.keys(CONTESTANTS) as Contestant[];
  const rowsPerS = (name: Contestant) =>
    Math.round(median(rounds.map((round) => round[name].rowsPerS)));
  /** Rounds are compared with themselves: the machine may be slower in one than in another. */
  const ratio = (name: Contestant) =>
    hundredth(median(rounds.map((round) => round[name].rowsPerS / round.copy.rowsPerS)));
  const sizeOf = ({ heapBytes, indexBytes }: Measured) => ({
    heap: tenth(heapBytes),
    index: tenth(indexBytes),
  });
  const last = rounds.at(-1) ?? raise();
  const bytesPerRow = {
    ...{ ours: sizeOf(last.new), plainPages: sizeOf(sizes.plainPages) },
    ...{ oursDrips: sizeOf(sizes.oursDrips), plainDrips: sizeOf(sizes.plainDrips) },
  };
  const texts: Record<keyof typeof bytesPerRow, string> = {
    ours: 'ours, pages of 1,000',
    plainPages: 'plain COPY of them, interleaved',
    oursDrips: 'ours, 50 a market and batch',
    plainDrips: 'plain COPY of them, interleaved',
  };
  const sizeNames = Object.keys(texts) as (keyof typeof bytesPerRow)[];
  const growthMb = Math.round(peakMb - baseMb);
  return {
    table: [
      tableOf([
        ['', 'rows/s', 'of COPY'],
        ...names.map((name) => [
          CONTESTANTS[name],
          rowsPerS(name).toLocaleString('en-US'),
          `${ratio(name)}`,
        ]),
      ]),
      '',
      tableOf([
        ['bytes a row', 'heap', 'index'],
        ...sizeNames.map((name) => [
          texts[name],
          `${bytesPerRow[name].heap}`,
          `${bytesPerRow[name].index}`,
        ]),
      ]),
      '',
      `${BATCHES} batches of ${BATCH_ROWS} rows, median of ${ROUNDS} rounds. Memory of this process: ${Math.round(peakMb)} MB at most,`,
      `${growthMb} MB more than with the rows made and nothing written.`,
    ].join('\n'),
    figures: {
      ratio: { new: ratio('new'), overlap: ratio('overlap'), scattered: ratio('scattered') },
      rowsPerS: Object.fromEntries(names.map((name) => [name, rowsPerS(name)])),
      ...{ bytesPerRow, peakMb: Math.round(peakMb), growthMb },
      ...{ batches: BATCHES, batchRows: BATCH_ROWS, rounds: ROUNDS },
    },
  };
}

function raise(): never {
  throw new Error('no round was measured');
}
