import assert from 'node:assert/strict';
import test from 'node:test';
import { DAY_MS, FIRST_MS, live, openSealingWorld } from '../support/worlds/sealing-world.js';

test('what has left the database is not judged by rows that are not there', async (t) => {
  const world = await openSealingWorld(t);
  const { store } = world;
  const kline = await store.ensureStream({ kind: 'candles', marketId: 1, variant: 3600 });
  const whole = { fromMs: FIRST_MS, toMs: FIRST_MS + 3 * DAY_MS };
  await store.commit({ claims: [{ stream: kline, span: whole, evidence: {} }] });
  const [target] = await store.checks.targets();
  assert.ok(target !== undefined);
  const first = { fromMs: FIRST_MS, toMs: FIRST_MS + DAY_MS };
  const rest = { ...whole, fromMs: first.toMs };
  const provable = async () =>
    (await store.checks.figures(target, kline, first)).filter(({ hasTrades }) => hasTrades);
  assert.equal((await provable()).length, 24);
  assert.deepEqual(await store.checks.expected(target, kline), [whole]);
  const { outcomes } = await live(world, {
    rules: { coldAfterMs: DAY_MS, needsChecks: false },
    isChosen: ({ table, span }) => table === 'trade' && span.fromMs === FIRST_MS,
  });
  assert.equal(outcomes.at(-1)?.became, 'archived');
  assert.deepEqual(await provable(), []);
  assert.deepEqual(await store.checks.expected(target, kline), [rest]);
  assert.deepEqual(await store.checks.pending(10), [{ marketId: 1, intervalS: 3600, span: rest }]);
});
