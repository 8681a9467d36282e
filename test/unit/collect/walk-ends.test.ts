import assert from 'node:assert/strict';
import test from 'node:test';
import { EmptyMarket, HistoryEnds } from '../../../src/collect/trades/history-ends.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { FakeClock } from '../../support/fake-clock.js';
import {
  every,
  failTries,
  fillAll,
  START_MS,
  START_S,
  signal,
  TradeWorld,
} from '../../support/worlds/trade-world.js';

/** The far end of history: what is forgotten there, by the exchange or by the walk itself. */

const span = (fromS: number, toS: number) => ({
  fromMs: START_MS + fromS * 1000,
  toMs: START_MS + toS * 1000,
});

/** A head with many gaps below, of which the exchange serves nothing any more. */
async function forgotten() {
  const world = new TradeWorld(every(1000, 1), 1000);
  world.cap = 100;
  const first = world.walker(0);
  for (let nowS = 1000; nowS <= 9000; nowS += 400) {
    world.trades = every(nowS, 1);
    await first.pollHead(signal);
    world.clock.advance(400_000);
  }
  world.trades = every(9000, 1).slice(-250);
  const walker = world.walker(0);
  await walker.pollHead(signal);
  return { world, walker };
}

test('gaps of which nothing is served any more are given up, on two signs for all of them', async () => {
  const { world, walker } = await forgotten();
  const before = world.exchange.asked.length;
  let steps = 0;
  for (let second = 0; second < 8; second += 1) {
    while (walker.pendingGap() !== undefined) {
      steps += 1;
      assert.ok(steps < 200, 'the walk does not end');
      await walker.fillStep(signal).catch(() => undefined);
    }
    world.clock.advance(1000);
    world.clock.stepWall(-1000);
  }
  const gaps = world.archive.gapsOf(
    { streamId: 1, kind: 'trades', marketId: 7, variant: 0, collectFromMs: START_MS },
    START_MS + 9_000_000,
  );
  assert.ok(gaps.length > 15);
  for (const { span: gap, state, reason } of gaps) {
    const text = `[${gap.fromMs - START_MS}, ${gap.toMs - START_MS}) ${state}: ${reason}`;
    assert.deepEqual([state, reason], ['unfillable', 'beyond history'], text);
  }
  const requests = world.exchange.asked.length - before;
  assert.ok(requests <= 40, `${requests} requests for ${gaps.length} gaps`);
  world.assertHonest();
  const next = world.walker(0);
  await next.pollHead(signal);
  assert.equal(next.pendingGap(), undefined, 'nor does the next run ask for them at once');
  world.clock.advance(3_600_001);
  assert.notEqual(next.pendingGap(), undefined, 'an hour later the exchange may have them again');
});

test('who asks for another try gets another look', async () => {
  const { world, walker } = await forgotten();
  for (let second = 0; second < 8; second += 1) {
    while (walker.pendingGap() !== undefined) await walker.fillStep(signal).catch(() => undefined);
    world.clock.advance(1000);
    world.clock.stepWall(-1000);
  }
  // It was away only: the exchange serves all of it again.
  world.trades = every(9000, 1);
  const before = world.archive.trades.size;
  walker.retry(span(0, 9000));
  for (let step = 0; step < 400 && walker.pendingGap() !== undefined; step += 1) {
    await walker.fillStep(signal);
  }
  assert.ok(world.archive.trades.size > before + 1000, 'what is served is fetched');
  world.assertHonest();
});

test('an island for which there was no room is known again as soon as the walk touches it', async () => {
  const world = new TradeWorld(every(12_000, 1), 12_000);
  const stream = { streamId: 1, kind: 'trades', marketId: 7, variant: 0, collectFromMs: START_MS };
  const commit = async (fromS: number, toS: number) => {
    const trades = world.trades.slice(fromS, toS).map(({ tid, atS }) => ({
      ...{ marketId: 7, tid, tradedAtS: START_S + atS, executedAtUs: null, receivedAtMs: 0 },
      ...{ price: '10', amount: '1', total: '10', side: 'buy' as const },
    }));
    const claim = { stream: { ...stream, kind: 'trades' as const }, evidence: {} };
    await world.archive.commit({ trades, claims: [{ ...claim, span: span(fromS, toS) }] });
  };
  await commit(0, 9000);
  for (let second = 9500; second < 11_900; second += 2) await commit(second, second + 1);
  const walker = world.walker(0, 1000);
  await walker.pollHead(signal);
  for (let step = 0; step < 50 && walker.pendingGap() !== undefined; step += 1) {
    await walker.fillStep(signal);
  }
  assert.deepEqual(world.covered(), [[0, 12_000]]);
  const requests = world.exchange.asked.length;
  assert.ok(requests <= 6, `${requests} requests; the old part was stored already`);
});

const floods = [10, 10.2, 10.4, 11, 12, 12.5].map((atS, index) => ({ tid: index + 1, atS }));

test('coverage begins with the second after that of the oldest trade, and so after any restart', async () => {
  for (const mode of ['skip', 'id'] as const) {
    const world = new TradeWorld(floods, 60);
    world.mode = mode;
    // Of other markets longer pages were seen, so that a short one tells that history ends.
    for (const traits of Object.values(world.traits)) traits.largestPage = 1000;
    for (const run of [1, 2]) {
      const walker = world.walker();
      await walker.pollHead(signal);
      world.clock.advance(1000);
      world.clock.stepWall(-1000);
      await walker.pollHead(signal);
      await fillAll(walker);
      // The oldest trade was held back at first, so in id mode the end is seen one time later.
      await fillAll(walker);
      assert.deepEqual(world.covered(), [[11, 60]], `run ${run} in ${mode} mode`);
      assert.equal(world.archive.floorOf(1), START_MS + 11_000);
      assert.equal(world.archive.startReasons.get(1), 'history begins');
      // Each look reaches what is known, so that the next page stays small.
      const asked: number[] = [];
      for (let look = 0; look < 8; look += 1) {
        const { isConnected, asked: size } = await walker.pollHead(signal);
        assert.ok(isConnected);
        asked.push(size);
      }
      assert.ok(mode === 'id' || asked.at(-1) === 10, `pages of ${asked.join(', ')}`);
    }
    assert.equal(world.archive.trades.size, floods.length, 'the oldest second is stored');
    assert.deepEqual(world.gaps(), [], 'and is no gap');
  }
});

test('where the exchange forgets as fast as it trades, tries below the lowest trade say that it does, and set the start', async () => {
  const world = new TradeWorld(every(600, 1), 600);
  world.cap = 50;
  const walker = world.walker();
  let triedAtS: number | undefined;
  let beganAtS: number | undefined;
  let lowestMs: number | undefined;
  let asked = 0;
  for (let second = 0; second < 90; second += 1) {
    world.clock.advance(1000);
    world.trades = [...world.trades.slice(1), { tid: 601 + second, atS: 600.5 + second }];
    await walker.pollHead(signal);
    if (walker.pendingGap() !== undefined) {
      asked -= world.exchange.asked.length;
      await walker.fillStep(signal);
      asked += world.exchange.asked.length;
    }
    if (beganAtS !== undefined) continue;
    if (world.archive.floorOf(1) !== null) beganAtS = second;
    if (triedAtS !== undefined || world.archive.tries.get(1) === undefined) continue;
    triedAtS = second;
    asked = 0;
    lowestMs = world.archive.allRanges(1).at(-1)?.span.fromMs;
    assert.equal(world.archive.tries.get(1)?.reason, 'beyond history');
  }
  assert.ok(triedAtS !== undefined && beganAtS !== undefined);
  const isLater = beganAtS - triedAtS >= 30 && beganAtS - triedAtS <= 60;
  assert.ok(isLater, `a try at ${triedAtS} s, the start at ${beganAtS} s`);
  assert.ok(asked >= 4, 'the second try takes two answers of its own, each of two pages');
  assert.equal(walker.pendingGap(), undefined);
  assert.equal(world.archive.floorOf(1), lowestMs, 'what is before that is forgotten');
  assert.equal(world.archive.startReasons.get(1), 'history horizon');
  world.assertHonest();
});

test('failures before an exchange lost its history do not put off what its answers show', async () => {
  const world = new TradeWorld(every(600, 1), 600);
  world.cap = 50;
  const first = world.walker();
  await first.pollHead(signal);
  await failTries(world, first, 9);
  world.clock.advance(600_000);
  const lowestMs = world.archive.allRanges(1).at(-1)?.span.fromMs;
  // Its history begins above what is stored now.
  world.trades = world.trades.slice(-20);
  const second = world.walker();
  let asked = 0;
  let seconds = 0;
  for (; world.archive.floorOf(1) === null && seconds < 600; seconds += 1) {
    world.clock.advance(1000);
    const atS = Math.floor((world.clock.wallMs() - START_MS) / 1000);
    world.trades = [...world.trades, { tid: 601 + seconds, atS }];
    await second.pollHead(signal);
    const before = world.exchange.asked.length;
    if (second.pendingGap() !== undefined) await second.fillStep(signal);
    asked += world.exchange.asked.length - before;
  }
  assert.ok(seconds <= 60, `settled after ${seconds} s`);
  assert.ok(asked <= 20, `${asked} requests`);
  assert.equal(world.archive.floorOf(1), lowestMs);
  assert.equal(world.archive.startReasons.get(1), 'history horizon');
  world.assertHonest();
});

test('a span that is wanted of a market without trades is given up on two signs', async () => {
  const world = new TradeWorld([], 5000);
  const walker = world.walker(4000);
  await world.archive.want(
    { streamId: 1, kind: 'trades', marketId: 7, variant: 0, collectFromMs: null },
    span(100, 200),
  );
  walker.backfill(span(100, 200));
  for (let look = 0; look < 4; look += 1) {
    await walker.pollHead(signal);
    await fillAll(walker);
    world.clock.advance(2000);
  }
  const [gap] = world.archive.gapsOf(
    { streamId: 1, kind: 'trades', marketId: 7, variant: 0, collectFromMs: START_MS + 4_000_000 },
    START_MS + 300_000,
  );
  assert.deepEqual(
    [gap?.span, gap?.state, gap?.reason],
    [span(100, 200), 'unfillable', 'beyond history'],
  );
});

test('one row below what is known is shown by a second answer, at another address, in the same step', async () => {
  const world = new TradeWorld(every(60, 1), 60);
  const first = world.walker();
  await first.pollHead(signal);
  await first.fillStep(signal);
  assert.deepEqual(world.covered(), [[1, 60]]);
  const walker = world.walker();
  const before = world.exchange.asked.length;
  await walker.fillStep(signal);
  const limits = world.exchange.asked.slice(before).map(({ params }) => params.limit);
  assert.deepEqual(limits, [1000, 999]);
  assert.equal(
    world.record.steps.at(-1)?.connected,
    false,
    'a step into a gap is no look at the head',
  );
  assert.equal(world.archive.tries.get(1), undefined, 'no try has failed');
});

test('two signs below the same trade, a second to half an hour apart, are a proof; each other one begins anew', () => {
  const clock = new FakeClock();
  const ends = new HistoryEnds(clock);
  const sign = (afterMs: number, tid = 7) => {
    clock.advance(afterMs);
    return ends.isAgain(50_000, tid);
  };
  assert.deepEqual([sign(0), sign(999), sign(1)], [false, false, true]);
  assert.deepEqual([sign(0), sign(1_800_000)], [false, true], 'a proof is used up');
  assert.deepEqual([sign(0), sign(1_800_001), sign(1000)], [false, false, true]);
  assert.deepEqual([sign(0), sign(1000, 8), sign(1000, 8)], [false, false, true]);
  sign(0);
  ends.forget(50_000);
  assert.equal(sign(1000), false, 'there was more below');
});

test('what two answers agree on holds for all gaps below the lower of the two, for half an hour', () => {
  const clock = new FakeClock();
  const ends = new HistoryEnds(clock);
  const row = (tid: number, tradedAtS: number) => ({ tid, tradedAtS });
  const below = () => [
    ends.below(90_000, row(3, 89)),
    ends.below(90_000, row(9, 90)),
    ends.below(90_000, undefined),
    ends.below(90_001, undefined),
  ];
  const none = [undefined, undefined, undefined, undefined];
  assert.deepEqual(below(), none);
  ends.seenBelow(row(9, 90));
  clock.advance(999);
  assert.deepEqual(below(), ['seen', undefined, 'seen', undefined]);
  ends.seenBelow(row(5, 80));
  clock.advance(1);
  assert.deepEqual(below(), none, 'an answer of the same second is no other one');
  ends.seenBelow(row(12, 95));
  assert.deepEqual(below(), ['proven', 'seen', 'proven', 'seen']);
  clock.advance(1_799_999);
  assert.deepEqual(below(), ['proven', undefined, 'proven', undefined]);
  clock.advance(1);
  assert.deepEqual(below(), none);
  ends.seenBelow(row(9, 90));
  assert.equal(below()[0], 'proven', 'half an hour later it still agrees');
  ends.askAnew();
  assert.equal(below()[0], 'seen', 'who asks for another look gets one');
  clock.advance(1_800_001);
  ends.seenBelow(row(9, 90));
  clock.advance(1000);
  assert.deepEqual(below(), none, 'longer apart they are no proof');
});

test('time without trades is proven by three looks, at least a second apart, up to the first of them', () => {
  const empty = new EmptyMarket(undefined, 900_000);
  const looks = [10_000, 10_999, 11_000, 12_000, 13_000];
  assert.deepEqual(
    looks.map((untilMs) => empty.look(untilMs)),
    [
      ...[undefined, undefined, undefined],
      { fromMs: 9000, toMs: 10_000 },
      { fromMs: 9000, toMs: 11_000 },
    ],
  );
  assert.equal(empty.look(913_001), undefined, 'after a longer absence it begins anew');
  assert.equal(empty.span, undefined);
});

/** Every request takes a tenth of a second, or what is given, in which so many trades happen, of a list in turn. */
function tradeOn(world: TradeWorld, perRequest: number | readonly number[], takesMs = 100): void {
  const answer = world.exchange.answers.historyResult ?? assert.fail();
  const counts = [perRequest].flat();
  let answers = 0;
  world.exchange.answers.historyResult = async (params) => {
    const rows = await answer(params);
    const atS = (world.clock.wallMs() - START_MS) / 1000;
    world.clock.advance(takesMs);
    const count = counts[answers % counts.length] ?? 0;
    answers += 1;
    for (let one = 0; one < count; one += 1) {
      const takesS = takesMs / 1000;
      world.trades.push({ tid: world.trades.length + 1, atS: atS + (one / (count + 1)) * takesS });
    }
    return rows;
  };
}

for (const perRequest of [1, 2, 5, 9]) {
  for (const rows of [300, 401, 1999, 2500]) {
    test(`the end of ${rows} trades is proven while ${perRequest} come with every request`, async () => {
      for (const [collectFromS, isWanted] of [
        [rows - 5, true],
        [undefined, false],
      ] as const) {
        const world = new TradeWorld(every(rows, 1), rows);
        if (rows < 1000) world.cap = 100;
        const walker = world.walker(collectFromS);
        await walker.pollHead(signal);
        tradeOn(world, perRequest);
        if (isWanted) walker.backfill(span(-200, -100));
        let [seconds, isDone] = [0, false];
        for (; !isDone && seconds < 40; seconds += 1) {
          const before = world.exchange.asked.length;
          if (walker.pendingGap() !== undefined) await walker.fillStep(signal);
          assert.ok(world.exchange.asked.length - before <= 13, 'a step has a bound');
          await walker.pollHead(signal);
          world.clock.advance(1000);
          isDone = isWanted
            ? world.gaps().some(([fromS, , state]) => fromS === -200 && state === 'unfillable')
            : world.archive.floorOf(1) !== null;
        }
        assert.ok(isDone, `not within ${seconds} s`);
        if (!isWanted) assert.equal(world.archive.floorOf(1), START_MS + 1000);
        assert.deepEqual(world.record.stalls, []);
        world.assertHonest();
      }
    });
  }
}

test('where pages end at older rows that are kept apart, no start of history is claimed above those', async () => {
  for (const [rows, apart, perRequest] of [
    [300, 40, 20],
    [300, 6, 3],
    [1500, 200, 30],
    [1500, 20, [2, 30]],
    [1500, 20, [1, 1, 1, 50]],
  ] as const) {
    const world = keptApart(rows, apart);
    await walkFor(60, world, perRequest);
    const floorMs = world.archive.floorOf(1) ?? START_MS + 1000;
    assert.equal(floorMs, START_MS + 1000, `${apart} of ${rows}, ${perRequest}`);
    world.assertHonest();
  }
});

test('where an answer is empty now and then, a page that ends at the lowest trade is no end of history yet', async () => {
  // In these, two such answers came where the walk asked for the end.
  for (const seed of [3, 40, 43, 66]) {
    const random = seededRandom(seed);
    const world = keptApart(300, 40);
    const answer = world.exchange.answers.historyResult ?? assert.fail();
    world.exchange.answers.historyResult = async (params) => {
      const page = await answer(params);
      return Number(params.since) > 0 && random() < 0.2 ? [] : page;
    };
    await walkFor(60, world, [0, 9, 30, 0]);
    const floorMs = world.archive.floorOf(1) ?? START_MS + 1000;
    assert.equal(floorMs, START_MS + 1000, `seed ${seed}`);
    world.assertHonest();
  }
});

/** An exchange whose pages end at the oldest trades, which it keeps apart. */
function keptApart(rows: number, apart: number): TradeWorld {
  const world = new TradeWorld(every(rows, 1), rows);
  const answer = world.exchange.answers.historyResult ?? assert.fail();
  world.exchange.answers.historyResult = async (params) => {
    const page = (await answer(params)) as { readonly tid: number }[];
    const isNew = (page[0]?.tid ?? 0) > apart;
    return isNew ? page.filter(({ tid }) => tid > apart) : page;
  };
  return world;
}

/** Steps and looks at the head, while trades happen with every request. */
async function walkFor(seconds: number, world: TradeWorld, perRequest: number | readonly number[]) {
  const walker = world.walker();
  await walker.pollHead(signal);
  tradeOn(world, perRequest, 300);
  for (let second = 0; second < seconds; second += 1) {
    if (walker.pendingGap() !== undefined) await walker.fillStep(signal).catch(ignoreStall);
    await walker.pollHead(signal);
    world.clock.advance(1000);
  }
}

function ignoreStall(error: unknown): void {
  assert.match(String(error), /no progress/);
}
