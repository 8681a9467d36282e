import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { AccountCollector } from '../../../src/collect/accounts.js';
import type { ParamsOf } from '../../../src/contract/endpoints.js';
import type { ActiveOrder } from '../../../src/contract/resources.js';
import { TapekeepError } from '../../../src/kernel/errors.js';
import type { ActiveOrderRow, Batch } from '../../../src/model/batch.js';
import { ScriptedExchange } from '../../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const { signal } = new AbortController();

const order = (id: number): ActiveOrder => ({
  id,
  type: 'limit',
  market: 'A',
  price: '10',
  amount: '2',
  left: '2',
  side: 'sell',
  timestamp: 1_700_000_000,
  takerFee: '0',
  makerFee: '0',
  dealStock: '0',
  dealMoney: '0',
});

class World {
  readonly clock = new FakeClock();
  readonly record = new CollectRecord();
  readonly archive = new ModelArchive();
  readonly stored: ActiveOrderRow[] = [];
  orders: ActiveOrder[] = [];
  /** Called before each page is answered. */
  beforePage: () => void = () => undefined;
  /** Orders that a page holds at most, whatever is asked for. */
  pageCap = 1000;
  readonly exchange = new ScriptedExchange(this.clock, {
    orders: ({ offset, limit }: ParamsOf<'orders'>) => {
      this.beforePage();
      const [from, count] = [Number(offset), Math.min(Number(limit), this.pageCap)];
      const result = this.orders.slice(from, from + count);
      return { offset: from, limit: count, total: this.orders.length, result };
    },
  });
  readonly account = new AccountCollector(
    {
      exchange: this.exchange,
      archive: this.archive,
      clock: this.clock,
      time: { nowMs: () => this.clock.wallMs() },
      telemetry: this.record,
      unproven: () => undefined,
    },
    { knownBalances: () => Promise.resolve([]), openOrders: () => Promise.resolve([]) },
    30_000,
  );

  constructor() {
    this.archive.before = (_method, batch?: Batch) => {
      this.stored.push(...(batch?.orders ?? []));
    };
  }

  async poll(): Promise<void> {
    await this.account.pollOrders('A', 1, signal);
    this.clock.advance(30_000);
  }

  /** Orders that the stored versions leave open. */
  open(): number[] {
    const open = new Set<number>();
    for (const { orderId, isGone } of this.stored) {
      if (isGone) open.delete(orderId);
      else open.add(orderId);
    }
    return [...open].sort((a, b) => a - b);
  }
}

test('orders that move between the pages are read again; none is taken as gone for it', async () => {
  const world = new World();
  world.orders = Array.from({ length: 150 }, (_, index) => order(index + 1));
  await world.poll();
  assert.equal(world.stored.length, 150);
  let moves = 1;
  world.beforePage = () => {
    // One ended and one is new before the second page: the total stays, the places do not.
    if (world.exchange.countOf('orders') % 2 === 0 && moves-- > 0) {
      world.orders = [...world.orders.slice(1), order(500)];
    }
  };
  await world.poll();
  assert.deepEqual(
    world.open(),
    world.orders.map(({ id }) => id),
  );
  assert.equal(world.stored.filter(({ isGone }) => isGone).length, 1);
  assert.equal(world.exchange.countOf('orders'), 6);
});

test('orders are stamped with the time at which the answer with their last page arrived', async () => {
  const world = new World();
  world.orders = Array.from({ length: 150 }, (_, index) => order(index + 1));
  const startMs = world.clock.wallMs();
  let pages = 0;
  world.beforePage = () => {
    pages += 1;
    world.exchange.told = { answeredAtMs: startMs + pages };
    // It is read later.
    world.clock.advance(500);
  };
  await world.poll();
  assert.equal(pages, 2);
  assert.deepEqual(
    [...new Set(world.stored.map(({ observedAtMs }) => observedAtMs))],
    [startMs + 2],
  );
});

test('orders of a market that was away, or refused, are not covered from one look to the next', async () => {
  for (const lapse of ['away', 'refused'] as const) {
    const world = new World();
    world.orders = [order(1)];
    const startMs = world.clock.wallMs();
    const covered = () =>
      world.archive.allRanges(1).map(({ span }) => [span.fromMs - startMs, span.toMs - startMs]);
    await world.poll();
    await world.poll();
    assert.deepEqual(covered(), [[0, 30_001]]);
    if (lapse === 'away') await world.account.forget(1);
    else {
      world.beforePage = () => {
        throw new TapekeepError('market_unavailable', 'no such market');
      };
      await assert.rejects(world.account.pollOrders('A', 1, signal), /no such market/);
      world.beforePage = () => undefined;
    }
    await world.poll();
    await world.poll();
    assert.deepEqual(
      covered(),
      [
        [60_000, 90_001],
        [0, 30_001],
      ],
      lapse,
    );
  }
});

test('orders that never hold still are a failed poll, not a wrong picture', async () => {
  const world = new World();
  world.orders = Array.from({ length: 150 }, (_, index) => order(index + 1));
  let next = 1000;
  world.beforePage = () => {
    next += 1;
    world.orders = [...world.orders.slice(1), order(next)];
  };
  await assert.rejects(world.poll(), { code: 'orders_moving', action: 'retry' });
  assert.equal(world.exchange.countOf('orders'), 6);
  assert.deepEqual(world.stored, []);
  assert.deepEqual(world.archive.allRanges(1), []);
});

test('whatever pages a server sends, every order is found once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(350), fc.integer({ min: 1, max: 120 }), async (count, pageCap) => {
      const world = new World();
      world.pageCap = pageCap;
      world.orders = Array.from({ length: count }, (_, index) => order(index + 1));
      await world.poll();
      assert.deepEqual(
        world.open(),
        world.orders.map(({ id }) => id),
      );
      world.record.assertAccounted('orders');
    }),
    { numRuns: 60 },
  );
});
