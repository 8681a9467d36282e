import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { filesBelow } from '../../src/archive/cold/folder.js';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { openDuck } from '../../src/archive/parquet/session.js';
import { liveOn } from '../../src/archive/sealing/life.js';
import { ColdEndpoint } from '../../src/archive/serve/endpoint.js';
import { SERVE_USER } from '../../src/archive/serve/login.js';
import { systemClock } from '../../src/kernel/clock.js';
import type { Store } from '../../src/store/index.js';
import {
  copyDatabase,
  makeTempDir,
  openPlainStore,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about =
  'questions in SQL over 29 archived days and one hot day, against bare Postgres and bare DuckDB';

const MARKETS = 10;
const DAYS = 30;
const DAY_MS = 86_400_000;
/** The last day is the last of its month. */
const START = '2026-01-02';
const START_MS = Date.parse(`${START}T00:00Z`);
const ROUNDS = 5;
const ROWS_STANDARD = 1_000_000;
const quiet = {
  rowsSent: () => undefined,
  statementRefused: () => undefined,
  connectionEnded: () => undefined,
};

/** Trades of all markets, evenly over the days, whose candles of a minute are stored and verified. */
const fillSql = (rows: number) => [
  `INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount, first_seen_at, last_seen_at)
   SELECT 'M' || m || '_USD', 'M' || m, 'USD', 8, 2, 4, 0, 'epoch', 'epoch' FROM generate_series(1, ${MARKETS}) m`,
  `INSERT INTO stream (market_id, kind, variant, collect_from)
   SELECT m, kind, variant, '${START}Z' FROM generate_series(1, ${MARKETS}) m, (VALUES ('trades', 0), ('candles', 60)) k(kind, variant)`,
  `INSERT INTO coverage (stream_id, market_id, span, evidence)
   SELECT stream_id, market_id, tstzrange('${START}Z', '${START}Z'::timestamptz + interval '${DAYS} days'), '{}' FROM stream`,
  `SELECT make_partition(t, at) FROM unnest(ARRAY['trade', 'kline']) t,
     generate_series('${START}Z'::timestamptz, '${START}Z'::timestamptz + interval '${DAYS - 1} days', interval '1 day') at`,
  `INSERT INTO trade (traded_at, tid, executed_at, received_at, market_id, side, price, amount, total)
   SELECT date_trunc('second', at), n + 1, at, at, 1 + n % ${MARKETS}, side, price, amount, price * amount FROM (
     SELECT n, '${START}Z'::timestamptz + n * interval '1 microsecond' * ${Math.floor((DAYS * DAY_MS * 1000) / rows)} AS at,
            (ARRAY['buy', 'sell'])[1 + n % 2]::taker_side AS side,
            round((60000 + 500 * sin(n / 50000.0) + random() * 3)::numeric, 2) AS price,
            round((0.00001 + random() ^ 4)::numeric, 5) AS amount
     FROM generate_series(0, ${rows - 1}) n) made`,
  `INSERT INTO kline (open_at, received_at, market_id, interval_s, open, close, high, low, volume, quote_volume)
   SELECT date_bin('1 minute', traded_at, 'epoch'), max(received_at), market_id, 60, (array_agg(price ORDER BY traded_at, tid))[1],
          (array_agg(price ORDER BY traded_at DESC, tid DESC))[1], max(price), min(price), sum(amount), sum(total)
   FROM trade GROUP BY 1, market_id`,
  `INSERT INTO candle_check (market_id, interval_s, span, outcome, detail, is_exact)
   SELECT m, 60, tstzrange('${START}Z', '${START}Z'::timestamptz + interval '${DAYS} days'), 'match', '{}', true
   FROM generate_series(1, ${MARKETS}) m`,
  `INSERT INTO rows_by_day (market_id, series, variant, day, rows, timed)
   SELECT market_id, 'trade', 0, (traded_at AT TIME ZONE 'UTC')::date, count(*), count(executed_at) FROM trade GROUP BY 1, 4
   UNION ALL SELECT market_id, 'kline', 60, (open_at AT TIME ZONE 'UTC')::date, count(*), 0 FROM kline GROUP BY 1, 4`,
];

/** All trades hot, in one table of a partition a day, and nothing else of ours: what Postgres does by itself. */
const BARE = `
  CREATE SCHEMA bare;
  CREATE TABLE bare.trade (LIKE trade) PARTITION BY RANGE (traded_at);
  DO $$ BEGIN
    FOR i IN 0..${DAYS - 1} LOOP
      EXECUTE format('CREATE TABLE bare.trade_%s PARTITION OF bare.trade (PRIMARY KEY (market_id, traded_at, tid))
        FOR VALUES FROM (%L) TO (%L)', i, '${START}Z'::timestamptz + i * interval '1 day', '${START}Z'::timestamptz + (i + 1) * interval '1 day');
    END LOOP;
  END $$;
  INSERT INTO bare.trade SELECT * FROM trade ORDER BY market_id, traded_at, tid;`;

const day = (at: number) => `'${new Date(START_MS + at * DAY_MS).toISOString()}'`;
const sums = (step: string, from: string, to: string) => `
  SELECT date_bin('${step}', traded_at, 'epoch'), (array_agg(price ORDER BY traded_at, tid))[1], max(price), min(price),
         (array_agg(price ORDER BY traded_at DESC, tid DESC))[1], sum(amount), sum(total), count(*)
  FROM bare.trade WHERE market_id = 2 AND traded_at >= ${from} AND traded_at < ${to} GROUP BY 1`;
const vwap = (step: string, from: string, to: string) => `
  SELECT date_bin('${step}', traded_at, 'epoch'), sum(price * amount) / sum(amount) FROM bare.trade
  WHERE market_id = 2 AND traded_at >= ${from} AND traded_at < ${to} GROUP BY 1`;

interface Question {
  readonly title: string;
  readonly ours: string;
  readonly bare: string;
  /** Most that ours may take: factor of bare Postgres, and milliseconds besides. */
  readonly limit: readonly [factor: number, plusMs: number];
}

const QUESTIONS: Readonly<Record<string, Question>> = {
  newest: {
    title: 'newest 1,000 of a market by name',
    ours: `SELECT * FROM analytics.trades('M2_USD') ORDER BY traded_at DESC, tid DESC LIMIT 1000`,
    bare: 'SELECT * FROM bare.trade WHERE market_id = 2 ORDER BY traded_at DESC, tid DESC LIMIT 1000',
    limit: [1.5, 3],
  },
  lastTrades: {
    title: 'last trade of each market',
    ours: 'SELECT * FROM analytics.last_trades()',
    bare: `SELECT * FROM market m, LATERAL (SELECT * FROM bare.trade t WHERE t.market_id = m.market_id
             ORDER BY traded_at DESC, tid DESC LIMIT 1) t`,
    limit: [1.5, 3],
  },
  panel: {
    title: 'a panel over the last 6 hours',
    ours: `SELECT date_bin('5 minutes', traded_at, 'epoch'), avg(price) FROM analytics.trades('M2_USD', ${day(DAYS - 0.25)}, ${day(DAYS)}) GROUP BY 1`,
    bare: `SELECT date_bin('5 minutes', traded_at, 'epoch'), avg(price) FROM bare.trade
           WHERE market_id = 2 AND traded_at >= ${day(DAYS - 0.25)} AND traded_at < ${day(DAYS)} GROUP BY 1`,
    limit: [1.5, 3],
  },
  minutesOfDay: {
    title: 'candles 1m of an archived day',
    ours: `SELECT * FROM analytics.candles('M2_USD', '1 minute', ${day(5)}, ${day(6)})`,
    bare: sums('1 minute', day(5), day(6)),
    limit: [1, 0],
  },
  hoursOfMonth: {
    title: 'candles 1h of the month',
    ours: `SELECT * FROM analytics.candles('M2_USD', '1 hour', ${day(0)}, ${day(DAYS)})`,
    bare: sums('1 hour', day(0), day(DAYS)),
    limit: [1, 0],
  },
  vwapOfWeek: {
    title: 'VWAP an hour of an archived week',
    ours: `SELECT open_at, vwap FROM analytics.vwap('M2_USD', '1 hour', ${day(7)}, ${day(14)})`,
    bare: vwap('1 hour', day(7), day(14)),
    limit: [1, 0],
  },
  hoursOfTrades: {
    title: 'candles 1h of an archived week, from trades',
    ours: `SELECT * FROM analytics.candles('M2_USD', '1 hour', ${day(7)}, ${day(14)}, from_trades => true)`,
    bare: sums('1 hour', day(7), day(14)),
    limit: [1, 0],
  },
  rowsOfDay: {
    title: 'rows of an archived day out',
    ours: `SELECT * FROM trade WHERE traded_at >= ${day(3)} AND traded_at < ${day(4)}`,
    bare: `SELECT * FROM bare.trade WHERE traded_at >= ${day(3)} AND traded_at < ${day(4)}`,
    limit: [2.5, 0],
  },
  countAll: {
    title: 'count and sums of all',
    ours: 'SELECT count(*), sum(total), sum(amount) FROM trade',
    bare: 'SELECT count(*), sum(total), sum(amount) FROM bare.trade',
    limit: [Number.POSITIVE_INFINITY, 0],
  },
};

const HOT = {
  sealAfterMs: DAY_MS / 2,
  coldAfterMs: DAY_MS / 2,
  retentionMs: {},
  restMs: 0,
  needsChecks: false,
  needsTimes: false,
};

/** @param days the exchange's time, counted from the first day */
async function archive(
  store: Store,
  coldDir: string,
  table: 'trade' | 'kline',
  days: number,
): Promise<void> {
  const { outcomes, failures } = await liveOn({
    ...{
      store,
      cold: new FolderStorage(coldDir),
      clock: systemClock,
      version: '0',
      nowMs: START_MS + days * DAY_MS,
    },
    rules: HOT,
    isChosen: (one) => one.table === table,
    signal: new AbortController().signal,
    watcher: { onStep: () => undefined, onRows: () => undefined },
  });
  if (failures.length > 0 || !outcomes.some(({ became }) => became === 'archived')) {
    throw new Error(
      `nothing was archived: ${JSON.stringify([...failures, ...outcomes.slice(0, 3)])}`,
    );
  }
}

/** Seconds of a statement, warm; each answer has to have rows. */
async function timeOf(client: pg.Client, sql: string): Promise<number> {
  const startMs = systemClock.monotonicMs();
  const { rows } = await client.query({ text: sql, rowMode: 'array' });
  if (rows.length === 0) throw new Error(`no rows: ${sql}`);
  return systemClock.monotonicMs() - startMs;
}

/** @param options number of trades; default a million */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const rows = Number(options[0] ?? ROWS_STANDARD);
  const server = await startTestPostgres();
  const dir = await makeTempDir();
  const coldDir = join(dir, 'cold');
  const url = await copyDatabase(server.url, 'bench_sql');
  const store = await openPlainStore(url, { statementTimeoutMs: 600_000 });
  const endpoint = await ColdEndpoint.start({
    ...{
      host: '127.0.0.1',
      port: 0,
      identity: 'bench',
      password: 'bench',
      cold: new FolderStorage(coldDir),
    },
    ...{ clock: systemClock, telemetry: quiet },
    isOwnBackend: (pid, database) => store.sealing.isOwnBackend(pid, database),
    partitionOf: (name) => store.sealing.archived(name),
  });
  const client = new pg.Client({ connectionString: url });
  try {
    const { host, port } = endpoint.address;
    await store.sealing.pointColdServer({
      host,
      port,
      user: SERVE_USER,
      password: 'bench',
      dbname: 'bench',
    });
    for (const sql of fillSql(rows)) await runSql(url, sql);
    await runSql(url, BARE);
    await runSql(url, 'VACUUM ANALYZE');
    await archive(store, coldDir, 'trade', DAYS);
    await client.connect();
    await client.query(`SET timezone = 'UTC'`);
    const hot = await measure(client);
    await archive(store, coldDir, 'kline', 2 * DAYS);
    const cold = await measure(client, ['minutesOfDay', 'hoursOfMonth', 'vwapOfWeek']);
    const planMs = await planOf(client);
    const duckMs = await duckScan(coldDir);
    return report(rows, hot, cold, planMs, duckMs);
  } finally {
    await client.end();
    await endpoint.close();
    await store.stop();
    await rm(dir, { recursive: true, force: true });
    await server.stop();
  }
}

type Measured = ReadonlyMap<string, { readonly oursMs: number; readonly bareMs: number }>;

async function measure(client: pg.Client, names = Object.keys(QUESTIONS)): Promise<Measured> {
  const found = new Map<string, { oursMs: number; bareMs: number }>();
  for (const name of names) {
    const { ours, bare } = QUESTIONS[name] ?? { ours: '', bare: '' };
    const times: { ours: number[]; bare: number[] } = { ours: [], bare: [] };
    for (let round = 0; round <= ROUNDS; round += 1) {
      const [oursMs, bareMs] = [await timeOf(client, ours), await timeOf(client, bare)];
      if (round === 0) continue;
      times.ours.push(oursMs);
      times.bare.push(bareMs);
    }
    found.set(name, { oursMs: median(times.ours), bareMs: median(times.bare) });
  }
  return found;
}

/** Planning of a question about an archived day, in the plan's own words. */
async function planOf(client: pg.Client): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const { rows } = await client.query<{
      'QUERY PLAN': readonly { readonly 'Planning Time': number }[];
    }>(
      `EXPLAIN (SUMMARY, FORMAT JSON) SELECT * FROM analytics.trades('M2_USD', ${day(5)}, ${day(6)})`,
    );
    times.push(rows[0]?.['QUERY PLAN'][0]?.['Planning Time'] ?? Number.NaN);
  }
  return median(times);
}

/** Count and sums of the files of trades by bare DuckDB. */
async function duckScan(coldDir: string): Promise<number> {
  const files = (await filesBelow(coldDir)).filter(
    (one) => one.startsWith('kind=trades/') && one.endsWith('.parquet'),
  );
  const list = files.map((one) => `'${join(coldDir, one)}'`).join(', ');
  const duck = await openDuck('bench', {});
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const startMs = systemClock.monotonicMs();
    await duck.session.rows(
      'bench',
      `SELECT count(*), sum(total), sum(amount) FROM read_parquet([${list}], union_by_name = true)`,
    );
    times.push(systemClock.monotonicMs() - startMs);
  }
  await duck.close();
  return median(times);
}

function report(
  rows: number,
  hot: Measured,
  cold: Measured,
  planMs: number,
  duckMs: number,
): BenchReport {
  const shown = (ms: number) => ms.toFixed(1);
  const lines = (measured: Measured, more: string) =>
    [...measured].map(([name, { oursMs, bareMs }]) => {
      const { title = name, limit = [0, 0] } = QUESTIONS[name] ?? {};
      const [factor, plusMs] = limit;
      const most =
        factor === Number.POSITIVE_INFINITY
          ? ''
          : `${factor} × ${plusMs > 0 ? `+ ${plusMs} ms` : ''}`;
      const isMet = oursMs <= factor * bareMs + plusMs;
      return [
        `${title}${more}`,
        shown(oursMs),
        shown(bareMs),
        (oursMs / bareMs).toFixed(2),
        most,
        isMet ? 'met' : 'not met',
      ];
    });
  const ratio = Object.fromEntries(
    [...hot, ...[...cold].map(([name, of]) => [`${name}Cold`, of] as const)].map(([name, of]) => [
      name,
      Math.round((100 * of.bareMs) / of.oursMs) / 100,
    ]),
  );
  return {
    table: [
      tableOf([
        ['median ms', 'ours', 'bare Postgres', 'ours/bare', 'at most', ''],
        ...lines(hot, ''),
        ...lines(cold, ', candles archived too'),
      ]),
      `${rows.toLocaleString('en-US')} trades, ${MARKETS} markets × ${DAYS} days, 29 days archived. Bare Postgres has all of it hot.`,
      `Plan of a question about an archived day: ${planMs.toFixed(2)} ms. Count and sums by bare DuckDB over the files: ${shown(duckMs)} ms.`,
    ].join('\n'),
    figures: {
      ratio,
      planMs,
      duckMs,
      rows,
      ours: Object.fromEntries(hot),
      cold: Object.fromEntries(cold),
    },
  };
}
