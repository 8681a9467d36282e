import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import { makeTempDir } from '../../support/postgres/postgres-server.js';
import { askControl } from '../../support/programs/control.js';
import { readMetrics } from '../../support/programs/metrics-page.js';
import { Program, startSandbox } from '../../support/programs/program.js';

/**
 * The database of a daemon goes away while the exchange pushes; what is stored afterwards is judged by what the exchange
 * knows. Another client of it would be pushed other moments.
 */

const LIMIT = { timeout: 300_000 };
const MARKET = 'BTC_USDT';
/** States that are pushed before the database is back, or the daemon is killed: some ten seconds of them. */
const PUSHED = 12;
/** Quiet growth of coverage is written this often; a kill forgets no more. */
const UNWRITTEN_MS = 6_000;

interface World {
  readonly url: string;
  readonly exchangeUrl: string;
  readonly proxy: PostgresProxy;
  start(): Program;
}

async function openWorld(t: TestContext): Promise<World> {
  const { program, ready } = await startSandbox(['--seed', '5', '--no-rate-limit', '--control']);
  t.after(() => program.dispose());
  const cwd = await makeTempDir();
  t.after(() => rm(cwd, { recursive: true, force: true }));
  const url = await makeDatabase('empty');
  const proxy = new PostgresProxy(url);
  t.after(() => proxy.stop());
  const settings = {
    TAPEKEEP_DATABASE_URL: await proxy.start(),
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '40',
    TAPEKEEP_MARKETS: MARKET,
    TAPEKEEP_HTTP_PORT: '0',
  };
  const start = () => {
    const args = ['--log-level', 'debug', '--log-format', 'json', 'start'];
    const daemon = new Program(args, { cwd, env: settings });
    t.after(() => daemon.dispose());
    return daemon;
  };
  return { url, exchangeUrl: ready.url, proxy, start };
}

const LIVE = ['depth', 'states', 'tickers'];
const BEGUN = `
  SELECT DISTINCT kind FROM coverage JOIN stream USING (stream_id) WHERE kind = ANY ($1)`;

/** Live streams that one range covers from one time to the other, whole. */
async function coveredKinds(url: string, fromMs: number, toMs: number): Promise<string[]> {
  const rows = await runSql<{ kind: string }>(
    url,
    `SELECT DISTINCT kind FROM coverage JOIN stream USING (stream_id)
     WHERE kind = ANY ($1) AND span @> tstzrange(to_timestamp($2 / 1000.0), to_timestamp($3 / 1000.0))
     ORDER BY kind`,
    [LIVE, fromMs, toMs],
  ).catch(() => []);
  return rows.map(({ kind }) => kind);
}

/** Takes the database away, and waits until so many states are pushed. @returns when it went */
async function cut(daemon: Program, { url, proxy }: World): Promise<number> {
  await daemon.line((line) => line.includes('"committed"'));
  await daemon.until(async () => {
    const kinds = await runSql(url, BEGUN, [LIVE]).catch(() => []);
    return kinds.length === LIVE.length;
  });
  const cutMs = systemClock.wallMs();
  proxy.retarget(undefined);
  proxy.endAll();
  await daemon.line((line) => line.includes('spool: database takes nothing'));
  const before = await statesOf(daemon);
  await daemon.until(async () => (await statesOf(daemon)) >= before + PUSHED);
  assert.ok(proxy.fired > 0);
  return cutMs;
}

async function statesOf(daemon: Program): Promise<number> {
  return (await readMetrics(daemon)).sum('tapekeep_rows_received_total', 'states');
}

async function keptBy(daemon: Program): Promise<number> {
  return (await readMetrics(daemon)).sum('tapekeep_spool_batches_total', 'outcome="kept"');
}

/** Every state is what the exchange's trades allow at its time, and none of the pushed ones is missing. */
async function judgeStates({ url, exchangeUrl }: World, fromMs: number, toMs: number) {
  const window = `from=${(fromMs - 60_000) / 1000}&to=${(toMs + 5_000) / 1000}&limit=10000`;
  const path = `sandbox/truth?market=${MARKET}&${window}`;
  const { text } = await askControl(exchangeUrl, path);
  const trades = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { readonly timeUs: number; readonly price: string })
    .map(({ timeUs, price }) => ({ ms: timeUs / 1000, price: Number(price) }));
  const states = await runSql<{ ms: number; last: string }>(
    url,
    `SELECT (extract(epoch FROM observed_at) * 1000)::float8 AS ms, last::text AS last FROM market_state
     WHERE observed_at BETWEEN to_timestamp($1 / 1000.0) AND to_timestamp($2 / 1000.0) ORDER BY 1`,
    [fromMs, toMs],
  );
  assert.ok(states.length > 1, `${states.length} states while it was away`);
  for (const { ms, last } of states) {
    const before = trades.findLast((one) => one.ms <= ms - 3_000);
    const possible = trades.filter((one) => one.ms > ms - 3_000 && one.ms <= ms + 1_000);
    const prices = [before, ...possible].map((one) => one?.price);
    assert.ok(prices.includes(Number(last)), `${last} at ${ms}, and the exchange had ${prices}`);
  }
  const pushed = trades.filter((one) => one.ms >= fromMs && one.ms <= toMs - 5_000);
  assert.ok(pushed.length > 0);
  const unseen = pushed.filter(
    (one) => !states.some(({ ms }) => ms >= one.ms - 1_000 && ms <= one.ms + 5_000),
  );
  assert.deepEqual(unseen, [], 'a covered time has the states that were pushed in it');
}

/** No claim without its rows, none of a time that has not come, and no row twice. */
async function judgeLedger({ url }: World) {
  const [faults] = await runSql(
    url,
    `SELECT (SELECT count(*)::int FROM coverage WHERE upper(span) > now() + interval '2 s') AS future,
       (SELECT count(*)::int FROM coverage c JOIN stream s USING (stream_id)
        WHERE s.kind = 'states' AND NOT EXISTS (
          SELECT FROM market_state m WHERE m.market_id = s.market_id AND m.observed_at <@ c.span)) AS empty,
       (SELECT count(*)::int FROM coverage c JOIN stream s USING (stream_id)
        WHERE s.kind = 'states' AND NOT EXISTS (
          SELECT FROM session o WHERE o.session_id::text = c.evidence ->> 'session')) AS strangers,
       (SELECT count(*)::int FROM session o JOIN market_state m USING (session_id)
        WHERE m.origin = 'update' AND m.observed_at NOT BETWEEN o.connected_at AND coalesce(o.closed_at, 'infinity')) AS outside,
       (SELECT count(*)::int - count(DISTINCT (session_id, seq))::int FROM market_state) AS twice`,
  );
  assert.deepEqual(faults, { future: 0, empty: 0, strangers: 0, outside: 0, twice: 0 });
}

test('while the database is away everything that is seen is kept, and stored', LIMIT, async (t) => {
  const world = await openWorld(t);
  const daemon = world.start();
  const cutMs = await cut(daemon, world);
  const backMs = systemClock.wallMs();
  world.proxy.retarget(world.url);
  await daemon.line((line) => line.includes('spool: empty'));
  await daemon.until(
    async () => (await coveredKinds(world.url, cutMs - 1, backMs)).length === LIVE.length,
  );
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  await judgeStates(world, cutMs, backMs);
  await judgeLedger(world);
  t.diagnostic(`away for ${backMs - cutMs} ms`);
});

test('what was kept when the daemon was killed is stored at the next start', LIMIT, async (t) => {
  const world = await openWorld(t);
  const first = world.start();
  const cutMs = await cut(first, world);
  const kept = await keptBy(first);
  const killedMs = systemClock.wallMs();
  first.kill('SIGKILL');
  await first.ended();
  world.proxy.retarget(world.url);
  const next = world.start();
  await next.line((line) => line.includes('"committed"'));
  await next.until(async () => {
    const stored = (await readMetrics(next)).sum('tapekeep_spool_batches_total', 'stored');
    return stored >= kept;
  });
  assert.deepEqual(await coveredKinds(world.url, cutMs - 1, killedMs - UNWRITTEN_MS), LIVE);
  await judgeStates(world, cutMs, killedMs - UNWRITTEN_MS);
  next.kill('SIGTERM');
  assert.equal((await next.ended()).code, 0, next.dump());
  await judgeLedger(world);
  t.diagnostic(`${kept} batches kept in ${killedMs - cutMs} ms`);
});
