import { parseArgs } from 'node:util';
import { KNOWN_EXCHANGES, type ServerVariants } from '../../src/contract/variants.js';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import {
  runSql,
  startTestPostgres,
  type TestPostgres,
  withDatabase,
} from '../support/postgres/postgres-server.js';
import { readMetrics } from '../support/programs/metrics-page.js';
import { Program, startSandbox } from '../support/programs/program.js';
import { type BenchReport, tableOf } from './report.js';

export const about =
  'requests a minute and lost time of each way to be asked, with default settings';

/*
 * The sandbox as each recorded exchange, with the engine's four markets, and a built daemon as a process of its own
 * with the settings that ship. One exchange after the other, so that none waits for another's processor. Needs
 * `npm run build`.
 */

const EXCHANGES = ['contract', 'earnbit', 'whitebit', 'p2b'] as const;
/** Markets to be opened, and what was missed before the start to be fetched. */
const WARM_UP_S = 90;
const MINUTE_S = 60;

interface Outcome {
  readonly perMinute: number;
  readonly historyPerMinute: number;
  /** Gaps that are not filled, between the first and the last covered moment of each stream. */
  readonly gaps: number;
}

const round = (value: number) => Math.round(value * 10) / 10;

async function measure(
  postgres: TestPostgres,
  like: (typeof EXCHANGES)[number],
  seconds: number,
): Promise<Outcome> {
  const { program: exchange, ready } = await startSandbox(['--like', like, '--seed', '7']);
  await runSql(postgres.url, `CREATE DATABASE ${like}`);
  const databaseUrl = withDatabase(postgres.url, like);
  const { dialect = 'contract' }: Partial<ServerVariants> = KNOWN_EXCHANGES[like];
  const daemon = new Program(['--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
      TAPEKEEP_EXCHANGE_DIALECT: dialect,
      TAPEKEEP_DATABASE_URL: databaseUrl,
      TAPEKEEP_HTTP_PORT: '0',
    },
  });
  try {
    await daemon.line((line) => line.includes('"started"'));
    // What is measured is how it goes over a stretch of real time: there is no event to wait for.
    await sleep(systemClock, WARM_UP_S * 1000);
    const before = await readMetrics(daemon);
    await sleep(systemClock, seconds * 1000);
    const after = await readMetrics(daemon);
    daemon.kill('SIGTERM');
    await daemon.ended();
    const asked = (label?: string) =>
      ((after.sum('tapekeep_requests_total', label) -
        before.sum('tapekeep_requests_total', label)) /
        seconds) *
      MINUTE_S;
    const [inside] = await runSql<{ gaps: number }>(
      databaseUrl,
      `WITH holes AS (
         SELECT lower(span) > lag(upper(span)) OVER (PARTITION BY stream_id ORDER BY span) AS is_hole
         FROM coverage)
       SELECT count(*) FILTER (WHERE is_hole)::int AS gaps FROM holes`,
    );
    return {
      perMinute: round(asked()),
      historyPerMinute: round(asked('endpoint="history')),
      gaps: inside?.gaps ?? Number.NaN,
    };
  } finally {
    await daemon.dispose();
    await exchange.dispose();
  }
}

/** @param options --seconds of the window (default 120) */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: { seconds: { type: 'string', default: '120' } },
  });
  const postgres = await startTestPostgres();
  const measured: [string, Outcome][] = [];
  try {
    for (const like of EXCHANGES) {
      measured.push([like, await measure(postgres, like, Number(values.seconds))]);
    }
  } finally {
    await postgres.stop();
  }
  const base = measured[0]?.[1].perMinute ?? Number.NaN;
  const ratio = measured.map(([like, one]) => [like, round(base / one.perMinute)] as const);
  const rows = measured.map(([like, one]) => [like, ...Object.values(one).map(String)]);
  return {
    table: tableOf([['exchange', 'requests/min', 'for history', 'gaps inside'], ...rows]),
    figures: { ratio: Object.fromEntries(ratio), measured: Object.fromEntries(measured) },
  };
}
