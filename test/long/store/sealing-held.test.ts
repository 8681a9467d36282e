import assert from 'node:assert/strict';
import test from 'node:test';
import { findHeld } from '../../../src/archive/sealing/plan.js';
import { trade } from '../../support/postgres/postgres-rows.js';
import { openSql } from '../../support/postgres/postgres-server.js';
import { pointCold } from '../../support/worlds/cold-stand-in.js';
import {
  ALL_AT_ONCE,
  DAY_MS,
  FIRST_MS,
  LATER_MS,
  live,
  openSealingWorld,
  threeDays,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';

const COLD = { coldAfterMs: DAY_MS };

test('collecting goes on while an analyst holds a series that is to be archived', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  await live(world);
  const address = new URL(url);
  address.searchParams.set('application_name', 'a notebook');
  const analyst = await openSql(address.href);
  await analyst.run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM trade');
  const [{ pid } = { pid: 0 }] = await analyst.run<{ pid: number }>(
    'SELECT pg_backend_pid() AS pid',
  );

  // The writer commits all the while, and each commit waits for one try of the switch at most.
  const atS = LATER_MS / 1000 - 3600;
  let tid = 10_000;
  let slowestMs = 0;
  let isOver = false;
  const collecting = (async () => {
    while (!isOver) {
      tid += 1;
      const startMs = performance.now();
      await store.commit({ trades: [trade(tid, 0, { tradedAtS: atS + tid })] });
      slowestMs = Math.max(slowestMs, performance.now() - startMs);
    }
  })();
  const { outcomes } = await live(world, { rules: COLD });
  isOver = true;
  await collecting;
  assert.deepEqual(
    outcomes.map(({ became }) => became),
    ['kept'],
  );
  const named = new RegExp(`process ${pid} \\(a notebook, user \\w+, idle in transaction`);
  assert.match(outcomes[0]?.note ?? '', named);
  assert.ok(tid > 10_010, `${tid - 10_000} commits`);
  assert.ok(slowestMs < 2_000, `a commit took ${slowestMs} ms`);

  // It is told of as long as it lasts.
  const rules = { ...ALL_AT_ONCE, ...COLD };
  const held = () => findHeld(store, rules, { nowMs: LATER_MS, wallMs: LATER_MS });
  const [one, ...others] = await held();
  assert.deepEqual([one?.partition, others], ['trade_20260113', []]);
  assert.match(one?.heldBy[0] ?? '', named);
  await analyst.run('COMMIT');
  await analyst.end();
  assert.deepEqual(await held(), []);
  await live(world, { rules: COLD });
  const states = (await tradePartitions(store)).map(({ state }) => state);
  assert.deepEqual(states, ['archived', 'archived', 'archived', 'hot']);
});

test('the writer and its readers open no archived partition', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  await live(world);
  const [first, second] = await tradePartitions(store);
  const isChosen = ({ name }: { readonly name: string }) => name === second?.name;
  // The store of a collector, which knows the day as one that takes rows.
  const { outcomes } = await live(world, { rules: COLD, isChosen });
  assert.deepEqual(
    outcomes.map(({ became }) => became),
    ['archived'],
  );
  const nowhere = new URL(url);
  nowhere.port = '1';
  await pointCold(url, nowhere.href);
  const at = (partition: typeof first, s: number) => (partition?.span.fromMs ?? 0) / 1000 + s;
  const signal = AbortSignal.timeout(20_000);
  // Days on both sides of it, a second before its border among them, and times that are learned there.
  const known = threeDays().filter(({ executedAtUs }) => executedAtUs === null);
  const learned = known.map((row) => ({ ...row, executedAtUs: row.tradedAtS * 1_000_000 }));
  const around = [at(first, 86_399), at(second, 86_400)];
  const added = around.map((tradedAtS, n) => trade(90_000 + n, 0, { tradedAtS }));
  const inside = trade(95_000, 0, { tradedAtS: at(second, 30) });
  const { outcomes: counted } = await store.commit(
    { trades: [...learned, ...added, inside] },
    { signal },
  );
  const archived = known.filter(
    ({ tradedAtS }) => tradedAtS >= at(second, 0) && tradedAtS < at(second, 86_400),
  );
  assert.ok(archived.length > 0 && archived.length < known.length);
  assert.deepEqual(
    { ...counted.trade },
    {
      ...{ stored: 2, updated: known.length - archived.length, conflict: 0, rejected: 0 },
      duplicate: archived.length + 1,
    },
    'of covered time that has left all rows count as repetitions',
  );
  const found = await store.storedTrades(1, { fromMs: FIRST_MS, toMs: LATER_MS }, 1_000);
  assert.ok(found.length > 0 && found.every(({ tradedAtS }) => tradedAtS < at(second, 0)));
  assert.equal(await store.hasTradeBefore(1, LATER_MS), true);
  const whole = { fromMs: FIRST_MS, toMs: FIRST_MS + 3 * DAY_MS };
  const slots = await store.tradedSlots(1, [whole], DAY_MS);
  assert.deepEqual([slots.traded.length, slots.left.length], [2, 1]);
});
