import assert from 'node:assert/strict';
import test from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import { Program } from '../../support/programs/program.js';
import { StandbyWorld } from '../../support/worlds/standby-world.js';

/**
 * Two daemons of one archive, of which one holds it and the other stands by. Whatever becomes of the holder, the
 * exchange is the judge: nothing twice, no false claim, and nothing missing that it still serves.
 */

test('a standby goes on where a killed holder ended', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const first = world.start();
  await world.holds(first);
  await world.storesAfter(first, 0);
  const second = world.start();
  await world.standsBy(second);
  const killedMs = Date.now();
  first.kill('SIGKILL');
  await world.holds(second);
  const heldMs = Date.now();
  await world.storesAfter(second, heldMs);
  t.diagnostic(
    `lock ${heldMs - killedMs} ms, first row ${Date.now() - killedMs} ms after the kill`,
  );
  await world.isWholeUntil(second, Date.now());
  t.diagnostic(`longest gap in states ${await world.gapMs()} ms`);
  world.assertWithinLimit();
  await world.judge(second);
});

test('a frozen holder loses the archive, and stands by when it wakes', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const first = world.start();
  await world.holds(first);
  await world.storesAfter(first, 0);
  const second = world.start();
  await world.standsBy(second);
  // A beat must have seen it.
  await first.until(async () => (await seen(first, 'tapekeep_standbys 1')) === true);
  const frozenMs = Date.now();
  first.kill('SIGSTOP');
  await world.holds(second);
  const heldMs = Date.now();
  await world.storesAfter(second, heldMs);
  t.diagnostic(
    `lock ${heldMs - frozenMs} ms, first row ${Date.now() - frozenMs} ms after the stop`,
  );
  first.kill('SIGCONT');
  await world.standsBy(first);
  await world.isWholeUntil(second, Date.now());
  world.assertWithinLimit();
  // And back again.
  second.kill('SIGKILL');
  await world.holds(first, 2);
  await world.storesAfter(first, Date.now());
  await world.isWholeUntil(first, Date.now());
  world.assertWithinLimit();
  await world.judge(first);
});

test('of two that start at one instant one holds, the other stands by', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const both = [world.start(), world.start()] as const;
  const isHolder = await Promise.any(
    both.map(async (one, at) => {
      await world.holds(one);
      return at;
    }),
  );
  const [holder, other] = isHolder === 0 ? both : [both[1], both[0]];
  await world.standsBy(other);
  await world.storesAfter(holder, 0);
  assert.equal(other.text('stderr').includes('archive taken'), false);
  other.kill('SIGTERM');
  assert.equal((await other.ended()).code, 0, other.dump());
  await world.judge(holder);
});

test('a holder that is cut off from the database loses the archive', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const proxy = new PostgresProxy(world.databaseUrl);
  t.after(() => proxy.stop());
  const first = world.start({ TAPEKEEP_DATABASE_URL: await proxy.start() });
  await world.holds(first);
  await world.storesAfter(first, 0);
  const second = world.start();
  await world.standsBy(second);
  await first.until(async () => (await seen(first, 'tapekeep_standbys 1')) === true);
  const cutMs = systemClock.monotonicMs();
  proxy.retarget(undefined);
  proxy.goDead();
  await world.holds(second);
  t.diagnostic(`lock ${Math.round(systemClock.monotonicMs() - cutMs)} ms after the cut`);
  assert.ok(proxy.fired > 0, 'connections were really cut');
  await world.storesAfter(second, Date.now());
  proxy.retarget(world.databaseUrl);
  await world.standsBy(first);
  await world.isWholeUntil(second, Date.now());
  world.assertWithinLimit();
  const [row] = await runSql<{ n: number }>(
    world.databaseUrl,
    'SELECT count(*)::int AS n FROM writer_standby',
  );
  assert.equal(row?.n, 1, 'who holds it stands by no more');
  first.kill('SIGTERM');
  assert.equal((await first.ended()).code, 0, first.dump());
  await world.judge(second);
});

test('a handover and a stop leave no gap in states', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const first = world.start();
  await world.holds(first);
  await world.storesAfter(first, 0);
  const second = world.start();
  await world.standsBy(second);
  await first.until(async () => (await seen(first, 'tapekeep_standbys 1')) === true);
  const asking = new Program(['handover'], {
    env: { TAPEKEEP_DATABASE_URL: world.databaseUrl },
  });
  t.after(() => asking.dispose());
  const askedMs = Date.now();
  await world.holds(second);
  t.diagnostic(`handed over ${Date.now() - askedMs} ms after it was asked`);
  assert.equal((await asking.ended()).code, 0, asking.dump());
  assert.match(asking.text('stdout'), /^Handed over; .* has the archive\.$/m);
  await world.standsBy(first);
  await world.storesAfter(second, Date.now());
  await world.statesAfter(second, Date.now());
  t.diagnostic(`gap in states at the handover ${await world.gapMs()} ms`);
  await second.until(async () => (await seen(second, 'tapekeep_standbys 1')) === true);
  const stoppedMs = Date.now();
  second.kill('SIGTERM');
  assert.equal((await second.ended()).code, 0, second.dump());
  t.diagnostic(`stopped within ${Date.now() - stoppedMs} ms`);
  await world.holds(first, 2);
  await world.storesAfter(first, Date.now());
  await world.statesAfter(first, Date.now());
  t.diagnostic(`gap in states after the stop ${await world.gapMs()} ms`);
  assert.equal(await world.gapMs(), 0);
  await world.isWholeUntil(first, Date.now());
  world.assertWithinLimit();
  await world.judge(first);
});

/** Whether the metrics of a daemon have a line. */
async function seen(daemon: Parameters<StandbyWorld['holds']>[0], line: string): Promise<boolean> {
  const text = await (await fetch(`${await daemon.page()}/metrics`)).text();
  return text.split('\n').includes(line);
}
