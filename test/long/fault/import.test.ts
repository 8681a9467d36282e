import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { checkFile, filesBelow } from '../../../src/archive/cold/folder.js';
import { readColdManifest } from '../../../src/archive/cold/manifest.js';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import type { LifeStep } from '../../../src/archive/sealing/seal.js';
import { runSql } from '../../support/postgres/postgres.js';
import { runToStep } from '../../support/programs/plain-child.js';
import { makeFolder } from '../../support/worlds/export-world.js';
import { openWithStreams } from '../../support/worlds/store-world.js';

/** An import into files that is killed at any step leaves whole days or none, and the next one goes on. */

const CHILD = join(import.meta.dirname, '../../support/programs/import-child.ts');
const DAYS = 3;
const PER_DAY = 5;
const LINES = Array.from({ length: DAYS * PER_DAY }, (_, n) => {
  const second = Date.UTC(2024, 7, 1) / 1000 + Math.floor(n / PER_DAY) * 86_400 + n;
  return `${n + 1},60000.5,0.25,${second}.5,buy`;
});

test('an import is killed at each step, of the first day and of the second', async (t) => {
  const { store, url, trades } = await openWithStreams();
  await runSql(url, `UPDATE stream SET collect_from = '2026-01-01' WHERE collect_from IS NULL`);
  assert.ok(trades.streamId > 0);
  const folder = await makeFolder(t);
  const path = join(folder, 'trades.csv');
  await writeFile(path, ['id,price,amount,time,side', ...LINES].join('\n'));
  const coldDir = join(folder, 'cold');
  await mkdir(coldDir);

  const run = (step: LifeStep | '', before = 0) =>
    runToStep(CHILD, step, [url, coldDir, path, step, `${before}`]);
  /** Days in files, each whole, and nothing else anywhere. */
  const placed = async (): Promise<number> => {
    const partitions = (await store.sealing.partitions()).filter(
      ({ table, span }) => table === 'trade' && span.toMs < Date.UTC(2025, 0, 1),
    );
    for (const { state, rows, uri } of partitions) {
      assert.deepEqual([state, rows], ['archived', PER_DAY]);
      const manifest = await readColdManifest(new FolderStorage(coldDir), uri ?? '');
      assert.equal(manifest.rows, PER_DAY);
      for (const file of manifest.files) await checkFile(join(coldDir, file.path), file);
    }
    const [counted] = await runSql<{ rows: number }>(
      url,
      `SELECT coalesce(sum(rows), 0)::int AS rows FROM rows_by_day WHERE day < '2025-01-01'`,
    );
    assert.equal(counted?.rows, partitions.length * PER_DAY);
    return partitions.length;
  };
  /** Until the server has noticed that the killed program is gone. */
  const untilFree = () =>
    runSql(
      url,
      `SELECT pg_advisory_lock(token), pg_advisory_unlock(token) FROM exclusive_lock WHERE name = 'sealing'`,
    );
  const steps: LifeStep[] = [
    ...(['archive: write', 'archive: verify', 'archive: place'] as const),
    ...(['archive: manifest', 'archive: switch'] as const),
  ];
  for (const [before, days] of [
    [0, 0],
    [1, 1],
  ] as const) {
    for (const [at, step] of steps.entries()) {
      // Each run but the first of the second round finds the first day in its place.
      const skipped = before > 0 && at > 0 ? 0 : before;
      assert.equal(await run(step, skipped), `at ${step}`);
      assert.equal(await placed(), days);
      await untilFree();
    }
  }
  assert.equal(await run(''), `done ${(DAYS - 1) * PER_DAY} ${PER_DAY}`);
  assert.equal(await placed(), DAYS);
  const files = await filesBelow(coldDir);
  assert.deepEqual(
    files.filter((one) => !/^(?:kind=trades\/|manifests\/trade\/)/.test(one)),
    ['archive.json'],
  );
  assert.equal(files.length, 1 + 2 * DAYS);
  assert.equal(await run(''), `done 0 ${DAYS * PER_DAY}`);
});
