import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { BucketStorage } from '../../src/archive/cold/bucket/bucket.js';
import { type ColdStorage, FolderStorage } from '../../src/archive/cold/storage.js';
import { openReading } from '../../src/archive/reading.js';
import { liveOn } from '../../src/archive/sealing/life.js';
import { systemClock } from '../../src/kernel/clock.js';
import { systemRandom } from '../../src/kernel/random.js';
import type { PartitionInfo, Store } from '../../src/store/index.js';
import { marketOf, trade } from '../support/postgres/postgres-rows.js';
import {
  copyDatabase,
  makeTempDir,
  openPlainStore,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import { CREDENTIALS, findVersitygw, runVersitygw } from '../support/s3/versitygw.js';
import { askRows } from '../support/worlds/asking.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about =
  'cold files in a bucket (versitygw on loopback) beside a folder: archiving, warm scan (--days N, --rows N)';

const DAY_MS = 86_400_000;
const FROM_MS = Date.UTC(2026, 0, 1);
const BATCH_ROWS = 10_000;
const ROUNDS = 9;
const SUMS =
  'SELECT count(*), sum(price * amount), min(price), max(price), count(DISTINCT side) FROM trades';

/** Trades of one market, spread evenly over days that are covered whole, and sealed. */
async function fill(url: string, days: number, rows: number): Promise<void> {
  const store = await openPlainStore(url);
  await store.ensureMarkets([marketOf('BTC_USDT')], FROM_MS);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const stepUs = (days * DAY_MS * 1000) / rows;
  for (let at = 0; at < rows; at += BATCH_ROWS) {
    const trades = Array.from({ length: Math.min(BATCH_ROWS, rows - at) }, (_, n) => {
      const id = at + n + 1;
      const atUs = FROM_MS * 1000 + Math.floor((id - 1) * stepUs);
      const cents = 6_000_000 + ((id * 7919) % 100_000);
      const price = `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;
      return trade(id, 0, {
        ...{ price, amount: `0.${String(((id * 104_729) % 99_999_999) + 1).padStart(8, '0')}` },
        ...{ total: price, side: (id * 31) % 3 > 0 ? 'buy' : 'sell', executedAtUs: atUs },
        ...{ tradedAtS: Math.floor(atUs / 1e6), receivedAtMs: Math.floor(atUs / 1e6) * 1000 + 900 },
      });
    });
    await store.commit({ trades });
  }
  const span = { fromMs: FROM_MS, toMs: FROM_MS + days * DAY_MS };
  await store.commit({ claims: [{ stream, span, evidence: { made: 'for the benchmark' } }] });
  await live(store, new FolderStorage('/nonexistent'), null);
  await store.stop();
}

async function live(store: Store, cold: ColdStorage, coldAfterMs: number | null): Promise<void> {
  const { failures } = await liveOn({
    ...{ store, cold, clock: systemClock, version: '0', nowMs: Date.UTC(2100, 0, 1) },
    rules: {
      ...{ sealAfterMs: DAY_MS, coldAfterMs, restMs: 0, retentionMs: {} },
      ...{ needsChecks: false, needsTimes: false },
    },
    watcher: { onStep: () => undefined, onRows: () => undefined },
    signal: new AbortController().signal,
    isChosen: ({ table }: PartitionInfo) => table === 'trade',
  });
  if (failures[0] !== undefined) throw failures[0].error;
}

const timed = async (work: () => Promise<void>): Promise<number> => {
  const startMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startMs) / 1000;
};

async function readAll(store: Store, cold: ColdStorage, days: number): Promise<void> {
  const reading = await openReading(store, { cold });
  const span = { fromMs: FROM_MS, toMs: FROM_MS + days * DAY_MS };
  const slice = { kind: 'trades', marketId: 1, variantS: 0, span } as const;
  for await (const _ of reading.typed(slice));
  await reading.close();
}

async function askAll(store: Store, cold: ColdStorage): Promise<void> {
  const reading = await openReading(store, { cold });
  await askRows(SUMS, reading, '/nonexistent');
  await reading.close();
}

type Place = 'folder' | 'bucket';
const PLACES: readonly Place[] = ['folder', 'bucket'];

/** @param options `--days N`, `--rows N` in all, `--rounds N` of archiving */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: { days: { type: 'string' }, rows: { type: 'string' }, rounds: { type: 'string' } },
  });
  const [days, rows, rounds] = [values.days ?? 31, values.rows ?? 620_000, values.rounds ?? 3].map(
    Number,
  ) as [number, number, number];
  const program = await findVersitygw();
  if (program === undefined) throw new Error('versitygw is not installed here');
  Object.assign(process.env, CREDENTIALS);
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
  const server = await startTestPostgres();
  const dir = await makeTempDir();
  let stop: () => Promise<void> = async () => undefined;
  try {
    const endpoint = await runVersitygw(program, join(dir, 'store'), (end) => {
      stop = end;
    });
    const filled = await copyDatabase(server.url, 'bench_filled');
    await fill(filled, days, rows);
    const took: Record<string, number[]> = {};
    const note = (name: string, seconds: number) => {
      took[name] = [...(took[name] ?? []), seconds];
    };
    for (let round = 0; round < rounds; round += 1) {
      const opened: { place: Place; store: Store; cold: ColdStorage }[] = [];
      for (const place of PLACES) {
        const name = `bench_${place}_${round}`;
        const store = await openPlainStore(await copyDatabase(server.url, name, 'bench_filled'));
        const cold =
          place === 'folder'
            ? new FolderStorage(join(dir, name))
            : new BucketStorage({
                ...{ url: `s3://archive/${name}`, endpoint, region: null, isPathStyle: true },
                ...{ cacheDir: join(dir, 'cache'), cacheBytes: 10_000_000_000 },
                ...{ clock: systemClock, random: systemRandom },
              });
        // Loads the SDK, and is no part of archiving.
        if (place === 'bucket') await cold.isThere('archive.json');
        note(`${place} archive`, await timed(() => live(store, cold, DAY_MS)));
        opened.push({ place, store, cold });
      }
      if (round === rounds - 1) {
        for (let scan = 0; scan < ROUNDS; scan += 1) {
          for (const { place, store, cold } of opened) {
            note(`${place} rows`, await timed(() => readAll(store, cold, days)));
          }
          for (const { place, store, cold } of opened) {
            note(`${place} query`, await timed(() => askAll(store, cold)));
          }
        }
      }
      for (const { store } of opened) await store.stop();
    }
    return report({ days, rows }, took);
  } finally {
    await stop();
    await rm(dir, { recursive: true, force: true });
    await server.stop();
  }
}

function report(
  { days, rows }: { days: number; rows: number },
  took: Readonly<Record<string, readonly number[]>>,
): BenchReport {
  const kinds = ['archive', 'rows', 'query'] as const;
  const secondsOf = (place: Place, kind: string) => median(took[`${place} ${kind}`] ?? []);
  // Pairs one after the other, as other work on the machine slows both.
  const ratioOf = (kind: string) => {
    const bucket = took[`bucket ${kind}`] ?? [];
    const ratios = (took[`folder ${kind}`] ?? []).map((one, at) => one / (bucket[at] ?? 0));
    return Math.round(100 * median(ratios)) / 100;
  };
  const names = { archive: 'archiving', rows: 'all rows, warm', query: 'sums in SQL, warm' };
  const lines = kinds.map((kind) => [
    names[kind],
    ...PLACES.map((place) => Math.round(rows / secondsOf(place, kind)).toLocaleString('en-US')),
    String(ratioOf(kind)),
  ]);
  return {
    table: [
      tableOf([['rows/s', 'folder', 'bucket', 'ratio'], ...lines]),
      `${rows.toLocaleString('en-US')} trades of ${days} days, medians; ratios are those of pairs. The store is versitygw with a folder, on loopback.`,
    ].join('\n'),
    figures: {
      ratio: Object.fromEntries(kinds.map((kind) => [kind, ratioOf(kind)])),
      ...{ rows, days, seconds: took },
    },
  };
}
