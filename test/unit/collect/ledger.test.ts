import assert from 'node:assert/strict';
import test from 'node:test';
import { StreamLedger } from '../../../src/collect/ledger.js';
import { Ledgers, presentUnlessLate } from '../../../src/collect/ledgers.js';
import { obtain } from '../../../src/kernel/bounded.js';
import type { Batch, StreamRef } from '../../../src/model/batch.js';
import type { StreamKind } from '../../../src/model/series.js';
import { FakeClock } from '../../support/fake-clock.js';
import { FakeTime } from '../../support/fake-time.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const START_MS = Date.UTC(2026, 0, 1);

/** Ledgers before an archive that takes whatever comes; times in seconds after the start. */
class World {
  readonly clock = new FakeClock(START_MS);
  readonly time = new FakeTime(this.clock);
  readonly model = new ModelArchive();
  readonly record = new CollectRecord();
  readonly #ledgers = new Map<number, StreamLedger>();

  get ports() {
    return { archive: this.model, time: this.time, clock: this.clock, telemetry: this.record };
  }

  ledger(stream: StreamRef): StreamLedger {
    const made = () => new StreamLedger(this.ports, 'A', stream);
    return obtain(this.#ledgers, stream.streamId, made);
  }

  stream(kind: StreamKind, variant = 0): StreamRef {
    const streamId = ['trades', 'depth', 'tickers', 'candles', 'states'].indexOf(kind) + 1;
    return { streamId, kind, marketId: 7, variant, collectFromMs: null };
  }

  async claim(stream: StreamRef, fromS: number, toS: number, rows: Batch = {}): Promise<void> {
    const span = { fromMs: START_MS + fromS * 1000, toMs: START_MS + toS * 1000 };
    // What brings a row does not wait.
    const quarantine = [{} as never];
    const claims = [{ stream, span, evidence: {} }];
    await this.ledger(stream).archive.commit({ quarantine, ...rows, claims });
  }

  covered({ streamId }: StreamRef): number[][] {
    const inSeconds = (ms: number) => (ms - START_MS) / 1000;
    const ranges = this.model.allRanges(streamId);
    return ranges.map(({ span }) => [inSeconds(span.fromMs), inSeconds(span.toMs)]);
  }
}

const trade = (atS: number) => ({
  ...{ marketId: 7, tid: 1 + atS, tradedAtS: START_MS / 1000 + atS, executedAtUs: null },
  ...{ price: '1', amount: '1', total: '1', side: 'buy' as const, receivedAtMs: START_MS },
});

test('no claim of any stream ends after the present', async () => {
  const world = new World();
  world.clock.advance(10_400);
  for (const kind of ['trades', 'depth', 'tickers', 'states'] as const) {
    const stream = world.stream(kind);
    await world.claim(stream, 2, 60);
    const [[fromS, toS] = []] = world.covered(stream);
    assert.equal(fromS, 2);
    assert.equal(toS, kind === 'trades' ? 10 : 10.401, kind);
  }
  const candles = world.stream('candles', 3);
  await world.claim(candles, 0, 60);
  assert.deepEqual(world.covered(candles), [[0, 9]], 'whole candles only');
});

test('no stream begins far beyond the present; a moment beyond what is known of it is no matter', async () => {
  const world = new World();
  world.clock.advance(10_000);
  world.time.isSettled = true;
  const ledger = world.ledger(world.stream('tickers'));
  const { streamId } = ledger.stream;
  const begin = async (atMs: number) => {
    await ledger.commit({ begins: [{ streamId, fromMs: START_MS + atMs }] });
    world.clock.advance(10_000);
    return (world.model.floorOf(streamId) ?? 0) - START_MS;
  };
  assert.equal(await begin(10_400), 10_400);
  assert.ok((await begin(86_400_000)) <= 20_001);
});

test('the present that a database is slow to take is not noted: it is over by then', () => {
  const world = new World();
  const read = presentUnlessLate(world);
  world.clock.advance(1500);
  assert.deepEqual(read(), { presentMs: world.time.lived?.presentMs, pace: 1 });
  world.clock.advance(1500);
  assert.equal(read(), undefined);
});

test('before the time is settled nothing grows; what is older than stored rows passes', async () => {
  const world = new World();
  world.clock.advance(100_000);
  world.time.isSettled = false;
  const [trades, depth] = [world.stream('trades'), world.stream('depth')];
  await world.claim(trades, 10, 98, { trades: [trade(40), trade(20)] });
  assert.deepEqual(world.covered(trades), [[10, 40]], 'up to the newest trade');
  await world.claim(trades, 0, 10);
  assert.deepEqual(world.covered(trades), [[0, 40]], 'filling below is no growth');
  await world.claim(depth, 99, 100);
  assert.deepEqual(world.covered(depth), []);
  world.time.isSettled = true;
  await world.claim(depth, 100, 100.001);
  assert.deepEqual(
    world.covered(depth),
    [[99, 100.001]],
    'what was held back was seen all the same',
  );
});

test('what waited for a claim waits on where its commit fails', async () => {
  const world = new World();
  const { model } = world;
  const tickers = world.stream('tickers');
  world.clock.advance(100_000);
  world.time.isSettled = false;
  await world.claim(tickers, 99, 100, { tickers: [{} as never, {} as never] });
  world.time.isSettled = true;
  model.before = () => Promise.reject(new Error('the database is gone'));
  await assert.rejects(world.claim(tickers, 100, 100.5), /gone/);
  world.clock.advance(1000);
  model.before = () => undefined;
  await world.claim(tickers, 100, 100.001);
  assert.deepEqual(world.covered(tickers), [[99, 100.001]]);
});

test('before the time is settled a row of the future is no measure, however late its answer is dated', async () => {
  const world = new World();
  world.clock.advance(100_000);
  world.time.isSettled = false;
  world.time.aheadMs = 60_000;
  const trades = world.stream('trades');
  await world.claim(trades, 90, 130, { trades: [trade(107), trade(95)] });
  assert.deepEqual(world.covered(trades), [[90, 95]]);
});

test('while an earlier time may be the right one, coverage waits for it and loses nothing', async () => {
  const world = new World();
  const depth = world.stream('depth');
  world.clock.advance(10_000);
  await world.claim(depth, 0, 10);
  world.time.heldBackMs = 4000;
  for (const atS of [11, 12]) {
    world.clock.advance(1000);
    await world.claim(depth, atS - 1, atS);
  }
  assert.deepEqual(world.covered(depth), [[0, 10]]);
  world.time.heldBackMs = 0;
  world.clock.advance(1000);
  await world.claim(depth, 12, 13);
  assert.deepEqual(world.covered(depth), [[0, 13]]);
});

test('what is seen at its moment is covered only of time that was lived through', async () => {
  const world = new World();
  world.clock.advance(100_000);
  world.time.sinceMs = START_MS + 60_000;
  for (const kind of ['depth', 'tickers', 'states'] as const) {
    const stream = world.stream(kind);
    await world.claim(stream, 20, 90);
    assert.deepEqual(world.covered(stream), [[60, 90]], kind);
  }
  const [gap, ...others] = world.model.gaps;
  assert.equal(others.length, 2);
  assert.deepEqual(
    [gap?.span.fromMs, gap?.span.toMs, gap?.state, gap?.reason],
    [START_MS + 20_000, START_MS + 60_000, 'unfillable', 'not observed'],
  );
  await world.claim(world.stream('trades'), 20, 90);
  assert.deepEqual(world.covered(world.stream('trades')), [[20, 90]], 'a page speaks of the past');
});

test('after a jump back nothing that was known before is a measure', async () => {
  const world = new World();
  const [trades, depth] = [world.stream('trades'), world.stream('depth')];
  world.time.aheadMs = 60_000;
  await world.claim(trades, 0, 60, { trades: [trade(59)] });
  world.time.heldBackMs = 60_000;
  await world.claim(depth, 59, 60);
  world.time.aheadMs = 0;
  world.time.heldBackMs = 0;
  world.time.jumps = 1;
  world.clock.advance(5000);
  const other = { ...trades, streamId: 9 };
  await world.claim(other, 0, 30);
  await world.claim(depth, 4, 5);
  assert.deepEqual(world.covered(other), [[0, 5]]);
  assert.deepEqual(world.covered(depth), [[4, 5]], 'what was held back is forgotten');
});

test('after a jump ahead what was held back before it is listed, from the end of coverage on', async () => {
  const world = new World();
  world.clock.advance(10_000);
  world.time.heldBackMs = 600;
  const kinds = ['depth', 'tickers', 'states'] as const;
  for (const kind of kinds) await world.claim(world.stream(kind), 0, 10);
  // Observed at the new time, before that one is believed.
  for (const kind of kinds) await world.claim(world.stream(kind), 70, 70.001);
  world.time.heldBackMs = 0;
  world.time.aheadMs = 60_000;
  world.time.jumps = 1;
  world.time.sinceMs = START_MS + 71_000;
  world.clock.advance(2000);
  for (const kind of kinds) {
    const stream = world.stream(kind);
    world.model.gaps.length = 0;
    await world.claim(stream, 70.001, 72);
    assert.deepEqual(
      world.covered(stream),
      [
        [71, 72],
        [0, 9.401],
      ],
      kind,
    );
    const listed = world.model.gaps.map(({ span, state, reason }) => [
      ...[span.fromMs - START_MS, span.toMs - START_MS],
      ...[state, reason],
    ]);
    const expected = [
      [9401, 10_000, 'unfillable', 'not observed'],
      [70_000, 71_000, 'unfillable', 'not observed'],
    ];
    assert.deepEqual(listed, expected, kind);
  }
});

test('the clock hears of trades that happened in its future', async () => {
  const world = new World();
  await world.claim(world.stream('trades'), -5, -1, { trades: [trade(600), trade(-3)] });
  assert.deepEqual(world.time.witnessed, [START_MS + 600_000]);
  await world.claim(world.stream('trades'), -5, 500);
  assert.deepEqual(world.covered(world.stream('trades')), [[-5, 0]]);
  const pushed = [trade(900)];
  await new Ledgers(world.ports).commit({ trades: pushed });
  assert.deepEqual(world.time.witnessed.at(-1), START_MS + 900_000);
});

test('quiet growth waits some seconds, and goes with the next news or at the end', async () => {
  const world = new World();
  const stream = world.stream('depth');
  const ledger = world.ledger(stream);
  const grow = async (toS: number, rows: Batch = {}) => {
    world.clock.advance(1000);
    const fromMs = ledger.accountedUntilMs() ?? START_MS;
    const span = { fromMs, toMs: START_MS + toS * 1000 };
    await ledger.commit({ ...rows, claims: [{ stream, span, evidence: {} }] });
  };
  await grow(1);
  for (const toS of [2, 3, 4]) await grow(toS);
  assert.deepEqual(world.covered(stream), [[0, 1]]);
  assert.equal(ledger.accountedUntilMs(), START_MS + 4000);
  await grow(5, { depths: [{} as never] });
  assert.deepEqual(world.covered(stream), [[0, 5]]);
  await grow(6);
  await ledger.flush();
  assert.deepEqual(world.covered(stream), [[0, 6]]);
  await ledger.flush();
  assert.equal(world.model.commits, 3, 'nothing is left to write');
});

test('a revocation by others is what a ledger knows at once', async () => {
  const world = new World();
  const ledgers = new Ledgers(world.ports);
  const ledger = await ledgers.open('A', { kind: 'depth', marketId: 7, variant: 0 });
  world.clock.advance(10_000);
  const { stream } = ledger;
  const span = { fromMs: START_MS, toMs: START_MS + 9000 };
  await ledger.commit({ claims: [{ stream, span, evidence: {} }] });
  const { streamId } = stream;
  ledgers.revoked([{ streamId, span: { fromMs: START_MS + 4000, toMs: START_MS + 9000 } }]);
  assert.equal(ledger.accountedUntilMs(), START_MS + 4000);
});
