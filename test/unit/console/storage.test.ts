import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import test from 'node:test';
import { STORAGE } from '../../../src/console/api/documents.js';
import { storageHandlers } from '../../../src/console/api/handlers/storage.js';
import { DAY_MS } from '../../../src/kernel/durations.js';
import type { PartitionInfo, Store } from '../../../src/store/index.js';
import { FakeClock } from '../../support/fake-clock.js';

/** Sizes of the archive, of partitions that a test writes down. */

const DAY_S = DAY_MS / 1000;
const TODAY_MS = 100 * DAY_MS;
const NOW_MS = TODAY_MS + DAY_MS / 2;

function partition(day: number, of: Partial<PartitionInfo> = {}, days = 1): PartitionInfo {
  return {
    ...{ table: 'trade', name: `trade_${day}`, state: 'hot', rows: 10, heapBytes: 600 },
    ...{ indexBytes: 400, isHalfRestored: false, checksum: null, uri: null, coldBytes: null },
    ...{ sealedAtMs: null, archivedAtMs: null, restoredAtMs: null },
    span: { fromMs: TODAY_MS + day * DAY_MS, toMs: TODAY_MS + (day + days) * DAY_MS },
    ...of,
  };
}

const archived = { state: 'archived', heapBytes: 0, indexBytes: 0, coldBytes: 200 } as const;

async function storage(
  partitions: readonly PartitionInfo[],
  folder = tmpdir(),
  isCold = false,
  ageS = 30 * DAY_S,
) {
  const store = { sealing: { partitions: async () => partitions } } as unknown as Store;
  const { storage: ask } = storageHandlers({
    ...{ store: () => store, clock: new FakeClock(), nowMs: () => NOW_MS },
    ageS: () => ageS,
    folders: async () => ({ database: folder, cold: isCold ? folder : null }),
  });
  const answer = STORAGE.parse(await ask({}, new AbortController().signal, 'viewer'));
  const of = Object.fromEntries(answer.states.map(({ state, ...figures }) => [state, figures]));
  return { ...answer, of };
}

test('bytes and rows are added up by state', async () => {
  const { of } = await storage([
    ...[partition(0), partition(1, { rows: null })],
    ...[partition(-1, { state: 'sealed' }), partition(-2, { restoredAtMs: 5 })],
    ...[partition(-3, archived), partition(-4, { state: 'expired', heapBytes: 0, indexBytes: 0 })],
  ]);
  assert.deepEqual(of, {
    hot: { partitions: 2, bytes: 2000, rows: null },
    sealed: { partitions: 1, bytes: 1000, rows: 10 },
    archived: { partitions: 1, bytes: 200, rows: 10 },
    restored: { partitions: 1, bytes: 1000, rows: 10 },
    expired: { partitions: 1, bytes: 0, rows: 10 },
  });
});

test('growth is the mean of the seven days that ended last', async () => {
  const week = Array.from({ length: 20 }, (_, at) => partition(-1 - at));
  assert.equal((await storage([partition(0), ...week])).bytesPerDay, 1000);
  // Two days alone; today is no whole day.
  assert.equal((await storage([partition(0), partition(-1), partition(-2)])).bytesPerDay, 1000);
  assert.equal((await storage([partition(0)])).bytesPerDay, null);
  assert.equal((await storage([])).bytesPerDay, null);
  // A month of candles, of which half a day more than seven days have passed.
  const month = partition(-7, { heapBytes: 7500, indexBytes: 0 }, 30);
  assert.equal((await storage([month])).bytesPerDay, 1000);
});

test('an archive that is not a day old tells no growth', async () => {
  const days = [-1, -2].map((day) => partition(day));
  const at = async (ageS: number) => {
    const { bytesPerDay, disks } = await storage(days, tmpdir(), true, ageS);
    return [bytesPerDay, disks[0]?.daysLeft == null];
  };
  assert.deepEqual(await at(DAY_S - 1), [null, true]);
  assert.deepEqual(await at(DAY_S), [1000, false]);
});

test('a disk lasts by the growth of what lies on it', async () => {
  const hot = Array.from({ length: 8 }, (_, at) => partition(-1 - at));
  const [disk] = (await storage(hot)).disks;
  assert.ok(disk !== undefined);
  assert.equal(disk.holds, 'database');
  assert.ok(Math.abs((disk.daysLeft ?? 0) * 1000 - disk.freeBytes) < 1000);
  // Days move into files at their age: the database keeps its size.
  const cold = Array.from({ length: 8 }, (_, at) => partition(-20 - at, archived));
  const [both] = (await storage([...hot, ...cold], tmpdir(), true)).disks;
  assert.ok(both !== undefined);
  assert.equal(both.holds, 'database, archived files');
  assert.ok(Math.abs((both.daysLeft ?? 0) * 200 - both.freeBytes) < 200);
  assert.deepEqual((await storage(hot, '/absent/folder')).disks, []);
});
