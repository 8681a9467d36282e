import { parseArgs } from 'node:util';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import { runSql, startTestPostgres, withDatabase } from '../support/postgres/postgres-server.js';
import { Program, startSandbox } from '../support/programs/program.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'memory of the daemon with 500 markets over time, without its database';

/** What the daemon may hold, MB; the design's figure. */
const LIMIT_MB = 300;
const SAMPLE_MS = 2000;
const ROWS_SHOWN = 16;

interface Sample {
  readonly atS: number;
  readonly residentMb: number;
  readonly heapMb: number;
  readonly requests: number;
  readonly rows: number;
}

/**
 * Starts the built daemon against a sandbox of 500 markets, all streams on, and reads its resident
 * memory from its own metrics. Options: --seconds (default 180), --markets (default 500),
 * --requests-per-s (default 50).
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
  const { program, ready } = await startSandbox([
    ...['--backend', 'tape', '--no-rate-limit', '--start-offset', '5m'],
    ...names.flatMap((name) => ['--market', name]),
  ]);
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
    const shown = daemon.lines.stdout.find((line) => line.trimStart().startsWith('metrics'));
    const metricsUrl = shown?.trim().split(/\s+/)[1] ?? '';
    const samples: Sample[] = [];
    const startMs = systemClock.monotonicMs();
    while (systemClock.monotonicMs() - startMs < seconds * 1000) {
      // Memory is looked at every so often: it tells of no event.
      await sleep(systemClock, SAMPLE_MS);
      samples.push(await sampleOf(metricsUrl, (systemClock.monotonicMs() - startMs) / 1000));
    }
    const [stored] = await runSql<{ kinds: string; rows: string }>(
      databaseUrl,
      `SELECT string_agg(kind || ' ' || streams, ', ' ORDER BY kind) AS kinds, sum(rows)::text AS rows
       FROM (SELECT kind, count(DISTINCT stream_id) AS streams, sum(row_count) AS rows
             FROM coverage JOIN stream USING (stream_id) GROUP BY kind) AS by_kind`,
    );
    daemon.kill('SIGTERM');
    await daemon.ended();
    return reportOf(samples, markets, stored?.kinds ?? '', stored?.rows ?? '0');
  } finally {
    await daemon.dispose();
    await program.dispose();
    await postgres.stop();
  }
}

async function sampleOf(metricsUrl: string, atS: number): Promise<Sample> {
  const text = await (await fetch(metricsUrl)).text();
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))].reduce(
      (total, [, value]) => total + Number(value),
      0,
    );
  return {
    atS,
    residentMb: sum('process_resident_memory_bytes') / 1e6,
    heapMb: sum('nodejs_heap_size_used_bytes') / 1e6,
    requests: sum('tapekeep_requests_total'),
    rows: sum('tapekeep_archive_rows_total'),
  };
}

function reportOf(
  samples: readonly Sample[],
  markets: number,
  kinds: string,
  rows: string,
): BenchReport {
  const every = Math.max(1, Math.ceil(samples.length / ROWS_SHOWN));
  const whole = (value: number) => value.toFixed(0);
  const lines = samples
    .filter((_, at) => at % every === every - 1)
    .map((one) => [one.atS, one.residentMb, one.heapMb, one.requests, one.rows].map(whole));
  const third = Math.floor(samples.length / 3);
  const resident = samples.map((one) => one.residentMb);
  const middleMb = median(resident.slice(third, 2 * third));
  const lastMb = median(resident.slice(2 * third));
  const peakMb = Math.max(...resident);
  const table = [
    tableOf([['seconds', 'RSS MB', 'heap MB', 'requests', 'rows given'], ...lines]),
    `${markets} markets; covered streams: ${kinds}; ${rows} rows under coverage`,
    `peak ${whole(peakMb)} MB of ${LIMIT_MB}; middle third ${whole(middleMb)} MB, last third ${whole(lastMb)} MB`,
  ].join('\n');
  const ratio = { limit: round(LIMIT_MB / peakMb), flat: round(middleMb / lastMb) };
  return { table, figures: { ratio, peakMb: round(peakMb), middleMb, lastMb, markets } };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
