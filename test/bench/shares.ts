import { systemClock } from '../../src/kernel/clock.js';
import { Share } from '../../src/model/share.js';
import { openLive } from '../../src/sandbox/live/open-live.js';
import { startExchangeServer } from '../../src/server/exchange-server.js';
import { ServerRecord } from '../support/exchanges/served.js';
import {
  runSql,
  startTestPostgres,
  TEMPLATE,
  withDatabase,
} from '../support/postgres/postgres-server.js';
import { Program } from '../support/programs/program.js';
import { type BenchReport, tableOf } from './report.js';

export const about = 'first walk through history by one daemon and by three shares (build first)';

/*
 * An exchange with 12 busy markets, 15 minutes of history and pages of 50 trades, four markets a share, and daemons that may
 * send 4 requests a second each. Time from the first stored trade of each market until all of them are covered back to
 * their start. Only trades are collected, and only by requests.
 */

const PER_SHARE = 4;
const HISTORY_S = 900;
const REQUESTS_PER_S = 4;
const PAGE = 50;
const SHARES = ['1/3', '2/3', '3/3'];

/** As many markets of each share. */
const MARKETS = SHARES.flatMap((text) => {
  const share = Share.parse(text) ?? Share.whole;
  const names = Array.from({ length: 100 }, (_, n) => `M${n}_USDT`);
  return names.filter((name) => share.has(name)).slice(0, PER_SHARE);
});
const TERMS = { stockPrec: 6, moneyPrec: 2, minAmount: '0.0001', basePrice: '64000' };
const described = MARKETS.map((name) => ({ name, ...TERMS, usualAmount: '0.05', activity: 0.6 }));

const BEGUN = 'SELECT count(DISTINCT market_id)::int AS n FROM trade';
const WHOLE = `
  SELECT count(*)::int AS n FROM stream s
  WHERE s.kind = 'trades' AND s.collect_from IS NOT NULL AND EXISTS (
    SELECT FROM coverage c WHERE c.stream_id = s.stream_id AND lower(c.span) <= s.collect_from)`;
const ROWS = 'SELECT count(*)::int AS n FROM trade';

/** @returns seconds, and trades stored then */
async function walk(databaseUrl: string, shares: readonly string[]) {
  const backend = await openLive(
    { seed: 23, startOffsetS: HISTORY_S, markets: described },
    systemClock,
  );
  const record = new ServerRecord();
  const server = await startExchangeServer({
    ...{ backend, telemetry: record, clock: systemClock, host: '127.0.0.1', port: 0 },
    variants: { rateLimit: false, pageCap: PAGE },
  });
  const daemons = shares.map(
    (share) =>
      // A test waits by its lines.
      new Program(['--log-level', 'debug', 'start'], {
        env: {
          TAPEKEEP_COLLECTOR_SHARE: share,
          TAPEKEEP_EXCHANGE_URL: server.url,
          TAPEKEEP_DATABASE_URL: databaseUrl,
          TAPEKEEP_EXCHANGE_REQUESTS_PER_S: String(REQUESTS_PER_S),
          TAPEKEEP_STREAMS_MARKETS_SCHEDULE: '*/5 * * * * *',
          TAPEKEEP_STREAMS_TRADES_SCHEDULE: '0 * * * * *',
          TAPEKEEP_STREAMS_TRADES_EXACT_TIMES: 'false',
          TAPEKEEP_STREAMS_STATES_ENABLED: 'false',
          TAPEKEEP_STREAMS_DEPTH_ENABLED: 'false',
          TAPEKEEP_STREAMS_TICKERS_ENABLED: 'false',
          TAPEKEEP_STREAMS_CANDLES_ENABLED: 'false',
          TAPEKEEP_SPOOL_MAX_BYTES: '0',
          TAPEKEEP_HTTP_ENABLED: 'false',
        },
      }),
  );
  try {
    const count = async (sql: string) =>
      (await runSql<{ n: number }>(databaseUrl, sql))[0]?.n ?? Number.NaN;
    await daemons[0]?.until(async () => (await count(BEGUN)) === MARKETS.length);
    const [startMs, before] = [systemClock.monotonicMs(), record.requests.length];
    await daemons[0]?.until(async () => (await count(WHOLE)) === MARKETS.length);
    const seconds = (systemClock.monotonicMs() - startMs) / 1000;
    return { seconds, rows: await count(ROWS), requests: record.requests.length - before };
  } finally {
    for (const daemon of daemons) await daemon.dispose();
    await server.stop();
    backend.stop();
  }
}

export async function run(): Promise<BenchReport> {
  const postgres = await startTestPostgres();
  try {
    const make = async (name: string) => {
      await runSql(postgres.url, `CREATE DATABASE ${name} TEMPLATE ${TEMPLATE}`);
      return withDatabase(postgres.url, name);
    };
    const one = await walk(await make('bench_one'), ['']);
    const three = await walk(await make('bench_three'), SHARES);
    const line = (name: string, { seconds, rows, requests }: typeof one) => [
      ...[name, seconds.toFixed(1), String(requests), String(rows)],
    ];
    const table = tableOf([
      ['daemons', 'whole after, s', 'requests', 'trades'],
      ...[line('one', one), line('three shares', three)],
    ]);
    return { table, figures: { one, three, ratio: { seconds: one.seconds / three.seconds } } };
  } finally {
    await postgres.stop();
  }
}
