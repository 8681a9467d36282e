import assert from 'node:assert/strict';
import test from 'node:test';
import type { TradeWalker } from '../../../src/collect/trades/walker.js';
import {
  every,
  fillAll,
  START_MS,
  START_S,
  signal,
  type Trade,
  TradeWorld,
} from '../../support/worlds/trade-world.js';

const nextOf = (atS: number): Trade => ({ tid: Math.floor(atS) + 1, atS });

/** Lets trades happen for some seconds, one each. */
function pass(world: TradeWorld, seconds: number): void {
  for (let second = 0; second < seconds; second += 1) {
    world.clock.advance(1000);
    world.trades.push(nextOf((world.clock.wallMs() - START_MS) / 1000 - 0.5));
  }
}

async function walked(world: TradeWorld): Promise<TradeWalker> {
  const walker = world.walkerWithTimes();
  await walker.times?.pollHead(signal);
  await walker.pollHead(signal);
  await fillAll(walker);
  return walker;
}

/** Exact time of a stored trade, seconds after the start; null while it is not known. */
function timeOf({ archive }: TradeWorld, tid: number): number | null {
  const row = [...archive.trades.values()].find((one) => one.tid === tid) ?? assert.fail();
  return row.executedAtUs === null ? null : row.executedAtUs / 1e6 - START_S;
}

/** Fills exact times until none are due. */
async function fillTimes({ times }: TradeWalker, limit = 200): Promise<number> {
  let steps = 0;
  for (; times?.isDue === true; steps += 1) {
    assert.ok(steps < limit, 'the passes do not end');
    await times.fillStep(signal);
  }
  return steps;
}

/** The endpoint leaves out some trades. */
function leaveOut(
  world: TradeWorld,
  endpoint: 'history' | 'historyResult',
  isLeftOut: (tid: number) => boolean,
): void {
  const whole = world.exchange.answers[endpoint] ?? assert.fail();
  world.exchange.answers[endpoint] = async (params: Parameters<typeof whole>[0]) => {
    const rows = (await whole({ ...params, limit: 1000 } as never)) as {
      id?: number;
      tid?: number;
    }[];
    const shown = rows.filter(({ id, tid }) => !isLeftOut(id ?? tid ?? 0));
    return shown.slice(0, Number(params.limit));
  };
}

test('new trades are stored with exact times first, and claimed by the other endpoint alone', async () => {
  const world = new TradeWorld(every(300, 1), 300);
  const walker = await walked(world);
  const [before] = world.covered();
  pass(world, 10);
  const look = await walker.times?.pollHead(signal);
  assert.equal(look?.newRows, 10);
  assert.equal(world.archive.trades.size, 310);
  assert.deepEqual(world.covered(), [before], 'nothing is claimed yet');
  const proof = await walker.pollHead(signal);
  assert.equal(proof.isOpen, false, 'nothing was new to the archive');
  assert.deepEqual(world.covered(), [[1, 310]]);
  assert.equal(timeOf(world, 310), 309.5);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a look that brings trades without exact times asks for the other endpoint', async () => {
  const world = new TradeWorld(every(300, 1), 300);
  const walker = await walked(world);
  pass(world, 3);
  assert.equal((await walker.pollHead(signal)).isOpen, true);
  await walker.times?.pollHead(signal);
  assert.equal((await walker.pollHead(signal)).isOpen, false);
  assert.equal(timeOf(world, 303), 302.5);
});

test('an exact time just below a second does not move the trade into the next one', async () => {
  const world = new TradeWorld(
    [0.2, 0.9999998].map((atS, at) => ({ tid: at + 1, atS })),
    1.5,
  );
  const walker = world.walkerWithTimes();
  await walker.times?.pollHead(signal);
  const stored = world.archive.trades.get(`7 ${START_S} 2`);
  assert.equal(stored?.executedAtUs, START_S * 1e6 + 999_999);
});

test('a trade of covered time that the proving endpoint lacked revokes its second, and no more', async () => {
  const world = new TradeWorld(every(300, 1), 300);
  const whole = world.exchange.answers.historyResult ?? assert.fail();
  leaveOut(world, 'historyResult', (tid) => tid === 303);
  const walker = await walked(world);
  pass(world, 10);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[1, 310]]);
  await walker.times?.pollHead(signal);
  assert.deepEqual(world.covered(), [
    [303, 310],
    [1, 302],
  ]);
  assert.equal(world.record.stale.length, 1, 'the dispute is counted');
  world.exchange.answers.historyResult = whole;
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 310]]);
  world.assertHonest();
});

for (const count of [1, 8]) {
  test(`${count} trades that only the endpoint with exact times shows stay, and are covered in the end`, async () => {
    const world = new TradeWorld(every(300, 1), 300);
    leaveOut(world, 'historyResult', (tid) => tid > 302 && tid <= 302 + count);
    const walker = await walked(world);
    for (let second = 0; second < 120; second += 1) {
      pass(world, 1);
      await walker.times?.pollHead(signal);
      await walker.pollHead(signal).catch((error: unknown) => assert.match(`${error}`, /progress/));
      await fillAll(walker);
    }
    assert.deepEqual(world.covered(), [[1, 420]]);
    assert.equal(world.archive.trades.size, 420);
    assert.deepEqual(world.record.exposed, []);
    assert.ok(world.record.stale.length > 0, 'the dispute is counted');
    world.assertHonest();
    // Once it is settled, nothing goes on.
    const { length } = world.record.stale;
    for (let second = 0; second < 30; second += 1) {
      pass(world, 1);
      await walker.times?.pollHead(signal);
      await walker.pollHead(signal);
    }
    assert.equal(world.record.stale.length, length);
  });
}

test('a trade that the endpoint with exact times made up is exposed by the other one', async () => {
  const world = new TradeWorld(every(300, 1), 300);
  const walker = await walked(world);
  pass(world, 4);
  const truth = world.trades;
  world.liesOnce = [...truth.slice(0, -2), { tid: 5000, atS: 302.2 }, ...truth.slice(-2)];
  await walker.times?.pollHead(signal);
  assert.ok(world.archive.trades.has(`7 ${START_S + 302} 5000`));
  for (let second = 0; second < 30; second += 1) {
    pass(world, 1);
    await walker.times?.pollHead(signal);
    await walker.pollHead(signal).catch((error: unknown) => assert.match(`${error}`, /progress/));
    await fillAll(walker);
  }
  assert.equal(world.record.exposed.length, 1);
  assert.deepEqual(world.covered(), [[1, 334]]);
  world.assertHonest();
  world.assertNothingElse();
});

test('after three failures the endpoint with exact times proves, and the other one is tried each minute', async () => {
  const world = new TradeWorld(every(300, 1), 300);
  const walker = await walked(world);
  const answer = world.exchange.answers.historyResult ?? assert.fail();
  world.exchange.answers.historyResult = () => {
    throw new Error('away');
  };
  for (let failure = 0; failure < 3; failure += 1) {
    pass(world, 1);
    assert.equal(walker.endpoint, 'historyResult');
    await assert.rejects(walker.pollHead(signal), /away/);
  }
  pass(world, 1);
  await walker.pollHead(signal);
  assert.equal(walker.endpoint, 'history');
  assert.deepEqual(world.covered(), [[1, 304]]);
  pass(world, 60);
  await assert.rejects(walker.pollHead(signal), /away/);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[1, 364]]);
  world.exchange.answers.historyResult = answer;
  pass(world, 60);
  await walker.pollHead(signal);
  assert.equal(walker.endpoint, 'historyResult');
  assert.deepEqual(world.covered(), [[1, 424]]);
  world.assertHonest();
});

test('history is walked once; exact times of older trades follow, and cost the same pages', async () => {
  const world = new TradeWorld(every(20_000, 0.5), 10_001);
  const walker = await walked(world);
  const first = world.exchange.countOf('historyResult');
  assert.ok(first <= 40, `${first} requests for ${world.archive.trades.size} trades`);
  assert.equal(world.exchange.countOf('history'), 1);
  assert.equal(world.untimed, 19_001);
  await fillTimes(walker);
  // The oldest row of all has no neighbour below that would show it a second time.
  assert.ok(world.untimed <= 1, `${world.untimed} rows lack their times`);
  const asked = world.exchange.countOf('history');
  assert.ok(asked <= 26, `${asked} requests`);
  assert.equal(world.exchange.countOf('historyResult'), first);
  world.record.assertAccounted('trades');
});

test('exact times wait for gaps, and what a pass does not bring rests a day', async () => {
  const world = new TradeWorld(every(3000, 1), 3001);
  leaveOut(world, 'history', (tid) => tid >= 1000 && tid < 1010);
  const walker = world.walkerWithTimes();
  await walker.pollHead(signal);
  assert.equal(walker.times?.isDue, false, 'a gap is open');
  await fillAll(walker);
  await fillTimes(walker);
  assert.ok(world.untimed >= 10 && world.untimed <= 11, `${world.untimed}`);
  const asked = world.exchange.countOf('history');
  for (let hour = 0; hour < 23; hour += 1) {
    world.clock.advance(3_600_000);
    await fillAll(walker);
    await fillTimes(walker);
  }
  assert.equal(world.exchange.countOf('history'), asked, 'nothing is asked in vain');
  pass(world, 30);
  await walker.pollHead(signal);
  world.clock.advance(3_600_000);
  await walker.pollHead(signal);
  await fillAll(walker);
  await fillTimes(walker);
  assert.ok(world.untimed <= 11, 'later rows do not rest');
});

test('in id mode exact times come at the head only', async () => {
  const world = new TradeWorld(every(3000, 1), 3001);
  world.mode = 'id';
  const walker = world.walkerWithTimes();
  await walker.pollHead(signal);
  assert.equal(walker.times?.isDue, false);
  await walker.times?.pollHead(signal);
  assert.equal(world.untimed, 0);
});
