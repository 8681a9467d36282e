import assert from 'node:assert/strict';
import test from 'node:test';
import { every, fillAll, START_MS, signal, TradeWorld } from '../../support/worlds/trade-world.js';

/** The walk where rows of a page cannot be read: what they put in doubt stays open. */

test('a refused row in the middle of a page leaves its seconds open, listed, and the rest covered', async () => {
  const trades = every(10, 2);
  trades[5] = { tid: 6, atS: 10, isBroken: true };
  const world = new TradeWorld(trades, 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [
    [13, 30],
    [1, 8],
  ]);
  assert.deepEqual(world.gaps(), [[8, 13, 'open']]);
  const [memory] = world.archive.memories.get(1) ?? [];
  assert.equal((memory?.nextAttemptAtMs ?? 0) - world.clock.wallMs(), 600_000);
  assert.equal(world.archive.quarantine.length, 1);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a refused newest row leaves everything above the readable one open', async () => {
  const trades = every(5, 2);
  trades[4] = { tid: 5, atS: 8, isBroken: true };
  const world = new TradeWorld(trades, 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 6]]);
  assert.deepEqual(world.gaps(), [[6, 30, 'open']]);
  for (let look = 0; look < 5; look += 1) {
    world.clock.advance(1000);
    await walker.pollHead(signal);
  }
  assert.equal(world.gaps().length, 2, 'its growth is not written at every look');
  for (let poll = 0; poll < 5; poll += 1) {
    world.clock.advance(6000);
    await walker.pollHead(signal);
  }
  assert.equal(world.archive.quarantine.length, 1, 'the same refused row is kept once');
  assert.deepEqual(
    world.record.gaps.map(({ count }) => count),
    world.record.gaps.map((_, at) => (at === 0 ? 1 : 0)),
    'a gap that grows is found once',
  );
  assert.deepEqual(world.gaps().at(-1), [6, 65, 'open']);
  world.record.assertAccounted('trades');
  world.trades.push({ tid: 6, atS: 66 });
  world.clock.advance(6000);
  await walker.pollHead(signal);
  world.trades[4] = { tid: 5, atS: 8 };
  world.clock.advance(1_200_000);
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.equal(world.covered().length, 1, 'a row that can be read later closes the gap');
  world.assertHonest();
});

test('refused rows at the bottom of history leave its begin open, without asking again and again', async () => {
  const trades = every(6, 2);
  trades[0] = { tid: 1, atS: 0, isBroken: true };
  trades[1] = { tid: 2, atS: 2, isBroken: true };
  const world = new TradeWorld(trades, 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[5, 30]]);
  assert.equal(world.archive.floorOf(1), null, 'the begin of history is not known');
  assert.deepEqual(world.gaps(), [[4, 5, 'open']]);
  const before = world.exchange.asked.length;
  world.clock.advance(60_000);
  await fillAll(walker);
  assert.equal(world.exchange.asked.length, before);
  world.trades = every(6, 2);
  world.clock.advance(600_000);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 30]]);
  assert.equal(world.archive.floorOf(1), START_MS + 1000);
});

test('refused rows across the end of a page do not stop the walk below them', async () => {
  const trades = every(400, 1);
  for (const index of [298, 299, 300, 301, 302]) {
    trades[index] = { tid: index + 1, atS: index, isBroken: true };
  }
  const world = new TradeWorld(trades, 450);
  world.cap = 100;
  const walker = world.walker();
  await walker.pollHead(signal);
  const steps = await fillAll(walker);
  assert.ok(steps < 12, `${steps} steps for 400 trades in pages of 100`);
  assert.deepEqual(world.covered(), [
    [304, 450],
    [1, 297],
  ]);
  assert.ok(world.archive.gaps.length > 0);
  assert.ok(
    world.gaps().every(([fromS, toS, state]) => fromS >= 297 && toS <= 304 && state === 'open'),
  );
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a page full of refused rows is no end of history', async () => {
  const trades = every(400, 1).map((trade) =>
    trade.tid > 100 && trade.tid < 300 ? { ...trade, isBroken: true } : trade,
  );
  const world = new TradeWorld(trades, 450);
  world.cap = 100;
  const walker = world.walker();
  await walker.pollHead(signal);
  await assert.rejects(fillAll(walker), { code: 'walk_stalled' });
  assert.equal(walker.pendingGap(), undefined, 'it is put off');
  assert.equal(world.archive.floorOf(1), null);
  assert.ok(world.archive.gaps.every(({ state }) => state === 'open'));
  assert.ok(world.archive.quarantine.length > 90, 'refused rows are kept');
  world.record.assertAccounted('trades');
});

test('a stale head is seen after a restart although the newest island holds no trade', async () => {
  const trades = every(20, 1);
  trades[18] = { tid: 19, atS: 18, isBroken: true };
  const world = new TradeWorld(trades, 30);
  await world.walker().pollHead(signal);
  assert.deepEqual(world.covered()[0], [20, 30]);
  world.trades = trades.slice(0, 10);
  world.clock.advance(60_000);
  const before = world.covered();
  await assert.rejects(world.walker().pollHead(signal), { code: 'walk_stalled' });
  assert.deepEqual(world.covered(), before);
});

test('a row that is refused after it was stored opens no gap in what is covered', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  world.trades[10] = { tid: 11, atS: 10, isBroken: true };
  world.clock.advance(6000);
  await walker.pollHead(signal);
  assert.deepEqual(world.gaps(), []);
  assert.deepEqual(world.covered(), [[1, 36]]);
});

test('a refused row in the covered time below a gap leaves nothing open once that gap is closed', async () => {
  const world = new TradeWorld(every(60, 1), 60);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  world.trades = every(150, 1);
  world.clock.advance(90_000);
  await walker.pollHead(signal);
  // The page below the head ends with the row below this one, in time that is covered.
  const unread = world.trades[52] ?? assert.fail();
  unread.isBroken = true;
  await fillAll(walker);
  assert.ok(world.archive.quarantine.length > 0);
  assert.deepEqual(world.covered(), [[1, 150]]);
  assert.deepEqual(world.gaps(), []);
});

test('a refused row is kept at once, also by a look that brings nothing else', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  world.trades.push({ tid: 21, atS: 30.5, isBroken: true });
  world.clock.advance(1000);
  await walker.pollHead(signal);
  assert.equal(world.archive.quarantine.length, 1);
});

/** Where an offset of 0 is refused, 1 is sent, as the client does it. */
function refuseZero({ exchange }: TradeWorld): void {
  const call = exchange.call.bind(exchange);
  exchange.call = async (name, params, options) => {
    const isNewest = 'since' in params && params.since === 0;
    const reply = await call(name, isNewest ? { ...params, since: 1 } : params, options);
    return { ...reply, isRaised: isNewest };
  };
}

test('an offset of at least 1 that counts trades hides the newest: nothing is claimed of it', async () => {
  const world = new TradeWorld(every(5, 2), 30);
  refuseZero(world);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  world.assertHonest();
  assert.deepEqual(world.covered(), [[1, 6]], 'the trade of second 8 is not on any page');
  assert.deepEqual(world.archive.memories.get(1) ?? [], [], 'no row was refused');
  world.trades.push({ tid: 6, atS: 31 });
  world.clock.advance(6000);
  await walker.pollHead(signal);
  world.assertHonest();
  assert.equal(world.covered()[0]?.[1], 8);
});

test('where such an offset leaves one trade on the page, none was refused, and the next look is not put off', async () => {
  const world = new TradeWorld(every(2, 2), 30);
  refuseZero(world);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.record.gaps, []);
  world.trades.push({ tid: 3, atS: 31 }, { tid: 4, atS: 33 });
  world.clock.advance(6000);
  await walker.pollHead(signal);
  world.assertHonest();
  assert.deepEqual(world.covered(), [[1, 31]]);
});

test('a market with one trade, which such an offset hides, is not covered as empty', async () => {
  const world = new TradeWorld(every(1, 2), 30);
  refuseZero(world);
  const walker = world.walker();
  for (let poll = 0; poll < 5; poll += 1) {
    await assert.rejects(() => walker.pollHead(signal));
    world.clock.advance(6000);
  }
  assert.deepEqual(world.covered(), []);
});

test('an offset of at least 1 that is an id hides nothing', async () => {
  const world = new TradeWorld(
    every(5, 2).map((trade) => ({ ...trade, tid: trade.tid + 1 })),
    30,
  );
  world.mode = 'id';
  refuseZero(world);
  const walker = world.walker();
  await walker.pollHead(signal);
  world.assertHonest();
  assert.equal(world.covered()[0]?.[1], 30);
});
