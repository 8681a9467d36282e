import assert from 'node:assert/strict';
import test from 'node:test';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import { WalkStalledError } from '../../../src/collect/trades/walk-errors.js';
import type { TradeWalker } from '../../../src/collect/trades/walker.js';
import { FakeTime } from '../../support/fake-time.js';
import {
  every,
  fillAll,
  START_S,
  signal,
  type Trade,
  TradeWorld,
} from '../../support/worlds/trade-world.js';

/** An exchange that lies about ids and times of its rows, once or for good. */

const DAY_S = 86_400;
const MILLION = 1_000_000;
/** Too small a step to look odd. */
const SMALL = 7;

/** A market with a trade a second, looked at every second; `lie` befalls the newest row of one answer. */
async function lookOn(
  world: TradeWorld,
  walker: TradeWalker,
  seconds: number,
  next: (atS: number) => Trade,
): Promise<number> {
  let stalled = 0;
  for (let second = 0; second < seconds; second += 1) {
    world.clock.advance(1000);
    world.trades.push(next((world.clock.wallMs() - START_S * 1000) / 1000 - 0.5));
    await walker.pollHead(signal).catch((error: unknown) => {
      assert.match(String(error), /no progress|away/);
      stalled += 1;
    });
    await fillAll(walker);
  }
  return stalled;
}

/** Lets the newest row of the next answer lie; the truth is told ever after. */
function lieOnce(world: TradeWorld, lie: (row: Trade) => Trade): void {
  const truth = world.trades;
  const newest = truth.at(-1) ?? assert.fail();
  world.liesOnce = [...truth.slice(0, -1), lie(newest)];
}

const LIES: ReadonlyArray<readonly [string, (row: Trade) => Trade]> = [
  ['an id a million too large', (row) => ({ ...row, tid: row.tid + MILLION })],
  [
    'such an id and the time of yesterday',
    (row) => ({ ...row, tid: row.tid + MILLION, atS: row.atS - DAY_S }),
  ],
  [
    'such an id and a time 20 h ahead',
    (row) => ({ ...row, tid: row.tid + MILLION, atS: row.atS + 20 * 3600 }),
  ],
  ['the time of yesterday', (row) => ({ ...row, atS: row.atS - DAY_S })],
  ['a time 20 h ahead', (row) => ({ ...row, atS: row.atS + 20 * 3600 })],
  ['a time some seconds early', (row) => ({ ...row, atS: row.atS - 1.5 })],
  ['a time some seconds ahead', (row) => ({ ...row, atS: row.atS + 7 })],
];

for (const [what, lie] of LIES) {
  for (const isRestarted of [false, true]) {
    const how = isRestarted ? ', over a restart' : '';
    test(`one row at the head with ${what} does not stop the walk${how}`, async () => {
      const world = new TradeWorld(every(300, 1), 300);
      let walker = world.walker();
      const next = (atS: number): Trade => ({ tid: Math.floor(atS) + 1, atS });
      await lookOn(world, walker, 5, next);
      lieOnce(world, lie);
      await walker.pollHead(signal).catch(() => undefined);
      if (isRestarted) walker = world.walker();
      await lookOn(world, walker, 30, next);
      const nowS = (world.clock.wallMs() - START_S * 1000) / 1000;
      assert.deepEqual(world.covered(), [[1, nowS]]);
      world.assertHonest();
      world.assertNothingElse();
    });
  }
}
for (const isAway of [false, true]) {
  const how = isAway ? ' while nobody looked' : '';
  test(`a counter that begins anew${how} begins an epoch of ids`, async () => {
    const world = new TradeWorld(every(300, 1), 300);
    for (const trade of world.trades) trade.tid += MILLION;
    let walker = world.walker();
    await lookOn(world, walker, 5, (atS) => ({ tid: MILLION + Math.floor(atS) + 1, atS }));
    const beginsS = (world.clock.wallMs() - START_S * 1000) / 1000;
    const next = (atS: number): Trade => ({ tid: Math.floor(atS - beginsS) + 1, atS });
    if (isAway) {
      for (let second = 0; second < 120; second += 1) {
        world.clock.advance(1000);
        world.trades.push(next(beginsS + second + 0.5));
      }
      world.cap = 50;
      walker = world.walker();
    }
    assert.equal(await lookOn(world, walker, 30, next), 0, 'it never stalls');
    const seams = world.archive.gaps.filter(({ reason }) => reason === 'ids begun anew');
    assert.equal(seams.length, isAway ? 1 : 0, 'a seam that no page has shown is a gap');
    const nowS = (world.clock.wallMs() - START_S * 1000) / 1000;
    assert.deepEqual(world.covered(), [[1, nowS]]);
    assert.deepEqual(await lookOn(world, world.walker(), 5, next), 0, 'nor after a restart');
    world.assertHonest();
    world.assertNothingElse();
    assert.deepEqual(
      world.archive.epochs.map(({ marketId, beginsMs, lastIdBefore }) => ({
        marketId,
        beginsS: beginsMs / 1000 - START_S,
        lastIdBefore,
      })),
      [{ marketId: 7, beginsS: Math.floor(beginsS), lastIdBefore: MILLION + beginsS }],
    );
    assert.equal(world.record.epochs.length, 1, 'that is said once');
  });
}

for (const cap of [12, 13, 14, 16, 17, 18, 20, 22, 26]) {
  test(`ids begin anew amid a second of 15 trades, told in pages of ${cap}`, async () => {
    const world = new TradeWorld(every(30, 1), 30);
    for (const trade of world.trades) trade.tid += MILLION;
    await lookOn(world, world.walker(), 5, (atS) => ({
      ...{ tid: MILLION + Math.floor(atS) + 1, atS },
    }));
    const beginsS = (world.clock.wallMs() - START_S * 1000) / 1000;
    let tid = 2 * MILLION;
    for (let second = 0; second < 30; second += 1) {
      world.clock.advance(1000);
      for (let part = 0; part < 15; part += 1) {
        if (second === 10 && part === 7) tid = 0;
        tid += 1;
        world.trades.push({ tid, atS: beginsS + second + (part + 0.5) / 15 });
      }
    }
    world.cap = cap;
    const walker = world.walker();
    const next = (atS: number): Trade => ({ tid: 1000 + Math.floor(atS), atS });
    for (let stalls = 0, isDone = false; !isDone; stalls += isDone ? 0 : 1) {
      assert.ok(stalls <= 2, 'pages that end within that second do not stop it');
      isDone = await lookOn(world, walker, 5, next).then(
        () => true,
        (error: unknown) => {
          if (error instanceof WalkStalledError) return false;
          throw error;
        },
      );
    }
    const nowS = (world.clock.wallMs() - START_S * 1000) / 1000;
    assert.deepEqual(world.covered(), [[1, nowS]]);
    world.assertHonest();
  });
}

/** Looks on for a while; how many seconds it takes until coverage reaches the present for good. */
async function secondsBehind(
  world: TradeWorld,
  walker: TradeWalker,
  seconds: number,
  next: (atS: number) => Trade,
): Promise<number> {
  let behind = 0;
  for (let second = 1; second <= seconds; second += 1) {
    await lookOn(world, walker, 1, next).catch((error: unknown) => {
      if (!(error instanceof WalkStalledError)) throw error;
    });
    const nowS = (world.clock.wallMs() - START_S * 1000) / 1000;
    if ((world.covered()[0]?.[1] ?? 0) < nowS) behind = second;
  }
  return behind;
}

for (const renumbered of [549, 1500]) {
  test(`ids begin anew from ${renumbered} trades before the newest one, which were shown already`, async () => {
    const world = new TradeWorld(every(3000, 1), 3000);
    for (const trade of world.trades) trade.tid += MILLION;
    const walker = world.walker();
    await lookOn(world, walker, 5, (atS) => ({ tid: MILLION + Math.floor(atS) + 1, atS }));
    const beginsS = 3005 - renumbered;
    const renamed = (trade: Trade): Trade =>
      trade.atS < beginsS ? trade : { ...trade, tid: Math.floor(trade.atS) - beginsS + 1 };
    world.trades = world.trades.map(renamed);
    const next = (atS: number) => renamed({ tid: 0, atS });
    const behind = await secondsBehind(world, walker, 60, next);
    assert.ok(behind > 0 && behind <= 30, `${behind} s`);
    await secondsBehind(world, walker, 60, next);
    const nowS = (world.clock.wallMs() - START_S * 1000) / 1000;
    assert.deepEqual(world.covered(), [[1, nowS]]);
    world.assertHonest();
    world.assertNothingElse();
    const seams = world.archive.epochs.map(({ beginsMs }) => beginsMs / 1000 - START_S);
    assert.deepEqual(seams, [beginsS]);
  });
}

for (const [what, perS] of [
  ['', 1],
  [', more of them than a page holds', 60],
] as const) {
  test(`each trade is shown under two ids for ten seconds${what}`, async () => {
    const count = 600 * perS;
    const world = new TradeWorld(every(count, 1 / perS), 600);
    const walker = world.walker();
    const next = (atS: number): Trade => ({ tid: count + Math.floor(atS) - 599, atS });
    await lookOn(world, walker, 5, next);
    const answers = { ...world.exchange.answers };
    const { history = assert.fail(), historyResult = assert.fail() } = answers;
    const twice = (rows: unknown, key: string) =>
      (rows as Record<string, number>[]).flatMap((row) => [
        { ...row, [key]: (row[key] ?? 0) + MILLION },
        row,
      ]);
    world.exchange.answers.history = async (params) => twice(await history(params), 'id');
    world.exchange.answers.historyResult = async (params) =>
      twice(await historyResult(params), 'tid');
    await secondsBehind(world, walker, 10, next);
    Object.assign(world.exchange.answers, answers);
    const behind = await secondsBehind(world, walker, 60, next);
    assert.ok(behind > 0 && behind <= 30, `${behind} s`);
    await secondsBehind(world, walker, 60, next);
    const nowS = (world.clock.wallMs() - START_S * 1000) / 1000;
    assert.deepEqual(world.covered(), [[1, nowS]]);
    world.assertHonest();
    world.assertNothingElse();
  });
}

for (const count of [3, 50]) {
  for (const isAway of [false, true]) {
    const how = isAway
      ? 'are exposed while the other one fails'
      : 'stay if the other one shows them';
    test(`${count} trades that one endpoint does not show any more ${how}`, async () => {
      const world = new TradeWorld(every(300, 1), 300);
      const walker = world.walkerWithTimes();
      const next = (atS: number): Trade => ({ tid: Math.floor(atS) + 1, atS });
      await lookOn(world, walker, 60, next);
      const whole = world.exchange.answers.historyResult ?? assert.fail();
      world.exchange.answers.historyResult = async (params) => {
        const limit = Number(params.limit);
        const asked = { ...params, limit: Math.min(1000, limit + count) };
        const rows = (await whole(asked)) as { tid: number }[];
        return rows.filter(({ tid }) => tid < 358 - count || tid >= 358).slice(0, limit);
      };
      if (isAway) {
        world.exchange.answers.history = () => {
          throw new Error('away');
        };
      }
      const stalled = await lookOn(world, walker, 60, next);
      const exposed = world.record.exposed.reduce((sum, one) => sum + one.count, 0);
      assert.equal(exposed, isAway ? count : 0);
      assert.equal(stalled > 0, count > 5, `${stalled} looks`);
      if (!isAway) assert.equal(world.archive.trades.size, 420);
      assert.deepEqual(world.covered(), [[1, 420]]);
    });
  }
}

test('a wrong row that was stored just before the end of a run is exposed by the pages that fill the gap', async () => {
  const world = new TradeWorld(every(300, 1), 300);
  const next = (atS: number): Trade => ({ tid: Math.floor(atS) + 1, atS });
  await lookOn(world, world.walker(), 5, next);
  world.clock.advance(1000);
  world.trades.push(next(305.5));
  lieOnce(world, (row) => ({ ...row, tid: row.tid + SMALL }));
  await world.walker().pollHead(signal);
  assert.ok(world.archive.trades.has(`7 ${START_S + 305} ${306 + SMALL}`), 'the run ends with it');
  for (let second = 306; second < 600; second += 1) {
    world.clock.advance(1000);
    world.trades.push(next(second + 0.5));
  }
  world.cap = 60;
  await lookOn(world, world.walker(), 5, next);
  world.assertHonest();
  world.assertNothingElse();
  assert.deepEqual(world.covered(), [[1, 605]]);
});

test('a wrong row deep in the first page after a restart is exposed', async () => {
  const world = new TradeWorld(every(300, 1), 300);
  const next = (atS: number): Trade => ({ tid: Math.floor(atS) + 1, atS });
  world.trades.push(next(300.5));
  world.clock.advance(1000);
  lieOnce(world, (row) => ({ ...row, tid: row.tid + SMALL }));
  await world.walker().pollHead(signal);
  for (let second = 301; second < 1000; second += 1) {
    world.clock.advance(1000);
    world.trades.push(next(second + 0.5));
  }
  await lookOn(world, world.walker(), 5, next);
  world.assertHonest();
  world.assertNothingElse();
});

for (const [what, lie] of LIES) {
  test(`the last row of a page with ${what} is not believed, and claims nothing`, async () => {
    const world = new TradeWorld(every(300, 1), 300);
    world.cap = 50;
    const walker = world.walker();
    world.liesOnce = world.trades.map((row, at) => (at === 250 ? lie(row) : row));
    await walker.pollHead(signal);
    world.assertHonest();
    world.assertNothingElse();
    await lookOn(world, walker, 30, (atS) => ({ tid: Math.floor(atS) + 1, atS }));
    assert.deepEqual(world.covered(), [[1, 330]]);
    world.assertHonest();
    world.assertNothingElse();
  });
}

test('a trade that one endpoint cannot show in a readable form stays, as the other one told it', async () => {
  const world = new TradeWorld(every(300, 1), 300);
  const walker = world.walkerWithTimes(0);
  await walker.times?.pollHead(signal);
  const unread = world.trades[150] ?? assert.fail();
  unread.isBroken = true;
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.ok(world.archive.trades.has(`7 ${START_S + 150} ${unread.tid}`));
  assert.deepEqual(world.record.exposed, []);
});

/** A second run behind a gap, whose first run stored what lies below it; and the answers that show all. */
async function secondRun() {
  const world = new TradeWorld(every(60, 1), 60);
  const first = world.walker();
  await first.pollHead(signal);
  await fillAll(first);
  world.trades = every(130, 1);
  world.clock.advance(70_000);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  const whole = world.exchange.answers.historyResult ?? assert.fail();
  return { world, walker, whole };
}

test('a stored trade that one page lacks stays, where the next page does not reach down to it', async () => {
  const { world, walker, whole } = await secondRun();
  let answers = 0;
  world.exchange.answers.historyResult = async (params) => {
    const rows = (await whole(params)) as { tid: number }[];
    answers += 1;
    return answers === 1 ? rows.filter(({ tid }) => tid !== 45) : rows.slice(0, 20);
  };
  await walker.fillStep(signal);
  assert.ok(answers > 1, 'it is asked for again');
  world.exchange.answers.historyResult = whole;
  await fillAll(walker);
  assert.deepEqual(world.record.exposed, []);
  assert.deepEqual(world.covered(), [[1, 130]]);
  world.assertHonest();
});

for (const [what, lackedBy] of [
  ['that the next page shows', (tid: number, answer: number) => tid === 45 && answer === 1],
  ['of more than a slip of one answer', (tid: number) => tid > 40 && tid <= 46],
] as const) {
  test(`stored trades ${what} are not exposed by a page that lacks them, which is an error`, async () => {
    const { world, walker, whole } = await secondRun();
    let answers = 0;
    world.exchange.answers.historyResult = async (params) => {
      const rows = (await whole(params)) as { tid: number }[];
      answers += 1;
      return rows.filter(({ tid }) => !lackedBy(tid, answers));
    };
    const expected = { code: 'walk_stalled', message: /contradict what they held before/ };
    await assert.rejects(walker.fillStep(signal), expected);
    assert.equal(answers, 2, 'it is asked for again');
    world.exchange.answers.historyResult = whole;
    assert.deepEqual(world.record.exposed, []);
    assert.equal(world.archive.trades.has(`7 ${START_S + 44} 45`), true);
  });
}

test('a newest row that never was is exposed at the first look of which one answer is newer', async () => {
  const world = new TradeWorld(every(300, 1), 310);
  const walker = world.walker();
  world.liesOnce = [...world.trades, { tid: 301, atS: 306 }];
  await walker.pollHead(signal);
  const answer = world.exchange.answers.historyResult ?? assert.fail();
  const sizes: unknown[] = [];
  world.exchange.answers.historyResult = (params) => {
    // It happens after the first answer, which is as old as the false one.
    if (sizes.length === 1) world.trades.push({ tid: 301, atS: 304 });
    sizes.push(params.limit);
    return answer(params);
  };
  world.clock.advance(1000);
  await walker.pollHead(signal);
  assert.equal(sizes.length, 3);
  assert.equal(world.record.exposed.length, 1);
  world.assertNothingElse();
});

test('a newest row that looks odd is no trade that its page lacks, and is claimed once a second answer shows it', async () => {
  const world = new TradeWorld(every(10, 1), 11);
  const { clock, record: telemetry } = world;
  const time = new FakeTime(clock);
  const evidence = new TradeEvidence({ market: 'A', time, clock, telemetry });
  world.extras = { evidence };
  const look = (volume: string) =>
    evidence.looked('states', { last: '10', volume, deal: null }, time.nowMs());
  const walker = world.walker();
  await walker.pollHead(signal);
  clock.advance(20_000);
  look('1');
  clock.advance(1000);
  world.trades.push({ tid: 10 + 100, atS: 31.5 });
  clock.advance(1000);
  look('2');
  clock.advance(5000);
  const claimed: boolean[] = [];
  for (let answer = 0; answer < 2; answer += 1) {
    await walker.pollHead(signal);
    claimed.push(world.covered().some(([fromS, toS]) => fromS <= 31 && 32 <= toS));
    clock.advance(1000);
  }
  assert.deepEqual(claimed, [false, true]);
  assert.deepEqual(world.record.stale, []);
  world.assertHonest();
});
