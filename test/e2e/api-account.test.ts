import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { openLive } from '../../src/sandbox/live/open-live.js';
import { STILL_MARKET } from '../support/exchanges/live-exchange.js';
import { serve } from '../support/exchanges/served.js';
import { temporaryFolder } from '../support/exchanges/tape-exchange.js';
import { makeDatabase, runSql } from '../support/postgres/postgres.js';
import { runCommand } from '../support/programs/commands.js';
import { Program } from '../support/programs/program.js';

/** The daemon with an account at a working exchange: followed when wanted, and only then. */

const KEY = 'canary-key-90ab12';
const SECRET = 'canary-secret-34cd56';
const PRIVATE: ReadonlySet<string> = new Set(['balances', 'orders', 'orderNew']);

async function startWorld(t: TestContext, settings: Record<string, string> = {}) {
  const balances = { AAA: '1000', ZZZ: '1000' };
  const backend = await openLive(
    { runId: 'test', markets: [STILL_MARKET], keys: [{ key: KEY, secret: SECRET, balances }] },
    systemClock,
  );
  const { server, record } = await serve(t, backend, systemClock);
  const databaseUrl = await makeDatabase('empty');
  const env = {
    TAPEKEEP_EXCHANGE_URL: server.url,
    TAPEKEEP_REALTIME_URL: server.realtimeUrl,
    TAPEKEEP_DATABASE_URL: databaseUrl,
    TAPEKEEP_DATA_DIR: await temporaryFolder(t),
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50',
    TAPEKEEP_HTTP_PORT: '0',
    TAPEKEEP_LOG_LEVEL: 'trace',
    TAPEKEEP_ACCOUNT_KEY: KEY,
    TAPEKEEP_ACCOUNT_SECRET: SECRET,
    TAPEKEEP_ACCOUNT_SCHEDULE: '* * * * * *',
    ...settings,
  };
  const daemon = new Program(['start'], { env });
  t.after(() => daemon.dispose());
  return { record, databaseUrl, env, daemon };
}

async function call(env: Record<string, string>, ...args: string[]) {
  const quiet = { ...env, TAPEKEEP_LOG_LEVEL: 'error' };
  const { code, out, err } = await runCommand(['api', ...args, '--json'], quiet);
  assert.equal(code, 0, out + err);
  return JSON.parse(out) as Record<string, unknown>;
}

test('an account is followed beside a second program with its key; no secret shows', async (t) => {
  const { databaseUrl, env, daemon } = await startWorld(t, { TAPEKEEP_ACCOUNT_ENABLED: 'true' });
  const stored = (sql: string) => runSql<{ found: boolean }>(databaseUrl, sql).catch(() => []);
  const has = (sql: string) => daemon.until(async () => (await stored(sql))[0]?.found === true);
  await has("SELECT count(*) = 2 AS found FROM balance WHERE currency IN ('AAA', 'ZZZ')");
  const { orderId } = await call(
    env,
    ...['order-new', 'AAA_ZZZ', '--side', 'sell', '--price', '120.5', '--amount', '2', '--yes'],
  );
  await has(`SELECT count(*) = 1 AS found FROM active_order
             WHERE order_id = ${String(orderId)} AND left_amount = 2 AND NOT is_gone`);
  await has(`SELECT true AS found FROM balance
             WHERE currency = 'AAA' AND frozen = 2 AND available = 998`);
  await has(`SELECT count(*) = 2 AS found FROM coverage JOIN stream USING (stream_id)
             WHERE kind IN ('balances', 'orders') AND upper(span) - lower(span) > '2 s'`);
  const page = await daemon.page();
  const metrics = await (await fetch(`${page}/metrics`)).text();
  assert.match(metrics, /stream="balances"/);
  const status = await (await fetch(`${page}/status`)).text();
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  for (const text of [daemon.text('stdout'), daemon.text('stderr'), metrics, status]) {
    assert.doesNotMatch(text, /canary/);
  }
  assert.ok(daemon.lines.stderr.length > 20, 'the log was really written');
  const kept = await runSql(databaseUrl, "SELECT 1 FROM quarantine WHERE payload LIKE '%canary%'");
  assert.deepEqual(kept, []);
  const left = await readdir(join(env.TAPEKEEP_DATA_DIR, 'nonces'));
  assert.equal(left.length, 1, 'one file of nonces, no lock');
});

test('a key alone makes the daemon ask for nothing private', async (t) => {
  const { record, databaseUrl, daemon } = await startWorld(t);
  await daemon.until(async () => {
    const sql = "SELECT 1 FROM coverage JOIN stream USING (stream_id) WHERE kind = 'depth'";
    return (await runSql(databaseUrl, sql).catch(() => [])).length > 0;
  });
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  assert.ok(record.requests.length > 5);
  assert.deepEqual(
    record.requests.filter(({ endpoint }) => PRIVATE.has(endpoint)),
    [],
  );
  const streams = await runSql(
    databaseUrl,
    "SELECT 1 FROM stream WHERE kind IN ('balances', 'orders')",
  );
  assert.deepEqual(streams, []);
});
