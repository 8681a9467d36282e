import assert from 'node:assert/strict';
import test from 'node:test';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { Program } from '../../support/programs/program.js';
import { StandbyWorld } from '../../support/worlds/standby-world.js';

/** Three daemons of one archive, each with a share of the markets. The exchange is the judge. */

const start = (world: StandbyWorld, share: string) =>
  world.start({ TAPEKEEP_COLLECTOR_SHARE: share });

const OPEN_SESSIONS = `
  SELECT m.name, s.session_id::int AS id FROM session s JOIN market m USING (market_id)
  WHERE s.closed_at IS NULL ORDER BY m.name`;

/** A standby that shares the machine with six other processes of the test takes somewhat longer than 7 s. */
const TAKEN_WITHIN_MS = 12_000;

test('three shares collect all markets, and a standby goes on with a killed one', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const holders = ['1/3', '2/3', '3/3'].map((share) => start(world, share));
  const [first, second, third] = holders as [Program, Program, Program];
  for (const holder of holders) await world.holds(holder);
  const spare = start(world, '2/3');
  await world.standsBy(spare);
  await world.statesAfter(second, Date.now());
  await world.isWholeUntil(second, Date.now());
  const markets = await runSql<{ name: string; kinds: string }>(
    world.databaseUrl,
    `SELECT m.name, string_agg(DISTINCT s.kind, ' ' ORDER BY s.kind) AS kinds
     FROM market m JOIN stream s USING (market_id) GROUP BY 1 ORDER BY 1`,
  );
  const kinds = 'candles depth states tickers trades';
  assert.deepEqual(
    markets,
    ['BTC_USDT', 'ETH_BTC', 'ETH_USDT', 'LTC_USDT'].map((name) => ({ name, kinds })),
  );
  const before = await sessions(world);

  const killedMs = Date.now();
  second.kill('SIGKILL');
  await world.holds(spare);
  const tookMs = Date.now() - killedMs;
  t.diagnostic(`share 2 taken ${tookMs} ms after the kill`);
  assert.ok(tookMs < TAKEN_WITHIN_MS, `${tookMs} ms`);
  await world.statesAfter(spare, Date.now());
  await world.isWholeUntil(spare, Date.now());
  const after = await sessions(world);
  // ETH_BTC is of share 2.
  for (const market of ['BTC_USDT', 'ETH_USDT', 'LTC_USDT']) {
    assert.equal(after.get(market), before.get(market), `${market} was not disturbed`);
  }
  assert.notEqual(after.get('ETH_BTC'), before.get('ETH_BTC'));
  for (const other of [first, third]) {
    assert.doesNotMatch(other.text('stderr'), /archive lost|older than it was left/);
  }
  await world.judge(first, spare, third);
});

test('a daemon of another number of shares is refused', async (t) => {
  const world = await StandbyWorld.open(t, await makeDatabase());
  const holder = start(world, '1/2');
  await world.holds(holder);
  for (const share of ['2/3', '']) {
    const other = start(world, share);
    assert.equal((await other.ended()).code, 3, other.dump());
    assert.match(other.text('stderr'), /which is divided into 2: give all daemons the same number/);
  }
  await world.storesAfter(holder, 0);
  const env = { TAPEKEEP_DATABASE_URL: world.databaseUrl };
  const status = new Program(['status'], { env });
  t.after(() => status.dispose());
  await status.ended();
  assert.match(status.text('stdout'), /^Share 1\/2: held by .+ \(process \d+\)\.$/m);
  assert.match(status.text('stdout'), /^Share 2\/2: no daemon collects it\./m);
  await holder.until(async () => {
    const ready = await (await fetch(`${await holder.page()}/readyz`)).text();
    return ready.includes('no daemon collects share 2/2 of the markets');
  });
  const handover = new Program(['handover'], { env: { ...env, TAPEKEEP_COLLECTOR_SHARE: '2/2' } });
  t.after(() => handover.dispose());
  assert.notEqual((await handover.ended()).code, 0);
  assert.match(handover.text('stderr'), /no daemon of share 2\/2 stands by/);
  await world.judge(holder);
});

async function sessions(world: StandbyWorld): Promise<ReadonlyMap<string, number>> {
  const rows = await runSql<{ name: string; id: number }>(world.databaseUrl, OPEN_SESSIONS);
  return new Map(rows.map(({ name, id }) => [name, id]));
}
