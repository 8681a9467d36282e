import assert from 'node:assert/strict';
import test from 'node:test';
import { MarketList } from '../../../src/collect/markets.js';
import { ScriptedExchange } from '../../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const { signal } = new AbortController();
const market = (name: string, stockPrec: unknown = 8) => ({
  name,
  stock: 'S',
  money: 'M',
  stockPrec,
  moneyPrec: 2,
  feePrec: 4,
  minAmount: '0.1',
});

class World {
  readonly clock = new FakeClock();
  readonly archive = new ModelArchive();
  readonly record = new CollectRecord();
  entries: unknown[] = [market('A'), market('B')];
  readonly exchange = new ScriptedExchange(this.clock, { markets: () => this.entries });

  list(wanted: readonly string[] = []): MarketList {
    const { exchange, archive, record: telemetry, clock } = this;
    return new MarketList({
      exchange,
      archive,
      time: { nowMs: () => clock.wallMs() },
      telemetry,
      wanted,
    });
  }
}

test('listed and delisted markets are picked up', async () => {
  const world = new World();
  const list = world.list();
  await list.refresh(signal);
  world.entries = [market('B'), market('C')];
  await list.refresh(signal);
  assert.deepEqual([...list.collected.keys()], ['B', 'C']);
  assert.deepEqual(
    world.record.changes.map(({ added, removed }) => [added, removed]),
    [
      [['A', 'B'], []],
      [['C'], ['A']],
    ],
  );
  await list.refresh(signal);
  assert.equal(world.record.changes.length, 2, 'nothing new, nothing told');
});

test('an entry that can not be read is quarantined and is no delisting', async () => {
  const world = new World();
  const list = world.list();
  await list.refresh(signal);
  world.entries = [market('A'), market('B', 'many')];
  await list.refresh(signal);
  assert.deepEqual([...list.collected.keys()].sort(), ['A', 'B']);
  assert.equal(world.archive.quarantine.length, 1);
  world.entries = [market('A')];
  await list.refresh(signal);
  assert.deepEqual([...list.collected.keys()], ['A']);
});

test('an empty list is refused and delists nothing', async () => {
  const world = new World();
  const list = world.list();
  await list.refresh(signal);
  world.entries = [];
  await assert.rejects(list.refresh(signal), { code: 'no_markets', action: 'retry' });
  assert.deepEqual([...list.collected.keys()], ['A', 'B']);
  assert.equal(world.archive.listed.size, 2);
});

test('a list of which nothing can be read is refused as well, and kept in quarantine', async () => {
  const world = new World();
  world.entries = [market('A', 'many'), 7];
  await assert.rejects(world.list().refresh(signal), { code: 'no_markets' });
  assert.equal(world.archive.quarantine.length, 2);
});

test('only wanted markets are collected; a missing one is told once until that changes', async () => {
  const world = new World();
  const list = world.list(['B', 'C']);
  await list.refresh(signal);
  await list.refresh(signal);
  assert.deepEqual([...list.collected.keys()], ['B']);
  assert.deepEqual(list.missing, ['C']);
  assert.deepEqual(
    world.record.missing.map(({ names }) => names),
    [['C']],
  );
  world.entries = [market('B'), market('C')];
  await list.refresh(signal);
  assert.deepEqual(list.missing, []);
  assert.deepEqual([...list.collected.keys()], ['B', 'C']);
  world.entries = [market('B')];
  await list.refresh(signal);
  assert.deepEqual(
    world.record.missing.map(({ names }) => names),
    [['C'], [], ['C']],
  );
});

test('when nothing that is wanted was ever listed, that is refused with the names that may be meant', async () => {
  const world = new World();
  world.entries = [market('BTC_USDT'), market('ETH_USDT')];
  const list = world.list(['btc/usdt', 'ETH_USTD', 'NOPE']);
  await assert.rejects(list.refresh(signal), {
    code: 'markets_not_listed',
    action: 'fatal',
    message:
      /btc\/usdt \(did you mean BTC_USDT\?\), ETH_USTD \(did you mean ETH_USDT\?\), NOPE\. It lists BTC_USDT, ETH_USDT\. /,
  });
  world.entries = [...world.entries, market('NOPE', 'many')];
  await list.refresh(signal);
  assert.deepEqual(list.missing.length, 3, 'what can not be read may be what is wanted');
});

test('a market that was listed once is waited for, at the start and while it runs', async () => {
  const world = new World();
  await world.list(['B']).refresh(signal);
  world.entries = [market('A')];
  const later = world.list(['B']);
  await later.refresh(signal);
  assert.deepEqual([[...later.collected], later.missing], [[], ['B']]);
  world.entries = [market('A'), market('B')];
  await later.refresh(signal);
  assert.deepEqual([...later.collected.keys()], ['B']);
});
