import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { createExchangeClient, createExchangeClock } from '../../../src/client/index.js';
import { RequestBudget } from '../../../src/kernel/budget.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { startEmbeddedPostgres } from '../../../src/store/index.js';
import { isCovered, storedTrades } from '../../support/exchanges/recorded.js';
import { noTelemetry } from '../../support/no-telemetry.js';
import { makeDatabase, quietStoreEvents, runSql } from '../../support/postgres/postgres.js';
import { makeTempDir } from '../../support/postgres/postgres-server.js';
import { Program, startSandbox } from '../../support/programs/program.js';

/**
 * One side of the daemon goes away under load and comes back; the daemon is never told to do
 * anything, and in the end nothing is missing that the exchange still serves.
 */
const MARKET = 'BTC_USDT';

/** The generated exchange of a seed and a beginning: a new process of it tells the same history. */
function sandboxArguments(originMs: number, port = 0): string[] {
  const origin = new Date(originMs).toISOString();
  return ['--port', String(port), '--seed', '5', '--origin', origin, '--no-rate-limit'];
}

/** Ten minutes of history, from a whole minute on. */
function originMs(): number {
  return Math.floor(systemClock.wallMs() / 60_000) * 60_000 - 600_000;
}

function startDaemon(t: TestContext, settings: Readonly<Record<string, string>>): Program {
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '40',
      TAPEKEEP_STREAMS_TRADES_SCHEDULE: '* * * * * *',
      TAPEKEEP_MARKETS: MARKET,
      TAPEKEEP_HTTP_PORT: '0',
      ...settings,
    },
  });
  t.after(() => daemon.dispose());
  return daemon;
}

/** All that the exchange serves of the market, by the typed client, oldest first. */
async function servedTrades(url: string) {
  const exchangeClock = createExchangeClock({ clock: systemClock });
  const client = createExchangeClient({
    baseUrl: url,
    clock: systemClock,
    random: systemRandom,
    telemetry: noTelemetry.client,
    budget: new RequestBudget({ clock: systemClock, ratePerS: 200, burst: 200, maxWaiting: 10 }),
    exchangeClock,
  });
  const trades = new Map<number, { price: string; amount: string }>();
  try {
    for (let skip = 0; ; skip += 900) {
      const { data } = await client.call('history', { market: MARKET, lastId: skip, limit: 1000 });
      for (const { id, price, amount } of data) trades.set(id, { price, amount });
      if (data.length < 1000) break;
    }
  } finally {
    await client.close();
  }
  return [...trades].sort(([a], [b]) => a - b);
}

/** Everything from the beginning of history up to `untilMs` is covered, and equals what is served. */
async function assertNothingMissing(databaseUrl: string, exchangeUrl: string, untilMs: number) {
  const served = (await servedTrades(exchangeUrl)).filter(([id]) => id > 0);
  const stored = await storedTrades(databaseUrl, MARKET);
  const bySecond = stored.filter((trade) => Number(trade.second) * 1000 < untilMs);
  const wanted = served.slice(0, bySecond.length);
  assert.ok(bySecond.length > 100, 'the exchange really traded');
  assert.deepEqual(
    bySecond.map(({ id, price, amount }) => [Number(id), { price, amount }]),
    wanted,
  );
}

const CHECK = (databaseUrl: string, fromMs: number, toMs: number) => async () =>
  await isCovered(databaseUrl, 'trades', fromMs, toMs).catch(() => false);

/** Whether the walks down have found where history begins. */
async function isBackfilled(databaseUrl: string): Promise<boolean> {
  const rows = await runSql(
    databaseUrl,
    `SELECT 1 FROM stream WHERE kind = 'trades' AND collect_from IS NOT NULL`,
  ).catch(() => []);
  return rows.length === 1;
}

/** Where coverage begins: the second after that of the first trade. */
async function provenFromMs(url: string): Promise<number> {
  const [first] = await runSql<{ ms: string }>(
    url,
    'SELECT (extract(epoch FROM min(traded_at)) * 1000)::bigint::text AS ms FROM trade',
  );
  return Number(first?.ms) + 1000;
}

test('the exchange dies and comes back: the daemon reconnects and fills what it missed', async (t) => {
  const begin = originMs();
  const databaseUrl = await makeDatabase('empty');
  const first = await startSandbox(sandboxArguments(begin));
  t.after(() => first.program.dispose());
  const { url, realtimeUrl } = first.ready;
  const daemon = startDaemon(t, {
    TAPEKEEP_DATABASE_URL: databaseUrl,
    TAPEKEEP_EXCHANGE_URL: url,
    TAPEKEEP_REALTIME_URL: realtimeUrl,
  });
  await daemon.until(() => isBackfilled(databaseUrl));
  first.program.kill('SIGKILL');
  await first.program.ended();
  const awayFromMs = systemClock.wallMs();
  // Several streams must have noticed before it comes back.
  for (const stream of ['trades', 'tickers', 'depth']) {
    await daemon.line((line) => line.includes('poll failed') && line.includes(`"${stream}"`));
  }
  const second = await startSandbox(sandboxArguments(begin, Number(new URL(url).port)));
  t.after(() => second.program.dispose());
  const backAtMs = systemClock.wallMs();
  await daemon.until(CHECK(databaseUrl, await provenFromMs(databaseUrl), backAtMs));
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0);
  await assertNothingMissing(databaseUrl, url, backAtMs);
  const gaps = await runSql<{ kind: string }>(
    databaseUrl,
    `SELECT DISTINCT kind FROM gap JOIN stream USING (stream_id)
     WHERE upper(span) > to_timestamp($1 / 1000.0) ORDER BY kind`,
    [awayFromMs],
  );
  assert.ok(
    gaps.some(({ kind }) => kind === 'states'),
    'what could not be observed meanwhile is listed as a gap',
  );
});

test('Postgres stops and starts again: the daemon waits, and stores what it could not', async (t) => {
  const dataDir = await makeTempDir();
  const open = () =>
    startEmbeddedPostgres({
      dataDir: join(dataDir, 'data'),
      clock: systemClock,
      telemetry: quietStoreEvents(),
    });
  let server = await open();
  t.after(async () => {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  const { program, ready } = await startSandbox(sandboxArguments(originMs()));
  t.after(() => program.dispose());
  const daemon = startDaemon(t, {
    TAPEKEEP_DATABASE_URL: server.url,
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
  });
  await daemon.line((line) => line.includes('"committed"'));
  for (let round = 1; round <= 3; round += 1) {
    const noticed = daemon.line(noticedNew(daemon, 'database not writable'));
    await server.stop();
    await noticed;
    const answering = daemon.line(noticedNew(daemon, 'database writable'));
    server = await open();
    await answering;
  }
  const backAtMs = systemClock.wallMs();
  // Until then the first that is stored is not the first that was traded.
  await daemon.until(() => isBackfilled(server.url));
  await daemon.until(async () => {
    const fromMs = await provenFromMs(server.url).catch(() => Number.NaN);
    return CHECK(server.url, fromMs, backAtMs)();
  });
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0);
  await assertNothingMissing(server.url, ready.url, backAtMs);
});

/** Matches lines that were not printed yet when this was called. */
function noticedNew(daemon: Program, text: string): (line: string) => boolean {
  let old = daemon.lines.stderr.length + daemon.lines.stdout.length;
  return (line) => {
    old -= 1;
    return old < 0 && line.includes(text);
  };
}
