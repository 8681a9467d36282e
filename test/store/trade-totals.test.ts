import assert from 'node:assert/strict';
import test from 'node:test';
import { multiplyDecimals } from '../../src/kernel/decimal.js';
import { runSql } from '../support/postgres/postgres.js';
import { NOON_S, trade } from '../support/postgres/postgres-rows.js';
import { openWithStreams } from '../support/worlds/store-world.js';

const [price, amount] = ['0.05065949', '0.01854886'];
/** As computed where a server leaves it out, and as servers round it at the other endpoint. */
const exact = multiplyDecimals(price, amount);
const rounded = '0.00093968';
const executedAtUs = NOON_S * 1_000_000 + 5;

test('a total that was left out and one that is rounded tell one trade, whichever comes first', async () => {
  const { store, url } = await openWithStreams();
  const told = (tid: number) => trade(tid, 0, { price, amount, total: rounded });
  const computed = (tid: number) => trade(tid, 0, { price, amount, total: exact, executedAtUs });
  await store.commit({ trades: [told(1), computed(2)] });
  const { outcomes } = await store.commit({ trades: [computed(1), told(2)] });
  assert.deepEqual([outcomes.trade.updated, outcomes.trade.duplicate], [1, 1]);
  // The same in one batch.
  const both = await store.commit({ trades: [told(3), computed(3), computed(4), told(4)] });
  assert.deepEqual(
    [both.outcomes.trade.stored, both.outcomes.trade.conflict, both.outcomes.trade.duplicate],
    [2, 0, 2],
  );
  const rows = await runSql(
    url,
    'SELECT tid::int, total::text, executed_at IS NULL AS late FROM trade ORDER BY tid',
  );
  assert.deepEqual(
    rows,
    [rounded, exact, exact, exact].map((total, at) => ({ tid: at + 1, total, late: false })),
  );
});

test('a total that is no rounding of the product contradicts the trade', async () => {
  const { store } = await openWithStreams();
  await store.commit({ trades: [trade(1, 0, { price, amount, total: exact })] });
  for (const total of ['0.00093970', '0.00094968', '1.00093968']) {
    const { outcomes } = await store.commit({ trades: [trade(1, 0, { price, amount, total })] });
    assert.equal(outcomes.trade.conflict, 1, total);
    const both = [
      trade(9, 5, { price, amount, total: exact }),
      trade(9, 5, { price, amount, total }),
    ];
    const second = await store.commit({ trades: both });
    assert.equal(second.outcomes.trade.conflict, 1, total);
  }
  // Two told totals, neither of which is the product: it is not known which is true.
  await store.commit({ trades: [trade(2, 0, { total: '200.9' })] });
  const { outcomes } = await store.commit({ trades: [trade(2, 0, { total: '200.99' })] });
  assert.equal(outcomes.trade.conflict, 1);
});
