import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { exportSeries } from '../../src/archive/export/export.js';
import { FORMATS, type Format, type Manifest } from '../../src/archive/export/manifest.js';
import { Output } from '../../src/archive/export/output.js';
import { openReading } from '../../src/archive/reading.js';
import { systemClock } from '../../src/kernel/clock.js';
import type { Store } from '../../src/store/index.js';
import { copyRowsSql } from '../../src/store/reading/snapshot.js';
import { marketOf } from '../support/postgres/postgres-rows.js';
import {
  copyDatabase,
  makeTempDir,
  openPlainStore,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'export of trades: CSV against a plain COPY TO STDOUT, and the other forms';

const ROWS = 400_000;
const DAY = '2026-01-15';
const ROUNDS = 3;

/** Trades a fifth of a second apart on average, with prices that wander and amounts of all sizes. */
const MAKE_TRADES = `
  INSERT INTO trade (market_id, traded_at, tid, executed_at, received_at, side, price, amount, total)
  SELECT 1, date_trunc('second', at), n * 3, at, at + interval '400 ms',
         (ARRAY['buy', 'sell'])[1 + (random() < 0.5)::int]::taker_side, price, amount, price * amount
  FROM (
    SELECT n, timestamptz '${DAY} 00:00Z' + n * interval '0.2 s' AS at,
           round((60000 + 500 * sin(n / 5000.0) + random() * 3)::numeric, 2) AS price,
           round((0.00001 + random() ^ 4)::numeric, 5) AS amount
    FROM generate_series(1, ${ROWS}) n) made`;

interface Archive {
  readonly url: string;
  readonly store: Store;
  readonly parts: Parameters<typeof exportSeries>[0]['parts'];
}

async function makeArchive(server: string): Promise<Archive> {
  const url = await copyDatabase(server, 'bench_export');
  const store = await openPlainStore(url);
  const span = { fromMs: Date.parse(`${DAY}T00:00:00Z`), toMs: Date.parse('2026-01-16T00:00:00Z') };
  await store.ensureMarkets([marketOf('BTC_USDT')], span.fromMs);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await store.makePartitionsAhead(span.fromMs);
  await runSql(url, MAKE_TRADES);
  await store.commit({ claims: [{ stream, span, evidence: { made: 'for the benchmark' } }] });
  await runSql(url, 'VACUUM ANALYZE');
  return { url, store, parts: [{ market: 'BTC_USDT', marketId: 1, stream, span, notes: [] }] };
}

/** The same rows, read by the same driver and thrown away. */
async function plainCopy({ url, parts }: Archive): Promise<void> {
  const [part] = parts;
  if (part === undefined) throw new Error('no part');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("SET timezone = 'UTC'; SET jit = off");
  const slice = { kind: 'trades', marketId: 1, variantS: 0, span: part.span } as const;
  const stream = client.query(copyTo(copyRowsSql(slice, 'csv'), { highWaterMark: 256 * 1024 }));
  let bytes = 0;
  for await (const piece of stream) bytes += (piece as Buffer).length;
  await client.end();
  if (bytes < ROWS * 50) throw new Error(`only ${bytes} bytes came`);
}

async function exportAs(format: Format, { store, parts }: Archive, dir: string): Promise<Manifest> {
  const output = await Output.open({
    ...{ path: join(dir, `trades.${format}`), manifestPath: undefined, isForced: true },
    ...{ scratchBase: tmpdir(), sink: { write: () => Promise.resolve() } },
  });
  const ignore = () => undefined;
  const { signal } = new AbortController();
  const reading = await openReading(store, { cold: new FolderStorage(dir), signal });
  return await exportSeries(
    {
      ...{ kind: 'trades', variantS: 0, parts, format, allowGaps: false, archive: null },
      ...{ version: '0', nowMs: Math.max(...parts.map(({ span }) => span.toMs)) },
    },
    { reader: reading, output, clock: systemClock, signal, onProgress: ignore, onPhase: ignore },
  );
}

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startMs) / 1000;
}

/** @param options none */
export async function run(): Promise<BenchReport> {
  const server = await startTestPostgres();
  const dir = await makeTempDir();
  try {
    const archive = await makeArchive(server.url);
    await plainCopy(archive);
    const times = new Map<string, number[]>();
    const sizes = new Map<string, number>();
    const note = (name: string, value: number) =>
      times.set(name, [...(times.get(name) ?? []), value]);
    for (let round = 0; round < ROUNDS; round += 1) {
      // One right after the other, so that what else the machine does meets all of them.
      note('copy', await secondsOf(() => plainCopy(archive)));
      for (const format of FORMATS) {
        const work = async () => sizes.set(format, (await exportAs(format, archive, dir)).bytes);
        note(format, await secondsOf(work));
      }
    }
    const peakMb = Math.round(process.resourceUsage().maxRSS / 1024);
    await archive.store.stop();
    return report(times, sizes, peakMb);
  } finally {
    await rm(dir, { recursive: true, force: true });
    await server.stop();
  }
}

function report(
  times: ReadonlyMap<string, readonly number[]>,
  sizes: ReadonlyMap<string, number>,
  peakMb: number,
): BenchReport {
  const base = times.get('copy') ?? [];
  const seconds = (name: string) => median(times.get(name) ?? []);
  /** Rounds are compared with themselves: the machine may be slower in one than in another. */
  const ratio = (name: string) =>
    Math.round(
      100 * median((times.get(name) ?? []).map((one, index) => (base[index] ?? 0) / one)),
    ) / 100;
  const names = ['copy', ...FORMATS];
  const rowsPerS = (name: string) => Math.round(ROWS / seconds(name));
  const bytesPerRow = (name: string) => Math.round((100 * (sizes.get(name) ?? 0)) / ROWS) / 100;
  const lines = names.map((name) => [
    name === 'copy' ? 'plain COPY TO STDOUT' : name,
    ...[rowsPerS(name).toLocaleString('en-US'), `${ratio(name)}`],
    name === 'copy' ? '' : `${bytesPerRow(name)}`,
  ]);
  return {
    table: [
      tableOf([['', 'rows/s', 'of COPY', 'bytes/row'], ...lines]),
      `${ROWS.toLocaleString('en-US')} synthetic trades of one market and day, median of ${ROUNDS} rounds. COPY is read by the`,
      'same driver and thrown away; an export also hashes, writes and syncs its file. Most memory used by',
      `this process, with everything in it: ${peakMb} MB.`,
    ].join('\n'),
    figures: {
      ratio: Object.fromEntries(FORMATS.map((name) => [name, ratio(name)])),
      rowsPerS: Object.fromEntries(names.map((name) => [name, rowsPerS(name)])),
      bytesPerRow: Object.fromEntries(FORMATS.map((name) => [name, bytesPerRow(name)])),
      ...{ rows: ROWS, rounds: ROUNDS, peakMb },
    },
  };
}
