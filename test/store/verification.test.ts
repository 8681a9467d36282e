import assert from 'node:assert/strict';
import test from 'node:test';
import { Verification } from '../../src/archive/verification.js';
import { addDecimals, compareDecimals, multiplyDecimals } from '../../src/kernel/decimal.js';
import { seededRandom } from '../../src/kernel/random.js';
import type { Span } from '../../src/kernel/span.js';
import type { KlineRow, StreamRef, TradeRow } from '../../src/model/batch.js';
import type { Store } from '../../src/store/index.js';
import { FakeClock } from '../support/fake-clock.js';
import { noTelemetry } from '../support/no-telemetry.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { claim, marketOf, NOON_S, revoke, trade } from '../support/postgres/postgres-rows.js';

const HOURS = 2;
const SEED = 20_260_115;

/** What the exchange would answer: trades of two hours, and their candles. */
function makeTruth() {
  const random = seededRandom(SEED);
  const trades: TradeRow[] = [];
  for (let atS = 0; atS < HOURS * 3600; atS += 1 + Math.floor(random() ** 3 * 400)) {
    const price = `${60_000 + Math.floor(random() * 900)}.5`;
    const amount = `0.${String(1 + Math.floor(random() * 99_999)).padStart(5, '0')}`;
    const total = multiplyDecimals(price, amount);
    trades.push(trade(trades.length + 1, atS, { price, amount, total }));
  }
  const candles = [60, 3600].flatMap((intervalS) => candlesOf(trades, intervalS));
  return { trades, candles };
}

function candlesOf(trades: readonly TradeRow[], intervalS: number): KlineRow[] {
  const opens = new Set(trades.map((one) => Math.floor(one.tradedAtS / intervalS) * intervalS));
  return [...opens].map((openAtS) => {
    const inside = trades.filter(
      ({ tradedAtS }) => tradedAtS >= openAtS && tradedAtS < openAtS + intervalS,
    );
    const prices = inside.map(({ price }) => price).sort(compareDecimals);
    const sum = (texts: readonly string[]) => texts.reduce(addDecimals, '0');
    return {
      ...{ marketId: 1, intervalS, openAtS, receivedAtMs: (openAtS + intervalS + 30) * 1000 },
      ...{ open: inside[0]?.price ?? '', close: inside.at(-1)?.price ?? '' },
      ...{ high: prices.at(-1) ?? '', low: prices[0] ?? '' },
      volume: sum(inside.map(({ amount }) => amount)),
      quoteVolume: sum(inside.map(({ total }) => total)),
    };
  });
}

class World {
  readonly truth = makeTruth();
  readonly store: Store;
  readonly url: string;
  readonly streams: readonly StreamRef[];
  readonly clock = new FakeClock();
  nowMs = (NOON_S + HOURS * 3600 + 60) * 1000;

  private constructor(store: Store, url: string, streams: readonly StreamRef[]) {
    this.store = store;
    this.url = url;
    this.streams = streams;
  }

  /** An archive that has collected everything. */
  static async open(): Promise<World> {
    const { store, url } = await openTestStore();
    await store.ensureMarkets([marketOf('BTC_USDT')], NOON_S * 1000);
    const collectFromMs = NOON_S * 1000;
    const streams: StreamRef[] = [];
    for (const [kind, variant] of [
      ['trades', 0],
      ['candles', 60],
      ['candles', 3600],
    ] as const) {
      streams.push(await store.ensureStream({ kind, marketId: 1, variant, collectFromMs }));
    }
    const world = new World(store, url, streams);
    for (const stream of streams) {
      await world.fetch(stream, { fromMs: NOON_S * 1000, toMs: (NOON_S + HOURS * 3600) * 1000 });
    }
    return world;
  }

  /** Stores what the exchange says about a span of a stream. */
  async fetch(stream: StreamRef, span: Span): Promise<void> {
    const has = (s: number) => span.fromMs <= s * 1000 && s * 1000 < span.toMs;
    const { trades, candles } = this.truth;
    await this.store.commit({
      claims: [claim(stream, span.fromMs / 1000 - NOON_S, span.toMs / 1000 - NOON_S)],
      ...(stream.kind === 'trades'
        ? { trades: trades.filter(({ tradedAtS }) => has(tradedAtS)) }
        : {
            klines: candles
              .filter(({ intervalS, openAtS }) => intervalS === stream.variant && has(openAtS))
              .map((row) => ({ ...row, receivedAtMs: this.nowMs })),
          }),
    });
  }

  /** What the collectors do about suspects: uncover, fetch again. Returns which they were. */
  async refetch(): Promise<string[]> {
    const { suspects } = await this.store.fillRequests(this.nowMs);
    const done: string[] = [];
    for (const { streamId, span } of suspects) {
      const stream = this.streams.find((one) => one.streamId === streamId);
      assert.ok(stream !== undefined);
      const gap = { reason: 'suspect', note: 'refetching', atMs: this.nowMs } as const;
      await revoke(this.store, stream, span, gap);
      await this.fetch(stream, span);
      done.push(`${stream.kind} ${stream.variant}`);
    }
    await this.store.closeFilledGaps();
    return done.sort();
  }

  /** A verification as a process of its own would be: it knows only what the archive holds. */
  verification(): Verification {
    return new Verification({
      archive: this.store,
      clock: this.clock,
      nowMs: () => this.nowMs,
      telemetry: noTelemetry.verify,
      pauseMs: 1000,
    });
  }

  /** Rounds until nothing is to be done, each by a new process. */
  async settle(): Promise<void> {
    const { signal } = new AbortController();
    for (let round = 0; await this.verification().round(signal); round += 1) {
      assert.ok(round < 100, 'rounds end');
    }
  }

  async outcomes(intervalS: number): Promise<string[]> {
    const rows = await runSql<{ outcome: string }>(
      this.url,
      'SELECT outcome FROM candle_check WHERE interval_s = $1 ORDER BY lower(span)',
      [intervalS],
    );
    return rows.map(({ outcome }) => outcome);
  }

  /** Time passes as between two tries. */
  wait(): void {
    this.nowMs += 3_600_000;
  }
}

test('a trade that was altered by hand stays a mismatch after three refetches, and no more', async () => {
  const world = await World.open();
  await runSql(world.url, 'UPDATE trade SET price = price + 1 WHERE tid = 9');
  await runSql(world.url, 'UPDATE trade SET amount = amount + 0.00001 WHERE tid = 9');
  const refetches: string[][] = [];
  for (let turn = 0; turn < 8; turn += 1) {
    await world.settle();
    refetches.push(await world.refetch());
    world.wait();
  }
  const minute = ['candles 60', 'trades 0'];
  assert.deepEqual(refetches.slice(0, 3), [minute, minute, minute]);
  assert.ok(refetches.slice(3).every((one) => one.length === 0));
  const known = await world.store.checks.mismatches({ marketId: 1 }, 10);
  const settled = known.find(({ intervalS }) => intervalS === 60);
  assert.deepEqual([settled?.tries, settled?.nextTryAtMs], [3, null]);
  assert.ok(
    known.every(({ nextTryAtMs }) => nextTryAtMs === null),
    'the hour is not read again for ever either',
  );
  assert.ok(settled?.differences.some(({ figure }) => figure === 'volume'));
});

test('where minutes agree and the hour does not, only the candle of the hour is suspected', async () => {
  const world = await World.open();
  await runSql(world.url, 'UPDATE kline SET volume = volume + 1 WHERE interval_s = 3600');
  await world.settle();
  assert.deepEqual(await world.outcomes(60), ['match']);
  assert.deepEqual(await world.refetch(), ['candles 3600', 'candles 3600']);
  world.wait();
  await world.settle();
  assert.deepEqual(await world.outcomes(3600), ['match']);
});

/** The minute in which a trade of the truth happened, in seconds. */
function minuteOf(world: World, tid: number): number {
  const found = world.truth.trades.find((one) => one.tid === tid);
  assert.ok(found !== undefined);
  return Math.floor(found.tradedAtS / 60) * 60;
}

async function dropCandle({ url }: World, openAtS: number): Promise<void> {
  const at = new Date(openAtS * 1000);
  await runSql(url, 'DELETE FROM kline WHERE interval_s = 60 AND open_at = $1', [at]);
}

test('where trades have no candle, the candle alone is suspected first', async () => {
  const world = await World.open();
  await dropCandle(world, minuteOf(world, 9));
  await world.settle();
  assert.deepEqual(await world.refetch(), ['candles 60']);
  world.wait();
  await world.settle();
  assert.deepEqual(await world.outcomes(60), ['match']);
  const doubted = await runSql<{ kind: string }>(
    world.url,
    "SELECT DISTINCT kind FROM gap JOIN stream USING (stream_id) WHERE reason = 'suspect'",
  );
  assert.deepEqual(doubted, [{ kind: 'candles' }], 'nothing is said of the trades');
});

test('a candle that stays missing is asked for together with its trades, and then the mismatch stands', async () => {
  const world = await World.open();
  const openAtS = minuteOf(world, 9);
  await dropCandle(world, openAtS);
  const { candles } = world.truth;
  const at = candles.findIndex((one) => one.intervalS === 60 && one.openAtS === openAtS);
  candles.splice(at, 1);
  const refetches: string[][] = [];
  for (let turn = 0; turn < 6; turn += 1) {
    await world.settle();
    refetches.push((await world.refetch()).filter((one) => one !== 'candles 3600'));
    world.wait();
  }
  const both = ['candles 60', 'trades 0'];
  assert.deepEqual(refetches, [['candles 60'], both, both, [], [], []]);
  const known = await world.store.checks.mismatches({ marketId: 1 }, 10);
  const settled = known.find(({ intervalS }) => intervalS === 60);
  assert.deepEqual([settled?.tries, settled?.nextTryAtMs], [3, null]);
});

test('late trades and revised candles are judged anew', async () => {
  const world = await World.open();
  const late = world.truth.trades.filter(({ tid }) => tid > 20 && tid < 24);
  await runSql(world.url, 'DELETE FROM trade WHERE tid > 20 AND tid < 24');
  await runSql(
    world.url,
    'UPDATE kline SET close = close + 1 WHERE interval_s = 60 AND open_at = $1',
    [new Date(NOON_S * 1000)],
  );
  await world.settle();
  assert.ok((await world.outcomes(60)).includes('mismatch'));
  await world.store.commit({ trades: late });
  const [first] = world.truth.candles;
  assert.ok(first !== undefined);
  await world.store.commit({ klines: [{ ...first, receivedAtMs: world.nowMs }] });
  world.wait();
  await world.settle();
  assert.deepEqual(await world.outcomes(60), ['match'], 'without any refetch');
  const again = world.truth.trades.find(({ tid }) => tid === 30);
  assert.ok(again !== undefined);
  await runSql(world.url, 'DELETE FROM trade WHERE tid = 30');
  await world.store.commit({ trades: [again] });
  assert.equal(await world.store.checks.applySuspects(world.nowMs, 10), 1);
  assert.equal((await world.outcomes(60)).length, 2, 'a match with a gap where it changed');
  await world.settle();
  assert.deepEqual(await world.outcomes(60), ['match']);
});

test('a stop in the middle ends it, and the next run goes on', async () => {
  const world = await World.open();
  const stopping = new AbortController();
  const running = world.verification().run(stopping.signal);
  stopping.abort();
  await running;
  await world.settle();
  assert.deepEqual(await world.outcomes(3600), ['match']);
});

/** A world whose exchange's history begins within the first hour: its trades are stored, none are proven before. */
async function withBeginning() {
  const world = await World.open();
  const [trades, , hours] = world.streams;
  assert.ok(trades !== undefined && hours !== undefined);
  const fromMs = NOON_S * 1000;
  const gap = { reason: 'beyond history', note: '', atMs: world.nowMs } as const;
  await revoke(world.store, trades, { fromMs, toMs: fromMs + 1_400_000 }, gap);
  const [target] = await world.store.checks.targets();
  assert.ok(target !== undefined);
  const contradicted = () => world.store.checks.contradicted(target, hours);
  return { world, hours, hour: { fromMs, toMs: fromMs + 3_600_000 }, contradicted };
}

test('a quiet slot with stored trades, not all proven, is a mismatch and becomes a gap', async () => {
  const { world, hours, hour, contradicted } = await withBeginning();
  await runSql(
    world.url,
    'DELETE FROM kline WHERE interval_s = 3600 AND open_at = to_timestamp($1)',
    [NOON_S],
  );
  assert.deepEqual(await contradicted(), [hour]);
  await world.settle();
  const [found] = (await world.store.checks.mismatches({ marketId: 1 }, 10)).filter(
    ({ intervalS }) => intervalS === 3600,
  );
  assert.deepEqual([found?.span, found?.differences[0]?.candle], [hour, null]);
  const asked = (await world.store.fillRequests(world.nowMs)).suspects;
  const ofHours = asked.filter(({ streamId }) => streamId === hours.streamId);
  assert.deepEqual(
    ofHours.map(({ span }) => span),
    [hour],
  );
  await revoke(world.store, hours, hour, { reason: 'suspect', note: 'again', atMs: world.nowMs });
  assert.deepEqual(await contradicted(), []);
  const gaps = await world.store.listGaps(
    { marketIds: [1], kinds: ['candles'], limit: 10 },
    world.nowMs,
  );
  assert.deepEqual(
    gaps.filter(({ reason }) => reason === 'suspect').map(({ variant, span }) => [variant, span]),
    [[3600, hour]],
  );
});

test('a candle that begins at another hour than its slot makes the slot no quiet one', async () => {
  const { world, contradicted } = await withBeginning();
  await runSql(
    world.url,
    "UPDATE kline SET open_at = open_at + interval '10 minutes' WHERE interval_s = 3600",
  );
  assert.deepEqual(await contradicted(), []);
});
