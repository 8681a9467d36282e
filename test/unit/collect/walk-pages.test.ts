import assert from 'node:assert/strict';
import test from 'node:test';
import { PRIORITY } from '../../../src/collect/ports.js';
import { BudgetOverrunError } from '../../../src/kernel/budget.js';
import type { CoveredRange } from '../../../src/model/batch.js';
import {
  every,
  fillAll,
  START_MS,
  START_S,
  signal,
  TradeWorld,
} from '../../support/worlds/trade-world.js';

/** The walk over a history that is written down trade by trade, over both endpoints. */

test('a market without trades is covered as empty, and so is the time before its first trade', async () => {
  const world = new TradeWorld([], 100);
  const walker = world.walker();
  await walker.pollHead(signal);
  world.clock.advance(6500);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [], 'two answers may both be cut');
  world.clock.advance(6500);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[99, 100]]);
  assert.equal(world.archive.floorOf(1), (START_S + 99) * 1000);
  world.clock.advance(6500);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[99, 106]]);
  const limits = world.exchange.asked.map(({ params }) => params.limit);
  assert.deepEqual(limits, [1000, 500, 1000, 500], 'one request a look, no two of one address');
  world.trades = [{ tid: 1, atS: 120.7 }];
  world.clock.advance(10_000);
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[99, 129]]);
  assert.deepEqual(world.gaps(), []);
  assert.equal(world.archive.floorOf(1), (START_S + 99) * 1000);
  assert.equal(world.record.outcomesOf('trades').stored, 1);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('first trades of time that was seen empty take all of it back, how ever many pages they fill', async () => {
  for (const mode of ['skip', 'id'] as const) {
    const world = new TradeWorld([], 100);
    world.mode = mode;
    const walker = world.walker();
    for (let look = 0; look < 5; look += 1) {
      await walker.pollHead(signal);
      world.clock.advance(10_000);
    }
    assert.deepEqual(world.covered(), [[99, 120]]);
    // All answers so far were old ones.
    world.trades = every(70, 0.5, 105);
    world.cap = 50;
    const { isConnected } = await walker.pollHead(signal);
    assert.equal(isConnected, false, mode);
    assert.equal(world.covered().length, 1);
    world.assertHonest();
    await fillAll(walker);
    world.assertHonest();
    assert.equal(world.covered()[0]?.[0], mode === 'skip' ? 106 : 116);
  }
});

test('where history is one endpoint, its pages prove trades with their exact times', async () => {
  const world = new TradeWorld(every(2500, 0.5), 1300);
  const walker = world.walkerOfHistory();
  assert.equal(walker.times, undefined);
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual([...new Set(world.exchange.asked.map(({ endpoint }) => endpoint))], ['history']);
  assert.deepEqual(world.covered(), [[1, 1300]]);
  assert.equal(world.untimed, 0);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a short absence leaves no gap in an empty market, a long one does', async () => {
  const world = new TradeWorld([], 100);
  const look = async (walker: ReturnType<TradeWorld['walker']>, times: number) => {
    for (let time = 0; time < times; time += 1) {
      await walker.pollHead(signal);
      world.clock.advance(6000);
    }
  };
  await look(world.walker(), 4);
  world.clock.advance(600_000);
  await look(world.walker(), 4);
  assert.equal(world.covered().length, 1);
  assert.equal(world.covered()[0]?.[0], 99);
  world.clock.advance(1_000_000);
  await look(world.walker(), 4);
  assert.equal(world.covered().length, 2, 'what happened meanwhile may have been forgotten');
  world.keptAtLeastMs = 300_000;
  let told: unknown;
  world.archive.before = (_method, batch) => {
    told = batch?.claims?.[0]?.evidence;
  };
  world.clock.advance(600_000);
  await look(world.walker(), 4);
  assert.equal(world.covered().length, 3, 'how long that takes is a setting');
  assert.deepEqual(told, { endpoint: 'historyResult', empty: true, keptAtLeastS: 300 });
});

test('trades after a long absence prove nothing of it, though the market was empty before', async () => {
  const world = new TradeWorld([], 100);
  const walker = world.walker();
  for (let look = 0; look < 4; look += 1) {
    await walker.pollHead(signal);
    world.clock.advance(6000);
  }
  const [empty] = world.covered();
  // What was traded in the absence is forgotten but for the newest.
  world.clock.advance(1_000_000);
  world.trades = every(10, 1, 1110);
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1111, 1124], empty]);
  assert.equal(world.archive.floorOf(1), START_MS + 99_000, 'what was expected stays so');
});

test('a market whose only trade lies before what is covered was not empty: a hole in its trades is no quiet time', async () => {
  const world = new TradeWorld([{ tid: 1, atS: 0.5 }], 100);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 100]]);
  // In a short absence more is traded than the exchange keeps.
  world.clock.advance(130_000);
  world.trades = every(40, 0.5, 200);
  const restarted = world.walker();
  await restarted.pollHead(signal);
  await fillAll(restarted);
  assert.deepEqual(world.covered(), [
    [201, 230],
    [1, 100],
  ]);
  assert.deepEqual(world.gaps().at(-1), [100, 201, 'unfillable']);
  assert.equal(world.archive.gaps.at(-1)?.reason, 'beyond history');
});

test('coverage ends with a whole second: what happens later in it was never called covered', async () => {
  const world = new TradeWorld(every(3, 2), 10.5);
  await world.walker().pollHead(signal);
  world.trades.push({ tid: 4, atS: 10.9 });
  world.assertHonest();
});

test('history bounded by a duration is walked to there and no further', async () => {
  const world = new TradeWorld(every(1000, 1), 1000);
  world.cap = 100;
  const walker = world.walker(450);
  await walker.pollHead(signal);
  await fillAll(walker);
  const [[fromS, toS] = [0, 0]] = world.covered();
  assert.ok(fromS <= 450 && fromS > 300, `covered from ${fromS}`);
  assert.equal(toS, 1000);
  assert.equal(world.covered().length, 1);
  assert.deepEqual(world.gaps(), []);
});

test('pages below all that is known are not held against what is stored', async () => {
  const world = new TradeWorld(every(1000, 1), 1000);
  world.cap = 100;
  const walker = world.walker();
  await walker.pollHead(signal);
  let reads = 0;
  world.archive.before = (method) => {
    reads += method === 'storedTrades' ? 1 : 0;
  };
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 1000]]);
  assert.equal(reads, 0);
});

test('a quiet market of a bounded history is asked for small pages', async () => {
  const world = new TradeWorld(every(500, 1), 10_000);
  const walker = world.walker(9000);
  for (let poll = 0; poll < 12; poll += 1) {
    await walker.pollHead(signal);
    world.clock.advance(6000);
  }
  assert.ok(Number(world.exchange.asked.at(-1)?.params.limit) < 100);
});

test('what the exchange has forgotten between two islands is unfillable, and asked for rarely', async () => {
  const world = new TradeWorld(every(50, 1), 60);
  const first = world.walker();
  await first.pollHead(signal);
  await fillAll(first);
  world.trades = every(100, 1, 200).map(({ tid, atS }) => ({ tid: tid + 1000, atS }));
  world.clock.advance(340_000);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [
    [201, 400],
    [1, 60],
  ]);
  assert.deepEqual(world.gaps().at(-1), [60, 201, 'unfillable']);
  const before = world.exchange.asked.length;
  world.clock.advance(1_800_000);
  await fillAll(walker);
  assert.equal(world.exchange.asked.length, before);
  world.record.assertAccounted('trades');
});

test('after a restart a page that begins amid time claimed by an old page is not joined to that claim', async () => {
  const world = new TradeWorld(every(40, 1), 60);
  await world.walker().pollHead(signal);
  assert.deepEqual(world.covered()[0]?.[1], 60, 'a cache has hidden the trades after 40 s');
  world.trades = every(105, 1);
  world.cap = 50;
  world.clock.advance(46_000);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  world.assertHonest();
});

test('trades that such a page has hidden are all fetched, below the gap as well, page after page', async () => {
  const world = new TradeWorld(every(200, 1).slice(0, 160), 200);
  const first = world.walker();
  await first.pollHead(signal);
  await fillAll(first);
  assert.deepEqual(world.covered(), [[1, 200]], 'a cache has hidden the trades after 160 s');
  world.trades = every(260, 1);
  world.cap = 20;
  world.clock.advance(60_000);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 260]]);
  world.assertHonest();
});

test('a head older than what is stored is an error and claims nothing, over a restart as well', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  const all = world.trades;
  const covered = world.covered();
  world.trades = all.slice(0, 15);
  world.clock.advance(60_000);
  await assert.rejects(walker.pollHead(signal), {
    code: 'walk_stalled',
    message: /its newest trade is 15, older than 20 and 4 more, which is stored/,
  });
  await assert.rejects(world.walker().pollHead(signal), { code: 'walk_stalled' });
  assert.deepEqual(world.covered(), covered);
  world.trades = all.slice(0, -1);
  await assert.rejects(world.walker().pollHead(signal), { message: /older than 20, which is/ });
  world.trades = [];
  await assert.rejects(walker.pollHead(signal), /its history is empty, and was not before/);
  assert.deepEqual(world.covered(), covered);
  world.record.assertAccounted('trades');
});

test('a trade that is dated into the future covers nothing, and leaves open where it may belong', async () => {
  const world = new TradeWorld([...every(20, 1), { tid: 21, atS: 40_000 }], 30);
  await world.walker().pollHead(signal);
  // The lowest row has one neighbour only, and waits for a second answer.
  assert.deepEqual(world.covered(), [[2, 19]]);
  assert.deepEqual(world.gaps(), [[19, 30, 'open']]);
  assert.match(world.archive.quarantine[0]?.reason ?? '', /beyond the present/);
});

test('the first second of the first exchanges is a time of trades, the one before it is refused', async () => {
  const firstS = Date.UTC(2009, 0, 1) / 1000 - START_S;
  for (const [atS, refused] of [
    [firstS, []],
    [firstS - 1, ['time outside the sane window']],
  ] as const) {
    const world = new TradeWorld(
      [
        { tid: 1, atS },
        { tid: 2, atS: 10 },
      ],
      30,
    );
    await world.walker().pollHead(signal);
    const reasons = world.archive.quarantine.map(({ reason }) => reason);
    assert.deepEqual(reasons, refused);
  }
});

test('rows of times that cannot be do not let one pass that is an hour ahead', async () => {
  const far = [100_000, 100_001, 100_002, 100_003];
  const ahead = [...every(20, 1), ...[3600, ...far].map((atS, at) => ({ tid: 21 + at, atS }))];
  const world = new TradeWorld(ahead, 30);
  await world.walker().pollHead(signal);
  const reasons = world.archive.quarantine.map(({ reason }) => reason);
  assert.equal(reasons.filter((one) => one === 'time outside the sane window').length, far.length);
  assert.equal(reasons.filter((one) => one.includes('beyond the present')).length, 1);
});

test('before its first look a walk has no gap of its own', () => {
  const walker = new TradeWorld(every(20, 1), 30).walker(0);
  assert.equal(walker.pendingGap(), undefined);
});

test('where the clock is behind, trades ahead of it are trades', async () => {
  const world = new TradeWorld(every(10, 1, 3600), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await walker.pollHead(signal);
  assert.equal(world.archive.trades.size, 10);
  assert.deepEqual(world.archive.quarantine, []);
});

test('a known trade with other fields is let through, counted as a conflict, and the first stays', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades[19] = { tid: 20, atS: 19, price: '11' };
  world.clock.advance(6000);
  await walker.pollHead(signal);
  await walker.pollHead(signal);
  assert.equal(world.record.outcomesOf('trades').conflict, 1, 'once');
  assert.equal(world.archive.trades.get(`7 ${START_S + 19} 20`)?.price, '10');
  world.record.assertAccounted('trades');
});

test('a page that could not be committed is counted as lost, claims nothing, and comes again', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  world.archive.before = (method) => {
    if (method === 'commit') throw new Error('no database');
  };
  await assert.rejects(walker.pollHead(signal), /no database/);
  // All but its lowest row, which no second answer has shown yet.
  assert.equal(world.record.outcomesOf('trades').lost, 19);
  world.archive.before = () => undefined;
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 30]]);
  world.record.assertAccounted('trades');
});

test('the islands that an earlier run left are gone on with, not begun anew', async () => {
  const world = new TradeWorld(every(500, 1), 600);
  world.cap = 100;
  const first = world.walker();
  await first.pollHead(signal);
  await first.fillStep(signal);
  await first.fillStep(signal);
  const asked = world.exchange.asked.length;
  const second = world.walker();
  assert.deepEqual(second.pendingGap(), {
    edgeMs: (world.archive.allRanges(1)[0] as CoveredRange).span.fromMs,
    isTop: true,
  });
  await fillAll(second);
  const requests = world.exchange.asked.length - asked;
  // Three pages, the last trade once more, and twice the end: that trade, and two empty looks below it.
  assert.ok(requests <= 10, `only what is left is asked for, not ${requests} times`);
  assert.deepEqual(world.covered(), [[1, 600]]);
});

test('a head that moved on by hundreds of pages is caught up with in few requests', async () => {
  const world = new TradeWorld(every(200, 1), 200);
  world.cap = 20;
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades = every(5200, 1);
  world.clock.advance(5_000_000);
  const before = world.exchange.asked.length;
  await assert.rejects(walker.fillStep(signal), { code: 'walk_stalled' });
  world.clock.advance(600_000);
  await walker.fillStep(signal);
  const requests = world.exchange.asked.length - before;
  assert.ok(requests <= 20, `${requests} requests to go down 250 pages`);
  assert.notEqual(world.covered()[0]?.[0], 181);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a page in no order at all is read in that of its ids, and covers what it would otherwise', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const inOrder = world.exchange.answers.historyResult ?? assert.fail();
  world.exchange.answers.historyResult = async (params) => {
    const rows = (await inOrder(params)) as unknown[];
    return rows.map((_, at) => rows[(at * 7) % rows.length]);
  };
  await world.walker().pollHead(signal);
  assert.deepEqual(world.covered(), [[2, 30]]);
  assert.deepEqual(world.archive.quarantine, []);
  const other = new TradeWorld(every(20, 1), 30);
  other.exchange.answers.historyResult = world.exchange.answers.historyResult;
  const unread = world.trades[10] ?? assert.fail();
  unread.isBroken = true;
  await other.walker().pollHead(signal);
  assert.deepEqual(other.covered(), [], 'a row that cannot be read may lie anywhere in it');
});

/** How each request from now on is sent. */
function optionsOf({ exchange }: TradeWorld): unknown[] {
  const call = exchange.call.bind(exchange);
  const how: unknown[] = [];
  exchange.call = (name, params, options) => {
    how.push(options);
    return call(name, params, options);
  };
  return how;
}

test('a step sends its first request with the turn that was reserved for it, and more of them before others', async () => {
  const world = new TradeWorld(every(200, 1), 200);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades = every(2000, 1);
  world.clock.advance(1_800_000);
  const how = optionsOf(world);
  const turn = await world.exchange.reserve('historyResult', 0, signal);
  await walker.fillStep(signal, turn).catch(() => undefined);
  const others = { priority: PRIORITY.head, signal };
  assert.ok(how.length > 2);
  assert.deepEqual(how, [{ ...others, turn }, ...how.slice(1).map(() => others)]);
});

test('a look sends its first request with the turn that was reserved for it, and more of them before others', async () => {
  const world = new TradeWorld(every(60, 1), 60);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades = every(200, 1);
  world.clock.advance(140_000);
  const how = optionsOf(world);
  const turn = await world.exchange.reserve('historyResult', 0, signal);
  await walker.pollHead(signal, turn);
  const others = { priority: PRIORITY.head, signal };
  assert.ok(how.length > 1);
  assert.deepEqual(how, [{ ...others, turn }, ...how.slice(1).map(() => others)]);
});

test('a page that ends in the second in which coverage does takes nothing back where its gap is walked', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  const later = [30, 30.5, 31, 32, 33].map((atS, at) => ({ tid: 21 + at, atS }));
  world.trades = [...world.trades, ...later];
  world.cap = later.length;
  world.clock.advance(5000);
  const { isConnected } = await walker.pollHead(signal);
  assert.equal(isConnected, false);
  assert.deepEqual(world.gaps(), []);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 35]]);
});

test('where no page can be had below the first of a run, what one answer claimed is taken back to its newest trade', async () => {
  for (const [trades, coveredS, isRestarted] of [
    [58, 57, true],
    [40, 50, true],
    // One of the second after it shows that nothing was missing.
    [61, 60, true],
    [58, 57, false],
    [40, 50, false],
  ] as const) {
    const world = new TradeWorld(every(trades, 1), 60);
    world.mode = 'id';
    const first = world.walker(0);
    await first.pollHead(signal);
    assert.equal(world.covered()[0]?.[1], 60);
    world.trades = every(200, 1);
    world.cap = 50;
    world.clock.advance(140_000);
    await (isRestarted ? world.walker(0) : first).pollHead(signal);
    assert.equal(world.covered().at(-1)?.[1], coveredS, 'a cache hides ten seconds at most');
  }
});

test('a page with trades that the one before lacked claims up to its newest one, the next one up to now', async () => {
  const world = new TradeWorld(every(50, 1), 60);
  const walker = world.walker();
  await walker.pollHead(signal);
  assert.equal(world.covered()[0]?.[1], 60);
  world.trades = [...world.trades, { tid: 51, atS: 55 }];
  world.clock.advance(5000);
  await walker.pollHead(signal);
  assert.equal(world.covered()[0]?.[1], 55);
  world.clock.advance(5000);
  await walker.pollHead(signal);
  assert.equal(world.covered()[0]?.[1], 70);
});

test('a step that is broken off by a shutdown counts as no try', async () => {
  for (const mode of ['skip', 'id'] as const) {
    const world = new TradeWorld(every(60, 1), 60);
    world.cap = 50;
    world.mode = mode;
    await world.walker(0).pollHead(signal);
    world.trades = every(500, 1);
    world.clock.advance(440_000);
    world.mode = 'skip';
    const walker = world.walker(0);
    await walker.pollHead(signal);
    world.mode = mode;
    const { memories } = world.archive;
    const before = structuredClone(memories);
    const stopping = new AbortController();
    world.exchange.answers.historyResult = () => {
      stopping.abort();
      throw new Error('the connection was closed');
    };
    assert.notEqual(walker.pendingGap(), undefined);
    await assert.rejects(walker.fillStep(stopping.signal), /was closed/);
    assert.deepEqual(memories, before, `${mode} mode`);
    assert.notEqual(walker.pendingGap(), undefined);
  }
});

test('a step for which there is no room in line counts as no try', async () => {
  const world = new TradeWorld(every(200, 1), 200);
  world.cap = 50;
  const walker = world.walker(0);
  await walker.pollHead(signal);
  const { memories } = world.archive;
  const before = structuredClone(memories);
  world.exchange.answers.historyResult = () => {
    throw new BudgetOverrunError(5);
  };
  await assert.rejects(walker.fillStep(signal), { code: 'budget_overrun' });
  assert.deepEqual(memories, before);
  assert.equal(walker.pendingGap(), undefined, 'it is put off');
});

test('coverage that was taken back elsewhere is read anew, once', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  let reads = 0;
  world.archive.before = (method) => {
    if (method !== 'coveredRanges') return;
    reads += 1;
    if (reads === 1) throw new Error('no database');
  };
  const { covered } = walker;
  const revokedToMs = (START_S + 10) * 1000;
  walker.revoked({ fromMs: START_S * 1000, toMs: revokedToMs });
  await assert.rejects(walker.pollHead(signal), /no database/);
  assert.deepEqual(walker.covered, [{ fromMs: revokedToMs, toMs: covered[0]?.toMs }]);
  for (let look = 0; look < 3; look += 1) await walker.pollHead(signal);
  assert.equal(reads, 2);
  assert.deepEqual(walker.covered, covered);
});

test('a look that reaches down to what is known takes nothing back, however many trades are new', async () => {
  for (const cap of [1000, 4]) {
    const world = new TradeWorld(every(20, 1), 30);
    const walker = world.walker();
    await walker.pollHead(signal);
    await fillAll(walker);
    const later = every(3, 1, 31).map(({ tid, atS }) => ({ tid: tid + 20, atS }));
    world.trades = [...world.trades, ...later];
    // The shorter page ends with the newest trade that is known.
    world.cap = cap;
    world.clock.advance(5000);
    const { newRows, isConnected } = await walker.pollHead(signal);
    assert.deepEqual([newRows, isConnected], [3, true]);
    assert.deepEqual(world.covered(), [[1, 35]]);
    assert.deepEqual(world.gaps(), []);
    assert.equal(world.record.progress.at(-1)?.newestMs, (START_S + 35) * 1000, 'that is told');
  }
});

test('a step into a gap tells its requests, and is no look that reached what was stored', async () => {
  const world = new TradeWorld(every(120, 1), 120);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  await walker.pollHead(signal);
  const { steps } = world.record;
  const polls = [steps[0], steps.at(-1)].map((one) => [one?.pages, one?.connected]);
  assert.deepEqual(polls, [
    [1, false],
    [1, true],
  ]);
  const into = steps.slice(1, -1);
  assert.ok(into.length > 2);
  assert.ok(into.every(({ connected }) => !connected));
});

test('a look at a second that is longer than a page reaches the chain that the look before has left', async () => {
  const flood = Array.from({ length: 3000 }, (_, at) => ({ tid: at + 1, atS: 20 + at / 5000 }));
  const world = new TradeWorld(flood, 21);
  const walker = world.walker();
  const isConnected: boolean[] = [];
  for (let look = 0; look < 3; look += 1) {
    isConnected.push((await walker.pollHead(signal)).isConnected);
    world.clock.advance(200);
  }
  assert.deepEqual(isConnected, [false, true, true]);
});

test('a look at the head takes no chain back up that a step has led down within one second', async () => {
  const flood = Array.from({ length: 6000 }, (_, at) => ({ tid: at + 1, atS: 20 + at / 10_000 }));
  const world = new TradeWorld(flood, 21);
  const walker = world.walker(0);
  for (let step = 0; step < 8; step += 1) {
    await walker.pollHead(signal);
    if (walker.pendingGap() !== undefined) await walker.fillStep(signal);
    world.clock.advance(20);
  }
  assert.equal(world.archive.trades.size, flood.length);
});
