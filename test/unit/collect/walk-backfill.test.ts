import assert from 'node:assert/strict';
import test from 'node:test';
import { WantedSpans } from '../../../src/collect/trades/wanted.js';
import {
  every,
  failTries,
  fillAll,
  knownMode,
  START_MS,
  START_S,
  signal,
  TradeWorld,
} from '../../support/worlds/trade-world.js';

/** Spans that are wanted besides, spans that are doubted, and what is remembered of gaps. */

const span = (fromS: number, toS: number) => ({
  fromMs: START_MS + fromS * 1000,
  toMs: START_MS + toS * 1000,
});

test('a span deep in history is reached without walking what lies between', async () => {
  const world = new TradeWorld(every(20_000, 1), 20_000);
  world.cap = 100;
  const walker = world.walker(19_950);
  await walker.pollHead(signal);
  await fillAll(walker);
  const before = world.exchange.asked.length;
  walker.backfill(span(4000.5, 4300));
  assert.deepEqual(walker.pendingGap(), { edgeMs: START_MS + 4_300_000, isTop: false });
  while (walker.pendingGap() !== undefined) {
    await walker.fillStep(signal).catch(() => world.clock.advance(3000));
  }
  const requests = world.exchange.asked.length - before;
  assert.ok(requests <= 25, `${requests} requests; walking would take 160`);
  const [, [fromS, toS] = [0, 0]] = world.covered();
  assert.ok(fromS <= 4000 && toS >= 4300, `covered [${fromS}, ${toS})`);
  assert.equal(world.archive.floorOf(1), null, 'what is collected anyway begins where it did');
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a span deep in history is reached before a walk through all of it comes there', async () => {
  const world = new TradeWorld(every(20_000, 1), 20_000);
  world.cap = 100;
  const walker = world.walker();
  await walker.pollHead(signal);
  await walker.fillStep(signal);
  const before = world.exchange.asked.length;
  walker.backfill(span(4000.5, 4300));
  const isReached = () => world.covered().some(([fromS, toS]) => fromS <= 4000 && toS >= 4300);
  while (!isReached() && world.exchange.asked.length - before < 60) {
    await walker.fillStep(signal).catch(() => world.clock.advance(3000));
  }
  const requests = world.exchange.asked.length - before;
  assert.ok(isReached() && requests <= 25, `${requests} requests; walking would take 160`);
  world.assertHonest();
  // Then the walk goes on where it was, down to the start.
  await fillAll(walker, 500);
  assert.deepEqual(world.covered().length, 1);
  assert.notEqual(world.archive.floorOf(1), null);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('what is wanted goes before within a gap that holds all of it, and in no other', () => {
  const wanted = new WantedSpans();
  wanted.add(span(10, 20));
  const gap = (fromS: number, edgeS: number) => {
    const { fromMs, toMs: edgeMs } = span(fromS, edgeS);
    return { fromMs, edgeMs };
  };
  assert.deepEqual(wanted.within(gap(10, 21)), [gap(10, 20)]);
  assert.deepEqual(wanted.within(gap(11, 30)), [], 'it begins below the gap');
  assert.deepEqual(wanted.within(gap(0, 20)), [], 'the gap ends with it, and is tried as it is');
});

test('what is wanted below a history that is not walked yet is beyond it, and the start is found', async () => {
  const world = new TradeWorld(every(2000, 1), 2000);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  await walker.fillStep(signal);
  walker.backfill(span(-500, -400));
  let steps = 0;
  while (walker.pendingGap() !== undefined && steps < 500) {
    await walker.fillStep(signal).catch(() => world.clock.advance(3000));
    world.clock.advance(100);
    steps += 1;
  }
  assert.deepEqual(world.covered(), [[1, 2000]]);
  assert.equal(world.archive.gaps.at(-1)?.reason, 'beyond history');
  assert.deepEqual(world.gaps().at(-1), [-500, -400, 'unfillable']);
  await fillAll(walker, 500);
  assert.equal(world.archive.floorOf(1), START_MS + 1000);
  world.assertHonest();
});

test('nothing is asked for of a time that is not kept any more, nor listed as missing', async () => {
  const world = new TradeWorld(every(5000, 1), 5000);
  world.cap = 100;
  const walker = world.walker();
  await walker.pollHead(signal);
  await walker.fillStep(signal);
  walker.backfill(span(1000, 1200));
  walker.backfill(span(3900, 4100));
  walker.keepFrom(START_MS + 4_000_000);
  await fillAll(walker);
  const [from] = world.covered().at(-1) ?? [];
  assert.ok(from !== undefined && from > 3890 && from <= 4000, `walked down to ${from}`);
  const asked = world.exchange.asked.length;
  // Not even when the start of history is looked for once more.
  world.clock.advance(3_700_000);
  world.clock.stepWall(-3_700_000);
  assert.equal(walker.pendingGap(), undefined);
  assert.equal(world.exchange.asked.length, asked);
  assert.deepEqual(world.gaps(), []);
});

test('a span is reached without a failed try wherever the pages on the way to it end', async () => {
  for (let edgeS = 880; edgeS > 860; edgeS -= 1) {
    const world = new TradeWorld(every(1000, 1), 1000);
    world.cap = 20;
    const walker = world.walker(985);
    await walker.pollHead(signal);
    await fillAll(walker);
    walker.backfill(span(500, edgeS));
    let steps = 0;
    while ((walker.pendingGap()?.edgeMs ?? 0) > START_MS + 500_000 && steps < 3) {
      await walker.fillStep(signal);
      steps += 1;
    }
    assert.deepEqual(world.gaps(), [], `up to ${edgeS}`);
  }
});

test('where the exchange has forgotten most of what is stored, its end is found within a few requests', async () => {
  const world = new TradeWorld(every(20_000, 1), 20_000);
  const walker = world.walker(10_000);
  await walker.pollHead(signal);
  await fillAll(walker);
  world.trades = world.trades.slice(-1500);
  walker.backfill(span(4000, 4300));
  const before = world.exchange.asked.length;
  await walker.fillStep(signal);
  const requests = world.exchange.asked.length - before;
  assert.ok(requests <= 11, `${requests} requests`);
});

test('what an interrupted search has reached is gone on with after a restart', async () => {
  const world = new TradeWorld(every(20_000, 1), 20_000);
  world.cap = 100;
  await world.walker(19_950).pollHead(signal);
  const begin = () => {
    const walker = world.walker(19_950);
    walker.backfill(span(4000, 6000));
    return walker;
  };
  let before = 0;
  for (let restart = 0; restart < 16; restart += 1) {
    const walker = begin();
    for (let step = 0; step < 3; step += 1) {
      await walker.fillStep(signal).catch(() => world.clock.advance(3000));
    }
    const wanted = world.covered().find(([fromS]) => fromS < 19_000);
    const lengthS = wanted === undefined ? 0 : wanted[1] - wanted[0];
    assert.ok(restart === 0 || lengthS > before, 'every run gets further');
    before = lengthS;
    if (begin().pendingGap() === undefined) return world.assertHonest();
  }
  assert.fail('the span is never covered');
});

for (const when of ['after the look', 'during the look'] as const) {
  test(`what is wanted below a start that is looked for in vain does not wait for the next look: ${when}`, async () => {
    const world = new TradeWorld(every(600, 1), 600);
    world.cap = 50;
    const first = world.walker();
    await first.pollHead(signal);
    await fillAll(first);
    // After a restart the start is looked for once more, and the exchange has forgotten it.
    const walker = world.walker();
    world.trades = world.trades.slice(-300);
    await walker.pollHead(signal);
    const wanted = span(-500, -400);
    const settle = async (duringLast?: () => void) => {
      for (let step = 1; step < 5 && walker.pendingGap() !== undefined; step += 1) {
        const stepped = walker.fillStep(signal);
        if (step === 2) duringLast?.();
        await stepped;
        world.clock.advance(2000);
      }
      world.clock.advance(60_000);
      assert.equal(walker.pendingGap(), undefined);
    };
    if (when === 'during the look') await settle(() => walker.backfill(wanted));
    else {
      await settle();
      assert.deepEqual(world.gaps(), []);
      walker.backfill(wanted);
      assert.notEqual(walker.pendingGap(), undefined);
      await settle();
    }
    walker.backfill(wanted);
    assert.equal(walker.pendingGap(), undefined, 'the same once more is nothing new');
    assert.deepEqual([...new Set(world.gaps().map(String))], ['-500,1,unfillable']);
    assert.equal(world.archive.gaps[0]?.reason, 'beyond history');
  });
}

test('a doubted span is walked again, and rows that had vanished are stored again', async () => {
  const world = new TradeWorld(every(50, 1), 60);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  world.archive.trades.delete(`7 ${START_S + 30} 31`);
  world.archive.trades.delete(`7 ${START_S + 49} 50`);
  await walker.invalidate(span(30, 31), 'a test');
  await walker.invalidate(span(45, 60), 'a test');
  assert.deepEqual(world.covered(), [
    [31, 45],
    [1, 30],
  ]);
  world.clock.advance(6000);
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 66]]);
  assert.equal(world.archive.trades.size, 50);
  world.assertHonest();
});

test('where the start was chosen, history that is wanted below it does not move it', async () => {
  const world = new TradeWorld(every(900, 1, 100), 1000);
  world.cap = 100;
  await world.archive.commit({ begins: [{ streamId: 1, fromMs: START_MS + 950_000 }] });
  const walker = world.walker(950);
  await walker.pollHead(signal);
  walker.backfill(span(50, 150));
  await fillAll(walker);
  assert.deepEqual(world.covered().at(-1)?.[0], 101);
  assert.equal(world.archive.floorOf(1), START_MS + 950_000);
});

test('a page of which no row is shown twice leads to the place that is sought, and claims nothing there', async () => {
  const world = new TradeWorld(every(200, 1), 200);
  world.cap = 2;
  const walker = world.walker(199);
  await walker.pollHead(signal);
  await fillAll(walker);
  walker.backfill(span(174, 184));
  const whole = world.exchange.answers.historyResult ?? assert.fail();
  let lies = 0;
  // The first answer on both sides of the edge lacks what lies between its two rows.
  world.exchange.answers.historyResult = async (params) => {
    const rows = (await whole(params)) as { date: number }[];
    const [newer, older] = rows.map(({ date }) => date - START_S);
    if (lies > 0 || newer === undefined || older === undefined || newer < 184 || older >= 184)
      return rows;
    lies += 1;
    return [rows[0], { ...rows[1], tid: 181, date: START_S + 180 }];
  };
  await walker.fillStep(signal).catch(() => undefined);
  assert.equal(lies, 1);
  world.assertHonest();
  await fillAll(walker);
  assert.deepEqual(world.covered().at(-1), [174, 184]);
  world.assertHonest();
});

test('how the server counts is doubted where every page of a step shows the head, and only there', async () => {
  for (const [place, isBelowChain] of [
    ['a span that is sought', false],
    ['a chain', true],
  ] as const) {
    for (const mode of ['id', 'skip'] as const) {
      const later = (count: number) =>
        every(count, 1).map(({ tid, atS }) => ({ tid: tid + 1_000_000, atS }));
      const world = new TradeWorld(later(10_000), 10_000);
      let doubts = 0;
      const offsets = { ...knownMode(() => 'skip'), invalidate: () => (doubts += 1) };
      world.extras = { offsets };
      world.cap = 20;
      const walker = world.walker(isBelowChain ? undefined : 9990);
      await walker.pollHead(signal);
      if (isBelowChain) {
        world.trades = later(19_000);
        world.clock.advance(9_000_000);
      } else walker.backfill(span(2000, 2001));
      world.mode = mode;
      await assert.rejects(walker.fillStep(signal), { code: 'walk_stalled' });
      assert.equal(doubts, mode === 'id' ? 1 : 0, `${place} in ${mode} mode`);
    }
  }
});

test('answers that lack the trade of a chain cast a doubt on the offset only where they show the head', async () => {
  for (const mode of ['id', 'skip'] as const) {
    const trades = every(500, 1).map(({ tid, atS }) => ({ tid: tid + 1_000_000, atS }));
    const world = new TradeWorld(trades, 500);
    let doubts = 0;
    world.extras = { offsets: { ...knownMode(() => 'skip'), invalidate: () => (doubts += 1) } };
    world.cap = 50;
    const walker = world.walker();
    await walker.pollHead(signal);
    world.trades = trades.filter(({ atS }) => atS !== 451);
    world.mode = mode;
    await assert.rejects(walker.fillStep(signal), /1000452 is missing between its neighbours/);
    assert.equal(doubts, mode === 'id' ? 1 : 0, mode);
  }
});

/** What an earlier run covered, of a world with a trade a second. */
async function cover({ archive, trades: all }: TradeWorld, fromS: number, toS: number) {
  const key = { streamId: 1, kind: 'trades', marketId: 7, variant: 0 } as const;
  const trades = all.slice(fromS, toS).map(({ tid, atS }) => ({
    ...{ marketId: 7, tid, tradedAtS: START_S + atS, executedAtUs: null, receivedAtMs: 0 },
    ...{ price: '10', amount: '1', total: '10', side: 'buy' as const },
  }));
  const claim = { stream: { ...key, collectFromMs: START_MS }, evidence: {} };
  await archive.commit({ trades, claims: [{ ...claim, span: span(fromS, toS) }] });
}

test('every eighth step goes to another gap in its turn, all others to the newest', async () => {
  const world = new TradeWorld(every(5000, 1), 5000);
  world.cap = 60;
  await cover(world, 2000, 2050);
  const walker = world.walker(0);
  await walker.pollHead(signal);
  const older: number[] = [];
  let lowestS = 2000;
  for (let step = 1; step <= 24; step += 1) {
    await walker.fillStep(signal).catch(() => undefined);
    const fromS = world.covered().at(-1)?.[0] ?? 0;
    if (fromS < lowestS) older.push(step);
    lowestS = fromS;
  }
  assert.deepEqual(older, [8, 24]);
});

test('below a gap that is put off, each of the next gaps takes a few requests', async () => {
  const world = new TradeWorld(every(1500, 1), 1500);
  world.cap = 60;
  for (let fromS = 0; fromS < 1000; fromS += 100) await cover(world, fromS, fromS + 50);
  const walker = world.walker(0);
  await walker.pollHead(signal);
  const { historyResult: answer } = world.exchange.answers;
  world.exchange.answers.historyResult = () => assert.fail('not now');
  await assert.rejects(walker.fillStep(signal), /not now/);
  world.exchange.answers.historyResult = answer ?? assert.fail();
  await walker.fillStep(signal);
  const before = world.exchange.asked.length;
  for (let step = 0; step < 12; step += 1) await walker.fillStep(signal);
  assert.ok((world.covered()[1]?.[0] ?? 950) <= 400);
  const requests = world.exchange.asked.length - before;
  assert.ok(requests <= 40, `${requests} requests`);
});

test('in id mode pages that were cut on their way do not end the history', async () => {
  const world = new TradeWorld(every(80, 1), 100);
  world.mode = 'id';
  const walker = world.walker();
  await walker.pollHead(signal);
  const whole = world.exchange.answers.historyResult;
  let answers = 0;
  world.exchange.answers.historyResult = async (params) => {
    answers += 1;
    const rows = (await whole?.(params)) as unknown[];
    return answers % 2 === 1 ? rows.slice(0, 3) : rows;
  };
  for (let attempt = 0; attempt < 8; attempt += 1) {
    world.clock.advance(600_000);
    await walker.fillStep(signal);
  }
  assert.ok(answers > 10);
  assert.equal(world.archive.floorOf(1), null, 'nobody has seen where history begins');
  if (whole !== undefined) world.exchange.answers.historyResult = whole;
  for (let attempt = 0; attempt < 6; attempt += 1) {
    world.clock.advance(600_000);
    await fillAll(walker);
  }
  // The longest page of all that came may be as long as the server makes them.
  assert.equal(world.archive.floorOf(1), START_MS + 1000);
  assert.equal(world.covered().at(-1)?.[0], 1);
  world.assertHonest();
});

test('in id mode what has left the newest page is tried some times, then listed as lost', async () => {
  const world = new TradeWorld(every(100, 1), 100);
  world.mode = 'id';
  world.cap = 150;
  const walker = world.walker(0);
  await walker.pollHead(signal);
  world.trades = every(900, 1);
  world.clock.advance(800_000);
  await walker.pollHead(signal);
  const gap = () =>
    world.archive.gapsOf(
      { streamId: 1, kind: 'trades', marketId: 7, variant: 0, collectFromMs: START_MS },
      START_MS + 900_000,
    );
  assert.deepEqual(
    gap()
      .map(({ state, reason, attempts }) => [state, reason, attempts])
      .at(0),
    ['open', 'history horizon', 1],
  );
  for (let attempt = 0; attempt < 6; attempt += 1) {
    world.clock.advance(60_000);
    await fillAll(walker);
  }
  assert.deepEqual(
    gap()
      .map(({ state, reason, attempts }) => [state, reason, attempts])
      .at(0),
    ['unfillable', 'history horizon', 5],
  );
  const asked = world.exchange.asked.length;
  world.clock.advance(100_000_000);
  const next = world.walker(0);
  await next.pollHead(signal);
  assert.equal(next.pendingGap(), undefined, 'it is left alone for good');
  assert.ok(world.exchange.asked.length - asked <= 2);
  world.clock.advance(3_600_001);
  assert.equal(next.pendingGap(), undefined);
  world.assertHonest();
});

test('in id mode failures of the exchange are no looks at the newest page', async () => {
  for (const failures of [0, 3, 5]) {
    const world = new TradeWorld(every(300, 1), 400);
    world.mode = 'id';
    const walker = world.walker(0);
    await walker.pollHead(signal);
    world.trades = every(3000, 1);
    world.clock.advance(2_700_000);
    await walker.pollHead(signal);
    await failTries(world, walker, failures);
    const before = world.exchange.asked.length;
    const isLost = () => world.archive.gaps.some(({ state }) => state === 'unfillable');
    for (let s = 0; s < 5000 && !isLost(); s += 1) {
      world.clock.advance(1000);
      if (walker.pendingGap() !== undefined) await walker.fillStep(signal);
    }
    assert.ok(isLost());
    const looks = world.exchange.asked.length - before;
    assert.ok(looks >= 3, `given up after ${looks} looks that followed on ${failures} failures`);
  }
});

test('in id mode failures do not put off the looks that show where the newest page begins', async () => {
  const world = new TradeWorld(every(1200, 0.5), 700);
  world.mode = 'id';
  const walker = world.walker();
  await walker.pollHead(signal);
  await failTries(world, walker, 9);
  let seconds = 0;
  for (; world.archive.floorOf(1) === null && seconds < 5000; seconds += 1) {
    world.clock.advance(1000);
    if (walker.pendingGap() !== undefined) await walker.fillStep(signal);
  }
  assert.ok(seconds <= 90, `settled after ${seconds} s`);
  assert.equal(world.archive.startReasons.get(1), 'history horizon');
});

test('pages and headroom follow what the polls of a market bring', async () => {
  const world = new TradeWorld(every(1_000, 0.5), 500);
  world.cap = 300;
  const walker = world.walker();
  const asked: number[] = [];
  for (let poll = 1; poll <= 60; poll += 1) {
    world.trades = every(1_000 + poll * 20, 0.5);
    world.clock.advance(10_000);
    asked.push((await walker.pollHead(signal)).asked);
  }
  assert.equal(asked[0], 1000, 'what is new is not known yet');
  assert.deepEqual(new Set(asked.slice(-40)), new Set([30]));
  const ratio = world.record.headrooms.at(-1)?.ratio ?? 0;
  // Of what the server really sends, and not of what may be asked for.
  assert.ok(Math.abs(ratio - 300 / 20) < 1, `a page holds ${ratio} intervals`);
});

test('a burst that overruns a short page is made up for by a longer one at once', async () => {
  const world = new TradeWorld(every(1_000, 1), 1_000);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  let [rows, atS] = [1_000, 1_000];
  const look = (fresh: number) => {
    rows += fresh;
    atS += 5;
    const older = world.trades;
    const burst = every(fresh, 4 / fresh, atS - 4).map(({ atS: at }, n) => ({
      tid: rows - fresh + n + 1,
      atS: at,
    }));
    world.trades = [...older, ...burst];
    world.clock.advance(5_000);
    return walker.pollHead(signal);
  };
  for (let poll = 0; poll < 40; poll += 1) await look(5);
  const before = world.exchange.asked.length;
  const { asked, isConnected, newRows } = await look(60);
  assert.equal(world.exchange.asked.length - before, 3, 'requests');
  assert.deepEqual({ isConnected, newRows }, { isConnected: true, newRows: 60 });
  assert.equal(asked, 200, 'four times as many each time');
  assert.equal(walker.pendingGap(), undefined, 'nothing is left to fill');
  world.assertHonest();
});
