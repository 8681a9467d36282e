import assert from 'node:assert/strict';
import test from 'node:test';
import { CandleCollector, pollByTurns } from '../../../src/collect/candles/candles.js';
import { StreamLedger } from '../../../src/collect/ledger.js';
import type { Span } from '../../../src/kernel/span.js';
import { ScriptedExchange } from '../../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';
import { FakeTime } from '../../support/fake-time.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import {
  CANDLES,
  CandlesWorld,
  MINUTE_MS,
  pollAll,
  START_MS,
  signal,
  tradeAt,
} from '../../support/worlds/candles-world.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

test('only candles whose close and grace have passed are asked for and stored', async () => {
  const world = new CandlesWorld(10);
  const collector = world.collector();
  await pollAll(collector);
  assert.deepEqual(world.asked(), [[0, 9]]);
  assert.deepEqual(world.stored().at(-1), 8);
  world.clock.advance(9999);
  assert.equal(await collector.poll(signal), false);
  assert.equal(world.asked().length, 1);
  world.clock.advance(1);
  await collector.poll(signal);
  assert.deepEqual(world.asked().at(-1), [9, 10]);
  assert.deepEqual(world.covered(), [[0, 10]]);
  world.record.assertAccounted('candles');
});

test('a candle that is still open for the server is not final, whatever is believed here', async () => {
  const world = new CandlesWorld(11);
  world.exchange.dateBehindMs = MINUTE_MS;
  assert.equal(await pollAll(world.collector()), 2, 'an answer that settles nothing ends the turn');
  assert.deepEqual(world.covered(), [[0, 9]]);
  assert.equal(world.stored().includes(9), false);
  assert.equal(world.record.outcomesOf('candles').unchanged, 2);
  world.record.assertAccounted('candles');
});

test('what is missing comes newest first, in pieces of at most a thousand', async () => {
  const world = new CandlesWorld(2501);
  assert.equal(await pollAll(world.collector()), 3);
  assert.deepEqual(world.asked(), [
    [1500, 2500],
    [500, 1500],
    [0, 500],
  ]);
  assert.deepEqual(world.covered(), [[0, 2500]]);
});

test('candles that close with each answer do not keep a turn from older ones', async () => {
  const world = new CandlesWorld(5001);
  const { answers } = world.exchange;
  const { kline } = answers;
  // Five minutes of a tape that is played fast.
  answers.kline = (asked) => {
    world.clock.advance(5 * MINUTE_MS);
    return kline?.(asked);
  };
  await pollByTurns([world.collector()], { nowMs: () => world.clock.wallMs() }, signal);
  assert.deepEqual(
    world.covered().map(([fromMin]) => fromMin),
    [0],
  );
});

test('an exchange that gives fewer at once is asked for no more', async () => {
  const world = new CandlesWorld(2500);
  world.exchange.candlesMax = 496;
  const collector = world.collector();
  while (await collector.poll(signal)) {
    // Page by page.
  }
  const lengths = world.asked().map(([fromMin, toMin]) => toMin - fromMin);
  assert.equal(Math.max(...lengths), 496);
  assert.deepEqual(world.covered(), [[0, 2499]]);
});

test('a restart goes on from the islands', async () => {
  const world = new CandlesWorld(2501);
  await world.collector().poll(signal);
  await pollAll(world.collector());
  assert.deepEqual(world.asked().slice(1), [
    [500, 1500],
    [0, 500],
  ]);
});

test('what lies below the oldest candle is beyond history, until an older one shows', async () => {
  const world = new CandlesWorld(2501);
  for (let minute = 0; minute < 2100; minute += 1) world.absent.add(minute);
  const collector = world.collector();
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[2100, 2500]]);
  assert.deepEqual(
    new Set(world.archive.gaps.map(({ state, reason }) => `${state} ${reason}`)),
    new Set(['unfillable beyond history']),
  );
  const given = world.gaps().toSorted(([a], [b]) => a - b);
  assert.deepEqual([given[0]?.[0], given.at(-1)?.[1]], [0, 2100]);
  const found = world.record.gaps;
  assert.ok(given.length > 1 && found.length > 1, 'page by page');
  const sumOf = (name: 'count' | 'lengthMs') => found.reduce((sum, one) => sum + one[name], 0);
  assert.deepEqual([sumOf('count'), sumOf('lengthMs')], [1, 2100 * MINUTE_MS]);
  assert.ok(found.every(({ isBeforeHistory }) => isBeforeHistory));
  const asked = world.asked().length;
  world.clock.advance(59 * MINUTE_MS);
  await pollAll(collector);
  assert.equal(world.asked().length, asked + 1, 'the new candles only');
  // An hour later a candle shows that was cut off: between it and the others it was quiet.
  world.absent.delete(700);
  world.clock.advance(2 * MINUTE_MS);
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[700, 2561]]);
});

test('a traded minute whose candle is never shown is given up after some looks, and asked for each hour', async () => {
  const world = new CandlesWorld(100);
  await world.archive.commit({ trades: [tradeAt(50)] });
  world.absent.add(50);
  const collector = world.collector();
  await pollAll(collector);
  const found = () => {
    const { state, reason } = world.archive.gaps.at(-1) ?? {};
    return [state, reason, world.archive.gaps.length];
  };
  for (let look = 1; look < 3; look += 1) {
    assert.deepEqual(found(), ['open', 'walk stalled', look]);
    world.clock.advance(11 * MINUTE_MS);
    await pollAll(collector);
  }
  assert.deepEqual(found(), ['unfillable', 'walk stalled', 3]);
  const looksAt = () => world.asked().filter(([fromMin, toMin]) => fromMin <= 50 && 50 < toMin);
  const before = looksAt().length;
  for (let minute = 0; minute < 55; minute += 1) {
    world.clock.advance(MINUTE_MS);
    await pollAll(collector);
  }
  assert.equal(looksAt().length, before);
  world.absent.delete(50);
  world.clock.advance(6 * MINUTE_MS);
  await pollAll(collector);
  assert.equal(world.covered().length, 1);
});

test('as many traded minutes as an outage has are given up like one', async () => {
  const world = new CandlesWorld(1800);
  const minutes = Array.from({ length: 1500 }, (_, n) => 100 + n);
  for (const minute of minutes) world.absent.add(minute);
  await world.archive.commit({ trades: minutes.map(tradeAt) });
  const collector = world.collector();
  for (let look = 0; look < 6; look += 1) {
    await pollAll(collector);
    world.clock.advance(11 * MINUTE_MS);
  }
  const given = world.states().map(({ state, span }) => [state, ...span]);
  assert.deepEqual(given, [['unfillable', 100, 1600]]);
});

for (const minute of [50, 99]) {
  const where = minute === 50 ? 'on its own' : 'beside newer ones, in each minute';
  test(`only answers a pause apart give a traded minute up, where it is read ${where}`, async () => {
    const world = new CandlesWorld(100);
    world.absent.add(minute);
    await world.archive.commit({ trades: [tradeAt(minute)] });
    const collector = world.collector({ rereads: 30 });
    let passed = 0;
    for (; world.states()[0]?.state !== 'unfillable' && passed < 60; passed += 1) {
      await pollAll(collector);
      world.clock.advance(MINUTE_MS);
    }
    assert.ok(20 <= passed && passed < 25, `after ${passed} minutes`);
  });
}

test('a candle that came, or was doubted, is not given up at the next answer without it', async () => {
  for (const isDoubted of [true, false]) {
    const world = new CandlesWorld(100);
    world.absent.add(50);
    await world.archive.commit({ trades: [tradeAt(50)] });
    const collector = world.collector();
    const span = { fromMs: START_MS + 50 * MINUTE_MS, toMs: START_MS + 51 * MINUTE_MS };
    for (let look = 0; look < 2; look += 1) {
      await pollAll(collector);
      world.clock.advance(11 * MINUTE_MS);
    }
    if (isDoubted) {
      await collector.invalidate(span, 'a test');
    } else {
      world.absent.delete(50);
      await pollAll(collector);
      assert.equal(world.covered().length, 1);
      world.absent.add(50);
      const revocation = { stream: CANDLES, span, reason: 'suspect', note: '', atMs: 0 } as const;
      await world.archive.commit({ revoke: [revocation] });
      await collector.reload();
    }
    await pollAll(collector);
    await pollAll(collector);
    assert.deepEqual(
      world.states().map(({ state, reason }) => [state, reason]),
      [['open', 'walk stalled']],
    );
  }
});

test('a page that a cache has kept shows history of its own time', async () => {
  const world = new CandlesWorld(100);
  const collector = world.collector({ collectFromMin: 40, rereads: 60 });
  await pollAll(collector);
  world.clock.advance(100 * MINUTE_MS);
  world.answered = { fromMin: 40, toMin: 99 };
  world.exchange.told = { dateMs: START_MS + 100 * MINUTE_MS };
  await collector.poll(signal);
  world.answered = undefined;
  world.exchange.told = {};
  for (let minute = 0; minute < 130; minute += 1) world.absent.add(minute);
  await pollAll(collector);
  assert.deepEqual(world.covered(), [
    [130, 199],
    [40, 99],
  ]);
});

test('time beyond history is asked for again once its trades are covered, and no other', async () => {
  const world = new CandlesWorld(1001);
  for (let minute = 0; minute < 800; minute += 1) world.absent.add(minute);
  let spans: Span[] = [];
  const collector = world.collector({ coveredTrades: () => spans });
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[800, 1000]]);
  const asked = world.asked().length;
  await pollAll(collector);
  assert.equal(world.asked().length, asked, 'no trade of it is covered');
  spans = [{ fromMs: START_MS + 300.5 * MINUTE_MS, toMs: START_MS + 1000 * MINUTE_MS }];
  await pollAll(collector);
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[301, 1000]]);
  const settled = world.asked().slice(asked);
  const further = settled.filter(([fromMin]) => fromMin < 301);
  assert.ok(further.length <= 1, 'what is still unknown is looked at once, and keeps its pause');
  assert.deepEqual(world.gaps(), [[0, 800]]);
  await pollAll(collector);
  assert.equal(world.asked().length, asked + settled.length);
});

for (const isRestarted of [true, false]) {
  for (const fromMin of [400, 595, 600]) {
    const who = isRestarted ? 'by an earlier run' : 'before an outage';
    const shown = fromMin < 599 ? `candles from minute ${fromMin} on are shown` : 'none is shown';
    test(`what was shown ${who} proves nothing of time that the exchange has no candles of any more: ${shown}`, async () => {
      const world = new CandlesWorld(100);
      const running = world.collector({ rereads: 3 });
      await pollAll(running);
      world.clock.advance(500 * MINUTE_MS);
      for (let minute = 0; minute < fromMin; minute += 1) world.absent.add(minute);
      await pollAll(isRestarted ? world.collector({ rereads: 3 }) : running);
      const toMin = Math.min(599, fromMin);
      const after = fromMin < 599 ? [[fromMin, 599]] : [];
      assert.deepEqual(world.covered(), [...after, [0, 99]]);
      assert.deepEqual(world.gaps().at(-1), [99, toMin]);
    });
  }
}

test('a refused candle leaves its minute open and listed, and is asked for again only later', async () => {
  const world = new CandlesWorld(11);
  world.broken.add(4);
  const collector = world.collector();
  await pollAll(collector);
  assert.deepEqual(world.covered(), [
    [5, 10],
    [0, 4],
  ]);
  assert.deepEqual(world.gaps(), [[4, 5]]);
  assert.equal(world.archive.quarantine.length, 1);
  for (let minute = 0; minute < 9; minute += 1) {
    world.clock.advance(MINUTE_MS);
    await pollAll(collector);
  }
  assert.equal(world.asked().filter(([fromMin, toMin]) => fromMin <= 4 && 4 < toMin).length, 1);
  world.broken.clear();
  world.clock.advance(2 * MINUTE_MS);
  await pollAll(collector);
  assert.equal(world.covered().length, 1);
  world.record.assertAccounted('candles');
});

test('candles that a dispute about the time holds back are no refused rows, and are covered soon', async () => {
  const world = new CandlesWorld(11);
  const time = new FakeTime(world.clock);
  time.isSettled = false;
  const { clock, record: telemetry } = world;
  const ports = { archive: world.archive, time, clock, telemetry };
  const { archive } = new StreamLedger(ports, 'BTC_USDT', CANDLES);
  const collector = world.collector({ archive });
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[0, 9]], 'up to the newest candle');
  assert.deepEqual(world.gaps(), []);
  time.isSettled = true;
  world.clock.advance(MINUTE_MS);
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[0, 11]]);
});

test('candles without a readable time leave the whole answer open, over any number of pages', async () => {
  const world = new CandlesWorld(3001);
  world.extra = [world.candle('when?')];
  const collector = world.collector();
  assert.equal(await pollAll(collector), 3);
  for (let turn = 0; turn < 5; turn += 1) {
    world.clock.advance(1000);
    assert.equal(await pollAll(collector), 1);
  }
  assert.deepEqual(world.covered(), []);
  assert.equal(world.asked().length, 3, 'each page is put off');
  world.record.assertAccounted('candles');
});

test('the last candles are read again with a new one, and a revision is told apart', async () => {
  const world = new CandlesWorld(10);
  const collector = world.collector({ rereads: 3 });
  await pollAll(collector);
  world.volume = '2';
  world.clock.advance(MINUTE_MS);
  await pollAll(collector);
  assert.deepEqual(world.asked().at(-1), [6, 10]);
  assert.deepEqual({ ...world.record.outcomesOf('candles') }, { stored: 10, updated: 3 });
  world.record.assertAccounted('candles');
});

test('rereading asks for no more than a page and nothing before the begin', async () => {
  const world = new CandlesWorld(5);
  await pollAll(world.collector({ collectFromMin: 2, rereads: 50 }));
  assert.deepEqual(world.asked(), [[2, 4]]);
  const long = new CandlesWorld(1101);
  await long.collector({ rereads: 50 }).poll(signal);
  assert.deepEqual(long.asked(), [[100, 1100]]);
});

test('a covered candle that cannot be read again is no gap', async () => {
  const world = new CandlesWorld(10);
  const collector = world.collector({ rereads: 3 });
  await pollAll(collector);
  world.broken.add(8);
  world.clock.advance(MINUTE_MS);
  await pollAll(collector);
  assert.deepEqual(world.gaps(), []);
  assert.deepEqual(world.covered(), [[0, 10]]);
  world.record.assertAccounted('candles');
});

test('strays are quarantined; one beside the grid leaves both minutes open that it lies across', async () => {
  const world = new CandlesWorld(11);
  world.absent.add(4);
  const startS = START_MS / 1000;
  world.extra = [world.candle(startS + 4 * 60 + 30), world.candle(startS + 500 * 60)];
  await pollAll(world.collector());
  assert.equal(world.archive.quarantine.length, 2);
  assert.deepEqual(world.gaps(), [[4, 6]]);
  assert.deepEqual(world.covered(), [
    [6, 10],
    [0, 4],
  ]);
  world.record.assertAccounted('candles');
});

test('candles of another market or interval are not taken for what was asked', async () => {
  const world = new CandlesWorld(11);
  world.interval = 3600;
  await assert.rejects(world.collector().poll(signal), { code: 'candle_mismatch' });
  assert.deepEqual(world.covered(), []);
  const mixed = new CandlesWorld(11);
  mixed.absent.add(4);
  mixed.extra = [mixed.candle(START_MS / 1000 + 240, '9', 'ETH_USDT')];
  await pollAll(mixed.collector());
  assert.equal(mixed.stored().includes(4), false);
  assert.deepEqual(mixed.gaps(), [[4, 5]]);
});

test('candles that could not be committed are counted as lost and asked for again', async () => {
  const world = new CandlesWorld(11);
  const collector = world.collector();
  world.archive.before = () => {
    throw new Error('no database');
  };
  await assert.rejects(collector.poll(signal), /no database/);
  world.archive.before = () => undefined;
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[0, 10]]);
  assert.equal(world.record.outcomesOf('candles').lost, 10);
  world.record.assertAccounted('candles');
});

test('a wanted span before everything else is fetched in full, and nothing between', async () => {
  const world = new CandlesWorld(5000);
  const collector = world.collector({ collectFromMin: 4900 });
  await pollAll(collector);
  const wanted = { fromMs: START_MS + 90_000, toMs: START_MS + 1500 * MINUTE_MS };
  collector.backfill(wanted);
  collector.backfill(wanted);
  await pollAll(collector);
  assert.deepEqual(world.covered(), [
    [4900, 4999],
    [1, 1500],
  ]);
  assert.equal(world.asked().length, 3);
});

test('of a time that is not kept any more no candle is asked for', async () => {
  const world = new CandlesWorld(5000);
  const collector = world.collector({ collectFromMin: 0 });
  collector.backfill({ fromMs: START_MS + 100 * MINUTE_MS, toMs: START_MS + 200 * MINUTE_MS });
  collector.backfill({ fromMs: START_MS + 4890 * MINUTE_MS, toMs: START_MS + 4910 * MINUTE_MS });
  collector.keepFrom(START_MS + 4900 * MINUTE_MS);
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[4900, 4999]]);
  assert.equal(world.asked().length, 1);
});

test('of candles that are only requested none other is expected, whatever is kept', async () => {
  const world = new CandlesWorld(200);
  const collector = world.collector({ collectFromMin: null });
  collector.keepFrom(START_MS + 20 * MINUTE_MS);
  collector.backfill({ fromMs: START_MS + 10 * MINUTE_MS, toMs: START_MS + 30 * MINUTE_MS });
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[20, 30]]);
});

test('a candle that begins in files is not asked for, be it wanted or collected anyway', async () => {
  for (const collectFromMin of [40, 90]) {
    const world = new CandlesWorld(200);
    const collector = world.collector({ collectFromMin });
    const inFiles = { fromMs: START_MS, toMs: START_MS + 50.5 * MINUTE_MS };
    collector.backfill({ fromMs: inFiles.toMs, toMs: START_MS + 199 * MINUTE_MS });
    collector.leaveOut([inFiles]);
    await pollAll(collector);
    assert.deepEqual(world.asked(), [[51, 199]]);
    // Brought back.
    collector.leaveOut([]);
    await pollAll(collector);
    assert.equal(world.asked().at(-1)?.[0], collectFromMin === 40 ? 40 : 50);
  }
});

test('a candle that ends in files begins before them, and is asked for once', async () => {
  const world = new CandlesWorld(100);
  const collector = world.collector();
  collector.leaveOut([{ fromMs: START_MS + 50.5 * MINUTE_MS, toMs: START_MS + 200 * MINUTE_MS }]);
  const { commit } = world.archive;
  // Nothing is covered anew where files are.
  world.archive.commit = (batch) => {
    const toMs = START_MS + 50.5 * MINUTE_MS;
    const claims = batch.claims?.map((one) => ({ ...one, span: { ...one.span, toMs } }));
    return commit.call(world.archive, { ...batch, ...(claims && { claims }) });
  };
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[0, 50.5]]);
  world.clock.advance(0.3 * MINUTE_MS);
  await pollAll(collector);
  assert.deepEqual(world.asked(), [[0, 51]]);
});

test('an older page that cannot be had is put off and listed, and does not hold up the rest', async () => {
  const world = new CandlesWorld(2501);
  const answer = world.exchange.answers.kline ?? assert.fail();
  world.exchange.answers.kline = (params) => {
    if (Number(params.start) === START_MS / 1000 + 500 * 60) throw new Error('not this one');
    return answer(params);
  };
  const collector = world.collector();
  assert.equal(await collector.poll(signal), true);
  await assert.rejects(collector.poll(signal), /not this one/);
  await pollAll(collector);
  assert.deepEqual(world.covered(), [
    [1500, 2500],
    [0, 500],
  ]);
  assert.deepEqual(
    world.archive.gaps.map(({ reason }) => reason),
    ['exchange failed'],
  );
  world.exchange.answers.kline = answer;
  collector.retry({ fromMs: START_MS, toMs: START_MS + 2500 * MINUTE_MS });
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[0, 2500]]);
});

test('doubted candles are fetched again', async () => {
  const world = new CandlesWorld(100);
  const collector = world.collector();
  await pollAll(collector);
  world.volume = '7';
  await collector.invalidate({ fromMs: START_MS + 90_000, toMs: START_MS + 120_000 }, 'a test');
  await pollAll(collector);
  assert.deepEqual(world.asked().at(-1), [1, 2]);
  assert.deepEqual(world.covered(), [[0, 99]]);
  assert.equal(world.archive.klines.get(`7 60 ${START_MS / 1000 + 60}`)?.volume, '7');
});

test('days that begin at the hour of another time zone are learned from the answers', async () => {
  const day = 86_400;
  const zone = 5 * 3600;
  const clock = new FakeClock(START_MS);
  const archive = new ModelArchive();
  const record = new CollectRecord();
  const exchange = new ScriptedExchange(clock, {
    kline: ({ market, start, end }) => {
      const kline: unknown[] = [];
      const first = Math.floor((Number(start) - zone) / day) * day + zone;
      for (let time = first; time <= Number(end); time += day) {
        const [volume, amount] = ['1', '1'];
        kline.push({
          time,
          open: '5',
          close: '5',
          highest: '5',
          lowest: '5',
          volume,
          amount,
          market,
        });
      }
      return { market, start, end, interval: day, kline };
    },
  });
  const begin = () => {
    const collectFromMs = archive.floorOf(1) ?? START_MS - 10 * day * 1000;
    const stream = {
      streamId: 1,
      kind: 'candles',
      marketId: 7,
      variant: day,
      collectFromMs,
    } as const;
    const own = {
      market: 'BTC_USDT',
      marketId: 7,
      intervalS: day,
      stream,
      exchange,
      archive,
      clock,
    };
    const time = { nowMs: () => clock.wallMs() };
    const rest = {
      time,
      telemetry: record,
      graceMs: 10_000,
      isFinest: true,
      givenUp: [],
      rereads: 0,
    };
    return new CandleCollector({ ...own, ...rest }, archive.allRanges(1));
  };
  clock.advance(6 * 3600_000);
  await pollAll(begin());
  const expected = [{ fromMs: START_MS + (zone - 10 * day) * 1000, toMs: START_MS + zone * 1000 }];
  assert.deepEqual(
    archive.allRanges(1).map(({ span }) => span),
    expected,
  );
  assert.equal(archive.klines.size, 10);
  assert.deepEqual([archive.quarantine, archive.gaps], [[], []]);
  assert.equal(archive.floorOf(1), expected[0]?.fromMs);
  clock.advance(day * 1000);
  const asked = exchange.asked.length;
  await pollAll(begin());
  assert.equal(
    exchange.asked.length,
    asked + 1,
    'after a restart it is known from what is covered',
  );
  assert.equal(archive.klines.size, 11);
  record.assertAccounted('candles');
});

test('of what an answer says that it is not about, nothing is covered: it is listed and asked for later', async () => {
  const world = new CandlesWorld(31);
  // Of thirty minutes that are asked for, the page reaches from the fifth to the twentieth.
  world.answered = { fromMin: 5, toMin: 19 };
  const collector = world.collector();
  for (let round = 0; round < 5; round += 1) await collector.poll(signal);
  assert.ok(world.exchange.countOf('kline') <= 3, `${world.exchange.countOf('kline')} questions`);
  assert.deepEqual(world.covered(), [[5, 20]]);
  assert.deepEqual(
    world.archive.gaps.map(({ state, reason }) => [state, reason]),
    world.gaps().map(() => ['open', 'walk stalled']),
  );
  assert.deepEqual(world.gaps().sort(), [
    [0, 5],
    [20, 30],
  ]);
  world.answered = undefined;
  collector.retry({ fromMs: START_MS, toMs: START_MS + 30 * MINUTE_MS });
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[0, 30]]);
});
