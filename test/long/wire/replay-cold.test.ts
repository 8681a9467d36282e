import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { type ColdStorage, FolderStorage } from '../../../src/archive/cold/storage.js';
import { Past } from '../../../src/archive/past.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { type Random, seededRandom } from '../../../src/kernel/random.js';
import type { Backend } from '../../../src/server/backend.js';
import { PastModel } from '../../support/models/past-model.js';
import { fillBucket, openBucket } from '../../support/s3/bucket-world.js';
import { S3StandIn } from '../../support/s3/s3-stand-in.js';
import { drawsOfRun, runSeed, runSeedText } from '../../support/seeds.js';
import { archiveDay } from '../../support/worlds/cold-world.js';
import {
  EVENT_DAY_MS,
  EVENT_MARKETS,
  EVENT_SPAN,
  EVENT_START_MS,
  type EventWorld,
  makeEventWorld,
} from '../../support/worlds/event-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';
import { type Replayed, startReplay } from '../../support/worlds/replayed-archive.js';

/** A replay of what lies in the database, in files, and in both, asked the same. */

const SPAN = { fromMs: EVENT_SPAN.from.getTime(), toMs: EVENT_SPAN.to.getTime() };
const STEPS = 8;
const dayText = (day: number) =>
  new Date(EVENT_START_MS + day * EVENT_DAY_MS).toISOString().slice(0, 10);

const draw = (random: Random, below: number) => Math.floor(random() * below);

async function replayOf(t: TestContext, world: EventWorld, cold: ColdStorage) {
  const past = new Past(world.store, { clock: systemClock, cold });
  return await startReplay(t, world.store, { past, span: SPAN });
}

/** Moments at which something changes, a millisecond before and after them, and others. */
function moments({ happened, received }: EventWorld, random: Random, count: number): number[] {
  return Array.from({ length: count }, () => {
    const one = happened[draw(random, happened.length)];
    const other = received[draw(random, received.length)];
    const ends = [
      one?.atUs ?? 0,
      other !== undefined && 'receivedAtUs' in other ? other.receivedAtUs : 0,
    ];
    const nearMs = Math.floor((ends[draw(random, 2)] ?? 0) / 1000) + draw(random, 3) - 1;
    const anyMs = SPAN.fromMs + draw(random, SPAN.toMs - SPAN.fromMs);
    const isNear = nearMs >= SPAN.fromMs && nearMs < SPAN.toMs;
    return isNear && draw(random, 4) > 0 ? nearMs : anyMs;
  }).sort((a, b) => a - b);
}

/** What a client asks at one moment. */
function paths(random: Random): string[] {
  const market = EVENT_MARKETS[draw(random, EVENT_MARKETS.length)] ?? '';
  const skip = [0, 0, 1, 17, 80][draw(random, 5)];
  const [startS, endS] = [SPAN.fromMs / 1000 - 600, SPAN.toMs / 1000];
  const kline = (interval: number) =>
    `kline?market=${market}&interval=${interval}&start=${startS}&end=${endS}`;
  return [
    ...[
      'markets',
      'products',
      'tickers',
      `ticker?market=${market}`,
      `depth/result?market=${market}`,
    ],
    `history?market=${market}&lastId=${skip}&limit=40`,
    `history/result?market=${market}&since=${skip}&limit=1000`,
    `book?market=${market}&side=${draw(random, 2) === 0 ? 'buy' : 'sell'}`,
    ...[kline(60), kline(300), kline(30)],
  ];
}

/** Every answer to the same questions, to the byte. */
async function answers(
  { server, backend, record, failures }: Replayed,
  world: EventWorld,
): Promise<string[]> {
  const random = seededRandom(runSeed);
  const told: string[] = [];
  for (const atMs of moments(world, random, 3)) {
    backend.clockControl.seek(undefined, atMs);
    for (const path of paths(random)) {
      const reply = await fetch(`${server.url}/api/v1/public/${path}`);
      assert.deepEqual([...record.failures, ...failures], [], path);
      const headers = ['date', 'x-tapekeep-book'].map((one) => reply.headers.get(one));
      told.push([path, atMs, reply.status, ...headers, await reply.text()].join('\n'));
    }
    const backendOfSession = sessionBackendOf(backend);
    for (const market of EVENT_MARKETS) {
      const record = await Promise.resolve(backendOfSession.state(market, 60)).catch(String);
      told.push(`${market} ${atMs} ${JSON.stringify(record)}`);
    }
  }
  return told;
}

const sessionBackendOf = (backend: Replayed['backend']): Backend =>
  backend.sessionFor({ kind: 'request', session: undefined, note: () => undefined });

/** All pushed states, as they are told to those who follow them. */
async function updates(world: EventWorld, cold: ColdStorage): Promise<object[]> {
  const past = new Past(world.store, { clock: systemClock, cold });
  const all: object[] = [];
  for (const marketId of [1, 2, 3]) {
    let after = { observedAtMs: SPAN.fromMs, seq: -1 };
    for (;;) {
      const page = await past.updatesAfter(marketId, 60, after, SPAN.toMs, 13);
      all.push(...page);
      const last = page.at(-1);
      if (last === undefined) break;
      after = last;
    }
  }
  await past.close();
  return all;
}

/** Where time goes, thing by thing; the way is long, so that it begins at several places. */
async function steps({ backend }: Replayed): Promise<number[]> {
  const { clockControl } = backend;
  const taken: number[] = [];
  for (const fromMs of [SPAN.fromMs, SPAN.fromMs + 595_000, SPAN.toMs - 70_000]) {
    clockControl.seek(undefined, fromMs);
    for (let step = 0; step < STEPS; step += 1) {
      taken.push((await clockControl.step(undefined, undefined)).nowMs);
    }
  }
  return taken;
}

function stepsOf(model: PastModel): number[] {
  return [SPAN.fromMs, SPAN.fromMs + 595_000, SPAN.toMs - 70_000].flatMap((fromMs) => {
    let nowMs = fromMs;
    return Array.from({ length: STEPS }, () => {
      nowMs = Math.min(SPAN.toMs, model.nextMomentMs(nowMs) ?? SPAN.toMs);
      return nowMs;
    });
  });
}

/** Asks at random moments, and compares with what a look at all events says. */
async function assertAsModel({ backend }: Replayed, world: EventWorld, count: number) {
  const model = new PastModel(world);
  const random = seededRandom(runSeed + 1);
  let candles = 0;
  for (const atMs of moments(world, random, count)) {
    const market = EVENT_MARKETS[draw(random, EVENT_MARKETS.length)] ?? '';
    const what = `${market} ${new Date(atMs).toISOString()}, ${runSeedText}`;
    backend.clockControl.seek(undefined, atMs);
    const seat = sessionBackendOf(backend);
    const skip = draw(random, 40);
    const newestFirst = model.trades(market, atMs).reverse();
    const page = await seat.trades(market, skip, 60);
    const few = await seat.trades(market, skip, 5);
    assert.deepEqual(few, page.slice(0, 5), what);
    assert.deepEqual(
      page.map(({ id }) => id),
      newestFirst.slice(skip, skip + 60).map(({ id }) => id),
      what,
    );
    for (const [intervalS, isCollected] of [
      [60, true],
      [300, true],
      [30, false],
    ] as const) {
      const query = { market, intervalS, startS: SPAN.fromMs / 1000 - 300, endS: SPAN.toMs / 1000 };
      const found = await seat.kline(query);
      assert.deepEqual(found, model.candles(market, intervalS, atMs, isCollected), what);
      candles += found.length;
    }
    const last = model.depth(market, atMs);
    const depth = await Promise.resolve(seat.depth(market, 10)).catch(() => undefined);
    assert.deepEqual(depth, last && { asks: last.asks, bids: last.bids }, what);
    const seen = model.ticker(market, atMs);
    const ticker = await Promise.resolve(seat.ticker(market)).catch(() => undefined);
    assert.deepEqual([ticker?.bid, ticker?.last], [seen?.bid, seen?.last], what);
    const told = model.state(market, 60, atMs);
    const state = await Promise.resolve(seat.state(market, 60)).catch(() => undefined);
    assert.deepEqual([state?.last, state?.volume], [told?.last, told?.volume], what);
  }
  assert.ok(candles > count, 'there was something to compare');
}

test('the same questions get the same bytes from the database, from files, from both and from a bucket; none sees the future', async (t) => {
  const world = await makeEventWorld(drawsOfRun(t), true);
  const coldDir = await makeFolder(t, 'cold');
  const folder = new FolderStorage(coldDir);
  const replay = await replayOf(t, world, folder);
  const expected = await answers(replay, world);
  await assertAsModel(replay, world, 16);
  const pushed = await updates(world, folder);
  assert.ok(pushed.length > 50);
  const walked = stepsOf(new PastModel(world));
  assert.ok(new Set(walked).size > 2 * STEPS);
  assert.deepEqual(await steps(await replayOf(t, world, folder)), walked);
  const assertSame = async (t: TestContext, cold: ColdStorage) => {
    const replay = await replayOf(t, world, cold);
    const told = await answers(replay, world);
    for (const [at, text] of expected.entries()) assert.equal(told[at], text);
    await assertAsModel(replay, world, 3);
    assert.deepEqual(await updates(world, cold), pushed);
    assert.deepEqual(await steps(await replayOf(t, world, cold)), walked);
  };

  const days = ['trades', 'tickers', 'depth', 'states'] as const;
  for (const [where, archive] of [
    // Candles leave by the month; the versions that they had before stay at first.
    [
      'the first day in files',
      () => [...days, 'candles' as const].map((kind) => [kind, 0] as const),
    ],
    [
      'all in files',
      () => [...days.map((kind) => [kind, 1] as const), ['candle_revisions', 0] as const],
    ],
  ] as const) {
    await t.test(where, async (t) => {
      for (const [kind, day] of archive()) {
        assert.ok((await archiveDay({ ...world, coldDir }, kind, dayText(day))).length > 0);
      }
      await assertSame(t, folder);
    });
  }

  await t.test('all in a bucket', async (t) => {
    const store = await S3StandIn.start(t);
    await fillBucket(store, coldDir);
    await rename(coldDir, `${coldDir}-away`);
    await assertSame(t, await openBucket(t, store));
  });
});
