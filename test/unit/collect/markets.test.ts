import assert from 'node:assert/strict';
import test from 'node:test';
import { MarketList } from '../../../src/collect/markets.js';
import { Share } from '../../../src/model/share.js';
import type { CollectEvents } from '../../../src/observe/events.js';
import { createLogger } from '../../../src/observe/logger.js';
import { createTelemetry } from '../../../src/observe/telemetry.js';
import type { MarketChanges } from '../../../src/store/index.js';
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

  list(
    wanted: readonly string[] = [],
    max = 1_000,
    telemetry: CollectEvents = this.record,
    share?: Share,
  ): MarketList {
    const { exchange, archive, clock } = this;
    return new MarketList({
      exchange,
      archive,
      time: { nowMs: () => clock.wallMs() },
      telemetry,
      wanted,
      max,
      share,
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

test('later shares read the list from the archive, and each has markets of its own', async () => {
  const world = new World();
  const record = new CollectRecord();
  const of = (text: string, telemetry = new CollectRecord()) =>
    world.list([], 3, telemetry, Share.parse(text));
  const [first, second] = [of('1/2'), of('2/2', record)];
  await assert.rejects(second.refresh(signal), {
    code: 'no_markets',
    message: /^the archive has no list of markets yet: the daemon of share 1\/2 asks/,
  });
  const refresh = async () => {
    await first.refresh(signal);
    await second.refresh(signal);
    return [first, second].map((list) => [...list.collected.keys()].join(' '));
  };
  assert.deepEqual(await refresh(), ['A', 'B']);
  world.entries = [market('A'), market('B'), market('C'), market('D')];
  assert.deepEqual(await refresh(), ['A', 'B C']);
  assert.deepEqual([...second.chosen.keys()], ['A', 'B', 'C'], 'as many as all shares may have');
  world.entries = [market('A')];
  assert.deepEqual(await refresh(), ['A', '']);
  assert.deepEqual(
    record.changes.map(({ added, removed }) => [added, removed]),
    [
      [['B'], []],
      [['C'], []],
      [[], ['B', 'C']],
    ],
  );
  assert.equal(world.exchange.asked.length, 3, 'the first share alone asks the exchange');
});

test('what a delisting gave up is told of the markets that are wanted', async () => {
  const world = new World();
  const { archive } = world;
  const of = (marketId: number, name: string) => ({
    ...{ gapId: null, streamId: marketId, marketId, market: name, kind: 'trades', variant: 0 },
    ...{ span: { fromMs: 0, toMs: 60_000 }, state: 'unfillable', reason: 'delisted', note: null },
    ...{ attempts: 0, firstSeenAtMs: null, nextAttemptAtMs: null, isBeforeHistory: false },
  });
  const ensure = archive.ensureMarkets.bind(archive);
  archive.ensureMarkets = async (...list) => ({
    ...(await ensure(...list)),
    givenUp: [of(1, 'A'), of(2, 'B')] as MarketChanges['givenUp'],
  });
  const told = async (...wanted: string[]) => {
    world.record.gaps.length = 0;
    await world.list(wanted).refresh(signal);
    return world.record.gaps.map((gap) => [gap.market, gap.reason, gap.count, gap.lengthMs]);
  };
  const [a, b] = ['A', 'B'].map((name) => [name, 'delisted', 1, 60_000]);
  assert.deepEqual(await told(), [a, b]);
  assert.deepEqual(await told('B'), [b]);
});

test('an entry that cannot be read is quarantined and is no delisting', async () => {
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
  assert.deepEqual(list.missing.length, 3, 'what cannot be read may be what is wanted');
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

test('of ten thousand markets so many are collected as may be, the same at every start', async () => {
  const world = new World();
  const named = (from: number, count: number) =>
    Array.from({ length: count }, (_, at) => market(`M${from + at}`));
  world.entries = named(0, 10_000);
  const list = world.list([], 1_000);
  await list.refresh(signal);
  const first = [...list.collected.keys()];
  assert.equal(first.length, 1_000);
  assert.deepEqual(world.record.leftOut, [{ count: 9_000, max: 1_000 }]);
  assert.equal(world.record.changes[0]?.added.length, 1_000);
  // Others before them in the list push none of them out, and are not reported.
  world.entries = [...named(20_000, 500), ...named(0, 9_500)].reverse();
  await list.refresh(signal);
  assert.deepEqual(new Set(list.collected.keys()), new Set(first));
  assert.equal(world.record.leftOut.length, 1);
  assert.equal(world.record.changes.length, 1);
  const again = world.list([], 1_000);
  await again.refresh(signal);
  assert.deepEqual(new Set(again.collected.keys()), new Set(first));
  // A place that becomes free is taken by the next one.
  world.entries = named(1, 9_999);
  await list.refresh(signal);
  assert.deepEqual([list.collected.size, list.collected.has('M0')], [1_000, false]);
  world.entries = named(1, 900);
  await list.refresh(signal);
  assert.equal(list.leftOut, 0);
  assert.deepEqual(world.record.leftOut.at(-1), { count: 0, max: 1_000 });
});

test('the metrics do not grow with markets that are left out', async () => {
  const world = new World();
  world.entries = Array.from({ length: 10_000 }, (_, at) => market(`MARKET_${at}`));
  const logged: string[] = [];
  const telemetry = createTelemetry({
    logger: createLogger({
      ...{ level: 'info', format: 'json', clock: world.clock },
      destination: { write: (line: string) => void logged.push(line) },
    }),
    exchangeNowMs: () => world.clock.wallMs(),
    processMetrics: false,
  });
  const before = (await telemetry.metricsText()).length;
  await world.list([], 10, telemetry.collect).refresh(signal);
  const after = await telemetry.metricsText();
  assert.ok(after.length - before < 10_000, `${after.length - before} more`);
  assert.match(after, /markets_left_out 9990/);
  const warnings = logged.filter((line) => line.includes('streams.markets.max'));
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /9990 listed markets not collected: limit 10 /);
  assert.ok(logged.every((line) => line.length < 10_000));
});
