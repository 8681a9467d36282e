import assert from 'node:assert/strict';
import test from 'node:test';
import {
  CANDLES,
  CandlesWorld,
  MINUTE_MS,
  minuteOf,
  pollAll,
  START_MS,
  signal,
  tradeAt,
} from '../../support/worlds/candles-world.js';

/** Answers that hold less than was asked for: cut on the way, capped by the server, or honest. */

for (const [name, cut] of [
  ['its newest part', (minutes: number[]) => minutes.slice(0, 5)],
  ['its oldest part', (minutes: number[]) => minutes.slice(-5)],
  ['both ends', (minutes: number[]) => minutes.slice(400, 500)],
  ['everything', () => []],
] as const) {
  test(`one page that lost ${name} is found out`, async () => {
    const world = new CandlesWorld(2001);
    world.cut = (minutes, answer) => (answer === 1 ? cut(minutes) : minutes);
    await pollAll(world.collector());
    world.assertWhole(2000);
    assert.ok(world.asked().length <= 4, JSON.stringify(world.asked()));
  });
}

for (const [name, cut] of [
  ['newest', (minutes: number[]) => minutes.slice(-90)],
  ['oldest', (minutes: number[]) => minutes.slice(0, 90)],
] as const) {
  test(`a server that gives the ${name} candles only, however many were asked for`, async () => {
    const world = new CandlesWorld(1001);
    world.cut = cut;
    await pollAll(world.collector());
    world.assertWhole(1000);
    assert.ok(world.asked().length <= 13, 'each answer gets on by what it holds');
  });
}

test('an honest market that was quiet until lately costs one more request, once', async () => {
  const world = new CandlesWorld(1001);
  world.holds = (minute) => minute >= 300;
  const collector = world.collector({ rereads: 3 });
  await pollAll(collector);
  assert.deepEqual(world.asked(), [
    [0, 1000],
    [0, 301],
  ]);
  world.assertWhole(1000);
  world.clock.advance(MINUTE_MS);
  await pollAll(collector);
  assert.deepEqual(world.asked().slice(2), [[997, 1001]]);
});

test('an empty market costs one more request for each page, and none while it stays quiet', async () => {
  const world = new CandlesWorld(1501);
  world.holds = () => false;
  const collector = world.collector({ rereads: 50 });
  await pollAll(collector);
  assert.deepEqual(world.asked(), [
    [500, 1500],
    [500, 1499],
    [0, 500],
    [0, 499],
  ]);
  world.assertWhole(1500);
  world.clock.advance(MINUTE_MS);
  await pollAll(collector);
  assert.equal(world.asked().length, 6, 'that of the first look, below which no candle was shown');
  world.clock.advance(MINUTE_MS);
  await pollAll(collector);
  assert.equal(world.asked().length, 7, 'what is read again only is no news');
});

test('a few quiet minutes, and gaps between candles, cost one more request', async () => {
  const world = new CandlesWorld(1001);
  world.holds = (minute) => minute < 300 || (minute > 700 && minute < 995);
  await pollAll(world.collector());
  assert.deepEqual(world.asked(), [
    [0, 1000],
    [300, 1000],
  ]);
  world.assertWhole(1000);
});

for (const [name, lost] of [
  ['three at its newest end', [997, 998, 999]],
  ['three at its oldest end', [0, 1, 2]],
  ['some in the middle', [400, 401, 402, 403, 700]],
] as const) {
  test(`one page that lost ${name} is found out`, async () => {
    const world = new CandlesWorld(1001);
    world.cut = (minutes, answer) =>
      answer === 1 ? minutes.filter((minute) => !lost.some((one) => one === minute)) : minutes;
    await pollAll(world.collector());
    world.clock.advance(MINUTE_MS);
    await pollAll(world.collector());
    world.assertWhole(1001);
  });
}

test('a market that falls quiet costs one request a poll, and is covered one poll later', async () => {
  const world = new CandlesWorld(11);
  world.holds = (minute) => minute < 10;
  const collector = world.collector({ rereads: 3 });
  await pollAll(collector);
  for (let poll = 0; poll < 30; poll += 1) {
    world.clock.advance(MINUTE_MS);
    const before = world.asked().length;
    await collector.poll(signal);
    assert.equal(world.asked().length, before + 1);
    assert.deepEqual(world.covered(), [[0, 10 + poll]]);
  }
});

test('a second answer without the candle that the first one showed proves nothing', async () => {
  const world = new CandlesWorld(1001);
  world.cut = (minutes, answer) => {
    if (answer === 1) return minutes.slice(0, 5);
    return answer === 2 ? [] : minutes;
  };
  const collector = world.collector();
  assert.equal(await collector.poll(signal), true);
  assert.deepEqual(world.covered(), [[0, 5]]);
  await pollAll(collector);
  world.assertWhole(1000);
});

test('a second answer that does not come leaves its part open', async () => {
  const world = new CandlesWorld(1001);
  world.cut = (minutes, answer) => {
    if (answer === 2) throw new Error('not this one');
    return answer === 1 ? minutes.slice(0, 5) : minutes;
  };
  const collector = world.collector();
  await assert.rejects(collector.poll(signal), /not this one/);
  assert.deepEqual(world.covered(), [[0, 5]]);
  await pollAll(collector);
  world.assertWhole(1000);
});

test('the slot of the first look, in which history may begin, is not called quiet', async () => {
  const world = new CandlesWorld(1001.7);
  // The exchange was made within minute 1001, and gives candles of whole minutes only.
  world.holds = (minute) => minute > 1001;
  const collector = world.collector();
  await pollAll(collector);
  const span = { fromMs: START_MS + 1001.9 * MINUTE_MS, toMs: START_MS + 1004 * MINUTE_MS };
  const [stream, trade] = [
    { ...CANDLES, kind: 'trades', streamId: 2, variant: 0 } as const,
    tradeAt(1001),
  ];
  const trades = [{ ...trade, tradedAtS: trade.tradedAtS + 59 }, tradeAt(1002)];
  await world.archive.commit({ trades, claims: [{ stream, span, evidence: {} }] });
  for (let minute = 0; minute < 3; minute += 1) {
    world.clock.advance(MINUTE_MS);
    await pollAll(collector);
  }
  assert.deepEqual(world.covered(), [[1002, 1004]]);
  const [memory] = world.archive.memories.get(1) ?? [];
  assert.equal(minuteOf(memory?.span.toMs ?? 0), 1002);
  assert.deepEqual([memory?.reason, memory?.state], ['beyond history', 'unfillable']);
});
