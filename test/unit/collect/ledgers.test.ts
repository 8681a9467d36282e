import assert from 'node:assert/strict';
import test from 'node:test';
import type { StreamLedger } from '../../../src/collect/ledger.js';
import { Ledgers } from '../../../src/collect/ledgers.js';
import { retryingArchive } from '../../../src/collect/retrying.js';
import { WalkStalledError } from '../../../src/collect/trades/walk-errors.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { STREAM_KINDS, type StreamKind } from '../../../src/model/series.js';
import { FakeClock } from '../../support/fake-clock.js';
import { FakeTime } from '../../support/fake-time.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

/** A stream whose coverage does not grow is a gap with a reason, from the moment on at which it stood. */

const START_MS = Date.UTC(2026, 0, 1);
const { signal } = new AbortController();
const after = (ms: number) => (ms - START_MS) / 1000;

class World {
  readonly clock = new FakeClock(START_MS);
  readonly time = new FakeTime(this.clock);
  readonly model = new ModelArchive();
  readonly record = new CollectRecord();
  readonly ledgers = new Ledgers({
    archive: retryingArchive(this.model, {
      ...{ clock: this.clock, random: seededRandom(1), signal, telemetry: this.record },
    }),
    time: this.time,
    clock: this.clock,
    telemetry: this.record,
  });

  async open(kind: StreamKind, collectFromMs?: number): Promise<StreamLedger> {
    const variant = kind === 'candles' || kind === 'states' ? 60 : 0;
    const key = { kind, marketId: 1, variant };
    return await this.ledgers.open(
      'BTC_USDT',
      collectFromMs === undefined ? key : { ...key, collectFromMs },
    );
  }

  async cover({ archive, stream }: StreamLedger, fromS: number, toS: number): Promise<void> {
    const span = { fromMs: START_MS + fromS * 1000, toMs: START_MS + toS * 1000 };
    await archive.commit({ claims: [{ stream, span, evidence: {} }] });
  }

  /** What is remembered of a stream's gaps and not filled, oldest first. */
  gaps({ stream: { streamId } }: StreamLedger) {
    return (this.model.memories.get(streamId) ?? [])
      .filter(({ state }) => state !== 'filled')
      .map(({ span, state, reason }) => [after(span.fromMs), after(span.toMs), state, reason])
      .sort((a, b) => Number(a[0]) - Number(b[0]));
  }

  async pass(seconds: number): Promise<void> {
    for (let left = seconds; left > 0; left -= 3) {
      this.clock.advance(3000);
      await this.ledgers.review();
    }
  }
}

for (const kind of STREAM_KINDS) {
  test(`a stream of ${kind} that never succeeded is missing from the start of the run on`, async () => {
    const world = new World();
    const isFromNow = kind === 'depth' || kind === 'tickers' || kind === 'states';
    const stream = await world.open(kind, isFromNow ? START_MS : undefined);
    world.ledgers.failed(kind, 'BTC_USDT', new Error('no row could be read'));
    await world.pass(180);
    const [gap] = world.gaps(stream);
    const canBeHad = kind === 'trades' || kind === 'candles';
    const state = canBeHad ? 'open' : 'unfillable';
    const reason = canBeHad
      ? 'exchange failed'
      : kind === 'states'
        ? 'no connection'
        : 'not observed';
    assert.deepEqual([gap?.[0], gap?.[2], gap?.[3]], [0, state, reason]);
    assert.ok(Number(gap?.[1]) >= 120, `it grows: ${gap?.[1]}`);
    const [one] = world.ledgers.list();
    assert.equal(one?.market, 'BTC_USDT');
    assert.equal(one?.isFromStart, true);
    const usualS = kind === 'candles' ? 60 : 0;
    assert.equal(one?.standingMs, (180 - usualS) * 1000);
    world.clock.advance(0.4);
    assert.equal(world.ledgers.list()[0]?.standingMs, one?.standingMs, 'whole milliseconds');
    assert.ok(world.record.standing.at(-1)?.streams.length === 1);
  });
}

test('a stream of states that no connection brings says why none was made', async () => {
  const world = new World();
  const stream = await world.open('states', START_MS);
  await world.pass(30);
  assert.equal(world.ledgers.list()[0]?.note, 'no connection brought a state');
  stream.unproven('no connection was made: 404', 'not observed');
  const [one] = world.ledgers.list();
  assert.deepEqual([one?.reason, one?.note], ['no connection', 'no connection was made: 404']);
  // Of before a connection that was made.
  const id = await stream.openSession(START_MS);
  await stream.closeSession(id, { atMs: START_MS, code: 1006, reason: 'lost' });
  assert.equal(world.ledgers.list()[0]?.note, 'no connection brought a state');
});

test('a stalled walk is a gap from where its coverage ends, until that grows again', async () => {
  const world = new World();
  const stream = await world.open('trades');
  await world.cover(stream, -100, 0);
  const stalled = new WalkStalledError(
    'BTC_USDT',
    'history',
    'its newest trade is 3, older than 9',
  );
  for (let look = 0; look < 20; look += 1) {
    world.ledgers.failed('trades', '*', stalled);
    await world.pass(3);
  }
  const [gap] = world.gaps(stream);
  assert.deepEqual([gap?.[0], gap?.[2], gap?.[3]], [0, 'open', 'walk stalled']);
  assert.equal(world.ledgers.list()[0]?.reason, 'walk stalled');
  await world.cover(stream, 0, 61);
  assert.deepEqual(world.ledgers.list(), []);
  world.model.closeFilledGaps();
  assert.deepEqual(world.gaps(stream), []);
});

test('answers that are refused as stale are why a stream stands, and no more the failure of before', async () => {
  const world = new World();
  const stream = await world.open('trades');
  await world.cover(stream, -100, 0);
  world.ledgers.failed('trades', '*', new Error('connect ECONNREFUSED'));
  await world.pass(30);
  assert.deepEqual(world.gaps(stream)[0]?.slice(2), ['open', 'exchange failed']);
  world.ledgers.stale('trades', '*', 'states');
  await world.pass(90);
  assert.deepEqual(world.gaps(stream)[0]?.slice(2), ['open', 'walk stalled']);
  assert.match(
    world.ledgers.list()[0]?.note ?? '',
    /lacks trades that another source shows \(states\)/,
  );
});

test('a stream whose answers come and prove nothing stands, with what is wrong with them', async () => {
  const world = new World();
  const stream = await world.open('tickers', START_MS);
  await world.cover(stream, 0, 1);
  for (let look = 0; look < 40; look += 1) {
    stream.unproven('a ticker could not be read', 'not observed');
    await world.pass(3);
  }
  const [gap] = world.gaps(stream);
  assert.deepEqual([gap?.[0], gap?.[2], gap?.[3]], [1, 'unfillable', 'not observed']);
  const [one] = world.ledgers.list();
  assert.deepEqual([one?.kind, one?.note], ['tickers', 'a ticker could not be read']);
  await world.cover(stream, 120, 121);
  assert.deepEqual(world.ledgers.list(), []);
});

test('what does not fail stands once nothing was proven for five minutes, and a quiet feed never', async () => {
  const world = new World();
  const trades = await world.open('trades');
  const state = await world.open('states', START_MS);
  await world.cover(trades, -100, 0);
  await state.openSession(START_MS);
  await world.pass(290);
  assert.deepEqual(world.ledgers.list(), []);
  assert.equal(world.model.gaps.length, 0);
  await world.pass(300);
  const standing = world.ledgers.list().map(({ kind, reason, note }) => [kind, reason, note]);
  const note = 'no answer since then proved anything of it';
  assert.deepEqual(standing, [['trades', 'not collected', note]]);
  assert.deepEqual(world.gaps(trades)[0]?.slice(0, 1), [0]);
  await world.cover(trades, 0, 590);
  assert.deepEqual(world.ledgers.list(), []);
});

test('a feed that is connected and proven to lack updates stands, until an update comes', async () => {
  const world = new World();
  const stream = await world.open('states', START_MS);
  const renew = async (reason: string) => {
    const id = await stream.openSession(START_MS);
    await world.pass(6);
    await stream.closeSession(id, { atMs: START_MS, code: 4000, reason });
  };
  for (let at = 0; at < 6; at += 1) await renew('stalled');
  await stream.openSession(START_MS);
  assert.equal(world.ledgers.list()[0]?.reason, 'no updates');
  const [gap] = world.gaps(stream);
  assert.deepEqual([gap?.[0], gap?.[2], gap?.[3]], [0, 'unfillable', 'no updates']);
  await world.cover(stream, 36, 37);
  await world.pass(60);
  assert.deepEqual(world.ledgers.list(), []);
});

test('after a jump back of the time coverage grows from there', async () => {
  const world = new World();
  const stream = await world.open('tickers', START_MS);
  world.clock.advance(3_600_000);
  await world.cover(stream, 3590, 3600);
  world.clock.stepWall(-3_590_000);
  world.time.jumps = 1;
  world.ledgers.failed('tickers', '*', new Error('refused once'));
  await world.pass(30);
  assert.equal(world.ledgers.list().length, 1);
  await world.cover(stream, 30, 39);
  assert.deepEqual(world.ledgers.list(), []);
});

test('what failed for all markets is why the stream of each stands', async () => {
  const world = new World();
  await world.open('tickers', START_MS);
  world.ledgers.failed('tickers', '*', new Error('no answer came'));
  await world.pass(30);
  const [one] = world.ledgers.list();
  assert.deepEqual([one?.market, one?.note], ['BTC_USDT', 'no answer came']);
});

test('a stream that begins later and later does not stand', async () => {
  const world = new World();
  const stream = await world.open('tickers', START_MS);
  for (let second = 3; second < 90; second += 3) {
    await world.pass(3);
    const { streamId } = stream.stream;
    await stream.commit({ begins: [{ streamId, fromMs: START_MS + second * 1000 }] });
  }
  assert.deepEqual(world.ledgers.list(), []);
  assert.deepEqual(world.gaps(stream), []);
  await world.pass(30);
  assert.equal(world.ledgers.list().length, 1, 'until that ends');
});

test('a market that is collected no more does not stand', async () => {
  const world = new World();
  await world.open('trades');
  await world.pass(60);
  assert.equal(world.ledgers.list().length, 1);
  world.ledgers.forget(1);
  assert.deepEqual(world.ledgers.list(), []);
});

test('a stream that grows again below what was taken back of it does not stand', async () => {
  const world = new World();
  const { ledgers } = world;
  const ledger = await world.open('depth');
  world.clock.advance(3_600_000);
  await world.cover(ledger, 0, 3600);
  world.clock.stepWall(-3_600_000);
  world.time.jumps = 1;
  const span = { fromMs: START_MS, toMs: START_MS + 3_600_000 };
  ledgers.revoked([{ streamId: ledger.stream.streamId, span }]);
  // One poll failed; the next ones did not.
  ledgers.failed('depth', '*', new Error('one answer was cut'));
  for (let second = 3; second < 90; second += 3) {
    await world.pass(3);
    await world.cover(ledger, 0, second);
  }
  assert.deepEqual(ledgers.list(), []);
});

test('a stop writes no more gaps at once than end soon, none after its time, and all that it can', async () => {
  for (const [withinMs, expected] of [
    [Number.POSITIVE_INFINITY, 100],
    [250, 96],
    [0, 0],
  ] as const) {
    const { clock, model, ledgers } = new World();
    for (let marketId = 1; marketId <= 100; marketId += 1) {
      const key = { kind: 'depth', marketId, variant: 0, collectFromMs: START_MS } as const;
      (await ledgers.open('A', key)).unproven('no answer', 'not observed');
    }
    clock.advance(1000);
    let [begun, ended, most] = [0, 0, 0];
    const { commit } = model;
    model.commit = async (batch) => {
      const { findings = [] } = batch;
      begun += findings.length;
      most = Math.max(most, begun - ended);
      await new Promise<void>((resolve) => clock.after(100, resolve));
      ended += findings.length;
      if (findings[0]?.stream.marketId === 1) throw new Error('no lock was had');
      return await commit.call(model, batch);
    };
    const stopped = ledgers.stop(clock.monotonicMs() + withinMs).then(
      () => 'written',
      (error: Error) => error.message,
    );
    await clock.run(1000);
    assert.equal(await stopped, expected > 0 ? 'no lock was had' : 'written');
    assert.deepEqual([begun, ended], [expected, expected], `within ${withinMs} ms`);
    assert.ok(most <= 32);
  }
});
