import { dayHandlers } from '../../src/console/api/handlers/days.js';
import { marketHandlers } from '../../src/console/api/handlers/markets.js';
import { systemClock } from '../../src/kernel/clock.js';
import type { Store } from '../../src/store/index.js';
import {
  copyDatabase,
  openPlainStore,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'calendar of a year × 500 markets, and the list of 1,000 markets × 8 streams';

const MARKETS = 1000;
const SHOWN = 500;
const DAYS = 365;
const ROUNDS = 9;
const NOW_MS = Date.UTC(2026, 0, 15, 12);
const NOW = `timestamptz '2026-01-15 12:00Z'`;
/** Most milliseconds of each answer. */
const LIMITS = { trades: 300, depth: 300, markets: 150 } as const;

/** Each month has an outage: filled where that can be, and lost for what exists only while it happens. */
const FILL = [
  `INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount, first_seen_at, last_seen_at)
   SELECT 'M' || m || '_USD', 'M' || m, 'USD', 8, 2, 4, 0, 'epoch', 'epoch' FROM generate_series(1, ${MARKETS}) m`,
  `INSERT INTO stream (market_id, kind, variant, collect_from)
   SELECT market_id, kind, variant, ${NOW} - interval '${DAYS} days' FROM market, (VALUES
     ('trades', 0), ('candles', 60), ('candles', 300), ('candles', 3600), ('candles', 86400), ('depth', 0),
     ('tickers', 0), ('states', 86400)) k(kind, variant)`,
  `INSERT INTO coverage (stream_id, market_id, span, evidence)
   SELECT stream_id, market_id, tstzrange(${NOW} - interval '${DAYS} days', ${NOW}), '{}'::jsonb FROM stream
   WHERE kind IN ('trades', 'candles')
   UNION ALL
   SELECT stream_id, market_id, tstzrange(greatest(at + interval '5 minutes', ${NOW} - interval '${DAYS} days'), least(at + interval '30 days', ${NOW})), '{}'
   FROM stream, generate_series(${NOW} - interval '${DAYS} days', ${NOW} - interval '1 day', interval '30 days') at
   WHERE kind NOT IN ('trades', 'candles')`,
  `INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at)
   SELECT stream_id, market_id, tstzrange(at, at + interval '5 minutes'),
          CASE WHEN kind IN ('trades', 'candles') THEN 'filled' ELSE 'unfillable' END, 'not observed', at
   FROM stream, generate_series(${NOW} - interval '${DAYS} days', ${NOW} - interval '1 day', interval '30 days') at`,
  `INSERT INTO candle_check (market_id, interval_s, span, outcome, detail)
   SELECT m, 60, tstzrange(${NOW} - interval '10 days', ${NOW} - interval '10 days' + interval '1 minute'), 'mismatch', '{}'
   FROM generate_series(1, 50) m`,
];

/** Reads what the answers are made of, and makes nothing of it. */
const BARE = `
  SELECT c.stream_id, extract(epoch FROM lower(c.span))::float8 AS from_s, extract(epoch FROM upper(c.span))::float8 AS to_s
  FROM coverage c JOIN stream s USING (stream_id, market_id)
  WHERE ($1 = '' OR s.kind = $1) AND c.market_id <= $2 AND c.span && tstzrange($3::timestamptz, ${NOW})`;

async function timeOf(work: () => Promise<number>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const startMs = systemClock.monotonicMs();
    if ((await work()) === 0) throw new Error('an answer has no rows');
    if (round > 0) times.push(systemClock.monotonicMs() - startMs);
  }
  return median(times);
}

/** @param options none */
export async function run(): Promise<BenchReport> {
  const server = await startTestPostgres();
  const url = await copyDatabase(server.url, 'bench_console');
  const store = await openPlainStore(url);
  try {
    for (const sql of FILL) await runSql(url, sql);
    await runSql(url, 'VACUUM ANALYZE');
    return await measure(store);
  } finally {
    await store.stop();
    await server.stop();
  }
}

async function measure(store: Store): Promise<BenchReport> {
  const { signal } = new AbortController();
  const deps = { store: () => store, nowMs: () => NOW_MS };
  const { days } = dayHandlers({ ...deps, leftOut: () => undefined });
  const { markets } = marketHandlers({ ...deps, troubleOf: () => null });
  let bytes = 0;
  const sized = <T extends { readonly rows: readonly unknown[] }>(answer: T) => {
    bytes = JSON.stringify(answer).length;
    return answer.rows.length;
  };
  const year = { limit: SHOWN, offset: 0 };
  const answers = {
    trades: () => days({ ...year, kind: 'trades' }, signal, 'viewer').then(sized),
    depth: () => days({ ...year, kind: 'depth' }, signal, 'viewer').then(sized),
    markets: () => markets({ sort: 'worst', limit: 200, offset: 0 }, signal, 'viewer').then(sized),
  };
  const bare = {
    trades: ['trades', SHOWN, '2025-01-15'],
    depth: ['depth', SHOWN, '2025-01-15'],
    markets: ['', MARKETS, '2026-01-14'],
  } as const;
  const titles = {
    trades: 'calendar of trades, a year × 500 markets',
    depth: 'the same of depth, an outage a month',
    markets: '1,000 markets × 8 streams, 24 hours',
  } as const;
  const rows: string[][] = [['median ms', 'answer', 'bare rows', 'at most', '', 'kB']];
  const ratio: Record<string, number> = {};
  const figures: Record<string, number> = {};
  for (const name of ['trades', 'depth', 'markets'] as const) {
    const oursMs = await timeOf(answers[name]);
    const size = bytes;
    const bareMs = await timeOf(async () => (await store.query(BARE, bare[name])).length);
    const isMet = oursMs <= LIMITS[name];
    rows.push([
      ...[titles[name], oursMs.toFixed(1), bareMs.toFixed(1), String(LIMITS[name])],
      ...[isMet ? 'met' : 'not met', String(Math.round(size / 1000))],
    ]);
    ratio[name] = Math.round((100 * bareMs) / oursMs) / 100;
    figures[`${name}Ms`] = oursMs;
  }
  return {
    table: [
      tableOf(rows),
      'Bare rows: the covered ranges of the same streams and time, read and not looked at.',
    ].join('\n'),
    figures: { ratio, ...figures },
  };
}
