import assert from 'node:assert/strict';
import test from 'node:test';
import { AccountCollector } from '../../src/collect/accounts.js';
import type { ParamsOf } from '../../src/contract/endpoints.js';
import type { ActiveOrder, Balance } from '../../src/contract/resources.js';
import { type ActiveOrderRow, ALL_MARKETS_ID, type BalanceRow } from '../../src/model/batch.js';
import type { Store } from '../../src/store/index.js';
import { ScriptedExchange } from '../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../support/fake-clock.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { claim, NOON_S } from '../support/postgres/postgres-rows.js';
import { CollectRecord } from '../support/worlds/collect-record.js';
import { BTC as MARKET } from '../support/worlds/store-world.js';

const NOON_MS = NOON_S * 1000;
const { signal } = new AbortController();

const balance = (currency: string, atS: number, values: Partial<BalanceRow> = {}): BalanceRow => ({
  marketId: ALL_MARKETS_ID,
  currency,
  observedAtMs: NOON_MS + atS * 1000,
  receivedAtMs: NOON_MS + atS * 1000 + 5,
  available: '1.50',
  freeze: '0',
  ...values,
});

const orderRow = (
  orderId: number,
  atS: number,
  values: Partial<ActiveOrderRow> = {},
): ActiveOrderRow => ({
  marketId: 1,
  orderId,
  observedAtMs: NOON_MS + atS * 1000,
  receivedAtMs: NOON_MS + atS * 1000 + 5,
  isGone: false,
  createdAtUs: NOON_MS * 1000 + 123_456,
  side: 'buy',
  type: 'limit',
  price: '60000.10',
  amount: '2',
  left: '2',
  dealStock: '0',
  dealMoney: '0',
  takerFee: '0.002',
  makerFee: '0.001',
  ...values,
});

const openAt = (url: string, atS: number) =>
  runSql(
    url,
    `SELECT market, order_id::int AS id, left_amount::text AS left, is_observed AS observed
     FROM orders_open_at(to_timestamp($1))`,
    [NOON_S + atS],
  );
const heldAt = (url: string, atS: number) =>
  runSql(
    url,
    `SELECT currency, available::text, frozen::text AS freeze, is_observed AS observed
     FROM balances_at(to_timestamp($1))`,
    [NOON_S + atS],
  );

test('what was open and held at a moment is answered, and whether anybody looked', async () => {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([MARKET], NOON_MS);
  const orders = await store.ensureStream({ kind: 'orders', marketId: 1, variant: 0 });
  const balances = await store.ensureStream({
    kind: 'balances',
    marketId: ALL_MARKETS_ID,
    variant: 0,
  });
  const batch = {
    orders: [orderRow(7, 0), orderRow(8, 10), orderRow(7, 20, { left: '0.5', dealStock: '1.5' })],
    balances: [balance('BTC', 0), balance('BTC', 30, { available: null, freeze: null })],
    claims: [claim(orders, 0, 60), claim(balances, 0, 60)],
  };
  const first = await store.commit(batch);
  assert.equal(first.outcomes.active_order.stored, 3);
  assert.equal(first.outcomes.balance.stored, 2);
  assert.deepEqual(
    first.ranges.map(({ rowCount }) => rowCount),
    [3, 2],
  );
  const again = await store.commit(batch);
  assert.equal(again.outcomes.active_order.duplicate, 3);
  assert.deepEqual(again.ranges, first.ranges);
  await store.commit({ orders: [orderRow(7, 40, { isGone: true })] });

  assert.deepEqual(await openAt(url, -1), []);
  assert.deepEqual(await openAt(url, 25), [
    { market: 'BTC_USDT', id: 7, left: '0.5', observed: true },
    { market: 'BTC_USDT', id: 8, left: '2', observed: true },
  ]);
  assert.deepEqual(await openAt(url, 90), [
    { market: 'BTC_USDT', id: 8, left: '2', observed: false },
  ]);
  assert.deepEqual(await heldAt(url, 29), [
    { currency: 'BTC', available: '1.50', freeze: '0', observed: true },
  ]);
  assert.deepEqual(await heldAt(url, 30), []);
  assert.deepEqual(await store.knownBalances(), []);
  assert.deepEqual(await store.openOrders(1), [orderRow(8, 10)]);
  assert.deepEqual(await store.openOrders(2), []);
});

test('what cannot be stored is refused row by row; another telling is a conflict', async () => {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([MARKET], NOON_MS);
  const { outcomes } = await store.commit({
    balances: [
      balance('BTC', 0),
      balance('BTC', 0, { available: '2' }),
      balance('NAN', 0, { available: 'NaN' }),
      balance('HALF', 0, { freeze: null }),
      balance('NUL\0', 0),
      balance('MARKET', 0, { marketId: 1 }),
    ],
    orders: [
      orderRow(1, 0),
      orderRow(2, 0, { price: '-1' }),
      orderRow(3, 0, { createdAtUs: 1e18 }),
      orderRow(4, 0, { type: '' }),
      orderRow(2 ** 53, 0),
    ],
  });
  const { stored, conflict, rejected } = outcomes.balance;
  assert.deepEqual([stored, conflict, rejected], [1, 1, 4]);
  assert.deepEqual([outcomes.active_order.stored, outcomes.active_order.rejected], [1, 4]);
  const [kept] = await runSql(url, 'SELECT count(*)::int AS count FROM quarantine');
  assert.deepEqual(kept, { count: 9 });
  for (const value of ['NaN', 'Infinity', '-1']) {
    const insert = `INSERT INTO balance VALUES (to_timestamp($1), now(), 0, 'X', '${value}', 0)`;
    await assert.rejects(runSql(url, insert, [NOON_S]), /balance_finite/);
    const update = `UPDATE active_order SET left_amount = '${value}'`;
    await assert.rejects(runSql(url, update), /active_order_finite/);
  }
});

/** An account at an exchange, as its collector and a real archive see it. */
class World {
  readonly clock = new FakeClock(NOON_MS);
  readonly record = new CollectRecord();
  readonly store: Store;
  readonly url: string;
  balances: Record<string, unknown> = {};
  orders: ActiveOrder[] = [];
  isAway = false;
  readonly exchange = new ScriptedExchange(this.clock, {
    balances: () => {
      if (this.isAway) throw new Error('away');
      return this.balances;
    },
    orders: ({ offset, limit }: ParamsOf<'orders'>) => {
      const [from, count] = [Number(offset), Number(limit)];
      const result = this.orders.slice(from, from + count);
      return { offset: from, limit: count, total: this.orders.length, result };
    },
  });

  constructor(store: Store, url: string) {
    this.store = store;
    this.url = url;
  }

  /** A collector as after a start. */
  collector(): AccountCollector {
    const { exchange, clock, store, record } = this;
    const time = { nowMs: () => clock.wallMs() };
    const told = { telemetry: record, unproven: () => undefined };
    const context = { exchange, archive: store, time, clock, ...told };
    return new AccountCollector(context, store, 30_000);
  }

  rows(table: string): Promise<{ count: number }[]> {
    return runSql(this.url, `SELECT count(*)::int AS count FROM ${table}`);
  }

  /** Covered spans of a kind, seconds after noon. */
  covered(kind: string): Promise<{ from: number; to: number }[]> {
    return runSql(
      this.url,
      `SELECT (extract(epoch FROM lower(span)) - $2)::int AS from,
              (extract(epoch FROM upper(span)) - $2)::int AS to
       FROM coverage JOIN stream USING (stream_id) WHERE kind = $1 ORDER BY 1`,
      [kind, NOON_S],
    );
  }
}

async function openWorld(): Promise<World> {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([MARKET], NOON_MS);
  return new World(store, url);
}

const held = (available: string, freeze = '0'): Balance => ({ available, freeze });

test('balances are stored as they change, over restarts; an outage is a gap for ever', async () => {
  const world = await openWorld();
  world.balances = { BTC: held('1.5'), USDT: held('100') };
  let account = world.collector();
  await account.pollBalances(signal);
  world.clock.advance(30_000);
  world.balances = { BTC: held('1.50'), USDT: held('90', '10') };
  await account.pollBalances(signal);
  assert.deepEqual(await world.rows('balance'), [{ count: 3 }]);
  assert.deepEqual(await world.covered('balances'), [{ from: 0, to: 30 }]);

  world.clock.advance(30_000);
  world.isAway = true;
  await assert.rejects(account.pollBalances(signal), /away/);
  world.isAway = false;
  world.clock.advance(600_000);
  account = world.collector();
  world.balances = { USDT: held('90', '10') };
  await account.pollBalances(signal);
  assert.deepEqual(await world.rows('balance'), [{ count: 4 }]);
  assert.deepEqual(await world.covered('balances'), [
    { from: 0, to: 30 },
    { from: 660, to: 660 },
  ]);
  assert.deepEqual(await heldAt(world.url, 661), [
    { currency: 'USDT', available: '90', freeze: '10', observed: false },
  ]);
  const gaps = await runSql(world.url, 'SELECT state, reason FROM gap');
  assert.deepEqual(gaps, [{ state: 'unfillable', reason: 'not observed' }]);
  world.record.assertAccounted('balances');
});

test('an entry that cannot be read is set aside; nothing is claimed, nothing taken as gone', async () => {
  const world = await openWorld();
  world.balances = { BTC: held('1'), USDT: held('100') };
  const account = world.collector();
  await account.pollBalances(signal);
  world.clock.advance(30_000);
  world.balances = { BTC: held('-1'), USDT: held('50') };
  await account.pollBalances(signal);
  assert.deepEqual(await world.covered('balances'), [{ from: 0, to: 0 }]);
  assert.deepEqual(await heldAt(world.url, 30), [
    { currency: 'BTC', available: '1', freeze: '0', observed: false },
    { currency: 'USDT', available: '50', freeze: '0', observed: false },
  ]);
  assert.deepEqual(await world.rows('quarantine'), [{ count: 1 }]);
  world.record.assertAccounted('balances');
});

const order = (id: number, values: Partial<ActiveOrder> = {}): ActiveOrder => ({
  id,
  type: 'limit',
  market: 'BTC_USDT',
  price: '60000',
  amount: '2',
  left: '2',
  side: 'sell',
  timestamp: NOON_S + 0.25,
  takerFee: '0.002',
  makerFee: '0.001',
  dealStock: '0',
  dealMoney: '0',
  ...values,
});

test('orders are stored as they appear, change and go, over restarts', async () => {
  const world = await openWorld();
  world.orders = Array.from({ length: 250 }, (_, index) => order(1000 + index));
  let account = world.collector();
  await account.pollOrders('BTC_USDT', 1, signal);
  assert.deepEqual(await world.rows('active_order'), [{ count: 250 }]);
  assert.equal(world.exchange.countOf('orders'), 3);

  world.clock.advance(30_000);
  world.orders = [order(1000, { left: '1.5' }), ...world.orders.slice(2)];
  account = world.collector();
  await account.pollOrders('BTC_USDT', 1, signal);
  assert.deepEqual(await world.rows('active_order'), [{ count: 252 }]);
  world.clock.advance(30_000);
  world.orders = [];
  await account.pollOrders('BTC_USDT', 1, signal);
  assert.deepEqual(await openAt(world.url, 60), []);
  const [at0, at30] = [await openAt(world.url, 0), await openAt(world.url, 30)];
  assert.equal(at0.length, 250);
  assert.equal(at30.length, 249);
  assert.deepEqual(at30[0], { market: 'BTC_USDT', id: 1000, left: '1.5', observed: true });
  world.record.assertAccounted('orders');
});
