import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { openReading } from '../../src/archive/reading.js';
import { rowMaker } from '../../src/archive/row-blocks.js';
import { liveOn } from '../../src/archive/sealing/life.js';
import { systemClock } from '../../src/kernel/clock.js';
import type { Store } from '../../src/store/index.js';
import { marketOf } from '../support/postgres/postgres-rows.js';
import {
  copyDatabase,
  makeTempDir,
  openPlainStore,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import { askRows } from '../support/worlds/asking.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about =
  'rows of cold files against rows of the database: read as text, by page, in SQL';

const ROWS = 400_000;
const DAYS = ['2026-01-14', '2026-01-15'] as const;
const DAY_MS = 86_400_000;
const ROUNDS = 3;
const PAGE = 1_000;
const SPAN = {
  fromMs: Date.parse(`${DAYS[0]}T00:00Z`),
  toMs: Date.parse(`${DAYS[1]}T00:00Z`) + DAY_MS,
};
const SUMS = `SELECT count(*) AS n, sum(total) AS total, sum(amount) AS amount, max(price) AS highest FROM trades WHERE market = 'BTC_USDT'`;

/** The same number of trades on each day, a fifth of a second apart. */
const MAKE_TRADES = `
  INSERT INTO trade (market_id, traded_at, tid, executed_at, received_at, side, price, amount, total)
  SELECT 1, date_trunc('second', at), id, at, at + interval '400 ms',
         (ARRAY['buy', 'sell'])[1 + (random() < 0.5)::int]::taker_side, price, amount, price * amount
  FROM (
    SELECT day * ${ROWS} * 3 + n * 3 AS id,
           timestamptz '${DAYS[0]} 00:00Z' + day * interval '1 day' + n * interval '0.2 s' AS at,
           round((60000 + 500 * sin(n / 5000.0) + random() * 3)::numeric, 2) AS price,
           round((0.00001 + random() ^ 4)::numeric, 5) AS amount
    FROM generate_series(0, 1) day, generate_series(1, ${ROWS}) n) made`;

/** An archive of two days, of which the first is in cold files. */
async function makeArchive(server: string, coldDir: string) {
  const url = await copyDatabase(server, 'bench_query');
  const store = await openPlainStore(url);
  await store.ensureMarkets([marketOf('BTC_USDT')], SPAN.fromMs);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await store.makePartitionsAhead(SPAN.fromMs);
  await runSql(url, MAKE_TRADES);
  await store.commit({ claims: [{ stream, span: SPAN, evidence: { made: 'for the benchmark' } }] });
  await runSql(
    url,
    `INSERT INTO rows_by_day (market_id, series, variant, day, rows, timed)
     SELECT market_id, 'trade', 0, (traded_at AT TIME ZONE 'UTC')::date, count(*), count(executed_at)
     FROM trade GROUP BY 1, 4`,
  );
  await runSql(url, 'VACUUM ANALYZE');
  const hotSums = await secondsOf(() => runSql(url, SUMS.replace('trades', 'analytics.trades')));
  const { failures, outcomes } = await liveOn({
    ...{
      store,
      cold: new FolderStorage(coldDir),
      clock: systemClock,
      version: '0',
      nowMs: SPAN.fromMs + 2 * DAY_MS,
    },
    rules: {
      ...{ sealAfterMs: DAY_MS / 2, coldAfterMs: DAY_MS / 2, retentionMs: {}, restMs: 0 },
      needsChecks: false,
      needsTimes: false,
    },
    // Partitions of the other series were made along, and are empty.
    isChosen: ({ table }) => table === 'trade',
    signal: new AbortController().signal,
    watcher: { onStep: () => undefined, onRows: () => undefined },
  });
  const archived = outcomes.filter(({ became }) => became === 'archived').length;
  if (archived !== 1)
    throw new Error(`archived ${archived} partitions: ${JSON.stringify(failures)}`);
  return { store, hotSums };
}

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startMs = systemClock.monotonicMs();
  await work();
  return (systemClock.monotonicMs() - startMs) / 1000;
}

const daySpan = (day: number) => {
  const fromMs = SPAN.fromMs + day * DAY_MS;
  return { fromMs, toMs: fromMs + DAY_MS };
};

async function readDay(store: Store, coldDir: string, day: number): Promise<void> {
  const reading = await openReading(store, { cold: new FolderStorage(coldDir) });
  const slice = { kind: 'trades', marketId: 1, variantS: 0, span: daySpan(day) } as const;
  let rows = 0;
  for await (const piece of reading.rows(slice, 'csv')) {
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) rows += 1;
  }
  await reading.close();
  if (rows !== ROWS) throw new Error(`only ${rows} rows came`);
}

/** Pages at moments all over a day, in one reading. */
async function readPages(store: Store, coldDir: string, day: number): Promise<void> {
  const reading = await openReading(store, { cold: new FolderStorage(coldDir) });
  for (let page = 1; page <= 20; page += 1) {
    const toMs = daySpan(day).fromMs + page * 3_900_000;
    const slice = { kind: 'trades', marketId: 1, variantS: 0, span: { fromMs: 0, toMs } } as const;
    for await (const rows of reading.newestAs(slice, PAGE, rowMaker('trades', [1], 0))) {
      if (rows.length === 0) throw new Error('nothing came');
    }
  }
  await reading.close();
}

async function askSums(store: Store, coldDir: string): Promise<void> {
  const reading = await openReading(store, { cold: new FolderStorage(coldDir) });
  const { rows } = await askRows(SUMS, reading, coldDir);
  const count = rows[0]?.[0];
  await reading.close();
  if (count !== String(2 * ROWS)) throw new Error(`counted ${String(count)}`);
}

/** @param options none */
export async function run(): Promise<BenchReport> {
  const server = await startTestPostgres();
  const dir = await makeTempDir();
  const coldDir = join(dir, 'cold');
  try {
    const { store, hotSums } = await makeArchive(server.url, coldDir);
    const times = new Map<string, number[]>();
    const note = async (name: string, work: () => Promise<unknown>) =>
      times.set(name, [...(times.get(name) ?? []), await secondsOf(work)]);
    for (let round = 0; round < ROUNDS; round += 1) {
      await note('hot', () => readDay(store, coldDir, 1));
      await note('cold', () => readDay(store, coldDir, 0));
      await note('hotPages', () => readPages(store, coldDir, 1));
      await note('coldPages', () => readPages(store, coldDir, 0));
      await note('sums', () => askSums(store, coldDir));
    }
    const peakMb = Math.round(process.resourceUsage().maxRSS / 1024);
    await store.stop();
    return report(times, hotSums, peakMb);
  } finally {
    await rm(dir, { recursive: true, force: true });
    await server.stop();
  }
}

function report(
  times: ReadonlyMap<string, readonly number[]>,
  hotSums: number,
  peakMb: number,
): BenchReport {
  const seconds = (name: string) => median(times.get(name) ?? []);
  const rowsPerS = (name: string) => Math.round(ROWS / seconds(name));
  const pageMs = (name: string) => Math.round((seconds(name) * 1000) / 20);
  const ratio = Math.round((100 * seconds('hot')) / seconds('cold')) / 100;
  const whole = (value: number) => value.toLocaleString('en-US');
  return {
    table: [
      tableOf([
        ['', 'hot', 'cold'],
        ['rows/s as CSV text', whole(rowsPerS('hot')), whole(rowsPerS('cold'))],
        [
          `ms a page of ${whole(PAGE)}, newest first`,
          `${pageMs('hotPages')}`,
          `${pageMs('coldPages')}`,
        ],
      ]),
      `Sums over both days in DuckDB, ${whole(ROWS)} rows from a cold file and as many from the database: ${seconds('sums').toFixed(2)} s`,
      `(the same in Postgres while all was hot: ${hotSums.toFixed(2)} s). Most memory used by this process: ${peakMb} MB.`,
    ].join('\n'),
    figures: {
      ratio: { cold: ratio },
      rowsPerS: { hot: rowsPerS('hot'), cold: rowsPerS('cold') },
      pageMs: { hot: pageMs('hotPages'), cold: pageMs('coldPages') },
      ...{ sumsS: seconds('sums'), hotSumsS: hotSums, rows: ROWS, rounds: ROUNDS, peakMb },
    },
  };
}
