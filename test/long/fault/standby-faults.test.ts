import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { systemClock } from '../../../src/kernel/clock.js';
import { migrate } from '../../../src/store/index.js';
import { makeDatabase, runSql, withDatabase } from '../../support/postgres/postgres.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import { type BareServer, openServers, startStandby } from '../../support/postgres/standby.js';
import { Program } from '../../support/programs/program.js';
import { StandbyWorld } from '../../support/worlds/standby-world.js';

/** Two daemons of one archive, and faults of what is around them. The exchange is the judge. */

/** A market that trades every second or two. */
const BUSY = { TAPEKEEP_MARKETS: 'BTC_USDT' };

/** Beats of the holder, as the database counts them. */
async function beats(url: string): Promise<number> {
  const [row] = await runSql<{ n: number }>(url, 'SELECT sum(beat)::int AS n FROM writer_beat');
  return row?.n ?? 0;
}

test('no states are missing after a kill: a standby keeps its connections open', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const first = world.start(BUSY);
  await world.holds(first);
  await world.statesAfter(first, 0);
  const alone = world.connections;
  const second = world.start(BUSY);
  await world.standsBy(second);
  await second.until(async () => world.connections === 2 * alone);
  // Whatever was pushed since then, both of them received.
  const openedMs = Date.now();
  await world.statesAfter(first, openedMs);
  first.kill('SIGKILL');
  await world.holds(second);
  await world.statesAfter(second, Date.now());
  assert.equal(await world.gapMs(), 0);
  await world.isWholeUntil(second, Date.now());
  await world.judge(second);
});

test('a holder that is cut off from the exchange keeps the archive', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const { TAPEKEEP_EXCHANGE_URL: exchangeUrl = '', TAPEKEEP_REALTIME_URL: realtimeUrl = '' } =
    world.addresses;
  const proxy = new PostgresProxy(exchangeUrl);
  t.after(() => proxy.stop());
  const throughUrl = await proxy.start();
  const through = (url: string) => Object.assign(new URL(url), { port: new URL(throughUrl).port });
  const first = world.start({
    ...BUSY,
    TAPEKEEP_EXCHANGE_URL: throughUrl,
    TAPEKEEP_REALTIME_URL: through(realtimeUrl).href,
  });
  await world.holds(first);
  await world.statesAfter(first, 0);
  const second = world.start(BUSY);
  await world.standsBy(second);
  await first.until(async () => (await beats(world.databaseUrl)) > 0);
  const cutMs = Date.now();
  proxy.retarget(undefined);
  proxy.endAll();
  assert.ok(proxy.fired > 0, 'connections were really cut');
  // A silent holder would have lost the archive by then.
  const before = await beats(world.databaseUrl);
  await first.until(async () => (await beats(world.databaseUrl)) > before + 9);
  const heldS = Math.round((Date.now() - cutMs) / 1000);
  proxy.retarget(exchangeUrl);
  await world.statesAfter(first, Date.now());
  await world.isWholeUntil(first, Date.now());
  t.diagnostic(`cut for ${heldS} s, gap in states ${Math.round(await world.gapMs())} ms`);
  assert.equal(second.text('stderr').includes('archive taken'), false);
  const gaps = await runSql<{ reason: string }>(
    world.databaseUrl,
    `SELECT DISTINCT reason FROM gap JOIN stream USING (stream_id) WHERE kind = 'states'`,
  );
  assert.deepEqual(gaps, [{ reason: 'no connection' }]);
  world.assertWithinLimit();
  await world.judge(first);
});

test('a promoted server without the last commits changes nothing of a takeover', async (t) => {
  const { folder, primary, servers } = await openServers(t);
  const urlOf = ({ url }: BareServer) => withDatabase(url, 'archive');
  await runSql(primary.url, 'CREATE DATABASE archive');
  await migrate({ databaseUrl: urlOf(primary) });
  const proxy = new PostgresProxy(urlOf(primary));
  t.after(() => proxy.stop());
  const world = await StandbyWorld.open(t, await proxy.start());
  const first = world.start(BUSY);
  await world.holds(first);
  await world.isWholeUntil(first, Date.now());
  const second = world.start(BUSY);
  await world.standsBy(second);
  const copy = await startStandby(primary, join(folder, 'copy'));
  servers.push(copy.server);
  await copy.cutOff();
  const from = await beats(world.databaseUrl);
  const sinceMs = Date.now();
  await world.storesAfter(first, sinceMs);
  await first.until(async () => (await beats(world.databaseUrl)) > from + 3);
  first.kill('SIGSTOP');
  // The standby counts the silence of the frozen one while its server goes.
  proxy.retarget(undefined);
  await primary.kill();
  await copy.server.promote();
  proxy.endAll();
  proxy.retarget(urlOf(copy.server));
  await world.holds(second);
  await world.isWholeUntil(second, Date.now());
  first.kill('SIGCONT');
  await world.standsBy(first);
  await world.isWholeUntil(second, Date.now());
  const [row] = await runSql<{ n: number }>(
    world.databaseUrl,
    'SELECT count(*)::int AS n FROM trade WHERE received_at BETWEEN to_timestamp($1 / 1000.0) AND now()',
    [sinceMs],
  );
  assert.ok((row?.n ?? 0) > 0, 'fetched again');
  await world.judge(second);
});

test('clocks of the daemons that are an hour apart change nothing', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const preload = join(import.meta.dirname, '../../support/programs/hour-ahead.mjs');
  const off = (hours: number) => ({
    NODE_OPTIONS: `--import=${pathToFileURL(preload).href}`,
    HOURS_AHEAD: `${hours}`,
  });
  const first = world.start();
  await world.holds(first);
  await world.storesAfter(first, 0);
  const ahead = world.start(off(1));
  await world.standsBy(ahead);
  const frozenMs = systemClock.monotonicMs();
  first.kill('SIGSTOP');
  await world.holds(ahead);
  t.diagnostic(`lock ${Math.round(systemClock.monotonicMs() - frozenMs)} ms after the stop`);
  await world.isWholeUntil(ahead, Date.now());
  const [row] = await runSql<{ n: number }>(
    world.databaseUrl,
    `SELECT count(*)::int AS n FROM trade WHERE received_at > now() + interval '50 minutes'`,
  );
  assert.ok((row?.n ?? 0) > 0, 'its clock is really ahead');
  first.kill('SIGCONT');
  await world.standsBy(first);
  const behind = world.start(off(-1));
  await world.standsBy(behind);
  first.kill('SIGKILL');
  ahead.kill('SIGKILL');
  await world.holds(behind);
  await world.isWholeUntil(behind, Date.now());
  world.assertWithinLimit();
  await world.judge(behind);
});

test('readyz, status and doctor name holder and standby', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const first = world.start(BUSY);
  await world.holds(first);
  await world.storesAfter(first, 0);
  const second = world.start(BUSY);
  await world.standsBy(second);
  const [holder, standby] = [first, second].map(({ pid }) => `${hostname()} (process ${pid}`);
  const page = await second.page();
  const answer = await fetch(`${page}/readyz`);
  assert.equal(answer.status, 200);
  const { state, checks } = (await answer.json()) as {
    state: string;
    checks: { name: string; detail?: string }[];
  };
  assert.equal(state, 'standby');
  const { detail = '' } = checks.find(({ name }) => name === 'standby') ?? {};
  assert.ok(detail.includes(`${holder})`), detail);
  assert.equal((await fetch(`${page}/healthz`)).status, 200);
  const said = async (command: string) => {
    const program = new Program([command], { env: { ...BUSY, ...world.addresses } });
    t.after(() => program.dispose());
    await program.ended();
    return program.text('stdout');
  };
  const status = await said('status');
  assert.ok(status.includes(`Held by: ${holder}).`), status);
  assert.ok(status.includes(`Standing by: ${standby}, version `), status);
  const doctor = await said('doctor');
  assert.ok(doctor.includes(`a daemon on ${holder}) collects into it`), doctor);
  assert.ok(doctor.includes(`${standby}, version `), doctor);
  assert.match(doctor, / stands by$/m);
});
