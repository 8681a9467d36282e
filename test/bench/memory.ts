import { parseArgs } from 'node:util';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import { startPoissonServer } from '../support/exchanges/poisson-server.js';
import { runSql, startTestPostgres, withDatabase } from '../support/postgres/postgres-server.js';
import { readMetrics } from '../support/programs/metrics-page.js';
import { Program, startSandbox } from '../support/programs/program.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'memory of the daemon with 500 markets over time, without its database';

/** What the daemon may hold, MB; the design's figure. */
const LIMIT_MB = 300;
const SAMPLE_MS = 2000;
const ROWS_SHOWN = 16;

/** In the order of {@link Sample}. */
const COLUMNS = [
  ...['seconds', 'RSS MB', 'heap MB', 'requests', 'rows given', 'sockets', 'descriptors', 'series'],
];

interface Sample {
  readonly atS: number;
  readonly residentMb: number;
  readonly heapMb: number;
  readonly requests: number;
  readonly rows: number;
  readonly sockets: number;
  readonly descriptors: number;
  /** Of the metrics page. */
  readonly series: number;
}

/** More markets than this are served by an exchange without an engine: theirs would take the processor. */
const SANDBOX_MARKETS_MAX = 512;

async function startExchange(names: readonly string[]) {
  if (names.length > SANDBOX_MARKETS_MAX) {
    const markets = names.map((name) => ({ name, occasionsPerS: 0.002, tradesPerOccasion: 2 }));
    const server = await startPoissonServer({ seed: 1, historyMax: 1_000, pastMs: 0, markets });
    return { ready: server.report, stop: () => server.stop() };
  }
  const { program, ready } = await startSandbox([
    ...['--no-rate-limit', '--start-offset', '5m'],
    ...names.flatMap((name) => ['--market', name]),
  ]);
  return { ready, stop: () => program.dispose() };
}

/**
 * Starts the built daemon against an exchange of 500 markets, all streams on, and reads its resident
 * memory, sockets and series from its own metrics. Options: --seconds (default 180), --markets (default
 * 500; as many as an exchange may list), --requests-per-s (default 50).
 */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      seconds: { type: 'string', default: '180' },
      markets: { type: 'string', default: '500' },
      'requests-per-s': { type: 'string', default: '50' },
    },
  });
  const [seconds, markets] = [Number(values.seconds), Number(values.markets)];
  const names = Array.from(
    { length: markets },
    (_, at) => `M${String(at + 1).padStart(3, '0')}_USDT`,
  );
  const { ready, stop } = await startExchange(names);
  const postgres = await startTestPostgres();
  await runSql(postgres.url, 'CREATE DATABASE memory');
  const databaseUrl = withDatabase(postgres.url, 'memory');
  const daemon = new Program(['--log-level', 'info', '--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
      TAPEKEEP_DATABASE_URL: databaseUrl,
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: values['requests-per-s'],
      TAPEKEEP_HTTP_PORT: '0',
    },
  });
  try {
    await daemon.line((line) => line.includes('"started"'));
    const samples: Sample[] = [];
    const startMs = systemClock.monotonicMs();
    while (systemClock.monotonicMs() - startMs < seconds * 1000) {
      // Memory is looked at every so often: it tells of no event.
      await sleep(systemClock, SAMPLE_MS);
      samples.push(await sampleOf(daemon, (systemClock.monotonicMs() - startMs) / 1000));
    }
    const [stored] = await runSql<{ kinds: string; rows: string }>(
      databaseUrl,
      `SELECT string_agg(kind || ' ' || streams, ', ' ORDER BY kind) AS kinds,
              (SELECT sum(rows) FROM rows_by_day)::text AS rows
       FROM (SELECT kind, count(DISTINCT stream_id) AS streams
             FROM coverage JOIN stream USING (stream_id) GROUP BY kind) AS by_kind`,
    );
    const [known] = await runSql<{ count: string }>(databaseUrl, 'SELECT count(*) FROM market');
    daemon.kill('SIGTERM');
    await daemon.ended();
    const listed = `${markets} markets listed, ${known?.count ?? 0} in the archive`;
    const streams = `covered streams: ${stored?.kinds}; ${stored?.rows} rows under coverage`;
    return reportOf(samples, markets, `${listed}; ${streams}`);
  } finally {
    await daemon.dispose();
    await stop();
    await postgres.stop();
  }
}

async function sampleOf(daemon: Program, atS: number): Promise<Sample> {
  const { text, sum } = await readMetrics(daemon);
  return {
    atS,
    residentMb: sum('process_resident_memory_bytes') / 1e6,
    heapMb: sum('nodejs_heap_size_used_bytes') / 1e6,
    requests: sum('tapekeep_requests_total'),
    rows: sum('tapekeep_archive_rows_total'),
    sockets: sum('tapekeep_realtime_connections'),
    descriptors: sum('process_open_fds'),
    series: text.split('\n').filter((line) => /^\w/.test(line)).length,
  };
}

function reportOf(samples: readonly Sample[], markets: number, found: string): BenchReport {
  const every = Math.max(1, Math.ceil(samples.length / ROWS_SHOWN));
  const whole = (value: number) => value.toFixed(0);
  const lines = samples
    .filter((_, at) => at % every === every - 1)
    .map((one) => Object.values(one).map(whole));
  const third = Math.floor(samples.length / 3);
  const resident = samples.map((one) => one.residentMb);
  const middleMb = median(resident.slice(third, 2 * third));
  const lastMb = median(resident.slice(2 * third));
  const peakMb = Math.max(...resident);
  const table = [
    tableOf([COLUMNS, ...lines]),
    found,
    `peak ${whole(peakMb)} MB of ${LIMIT_MB}; middle third ${whole(middleMb)} MB, last third ${whole(lastMb)} MB`,
  ].join('\n');
  const ratio = { limit: round(LIMIT_MB / peakMb), flat: round(middleMb / lastMb) };
  return { table, figures: { ratio, peakMb: round(peakMb), middleMb, lastMb, markets } };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
