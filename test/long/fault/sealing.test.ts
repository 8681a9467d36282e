import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { checkFile, filesBelow } from '../../../src/archive/cold/folder.js';
import { readColdManifest } from '../../../src/archive/cold/manifest.js';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import type { LifeRules } from '../../../src/archive/sealing/plan.js';
import { runSql } from '../../support/postgres/postgres.js';
import { miscountedDays } from '../../support/postgres/postgres-rows.js';
import { runToStep } from '../../support/programs/plain-child.js';
import {
  ALL_AT_ONCE,
  allTrades,
  DAY_MS,
  LATER_MS,
  type LifeStep,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';

/**
 * A program that is killed at any step of a partition's life leaves the state before or the state
 * after, never neither, and the next one gets further.
 */

const CHILD = join(import.meta.dirname, '../../support/programs/sealing-child.ts');
const COLD: LifeRules = { ...ALL_AT_ONCE, coldAfterMs: DAY_MS };

/** Brings back; bare: and deletes the files. */
type Restoring = 'restore' | 'restore bare';

/** Runs a program up to a step, where it is killed; without a step to its end. */
async function runChild(
  { url, coldDir }: SealingWorld,
  rules: LifeRules | Restoring,
  step: LifeStep | '',
): Promise<void> {
  const text = typeof rules === 'string' ? rules : JSON.stringify(rules);
  const last = await runToStep(CHILD, step, [url, coldDir, text, `${LATER_MS}`, step]);
  assert.equal(last, step === '' ? 'done 0' : `at ${step}`);
}

/** Waits until the server has noticed that the killed program is gone, and let go of its lock. */
async function untilFree(url: string): Promise<void> {
  await runSql(
    url,
    `SELECT pg_advisory_lock(token), pg_advisory_unlock(token) FROM exclusive_lock
     WHERE name = 'sealing'`,
  );
}

/** Every row is there once, wherever the state of its partition says, until it is expired. */
async function assertWhole(world: SealingWorld, before: readonly object[]): Promise<string[]> {
  const { store, url, coldDir } = world;
  const partitions = await tradePartitions(store);
  const found = (await allTrades(url)).map((row) => JSON.stringify(row));
  const here = new Set(found);
  assert.equal(here.size, found.length, 'no row twice');
  for (const { span, state, uri, checksum } of partitions) {
    const own = before.filter(({ traded_at: at }: { traded_at?: string }) => {
      const ms = Date.parse(at ?? '');
      return span.fromMs <= ms && ms < span.toMs;
    });
    assert.ok(own.length > 0);
    const count = own.filter((row) => here.has(JSON.stringify(row))).length;
    assert.equal(count, state === 'expired' ? 0 : own.length, state);
    if (state === 'archived') assert.ok(uri !== null);
    if (uri === null) continue;
    const manifest = await readColdManifest(new FolderStorage(coldDir), uri);
    assert.deepEqual([manifest.rows, manifest.checksum], [own.length, checksum]);
    for (const file of manifest.files) await checkFile(join(coldDir, file.path), file);
  }
  return partitions.map(({ state }) => state);
}

async function killAtEach(
  world: SealingWorld,
  rules: LifeRules | Restoring,
  steps: readonly LifeStep[],
  before: readonly object[],
): Promise<string[]> {
  for (const step of steps) {
    await runChild(world, rules, step);
    await assertWhole(world, before);
    await untilFree(world.url);
  }
  await runChild(world, rules, '');
  return await assertWhole(world, before);
}

test('killed at each step of seal, archive, restore and retention', async (t) => {
  const world = await openSealingWorld(t, 10);
  const { url } = world;
  const before = await allTrades(url);
  const three = (state: string) => [state, state, state];
  const seal: LifeStep[] = [
    ...(['seal: guard', 'seal: indexes', 'seal: freeze', 'seal: count'] as const),
    'seal: declare',
  ];
  assert.deepEqual(await killAtEach(world, ALL_AT_ONCE, seal, before), three('sealed'));
  const archive: LifeStep[] = [
    ...(['archive: read', 'archive: write', 'archive: verify', 'archive: place'] as const),
    ...(['archive: manifest', 'archive: note', 'archive: switch', 'tidy'] as const),
  ];
  assert.deepEqual(await killAtEach(world, COLD, archive, before), three('archived'));
  const restoring: LifeStep[] = [
    ...(['restore: check', 'restore: load', 'restore: indexes', 'restore: count'] as const),
    'restore: switch',
  ];
  // In the last run of each the files are still there, until the very end.
  for (const step of restoring) {
    await runChild(world, 'restore', step);
    await assertWhole(world, before);
    await untilFree(url);
  }
  assert.deepEqual(
    await killAtEach(world, 'restore bare', ['restore: files'], before),
    three('sealed'),
  );
  assert.deepEqual(await filesBelow(world.coldDir), ['archive.json']);
  assert.deepEqual(await allTrades(url), before);
  await runChild(world, COLD, '');
  const kept: LifeRules = { ...COLD, retentionMs: { trade: DAY_MS } };
  const retention: LifeStep[] = ['retention: expire', 'retention: files'];
  for (const step of retention) {
    await runChild(world, kept, step);
    const states = await assertWhole(world, before);
    await untilFree(url);
    // The ledger claims nothing of what is gone, and all of what is not.
    const covered = await runSql<{ days: number }>(
      url,
      `SELECT DISTINCT (sum(extract(epoch FROM upper(span) - lower(span))) / 86400)::float8 AS days
       FROM coverage GROUP BY stream_id`,
    );
    const left = states.filter((state) => state !== 'expired').length;
    assert.deepEqual(covered, left === 0 ? [] : [{ days: left }]);
  }
  await runChild(world, kept, '');
  assert.deepEqual(await assertWhole(world, before), three('expired'));
  assert.deepEqual(await miscountedDays(url), []);
});
