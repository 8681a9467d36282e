import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { importRows } from '../../src/archive/import/import.js';
import { ImportSource } from '../../src/archive/import/source.js';
import { type DuckSession, literal, openDuck } from '../../src/archive/parquet/session.js';
import { systemClock } from '../../src/kernel/clock.js';
import { marketOf } from '../support/postgres/postgres-rows.js';
import {
  copyDatabase,
  makeTempDir,
  openPlainStore,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import { type BenchReport, tableOf } from './report.js';

export const about =
  "import of old trades, beside DuckDB's own COPY from CSV to Parquet (--rows N, --days N)";

const FROM_MS = Date.UTC(2024, 7, 1);
const DAY_MS = 86_400_000;

/** Trades as exchanges offer them for download, ids and times growing. */
const madeSql = (rows: number, days: number) => `
  SELECT i AS id, (60000 + (hash(i) % 100000) / 100)::DECIMAL(18,2) AS price,
         ((hash(i * 7) % 100000000 + 1) / 100000000)::DECIMAL(18,8) AS qty,
         ${FROM_MS} + (i - 1) * ${Math.floor((days * DAY_MS) / rows)} AS time, hash(i * 3) % 2 = 0 AS is_buyer_maker
  FROM range(1, ${rows + 1}) r(i)`;

/** Columns, types, order and compression of the archive's files. */
const likeOursSql = (path: string) => `
  SELECT make_timestamptz(time * 1000 // 1000000 * 1000000) AS traded_at, id AS tid,
         make_timestamptz(time * 1000) AS executed_at, now() AS received_at,
         CASE WHEN is_buyer_maker THEN 'sell' ELSE 'buy' END AS side, price, qty AS amount,
         (price::DECIMAL(9,2) * qty::DECIMAL(9,8))::DECIMAL(18,10) AS total
  FROM read_csv(${literal(path)}, header = true, columns = {id: 'BIGINT', price: 'DECIMAL(18,8)', qty: 'DECIMAL(18,8)', time: 'BIGINT', is_buyer_maker: 'BOOLEAN'})
  ORDER BY 1, 2`;

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startMs) / 1000;
}

async function copies(duck: DuckSession, csv: string, folder: string) {
  const copy = (name: string, sql: string, how: string) => () =>
    duck.run('copying', `COPY (${sql}) TO ${literal(join(folder, name))} (FORMAT parquet${how})`);
  const zstd = ', COMPRESSION zstd, COMPRESSION_LEVEL 6, PARQUET_VERSION v2';
  return {
    plain: await secondsOf(copy('a.parquet', `FROM read_csv(${literal(csv)})`, '')),
    alike: await secondsOf(copy('b.parquet', likeOursSql(csv), zstd)),
  };
}

async function importOnce(server: string, csv: string, folder: string): Promise<number> {
  const name = 'bench_import';
  await runSql(server, `DROP DATABASE IF EXISTS ${name}`);
  const databaseUrl = await copyDatabase(server, name);
  const store = await openPlainStore(databaseUrl);
  try {
    await store.ensureMarkets([marketOf('BTC_USDT')], FROM_MS);
    const { signal } = new AbortController();
    const nowMs = systemClock.wallMs();
    const nothing = () => undefined;
    return await secondsOf(async () => {
      const source = await ImportSource.open({
        ...{ path: csv, format: 'csv', kind: 'trades', intervalS: 0, market: 'BTC_USDT', signal },
        columns: new Map(),
      });
      const { stored } = await importRows({
        ...{ store, source, path: csv, kind: 'trades', intervalS: 0, claim: undefined },
        ...{ nowMs, signal, onProgress: nothing },
        files: {
          ...{ cold: new FolderStorage(folder), nowMs, clock: systemClock, version: '0' },
          rules: {
            ...{ sealAfterMs: 0, coldAfterMs: 0, restMs: 0, retentionMs: {} },
            ...{ needsChecks: true, needsTimes: true },
          },
          watcher: { onStep: nothing, onRows: nothing },
        },
      });
      if (stored !== source.facts.rows) throw new Error(`${stored} rows were stored`);
      await source.close();
    });
  } finally {
    await store.stop();
  }
}

const ROUNDS = 3;

export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: { rows: { type: 'string' }, days: { type: 'string' } },
  });
  const [rows, days] = [Number(values.rows ?? 2_000_000), Number(values.days ?? 2)];
  const server = await startTestPostgres();
  const folder = await makeTempDir();
  const duck = await openDuck('bench', {});
  const best = { plain: Infinity, alike: Infinity, import: Infinity };
  try {
    const csv = join(folder, 'trades.csv');
    await duck.session.run('making', `COPY (${madeSql(rows, days)}) TO ${literal(csv)} (HEADER)`);
    for (let round = 0; round < ROUNDS; round += 1) {
      const { plain, alike } = await copies(duck.session, csv, folder);
      const cold = join(folder, `cold${round}`);
      const ours = await importOnce(server.url, csv, cold);
      best.plain = Math.min(best.plain, plain);
      best.alike = Math.min(best.alike, alike);
      best.import = Math.min(best.import, ours);
    }
  } finally {
    await duck.close();
    await rm(folder, { recursive: true, force: true });
    await server.stop();
  }
  const rate = (seconds: number) => Math.round(rows / seconds);
  const share = (seconds: number) => Math.round((100 * seconds) / best.import) / 100;
  const line = (name: string, seconds: number) => [
    ...[name, rate(seconds).toLocaleString('en-US'), String(share(seconds))],
  ];
  return {
    table: [
      tableOf([
        ['', 'rows/s', 'import / this'],
        line('COPY as it is', best.plain),
        line('COPY of the same columns, sorted, zstd', best.alike),
        line('import', best.import),
      ]),
      `${rows.toLocaleString('en-US')} trades of ${days} days in a CSV; the best of ${ROUNDS} rounds, two threads each.`,
    ].join('\n'),
    figures: {
      ratio: { plain: share(best.plain), alike: share(best.alike) },
      rowsPerS: { plain: rate(best.plain), alike: rate(best.alike), import: rate(best.import) },
      rows,
    },
  };
}
