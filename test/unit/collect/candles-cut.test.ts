import assert from 'node:assert/strict';
import test from 'node:test';
import { CandleCollector } from '../../../src/collect/candles/candles.js';
import type { StreamRef } from '../../../src/model/batch.js';
import { ScriptedExchange } from '../../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

/** Answers that hold less than was asked for: cut on the way, capped by the server, or honest. */

const START_MS = Date.UTC(2026, 0, 1);
const MINUTE_MS = 60_000;
const MARKET = 'BTC_USDT';
const { signal } = new AbortController();
const minuteOf = (ms: number) => (ms - START_MS) / MINUTE_MS;

class World {
  readonly clock = new FakeClock(START_MS);
  readonly archive = new ModelArchive();
  readonly record = new CollectRecord();
  readonly exchange: ScriptedExchange;
  /** Which of the minutes asked for are in the answer. */
  holds: (minute: number) => boolean = () => true;
  /** What becomes of an answer's minutes; the number counts answers from 1. */
  cut: (minutes: number[], answer: number) => number[] = (minutes) => minutes;
  #answers = 0;

  constructor(nowMin: number) {
    this.clock.advance(nowMin * MINUTE_MS);
    this.exchange = new ScriptedExchange(this.clock, {
      kline: ({ market, start, end }) => {
        const minutes: number[] = [];
        for (let time = Number(start); time <= Number(end); time += 60) {
          const minute = minuteOf(time * 1000);
          if (this.holds(minute)) minutes.push(minute);
        }
        this.#answers += 1;
        const kline = this.cut(minutes, this.#answers).map(candle);
        return { market, start, end, interval: 60, kline };
      },
    });
  }

  collector(rereads = 0): CandleCollector {
    const stream: StreamRef = {
      ...{ streamId: 1, kind: 'candles', marketId: 7, variant: 60, collectFromMs: START_MS },
    };
    return new CandleCollector(
      {
        ...{ market: MARKET, marketId: 7, intervalS: 60, stream, rereads },
        ...{ exchange: this.exchange, archive: this.archive, clock: this.clock },
        time: { nowMs: () => this.clock.wallMs() },
        ...{ telemetry: this.record, graceMs: 10_000, isFinest: true, givenUp: [] },
      },
      this.archive.allRanges(1),
    );
  }

  asked(): Array<[number, number]> {
    return this.exchange.asked.map(({ params }) => [
      minuteOf(Number(params.start) * 1000),
      minuteOf(Number(params.end) * 1000) + 1,
    ]);
  }

  covered(): Array<[number, number]> {
    const ranges = this.archive.allRanges(1);
    return ranges.map(({ span }) => [minuteOf(span.fromMs), minuteOf(span.toMs)]);
  }

  stored(): number[] {
    const minutes = [...this.archive.klines.values()].map(({ openAtS }) => openAtS * 1000);
    return minutes.map(minuteOf).sort((a, b) => a - b);
  }

  /** Everything from the first candle on is covered, every candle that there is is stored. */
  assertWhole(toMin: number): void {
    const all = Array.from({ length: toMin }, (_, minute) => minute).filter(this.holds);
    const fromMin = all[0] ?? toMin;
    assert.deepEqual(this.covered(), all.length === 0 ? [] : [[fromMin, toMin]]);
    assert.deepEqual(this.stored(), all);
    for (const { span, reason } of this.archive.gaps) {
      assert.equal(reason, 'beyond history');
      assert.ok(minuteOf(span.toMs) <= fromMin);
    }
    this.record.assertAccounted('candles');
  }
}

function candle(minute: number) {
  const time = START_MS / 1000 + minute * 60;
  const prices = { open: '5', close: '5', highest: '5', lowest: '5' };
  return { time, ...prices, volume: '1', amount: '5', market: MARKET };
}

async function pollAll(collector: CandleCollector): Promise<void> {
  for (let polls = 1; await collector.poll(signal); polls += 1) {
    assert.ok(polls < 100, 'the collector never has enough');
  }
}

for (const [name, cut] of [
  ['its newest part', (minutes: number[]) => minutes.slice(0, 5)],
  ['its oldest part', (minutes: number[]) => minutes.slice(-5)],
  ['both ends', (minutes: number[]) => minutes.slice(400, 500)],
  ['everything', () => []],
] as const) {
  test(`one page that lost ${name} is found out`, async () => {
    const world = new World(2001);
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
    const world = new World(1001);
    world.cut = cut;
    await pollAll(world.collector());
    world.assertWhole(1000);
    assert.ok(world.asked().length <= 13, 'each answer gets on by what it holds');
  });
}

test('an honest market that was quiet until lately costs one more request, once', async () => {
  const world = new World(1001);
  world.holds = (minute) => minute >= 300;
  const collector = world.collector(3);
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
  const world = new World(1501);
  world.holds = () => false;
  const collector = world.collector(50);
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
  const world = new World(1001);
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
    const world = new World(1001);
    world.cut = (minutes, answer) =>
      answer === 1 ? minutes.filter((minute) => !lost.some((one) => one === minute)) : minutes;
    await pollAll(world.collector());
    world.clock.advance(MINUTE_MS);
    await pollAll(world.collector());
    world.assertWhole(1001);
  });
}

test('a market that falls quiet costs one request a poll, and is covered one poll later', async () => {
  const world = new World(11);
  world.holds = (minute) => minute < 10;
  const collector = world.collector(3);
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
  const world = new World(1001);
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
  const world = new World(1001);
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

const TRADES: StreamRef = {
  ...{ streamId: 2, kind: 'trades', marketId: 7, variant: 0, collectFromMs: START_MS },
};

/** Trades of one minute and of the whole one after it, as the walk over trades brings them. */
async function storeTrades(world: World, minute: number): Promise<void> {
  const fields = { price: '5', amount: '1', total: '5', side: 'buy', executedAtUs: null } as const;
  const tradedAtS = START_MS / 1000 + minute * 60 + 59;
  const trade = { ...fields, marketId: 7, receivedAtMs: START_MS };
  const fromMs = START_MS + minute * MINUTE_MS + 59_000;
  await world.archive.commit({
    trades: [
      { ...trade, tid: 1, tradedAtS },
      { ...trade, tid: 2, tradedAtS: tradedAtS + 60 },
    ],
    claims: [{ stream: TRADES, span: { fromMs, toMs: fromMs + 2 * MINUTE_MS }, evidence: {} }],
  });
}

test('two answers that lack the same candle prove nothing where a trade is stored', async () => {
  const world = new World(1001);
  world.cut = (minutes, answer) =>
    answer <= 2 ? minutes.filter((minute) => minute !== 399 && minute !== 400) : minutes;
  await storeTrades(world, 399);
  const collector = world.collector();
  await pollAll(collector);
  assert.deepEqual(world.covered(), [
    [401, 1000],
    [0, 399],
  ]);
  const [memory] = world.archive.memories.get(1) ?? [];
  assert.deepEqual([memory?.reason, memory?.attempts], ['walk stalled', 1]);
  assert.match(memory?.note ?? '', /trades of this time are stored/);
  world.clock.advance(10 * MINUTE_MS);
  await pollAll(collector);
  assert.deepEqual(world.covered(), [[0, 1010]]);
  assert.ok([399, 400].every((minute) => world.stored().includes(minute)));
});

test('a candle that never comes for a minute with trades stays a gap, asked for now and then', async () => {
  const world = new World(1001);
  world.holds = (minute) => minute % 3 === 0 && minute !== 402;
  await storeTrades(world, 401);
  const collector = world.collector();
  await pollAll(collector);
  const before = world.asked().length;
  for (let minute = 0; minute < 60; minute += 1) {
    world.clock.advance(MINUTE_MS);
    await pollAll(collector);
  }
  assert.deepEqual(
    world.covered().filter(([from]) => from < 1000),
    [
      [403, 1060],
      [0, 401],
    ],
  );
  // One for the newest minute, and a few each time that its pause is over.
  assert.ok(world.asked().length - before <= 60 + 4 * 6, `${world.asked().length - before}`);
});

test('the slot of the first look, in which history may begin, is not called quiet', async () => {
  const world = new World(1001.7);
  // The exchange was made within minute 1001, and gives candles of whole minutes only.
  world.holds = (minute) => minute > 1001;
  const collector = world.collector();
  await pollAll(collector);
  await storeTrades(world, 1001);
  for (let minute = 0; minute < 3; minute += 1) {
    world.clock.advance(MINUTE_MS);
    await pollAll(collector);
  }
  assert.deepEqual(world.covered(), [[1002, 1004]]);
  const [memory] = world.archive.memories.get(1) ?? [];
  assert.equal(minuteOf(memory?.span.toMs ?? 0), 1002);
  assert.deepEqual([memory?.reason, memory?.state], ['beyond history', 'unfillable']);
});
