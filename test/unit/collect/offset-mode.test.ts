import assert from 'node:assert/strict';
import test from 'node:test';
import { OffsetModes } from '../../../src/collect/trades/offset-mode.js';
import type { OffsetMode } from '../../../src/store/index.js';
import { FakeClock } from '../../support/fake-clock.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { type HistoryTraits, ModelHistory } from '../../support/models/model-history.js';
import fc from '../../support/properties.js';
import { worlds } from '../../support/seeds.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const { signal } = new AbortController();
const STEADY: Omit<HistoryTraits, 'mode'> = {
  seed: 1,
  history: 500,
  perRequest: 0,
  cap: 1000,
  staleEvery: 1_000_000,
  replicaEvery: 1_000_000,
  brokenEvery: 0,
};

function open() {
  const archive = new ModelArchive();
  archive.modes = {};
  const [clock, telemetry] = [new FakeClock(), new CollectRecord()];
  const begin = () => new OffsetModes({ archive, clock, telemetry });
  return { archive, clock, telemetry, begin };
}

for (const mode of ['skip', 'id'] as const) {
  test(`a server in ${mode} mode is recognised by ten requests, once for all runs`, async () => {
    const { archive, telemetry, begin } = open();
    const source = new ModelHistory({ ...STEADY, mode });
    const modes = begin();
    await modes.look(source, 'M', signal);
    assert.equal(modes.of('historyResult'), mode);
    assert.equal(modes.of('history'), undefined, 'the other endpoint may differ');
    assert.deepEqual(telemetry.modes, [{ endpoint: 'historyResult', mode, before: null }]);
    assert.equal(source.requests, 10);
    await modes.look(source, 'M', signal);
    const later = begin();
    await later.look(source, 'M', signal);
    assert.equal(later.of('historyResult'), mode);
    assert.equal(source.requests, 10, 'it is remembered');
    assert.deepEqual(archive.modes, { historyResult: mode });
  });

  test(`two trades are enough to recognise ${mode} mode; with fewer another market is tried`, async () => {
    const { clock, begin } = open();
    const modes = begin();
    await modes.look(new ModelHistory({ ...STEADY, mode, history: 1 }), 'A', signal);
    assert.equal(modes.of('historyResult'), undefined);
    clock.advance(1000);
    await modes.look(new ModelHistory({ ...STEADY, mode, history: 2 }), 'B', signal);
    assert.equal(modes.of('historyResult'), mode);
  });
}

test('where nearly half a page arrives with each request, it takes a later try with longer ones', async () => {
  const { clock, begin } = open();
  const modes = begin();
  const source = new ModelHistory({ ...STEADY, mode: 'skip', history: 2000, perRequest: 150 });
  for (let tries = 1; tries <= 2; tries += 1) {
    await modes.look(source, 'M', signal);
    assert.equal(modes.of('historyResult'), undefined, `${100 * 2 ** (tries - 1)} rows`);
    clock.advance(60_000);
  }
  await modes.look(source, 'M', signal);
  assert.equal(modes.of('historyResult'), 'skip');
});

test('where far more or far fewer trades are skipped than were asked for, nothing is settled', async () => {
  for (const factor of [3, 1 / 3]) {
    const source = new ModelHistory({ ...STEADY, mode: 'skip' });
    const fetch = source.fetch.bind(source);
    source.fetch = (market, skip, ...rest) => fetch(market, Math.floor(skip * factor), ...rest);
    const modes = open().begin();
    await modes.look(source, 'M', signal);
    assert.equal(modes.of('historyResult'), undefined, `${factor} times`);
  }
});

test('where the second look at the head lacks what the first one showed, nothing is settled', async () => {
  const source = new ModelHistory({ ...STEADY, mode: 'skip' });
  const fetch = source.fetch.bind(source);
  let heads = 0;
  source.fetch = (market, skip, ...rest) => {
    if (skip === 0) heads += 1;
    // As a cache has it that was filled before.
    return fetch(market, skip === 0 && heads % 2 === 0 ? 5 : skip, ...rest);
  };
  const modes = open().begin();
  await modes.look(source, 'M', signal);
  assert.equal(modes.of('historyResult'), undefined);
});

test('of a history shorter than a page the second look asks for another depth than the first', async () => {
  const source = new ModelHistory({ ...STEADY, mode: 'skip', history: 5 });
  const fetch = source.fetch.bind(source);
  const skips: number[] = [];
  source.fetch = (...asked) => {
    skips.push(asked[1]);
    return fetch(...asked);
  };
  await open().begin().look(source, 'M', signal);
  assert.deepEqual(
    skips.filter((skip) => skip > 0),
    [4, 3, 3],
  );
});

test('a doubt is followed at most every ten minutes, keeps the known mode meanwhile, and is told', async () => {
  const { archive, clock, telemetry, begin } = open();
  archive.modes = { historyResult: 'skip' };
  const modes = begin();
  const source = new ModelHistory({ ...STEADY, mode: 'id' });
  await modes.look(source, 'M', signal);
  assert.equal(source.requests, 0);
  modes.invalidate('historyResult');
  assert.equal(modes.of('historyResult'), 'skip');
  await modes.look(source, 'M', signal);
  assert.equal(modes.of('historyResult'), 'id');
  assert.deepEqual(telemetry.modes, [{ endpoint: 'historyResult', mode: 'id', before: 'skip' }]);
  modes.invalidate('historyResult');
  clock.advance(599_000);
  modes.invalidate('historyResult');
  await modes.look(source, 'M', signal);
  assert.equal(source.requests, 10, 'it was looked at just now');
  clock.advance(1000);
  modes.invalidate('historyResult');
  await modes.look(source, 'M', signal);
  assert.equal(source.requests, 20);
  assert.equal(telemetry.modes.length, 1, 'confirmed is not news');
});

test('a failure leaves it open, and the next try waits', async () => {
  const { archive, begin } = open();
  const modes = begin();
  const source = new ModelHistory({ ...STEADY, mode: 'skip' });
  archive.before = () => {
    throw new Error('no database');
  };
  await assert.rejects(modes.look(source, 'M', signal), /no database/);
  archive.before = () => undefined;
  await modes.look(source, 'M', signal);
  assert.equal(modes.of('historyResult'), 'skip');
  const { endpoint } = source;
  const other = open();
  const fresh = other.begin();
  const fetch = () => Promise.reject(new Error('not today'));
  await assert.rejects(fresh.look({ endpoint, fetch }, 'M', signal), /not today/);
  await fresh.look(source, 'M', signal);
  assert.equal(fresh.of('historyResult'), undefined, 'not at once');
  other.clock.advance(1000);
  await fresh.look(source, 'M', signal);
  assert.equal(fresh.of('historyResult'), 'skip');
});

test('however fast trades come and however often caches answer, a mode is never taken for the other', async () => {
  let [settled, lies] = [0, 0];
  const world = fc.record({
    seed: fc.integer({ min: 1, max: 2 ** 31 }),
    mode: fc.constantFrom<OffsetMode>('skip', 'id'),
    history: fc.integer({ min: 3, max: 400 }),
    perRequest: fc.integer({ min: 0, max: 120 }),
    cap: fc.constantFrom(1000, 100, 30),
    staleEvery: fc.integer({ min: 2, max: 9 }),
    replicaEvery: fc.integer({ min: 2, max: 9 }),
    brokenEvery: fc.constantFrom(0, 9),
  });
  await fc.assert(
    fc.asyncProperty(world, async (traits) => {
      const { clock, begin } = open();
      const source = new ModelHistory(traits);
      const modes = begin();
      for (let look = 0; look < 12 && modes.of('historyResult') === undefined; look += 1) {
        await modes.look(source, 'M', signal);
        clock.advance(60_000);
      }
      lies += source.lies;
      const found = modes.of('historyResult');
      if (found !== undefined) settled += 1;
      assert.ok(found === undefined || found === traits.mode, `${found}, not ${traits.mode}`);
    }),
    { numRuns: worlds(300) },
  );
  // Random worlds settle now more, now less often: only that both happen is claimed.
  assert.ok(settled > worlds(30) && lies > worlds(300), `${settled} settled, ${lies} lies`);
});
