import assert from 'node:assert/strict';
import test, { suite, type TestContext } from 'node:test';
import {
  expectedTrades,
  isCovered,
  makeTrades,
  type RecordedTrade,
  storedTrades,
  tapeLines,
} from '../../support/exchanges/recorded.js';
import { writeTape } from '../../support/exchanges/tape-exchange.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { drawsOfRun } from '../../support/seeds.js';

/**
 * The main job with real processes: a sandbox plays a tape of our own making at many times its
 * pace, the daemon collects it, and the archive must equal the tape.
 */
const START_S = 1_760_000_000;
const SECONDS = 200;
const SPEED = 20;

async function play(t: TestContext, seed: number) {
  const trades = makeTrades({ seed, seconds: SECONDS, startS: START_S, flood: 1300 });
  const tape = await writeTape(t, tapeLines(trades));
  const { program, ready } = await startSandbox([
    ...['--tape', tape, '--market', 'BTC_USDT', '--speed', String(SPEED)],
    ...['--start-offset', '20s', '--no-rate-limit'],
  ]);
  t.after(() => program.dispose());
  const databaseUrl = await makeDatabase('empty');
  const env = {
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
    TAPEKEEP_DATABASE_URL: databaseUrl,
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '40',
    TAPEKEEP_STREAMS_TRADES_SCHEDULE: '* * * * * *',
    TAPEKEEP_HTTP_PORT: '0',
  };
  const args = ['--log-level', 'debug', '--log-format', 'json', 'start'];
  const startDaemon = () => {
    const daemon = new Program(args, { env });
    t.after(() => daemon.dispose());
    return daemon;
  };
  return { trades, databaseUrl, startDaemon };
}

/** From here on all is proven: nothing proves that the exchange still has all of its oldest second. */
const provenFromMs = ([oldest]: readonly RecordedTrade[]) =>
  (Math.floor((oldest?.timeMs ?? 0) / 1000) + 1) * 1000;

/** Everything is covered from the tape's second second to beyond its last, with exact times. */
async function isWhole(databaseUrl: string, trades: readonly RecordedTrade[]): Promise<boolean> {
  const fromMs = provenFromMs(trades);
  const toMs = (trades.at(-1)?.timeMs ?? 0) + 1000;
  if (!(await isCovered(databaseUrl, 'trades', fromMs, toMs))) return false;
  // Exact times follow once nothing is missing.
  const untimed = 'SELECT FROM trade WHERE executed_at IS NULL AND traded_at >= to_timestamp($1)';
  if ((await runSql(databaseUrl, untimed, [fromMs / 1000])).length > 0) return false;
  // A page may have ended within the oldest second, of which nothing is proven.
  const [stored] = await runSql<{ rows: number }>(
    databaseUrl,
    'SELECT count(*)::int AS rows FROM trade',
  );
  return stored?.rows === trades.length;
}

async function assertEqualsTape(databaseUrl: string, trades: readonly RecordedTrade[]) {
  assert.deepEqual(await storedTrades(databaseUrl, 'BTC_USDT'), expectedTrades(trades));
  const [coverage] = await runSql<{ rows: string }>(
    databaseUrl,
    `SELECT count(*)::text AS rows FROM trade t
     WHERE EXISTS (SELECT FROM coverage c JOIN stream s USING (stream_id)
                   WHERE s.kind = 'trades' AND c.market_id = t.market_id AND c.span @> t.traded_at)`,
  );
  const proven = trades.filter(({ timeMs }) => timeMs >= provenFromMs(trades));
  assert.equal(coverage?.rows, String(proven.length), 'what is proven is covered');
}

/** Most of their time they wait. */
suite('a tape played to a daemon', { concurrency: 2 }, () => {
  test('a tape with a second longer than a page is stored whole, each field exact', async (t) => {
    const { trades, databaseUrl, startDaemon } = await play(t, 11);
    const daemon = startDaemon();
    await daemon.line((line) => line.includes('"started"'));
    await daemon.until(() => isWhole(databaseUrl, trades));
    daemon.kill('SIGTERM');
    assert.deepEqual(await daemon.ended(), { code: 0, signal: null });
    await assertEqualsTape(databaseUrl, trades);
  });

  test('killed at random moments and started again, the archive still equals the tape', async (t) => {
    const random = drawsOfRun(t);
    const { trades, databaseUrl, startDaemon } = await play(t, 12);
    for (let kill = 0; kill < 6; kill += 1) {
      const daemon = startDaemon();
      let commits = 1 + Math.floor(random() * 6);
      await daemon.line((line) => {
        if (line.includes('"committed"')) commits -= 1;
        return commits === 0;
      });
      daemon.kill('SIGKILL');
      assert.equal((await daemon.ended()).signal, 'SIGKILL');
    }
    const daemon = startDaemon();
    await daemon.line((line) => line.includes('"started"'));
    await daemon.until(() => isWhole(databaseUrl, trades));
    daemon.kill('SIGTERM');
    assert.deepEqual(await daemon.ended(), { code: 0, signal: null });
    await assertEqualsTape(databaseUrl, trades);
  });
});
