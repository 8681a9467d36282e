import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { checkFile, filesBelow } from '../../../src/archive/cold/folder.js';
import { readColdManifest } from '../../../src/archive/cold/manifest.js';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { DuckSession, literal } from '../../../src/archive/parquet/session.js';
import { runSql } from '../../support/postgres/postgres.js';
import { trade } from '../../support/postgres/postgres-rows.js';
import { makeFolder } from '../../support/worlds/export-world.js';
import {
  bringBack,
  DAY_MS,
  FIRST_MS,
  live,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';

/** Files at sealing, and nothing archived before a time that never comes. */
const FILES = { coldAfterMs: 1000 * DAY_MS };
const COLD = { coldAfterMs: DAY_MS };

/** Holds the rows of each sealed partition against those of its files. Returns states, each with whether it has files. */
async function compareFiles(t: test.TestContext, world: SealingWorld): Promise<string[]> {
  const { store, url, coldDir } = world;
  const duck = await DuckSession.open(await makeFolder(t, 'spill'));
  const named = new Set(['archive.json']);
  const found: string[] = [];
  try {
    for (const { name, state, uri, checksum, coldBytes } of await tradePartitions(store)) {
      found.push(`${state}${uri === null ? '' : ' with files'}`);
      if (uri === null) continue;
      const manifest = await readColdManifest(new FolderStorage(coldDir), uri);
      assert.equal(manifest.checksum, checksum);
      named.add(uri);
      let bytes = 0;
      for (const file of manifest.files) {
        named.add(file.path);
        bytes += file.bytes;
        const path = join(coldDir, file.path);
        await checkFile(path, file);
        const inFile = await duck.rows(
          'comparing',
          `SELECT tid::VARCHAR, epoch_us(traded_at)::VARCHAR, total::VARCHAR FROM read_parquet(${literal(path)}) ORDER BY tid`,
        );
        const stored = await runSql<Record<'tid' | 'us' | 'total', string>>(
          url,
          `SELECT tid, (extract(epoch FROM traded_at) * 1000000)::bigint AS us, trim_scale(total)::text AS total
           FROM trade WHERE tableoid = '${name}'::regclass AND market_id = ${file.marketId} ORDER BY tid`,
        );
        const trimmed = (text: string) => text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
        assert.deepEqual(
          inFile.map(([tid, us, total]) => [tid, us, trimmed(String(total))]),
          stored.map(({ tid, us, total }) => [tid, us, trimmed(total)]),
          name,
        );
      }
      assert.equal(coldBytes, bytes);
    }
  } finally {
    duck.close();
  }
  assert.deepEqual(new Set(await filesBelow(coldDir)), named, 'no file is of nothing');
  return found;
}

test('a sealed partition has files at once, which never differ from its rows', async (t) => {
  const world = await openSealingWorld(t);
  const { store } = world;
  const all = (state: string) => [state, state, state];
  const sealed = await live(world, { rules: FILES });
  assert.deepEqual(sealed.failures, []);
  assert.deepEqual(
    sealed.outcomes.map(({ became }) => became),
    all('sealed'),
  );
  assert.deepEqual(await compareFiles(t, world), all('sealed with files'));

  // A late row takes the files from the partition, in the same transaction, and it gets others.
  const late = trade(7_777, 0, { tradedAtS: FIRST_MS / 1000 + 7, total: '1.25' });
  await store.commit({ trades: [late] });
  assert.equal((await tradePartitions(store))[0]?.uri, null);
  const open = { ...FILES, sealAfterMs: null };
  await live(world, { rules: open });
  const reopened = ['hot', 'sealed with files', 'sealed with files'];
  assert.deepEqual(await compareFiles(t, world), reopened, 'and the old files are gone');
  await live(world, { rules: FILES });
  assert.deepEqual(await compareFiles(t, world), all('sealed with files'));
  assert.equal((await tradePartitions(store))[0]?.rows, 81);

  // Archiving swaps: nothing is read or written any more.
  const steps: string[] = [];
  const archived = await live(world, { rules: COLD, onStep: (step) => void steps.push(step) });
  assert.deepEqual(archived.failures, []);
  assert.deepEqual(
    new Set(steps),
    new Set(['archive: verify', 'archive: note', 'archive: switch', 'tidy']),
  );
  await bringBack(world);
  assert.deepEqual(await compareFiles(t, world), all('sealed with files'));
});

test('files that were lost or altered are written again before rows leave for them', async (t) => {
  const world = await openSealingWorld(t);
  await live(world, { rules: FILES });
  const [first] = await tradePartitions(world.store);
  const manifest = await readColdManifest(new FolderStorage(world.coldDir), first?.uri ?? '');
  await rm(join(world.coldDir, manifest.files[0]?.path ?? ''));
  const { outcomes, failures } = await live(world, { rules: COLD });
  assert.deepEqual(failures, []);
  assert.ok(outcomes.every(({ became }) => became === 'archived'));
  await bringBack(world);
  assert.deepEqual(await compareFiles(t, world), Array(3).fill('sealed with files'));
});
