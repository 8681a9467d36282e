import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import { seededRandom } from '../../src/kernel/random.js';
import { TAPE_HEADER } from '../../src/sandbox/tape/recorded-tape.js';
import {
  expectedTrades,
  type RecordedTrade,
  storedTrades,
  tapeLines,
} from '../support/exchanges/recorded.js';
import {
  makeTempDir,
  runSql,
  startTestPostgres,
  type TestPostgres,
  withDatabase,
} from '../support/postgres/postgres-server.js';
import { readMetrics } from '../support/programs/metrics-page.js';
import { Program, startSandbox } from '../support/programs/program.js';
import { type BenchReport, tableOf } from './report.js';

export const about =
  'coverage of a busy market behind short, cached pages: with pushed trades, and without';

/*
 * The market makes 25 trades a second; the exchange answers history in pages of a hundred rows, from a cache of
 * five seconds, and cuts all sockets each minute: what WhiteBIT documents, at its worst. Built daemons and
 * exchanges as processes of their own, both contestants side by side; all that a daemon stored and claims is
 * compared with the tape. Needs `npm run build`.
 */

const MARKET = 'BTC_USDT';
const SEED = 11;
const START_S = 1_760_000_040;
const BEGIN_S = 60;
/** What is newer than the last look is not claimed yet. */
const END_SLACK_S = 30;
const CONTESTANTS = { feed: 'auto', none: 'never' } as const;

const round = (value: number) => Math.round(value * 10_000) / 10_000;

function tapeOf(seconds: number, perS: number): RecordedTrade[] {
  const random = seededRandom(SEED);
  const trades: RecordedTrade[] = [];
  let id = 7_000_000_000;
  for (let atMs = 0; atMs < seconds * 1000; atMs += (-Math.log(1 - random()) * 1000) / perS) {
    id += 1 + Math.floor(random() * 5);
    const [price, amount] = [60_000 + Math.floor(random() * 500), 100 + Math.floor(random() * 900)];
    const side = random() < 0.5 ? 'buy' : 'sell';
    const timeMs = START_S * 1000 + Math.floor(atMs);
    trades.push({ id, timeMs, price: `${price}.5`, amount: `0.${amount}`, side });
  }
  return trades;
}

/** Rules of the sandbox: the cache, a cut of all sockets each minute, and a time without any page. */
function rulesOf(minutes: number, outageS: number): string[] {
  const at = (second: number) => new Date((START_S + BEGIN_S + second) * 1000).toISOString();
  const cuts = Array.from(
    { length: minutes },
    (_, minute) => `id=cut${minute},kind=dropSocket,from=${at((minute + 1) * 60)},maxCount=3`,
  );
  const outage = `id=outage,kind=status,where=history,from=${at(90)},to=${at(90 + outageS)}`;
  const cache = 'id=cache,kind=stale,where=history,ms=5000,oldDate=false';
  return [cache, ...cuts, ...(outageS > 0 ? [outage] : [])].flatMap((rule) => ['--fault', rule]);
}

interface Outcome {
  readonly share: number;
  readonly ranges: number;
  /** Trades of covered time that are not stored, or are otherwise than on the tape. */
  readonly wrong: number;
  /** For pages of history. */
  readonly requests: number;
  /** Real-time ones that ended. */
  readonly connections: number;
}

interface World {
  readonly postgres: TestPostgres;
  readonly tape: string;
  readonly trades: readonly RecordedTrade[];
  readonly minutes: number;
  readonly outageS: number;
}

async function measure(name: keyof typeof CONTESTANTS, world: World): Promise<Outcome> {
  const { postgres, tape, trades, minutes, outageS } = world;
  const { program: exchange, ready } = await startSandbox([
    ...['--tape', tape, '--market', MARKET, '--no-rate-limit', '--like', 'whitebit'],
    ...['--start-offset', `${BEGIN_S}s`, ...rulesOf(minutes, outageS)],
  ]);
  await runSql(postgres.url, `CREATE DATABASE ${name}`);
  const databaseUrl = withDatabase(postgres.url, name);
  const daemon = new Program(['--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
      TAPEKEEP_EXCHANGE_DIALECT: 'whitebit',
      TAPEKEEP_STREAMS_TRADES_FEED: CONTESTANTS[name],
      TAPEKEEP_DATABASE_URL: databaseUrl,
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '40',
      TAPEKEEP_STREAMS_TRADES_HISTORY: 'none',
      TAPEKEEP_STREAMS_CANDLES_HISTORY: 'none',
      TAPEKEEP_VERIFICATION_ENABLED: 'false',
      TAPEKEEP_HTTP_PORT: '0',
    },
  });
  try {
    await daemon.line((line) => line.includes('"started"'));
    // What is measured is how it goes over a stretch of real time: there is no event to wait for.
    await sleep(systemClock, (minutes * 60 + END_SLACK_S) * 1000);
    const { sum } = await readMetrics(daemon);
    const counts = {
      requests: sum('tapekeep_requests_total', 'endpoint="history"'),
      connections: sum('tapekeep_realtime_connections_closed_total'),
    };
    daemon.kill('SIGTERM');
    await daemon.ended();
    return { ...(await held(databaseUrl, trades, minutes)), ...counts };
  } finally {
    await daemon.dispose();
    await exchange.dispose();
  }
}

/** What the archive claims of the time from its first trade on, held against the tape. */
async function held(databaseUrl: string, trades: readonly RecordedTrade[], minutes: number) {
  const ranges = await runSql<Record<'fromS' | 'toS', number>>(
    databaseUrl,
    `SELECT extract(epoch FROM lower(span))::float8 AS "fromS",
            extract(epoch FROM upper(span))::float8 AS "toS"
     FROM coverage JOIN stream USING (stream_id, market_id) WHERE kind = 'trades' ORDER BY 1`,
  );
  const firstS = ranges[0]?.fromS ?? 0;
  const lastS = firstS + minutes * 60;
  const coveredS = ranges.reduce(
    (sum, { fromS, toS }) => sum + Math.max(0, Math.min(toS, lastS) - fromS),
    0,
  );
  const stored = new Map(
    (await storedTrades(databaseUrl, MARKET)).map((row) => [row.id, JSON.stringify(row)]),
  );
  const inside = trades.filter(({ timeMs }) =>
    ranges.some(({ fromS, toS }) => timeMs >= fromS * 1000 && timeMs < toS * 1000),
  );
  const wrong = expectedTrades(inside).filter((row) => stored.get(row.id) !== JSON.stringify(row));
  return { share: round(coveredS / (minutes * 60)), ranges: ranges.length, wrong: wrong.length };
}

/** @param options --minutes (default 3), --per-s trades (default 25), --outage seconds without a page of history */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      minutes: { type: 'string', default: '3' },
      'per-s': { type: 'string', default: '25' },
      outage: { type: 'string', default: '0' },
    },
  });
  const minutes = Number(values.minutes);
  const trades = tapeOf(BEGIN_S + minutes * 60 + 300, Number(values['per-s']));
  const folder = await makeTempDir();
  const tape = join(folder, 'tape.csv');
  await writeFile(tape, `${[TAPE_HEADER, ...tapeLines(trades)].join('\n')}\n`);
  const postgres = await startTestPostgres();
  try {
    const world = { postgres, tape, trades, minutes, outageS: Number(values.outage) };
    const [feed, none] = await Promise.all([measure('feed', world), measure('none', world)]);
    const rows = Object.entries({ feed, none }).map(([name, one]) =>
      [name, one.share, one.ranges, one.wrong, one.requests, one.connections].map(String),
    );
    const header = ['contestant', 'covered', 'ranges', 'wrong rows', 'requests', 'connections'];
    return {
      table: tableOf([header, ...rows]),
      figures: {
        ratio: { lost: round((1 - none.share) / Math.max(1e-4, 1 - feed.share)) },
        isKept: { coverage: feed.share >= 0.999, nothingFalse: feed.wrong + none.wrong === 0 },
        measured: { feed, none },
      },
    };
  } finally {
    await postgres.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
