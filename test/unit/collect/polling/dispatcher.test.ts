import assert from 'node:assert/strict';
import test from 'node:test';
import fc from '../../../support/properties.js';
import { PollWorld } from '../../../support/worlds/poll-world.js';

/** A dispatcher that has polled every market once, and has nothing to do. */
async function settled(
  ratePerS: number,
  markets: readonly string[],
  hasTimes = false,
): Promise<PollWorld> {
  const world = new PollWorld(ratePerS);
  for (const market of markets) world.add(market, hasTimes);
  world.dispatcher.start();
  await world.clock.run((markets.length * (hasTimes ? 2000 : 1000)) / ratePerS + 1000);
  world.taken();
  return world;
}

test('a market told of is polled at once while requests are to be had', async () => {
  const world = await settled(10, ['A', 'B']);
  const nowMs = world.clock.monotonicMs();
  world.dispatcher.pushed('B', 'trade');
  await world.clock.run(0);
  assert.deepEqual(world.polls, [{ market: 'B', endpoint: 'historyResult', atMs: nowMs }]);
  await world.clock.run(60_000);
  assert.equal(world.polls.length, 2, 'one that brought nothing is looked into once more');
  const [first] = world.record.polls.filter(({ cause }) => cause === 'pushed');
  assert.equal(first?.waitMs, 0);
  await world.dispatcher.stop();
});

test('what waits for a busy walk is polled as soon as somebody says that it is free', async () => {
  const world = await settled(10, ['A']);
  const [walker] = world.walkers.get('A') ?? [];
  if (walker === undefined) throw new Error('no walk');
  walker.isBusy = true;
  world.dispatcher.pushed('A', 'trade');
  await world.clock.run(60);
  assert.deepEqual(world.polls, []);
  walker.isBusy = false;
  world.dispatcher.wake();
  await world.clock.run(0);
  assert.deepEqual(world.taken(), ['A']);
  await world.dispatcher.stop();
});

test('an activity signal asks for exact times; what they store is proven together five seconds later', async () => {
  const world = await settled(10, ['A'], true);
  const [times, trades] = world.walkers.get('A') ?? [];
  for (let second = 0; second < 12; second += 1) {
    for (const walker of [times, trades]) if (walker !== undefined) walker.waiting = 1;
    world.dispatcher.pushed('A', 'trade');
    await world.clock.run(1000);
  }
  const of = (one: string) => world.polls.filter(({ endpoint }) => endpoint === one);
  assert.equal(of('history').length, 12);
  assert.equal(of('historyResult').length, 2);
  const waitMs = (of('historyResult')[0]?.atMs ?? 0) - (of('history')[0]?.atMs ?? 0);
  assert.ok(waitMs >= 5000 && waitMs <= 6000, `${waitMs} ms`);
  const causes = world.record.polls.slice(-14).map(({ cause, agesMs }) => [cause, agesMs.length]);
  assert.equal(causes.filter(([cause, ages]) => cause === 'pushed' && ages === 1).length, 12);
  assert.equal(causes.filter(([cause, ages]) => cause === 'stored' && ages === 0).length, 2);
  await world.dispatcher.stop();
});

test('the schedule asks the endpoint that proves; exact times follow where it brings news', async () => {
  const world = await settled(10, ['A'], true);
  const [, trades] = world.walkers.get('A') ?? [];
  // What was polled since the start satisfies the first run.
  world.dispatcher.markDue();
  await world.clock.run(2000);
  assert.deepEqual(world.taken(), []);
  world.dispatcher.markDue();
  await world.clock.run(2000);
  assert.deepEqual(
    world.polls.splice(0).map(({ endpoint }) => endpoint),
    ['historyResult'],
  );
  if (trades !== undefined) trades.isOpen = true;
  world.dispatcher.markDue();
  await world.clock.run(2000);
  assert.deepEqual(
    world.polls.map(({ endpoint }) => endpoint),
    ['historyResult', 'history'],
  );
  await world.dispatcher.stop();
});

test('while trades are pushed their exact times are not asked for', async () => {
  const world = await settled(10, ['A'], true);
  const walkers = world.walkers.get('A') ?? [];
  for (const walker of walkers) walker.isPushed = true;
  await world.clock.run(15_000);
  world.taken();
  for (let second = 0; second < 60; second += 1) {
    for (const walker of walkers) walker.waiting = 1;
    world.dispatcher.pushed('A', 'trade');
    await world.clock.run(1000);
  }
  assert.ok(world.polls.length >= 3 && world.polls.length <= 6, `${world.polls.length} polls`);
  assert.ok(world.polls.every(({ endpoint }) => endpoint === 'historyResult'));
  await world.dispatcher.stop();
});

test('what is polled is chosen when the request may start, not when it is asked for', async () => {
  const world = await settled(1, ['A', 'B', 'C']);
  world.budget.pause(10_000, 'test');
  for (const market of ['A', 'B', 'C']) world.dispatcher.pushed(market, 'trade');
  await world.clock.run(5000);
  const targets = world.walkers.get('C');
  await world.dispatcher.remove('C');
  assert.equal(targets?.[0]?.underWay, 0);
  await world.clock.run(20_000);
  assert.deepEqual([...new Set(world.taken())].sort(), ['A', 'B']);
  assert.equal(world.held, 0);
  await world.dispatcher.stop();
});

test('when requests are short, markets are polled in proportion to the root of their rates', async () => {
  const world = await settled(2, ['A', 'B', 'C', 'D']);
  const everyMs = new Map([
    ['A', 50],
    ['B', 200],
    ['C', 800],
    ['D', 800],
  ]);
  const counts = new Map<string, number>();
  for (let atMs = 0; atMs < 400_000; atMs += 50) {
    for (const [market, stepMs] of everyMs) {
      if (atMs % stepMs !== 0) continue;
      const [walker] = world.walkers.get(market) ?? [];
      if (walker !== undefined) walker.waiting += 1;
      world.dispatcher.pushed(market, 'trade');
    }
    await world.clock.run(50);
    // The second half: by then the rates are known.
    for (const market of world.taken()) {
      if (atMs > 200_000) counts.set(market, (counts.get(market) ?? 0) + 1);
    }
  }
  const of = (market: string) => counts.get(market) ?? 0;
  assert.ok(of('A') / of('B') > 1.5 && of('A') / of('B') < 2.6, `${of('A')} : ${of('B')}`);
  assert.ok(of('B') / of('C') > 1.5 && of('B') / of('C') < 2.6, `${of('B')} : ${of('C')}`);
  assert.ok(of('C') > 10 && Math.abs(of('C') - of('D')) <= 3);
  await world.dispatcher.stop();
});

test('a page that fills up goes before everything else', async () => {
  const world = await settled(1, ['A', 'B', 'C']);
  const [flood] = world.walkers.get('C') ?? [];
  for (let count = 0; count < 3; count += 1) {
    if (flood !== undefined) flood.waiting = 900;
    world.dispatcher.pushed('C', 'trade');
    await world.clock.run(3000);
  }
  world.taken();
  world.budget.pause(12_000, 'test');
  await world.clock.run(10_000);
  for (const market of ['A', 'B']) world.dispatcher.pushed(market, 'trade');
  await world.clock.run(2100);
  assert.deepEqual(world.taken(), ['C'], 'though nothing was told of it');
  assert.equal(world.record.polls.at(-1)?.cause ?? '', 'urgent');
  await world.dispatcher.stop();
});

test('the schedule asks for what was not polled since its last run, and for nothing else', async () => {
  const world = await settled(10, ['A', 'B', 'C']);
  world.dispatcher.markDue();
  await world.clock.run(5000);
  world.taken();
  world.dispatcher.pushed('B', 'trade');
  await world.clock.run(20_000);
  world.taken();
  world.dispatcher.markDue();
  await world.clock.run(5000);
  assert.deepEqual(world.taken().sort(), ['A', 'C']);
  for (let run = 0; run < 3; run += 1) {
    world.dispatcher.markDue();
    await world.clock.run(5000);
    assert.deepEqual(world.taken().sort(), ['A', 'B', 'C'], `run ${run}`);
  }
  await world.dispatcher.stop();
});

test('trades that are pushed are confirmed by a page every 15 s, and asked for as ever without', async () => {
  const world = await settled(10, ['A', 'B']);
  world.dispatcher.keepBaseline(5000);
  const [pushed] = world.walkers.get('A') ?? [];
  assert.ok(pushed !== undefined);
  pushed.isPushed = true;
  const counts = async () => {
    world.taken();
    for (let second = 0; second < 60; second += 1) {
      if (second % 5 === 0) world.dispatcher.markDue();
      world.dispatcher.pushed('A', 'trade');
      await world.clock.run(1000);
    }
    const taken = world.taken();
    return ['A', 'B'].map((name) => taken.filter((one) => one === name).length);
  };
  const [confirmed, others] = await counts();
  assert.ok(confirmed !== undefined && confirmed >= 3 && confirmed <= 5, `${confirmed}`);
  assert.ok(others !== undefined && others >= 11, `${others}`);
  pushed.isPushed = false;
  const [again] = await counts();
  assert.ok(again !== undefined && again >= 50, `${again}`);
  await world.dispatcher.stop();
});

test('what was polled right after a run is not left alone until the run after the next', async () => {
  const world = await settled(10, ['A', 'B']);
  world.dispatcher.keepBaseline(30_000);
  world.dispatcher.markDue();
  await world.clock.run(100);
  world.dispatcher.pushed('A', 'trade');
  const [walker] = world.walkers.get('A') ?? [];
  if (walker !== undefined) walker.waiting = 1;
  const atMs = world.clock.monotonicMs();
  await world.clock.run(29_900);
  world.dispatcher.markDue();
  await world.clock.run(30_000);
  const moments = world.polls.filter(({ market }) => market === 'A').map((poll) => poll.atMs);
  const later = moments.find((moment) => moment > atMs + 1000) ?? Number.POSITIVE_INFINITY;
  assert.ok(later - atMs <= 31_000, `${later - atMs} ms`);
  await world.dispatcher.stop();
});

test('neither news nor the schedule starves the other', async () => {
  const world = await settled(5, ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H']);
  const busy = ['A', 'B', 'C', 'D'];
  world.dispatcher.markDue();
  await world.clock.run(10_000);
  world.taken();
  world.record.polls.length = 0;
  for (let second = 0; second < 40; second += 1) {
    if (second % 2 === 0) world.dispatcher.markDue();
    for (const market of busy) {
      for (const walker of world.walkers.get(market) ?? []) walker.waiting += 1;
    }
    for (let part = 0; part < 10; part += 1) {
      for (const market of busy) world.dispatcher.pushed(market, 'trade');
      await world.clock.run(100);
    }
  }
  const causes = world.record.polls.map(({ cause }) => cause);
  const share = causes.filter((cause) => cause === 'floor').length / causes.length;
  assert.ok(share >= 0.05 && share <= 0.25, `${share} of the polls for the schedule`);
  const markets = new Set(world.taken());
  assert.equal(markets.size, 8);
  await world.dispatcher.stop();
});

test('a schedule that cannot be kept has half of the turns while others ask for the rest', async () => {
  const names = Array.from({ length: 50 }, (_, at) => `M${at}`);
  const world = await settled(1, names);
  world.dispatcher.keepBaseline(2000);
  const had = new Map<number, number>();
  const ask = (priority: number) => {
    void world.budget.take(priority).then(() => {
      had.set(priority, (had.get(priority) ?? 0) + 1);
      ask(priority);
    });
  };
  for (const priority of [1, 1, 1, 2, 3]) ask(priority);
  const before = world.taken().length;
  for (let run = 0; run < 200; run += 1) {
    world.dispatcher.markDue();
    await world.clock.run(2000);
  }
  const polls = world.taken().length - before;
  assert.ok(polls >= 195, `${polls} of 400 requests for trades`);
  assert.ok((had.get(1) ?? 0) >= 155, `${had.get(1)} for depth`);
  const background = (had.get(2) ?? 0) + (had.get(3) ?? 0);
  assert.ok(background >= 39, `${background} for candles and history`);
  await world.dispatcher.stop();
});

test('whatever is told of others, no market waits longer than the schedule says if the budget has it', async () => {
  const busy = Array.from({ length: 10 }, (_, at) => `B${at}`);
  const quiet = Array.from({ length: 50 }, (_, at) => `Q${at}`);
  const world = await settled(2, [...busy, ...quiet]);
  const periodMs = 60_000;
  world.dispatcher.keepBaseline(periodMs);
  const fromMs = world.clock.monotonicMs();
  for (let step = 0; step < 3000; step += 1) {
    if (step % 600 === 0) world.dispatcher.markDue();
    for (const market of busy) {
      for (const walker of world.walkers.get(market) ?? []) walker.waiting += 1;
      world.dispatcher.pushed(market, 'trade');
    }
    await world.clock.run(100);
  }
  const endMs = world.clock.monotonicMs();
  for (const name of quiet) {
    const moments = world.polls.filter(({ market }) => market === name).map(({ atMs }) => atMs);
    const all = [fromMs, ...moments, endMs];
    const waitedMs = Math.max(...all.slice(1).map((atMs, at) => atMs - (all[at] ?? 0)));
    assert.ok(waitedMs <= periodMs + 1000, `${name} waited ${waitedMs} ms`);
  }
  const told = world.polls.filter(({ market }) => market.startsWith('B')).length;
  assert.ok(told > 200, `${told} polls of what was told`);
  await world.dispatcher.stop();
});

test('what the tickers tell is polled; where a feed is connected, it has the first word', async () => {
  const world = await settled(10, ['A', 'B', 'C']);
  world.dispatcher.swept(new Map());
  world.dispatcher.followed('B', true);
  world.dispatcher.followed('C', true);
  await world.clock.run(1000);
  world.dispatcher.pushed('C', 'trade');
  await world.clock.run(1000);
  assert.deepEqual(world.taken(), ['C', 'C']);
  world.record.polls.length = 0;
  world.dispatcher.swept(new Map([...'ABC'].map((market) => [market, 'trade'] as const)));
  await world.clock.run(1000);
  assert.deepEqual(
    world.record.polls.map(({ market, cause }) => [market, cause]),
    [
      ['A', 'swept'],
      ['B', 'spare'],
      ['A', 'spare'],
    ],
  );
  await world.dispatcher.stop();
});

test('an activity signal that may be nothing waits for spare turns, but not for ever', async () => {
  const world = await settled(5, ['A']);
  const ask = (priority: number) => void world.budget.take(priority).then(() => ask(priority));
  // Those who fill gaps stand before it for what is kept for them.
  for (const priority of [1, 1, 1, 3, 3, 3]) ask(priority);
  world.dispatcher.pushed('A', 'maybe');
  await world.clock.run(4500);
  assert.deepEqual(world.taken(), []);
  await world.clock.run(1500);
  assert.deepEqual(world.taken(), ['A']);
  await world.dispatcher.stop();
});

test('a market that fails backs off alone, and keeps what waited for it', async () => {
  const world = await settled(20, ['A', 'B']);
  const [bad] = world.walkers.get('A') ?? [];
  if (bad !== undefined) bad.error = new Error('not today');
  world.dispatcher.pushed('A', 'trade');
  for (let second = 0; second < 120; second += 1) {
    world.dispatcher.pushed('B', 'trade');
    await world.clock.run(1000);
  }
  const failures = world.record.failures.length;
  assert.ok(failures >= 3 && failures < 40, `${failures} tries in two minutes`);
  assert.ok(world.taken().filter((market) => market === 'B').length >= 120);
  if (bad !== undefined) bad.error = undefined;
  await world.clock.run(61_000);
  assert.ok(world.taken().includes('A'), 'the activity is not forgotten');
  await world.dispatcher.stop();
});

test('an endpoint that hangs leaves room for the other', async () => {
  const names = Array.from({ length: 40 }, (_, at) => `M${at}`);
  const world = await settled(100, names, true);
  for (const walkers of world.walkers.values()) {
    for (const walker of walkers) if (walker.endpoint === 'history') walker.latencyMs = 1e9;
  }
  for (const name of names) world.dispatcher.pushed(name, 'trade');
  await world.clock.run(10_000);
  // The polls of the start satisfy the first run.
  for (let run = 0; run < 2; run += 1) {
    world.dispatcher.markDue();
    await world.clock.run(10_000);
  }
  const of = (one: string) => world.polls.filter(({ endpoint }) => endpoint === one).length;
  assert.equal(of('history'), 12);
  assert.equal(of('historyResult'), 40);
  await world.dispatcher.stop();
});

test('an endpoint that fails hands its activity signals to the other walk', async () => {
  const world = await settled(10, ['A'], true);
  const [times, trades] = world.walkers.get('A') ?? [];
  if (times !== undefined) times.error = new Error('gone');
  if (trades !== undefined) trades.waiting = 1;
  world.dispatcher.pushed('A', 'trade');
  await world.clock.run(300);
  assert.deepEqual(
    world.polls.map(({ endpoint }) => endpoint),
    ['history', 'historyResult'],
  );
  assert.equal(world.record.polls.at(-1)?.cause, 'pushed');
  await world.dispatcher.stop();
});

test('a walk at work on a gap is left alone until it is free', async () => {
  const world = await settled(10, ['A']);
  const [walker] = world.walkers.get('A') ?? [];
  if (walker !== undefined) walker.isBusy = true;
  world.dispatcher.pushed('A', 'trade');
  await world.clock.run(3000);
  assert.deepEqual(world.taken(), []);
  if (walker !== undefined) walker.isBusy = false;
  await world.clock.run(600);
  assert.deepEqual(world.taken()[0], 'A');
  await world.dispatcher.stop();
});

test('nothing is asked inside a pause, and nothing turns idly', async () => {
  const world = await settled(10, ['A', 'B']);
  world.budget.pause(60_000, 'HTTP 429');
  for (let second = 0; second < 59; second += 1) {
    world.dispatcher.pushed('A', 'trade');
    world.dispatcher.markDue();
    await world.clock.run(1000);
  }
  assert.deepEqual(world.taken(), []);
  await world.clock.run(2000);
  assert.ok(world.taken().length >= 2);
  await world.dispatcher.stop();
});

test('stopping ends polls and waits under way, and leaves no timer and no turn', async () => {
  for (const activity of ['trade', 'maybe'] as const) {
    const world = await settled(1, ['A', 'B']);
    world.budget.pause(60_000, 'test');
    world.dispatcher.pushed('A', activity);
    await world.clock.run(100);
    await Promise.all([world.dispatcher.stop(), world.dispatcher.stop()]);
    world.dispatcher.pushed('B', 'trade');
    world.dispatcher.markDue();
    await world.clock.run(300_000);
    assert.deepEqual(world.taken(), []);
    assert.equal(world.clock.pendingTimers, 0);
    assert.equal(world.held, 0);
  }
});

test('whatever is told and however requests are short: all within the floor, the budget kept, none twice', async () => {
  const told = fc.array(
    fc.record({
      market: fc.integer({ min: 0, max: 9 }),
      activity: fc.constantFrom('trade', 'trade', 'maybe'),
      trades: fc.integer({ min: 0, max: 40 }),
      waitMs: fc.integer({ min: 0, max: 900 }),
      latencyMs: fc.integer({ min: 1, max: 400 }),
    }),
    { minLength: 80, maxLength: 120 },
  );
  await fc.assert(
    fc.asyncProperty(told, fc.integer({ min: 3, max: 10 }), async (events, ratePerS) => {
      const names = Array.from({ length: 10 }, (_, at) => `M${at}`);
      const world = await settled(ratePerS, names);
      const floorMs = 30_000;
      world.dispatcher.keepBaseline(floorMs);
      let nextRunMs = world.clock.monotonicMs();
      for (const { market, activity, trades, waitMs, latencyMs } of events) {
        if (world.clock.monotonicMs() >= nextRunMs) {
          world.dispatcher.markDue();
          nextRunMs += floorMs;
        }
        const [walker] = world.walkers.get(`M${market}`) ?? [];
        assert.ok(walker !== undefined);
        walker.waiting += trades;
        walker.latencyMs = latencyMs;
        world.dispatcher.pushed(`M${market}`, activity as 'trade' | 'maybe');
        await world.clock.run(waitMs);
      }
      const endMs = world.clock.monotonicMs();
      assert.equal(world.mostOfOneWalk, 1);
      // The budget allows it, so that a market may be late by the polls under way, no more.
      const slackMs = (2 * 1000) / ratePerS + 500;
      for (const name of names) {
        const moments = world.polls.filter(({ market }) => market === name).map((p) => p.atMs);
        const all = [
          endMs - events.reduce((sum, { waitMs }) => sum + waitMs, 0),
          ...moments,
          endMs,
        ];
        for (const [at, moment] of all.slice(1).entries()) {
          const waitedMs = moment - (all[at] ?? 0);
          assert.ok(waitedMs <= floorMs + slackMs, `${name} waited ${waitedMs} ms`);
        }
      }
      for (const { atMs } of world.polls) {
        const within = world.polls.filter((p) => p.atMs >= atMs && p.atMs < atMs + 5000).length;
        assert.ok(within <= 5 * ratePerS + 2, `${within} requests in 5 s`);
      }
      await world.dispatcher.stop();
      assert.equal(world.held, 0);
    }),
    { numRuns: 20 },
  );
});
