import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { liveOn, restore } from '../../src/archive/sealing/life.js';
import type { LifeStep } from '../../src/archive/sealing/seal.js';
import { systemClock } from '../../src/kernel/clock.js';
import { multiplyDecimals } from '../../src/kernel/decimal.js';
import type { TradeRow } from '../../src/model/batch.js';
import type { PartitionInfo, Store } from '../../src/store/index.js';
import { makeTrades, type RecordedTrade } from '../support/exchanges/recorded.js';
import { readTape } from '../support/oracle/tape-world.js';
import { marketOf } from '../support/postgres/postgres-rows.js';
import {
  copyDatabase,
  makeTempDir,
  openPlainStore,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import { type BenchReport, tableOf } from './report.js';

export const about = 'trades moved into cold files: bytes a trade, there and back (--tape FILE)';

const DAY_MS = 86_400_000;
const BATCH_ROWS = 10_000;
/** Trades of one answer are received at once: those of this much time. */
const POLL_MS = 1_000;
const MADE = { seed: 11, seconds: 14_400, startS: Date.UTC(2026, 0, 15, 12) / 1_000, flood: 1_600 };

/** As a collector stores them: exact times known, totals exact. */
function rowOf({ id, timeMs, price, amount, side }: RecordedTrade): TradeRow {
  return {
    ...{ marketId: 1, tid: id, price, amount, side, total: multiplyDecimals(price, amount) },
    ...{ tradedAtS: Math.floor(timeMs / 1000), executedAtUs: timeMs * 1_000 },
    receivedAtMs: (Math.floor(timeMs / POLL_MS) + 1) * POLL_MS + 137,
  };
}

async function fill(url: string, trades: readonly RecordedTrade[]): Promise<Store> {
  const opened = await openPlainStore(url);
  const fromMs = Math.floor((trades[0]?.timeMs ?? 0) / DAY_MS) * DAY_MS;
  const toMs = (Math.floor((trades.at(-1)?.timeMs ?? 0) / DAY_MS) + 1) * DAY_MS;
  await opened.ensureMarkets([marketOf('BTC_USDT')], fromMs);
  const stream = await opened.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  for (let at = 0; at < trades.length; at += BATCH_ROWS) {
    await opened.commit({ trades: trades.slice(at, at + BATCH_ROWS).map(rowOf) });
  }
  const evidence = { made: 'for the benchmark' };
  await opened.commit({ claims: [{ stream, span: { fromMs, toMs }, evidence }] });
  return opened;
}

/** What the partitions of trades take in the database. */
async function sizeOf(url: string): Promise<{ heap: number; index: number }> {
  const [row] = await runSql<{ heap: string; index: string }>(
    url,
    `SELECT coalesce(sum(pg_relation_size(inhrelid)), 0) AS heap,
            coalesce(sum(pg_indexes_size(inhrelid)), 0) AS index
     FROM pg_inherits WHERE inhparent = 'trade'::regclass`,
  );
  return { heap: Number(row?.heap), index: Number(row?.index) };
}

/** All trades, with every digit of their values. */
async function digestOf(url: string): Promise<string> {
  const [row] = await runSql<{ digest: string }>(
    url,
    `SELECT md5(string_agg(md5(concat_ws(',', tid, traded_at, executed_at, received_at, side,
              trim_scale(price), trim_scale(amount), trim_scale(total))), '' ORDER BY tid)) AS digest
     FROM trade`,
  );
  return String(row?.digest);
}

interface Measured {
  readonly heap: number;
  readonly index: number;
  readonly files: number;
  readonly copyS: number;
  /** Sealing with its files, without the drop of the rows. */
  readonly sealS: number;
  readonly awayS: number;
  readonly backS: number;
}

/** Seconds of a COPY of all trades from a file of the server into an empty table with the key of a partition. */
async function copyTime(url: string): Promise<number> {
  // In the server's own folder, where it may write.
  const [place] = await runSql<{ dir: string }>(
    url,
    `SELECT current_setting('data_directory') AS dir`,
  );
  const file = join(place?.dir ?? '', 'trades.copy');
  await runSql(
    url,
    `CREATE TABLE twin (LIKE trade INCLUDING ALL); SELECT add_key('trade', 'twin')`,
  );
  await runSql(url, `COPY (SELECT * FROM trade ORDER BY traded_at, tid) TO '${file}'`);
  const startMs = systemClock.monotonicMs();
  await runSql(url, `COPY twin FROM '${file}'`);
  const tookMs = systemClock.monotonicMs() - startMs;
  await runSql(url, 'DROP TABLE twin');
  return tookMs / 1_000;
}

async function measure(url: string, archive: Store, coldDir: string): Promise<Measured> {
  await runSql(url, 'VACUUM FULL trade');
  const hot = await sizeOf(url);
  const before = await digestOf(url);
  const copyS = await copyTime(url);
  let movingMs = 0;
  const how = {
    ...{
      store: archive,
      cold: new FolderStorage(coldDir),
      clock: systemClock,
      version: '0',
      nowMs: Date.UTC(2100, 0, 1),
    },
    rules: {
      ...{ sealAfterMs: DAY_MS, coldAfterMs: DAY_MS, restMs: 0, retentionMs: {} },
      needsChecks: false,
      needsTimes: false,
    },
    watcher: {
      onStep: (step: LifeStep) => {
        if (step === 'archive: switch') movingMs = systemClock.monotonicMs();
      },
      onRows: () => undefined,
    },
    signal: new AbortController().signal,
    isChosen: ({ table }: PartitionInfo) => table === 'trade',
  };
  const startMs = systemClock.monotonicMs();
  await liveOn(how);
  const awayMs = systemClock.monotonicMs();
  const files = await bytesBelow(coldDir);
  const left = await sizeOf(url);
  if (left.heap !== 0) throw new Error(`${left.heap} bytes of trades are still in the database`);
  const backMs = systemClock.monotonicMs();
  await restore(how, false);
  const endMs = systemClock.monotonicMs();
  if ((await digestOf(url)) !== before) throw new Error('the rows that came back are others');
  const [sealS, awayS, backS] = [movingMs - startMs, awayMs - startMs, endMs - backMs].map(
    (ms) => ms / 1_000,
  ) as [number, number, number];
  return { ...hot, files, copyS, sealS, awayS, backS };
}

/** Bytes of the data files; their manifests are some kilobytes a day. */
async function bytesBelow(dir: string): Promise<number> {
  const names = await readdir(dir, { recursive: true });
  const files = names.filter((name) => name.endsWith('.parquet'));
  const sizes = await Promise.all(files.map(async (name) => (await stat(join(dir, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** @param options `--tape FILE`: a recorded tape (id,time_ms,price,amount,side) in place of a made one */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({ args: [...options], options: { tape: { type: 'string' } } });
  const trades = values.tape === undefined ? makeTrades(MADE) : readTape(values.tape);
  const server = await startTestPostgres();
  const coldDir = await makeTempDir();
  try {
    const url = await copyDatabase(server.url, 'bench_cold');
    const archive = await fill(url, trades);
    const measured = await measure(url, archive, coldDir);
    await archive.stop();
    return report(trades.length, values.tape ?? null, measured);
  } finally {
    await rm(coldDir, { recursive: true, force: true });
    await server.stop();
  }
}

function report(
  rows: number,
  tape: string | null,
  { heap, index, files, ...took }: Measured,
): BenchReport {
  const aTrade = (bytes: number) => Math.round((100 * bytes) / rows) / 100;
  const rowsPerS = {
    ...{ copy: Math.round(rows / took.copyS), seal: Math.round(rows / took.sealS) },
    ...{ away: Math.round(rows / took.awayS), back: Math.round(rows / took.backS) },
  };
  const lines = [
    ['rows of the table', aTrade(heap), rowsPerS.copy],
    ['its index', aTrade(index), ''],
    ['cold files', aTrade(files), rowsPerS.seal],
    ['archived', '', rowsPerS.away],
    ['brought back', '', rowsPerS.back],
  ].map((line) => line.map((one) => one.toLocaleString('en-US')));
  const what =
    tape === null
      ? `made trades (seed ${MADE.seed}: prices at random, which real ones are not)`
      : 'trades of the tape';
  return {
    table: [
      tableOf([['', 'bytes/trade', 'rows/s'], ...lines]),
      `${rows.toLocaleString('en-US')} ${what}, with exact times, received once`,
      'a second. The table: COPY of them. Cold files: sealing, writing and reading back. Archived: all of it and the drop.',
      'What came back was compared digit by digit.',
    ].join('\n'),
    figures: {
      ratio: {
        size: Math.round((100 * (heap + index)) / files) / 100,
        seal: Math.round((100 * took.copyS) / took.sealS) / 100,
      },
      bytesPerTrade: { heap: aTrade(heap), index: aTrade(index), files: aTrade(files) },
      ...{ rowsPerS, rows },
    },
  };
}
