import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import test from 'node:test';
import { filesBelow } from '../../../src/archive/cold/folder.js';
import { readColdManifest } from '../../../src/archive/cold/manifest.js';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import {
  allTrades,
  bringBack,
  DAY_MS,
  live,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';

/**
 * Writes that the system refuses, and not a stand-in of it: a program that may not make files larger
 * than so much gets from every write beyond it what it would get from a full disk. There is no such
 * limit on Windows.
 */

const MAIN = join(import.meta.dirname, '../../../dist/cli/main.js');
/** What `ulimit -f` counts in, by POSIX. */
const UNIT_BYTES = 512;

/** Archives by the built program, no file of which may become larger than so much. */
async function archiveWithin({ url, coldDir }: SealingWorld, bytes: number) {
  const limited = `ulimit -f ${Math.floor(bytes / UNIT_BYTES)} && exec "$0" "$@"`;
  const args = [MAIN, 'seal', '--archive', '--kind', 'trades', '--before', '2026-01-16'];
  const child = spawn('sh', ['-c', limited, process.execPath, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      PATH: process.env.PATH,
      TAPEKEEP_DATABASE_URL: url,
      TAPEKEEP_COLD_DIR: coldDir,
      TAPEKEEP_VERIFICATION_ENABLED: 'false',
    },
  });
  const ended = once(child, 'close');
  const said = await text(child.stderr);
  const [code] = await ended;
  return { code, said };
}

const statesOf = async ({ store }: SealingWorld) =>
  (await tradePartitions(store)).map(({ state }) => state);

test('a disk without room for text, data or manifest leaves all rows where they are', async (t) => {
  if (process.platform === 'win32') {
    t.diagnostic('Windows has no limit on the size of files: nothing was tested');
    return;
  }
  for (const [perDay, limits] of [
    // The text of many rows is larger than their Parquet, and that of one row smaller; the manifest
    // is the largest of all.
    [400, [{ bytes: 16_384, stopped: 'text' }]],
    [
      1,
      [
        { bytes: 1_024, stopped: 'Parquet' },
        { bytes: 1_536, stopped: 'manifest' },
      ],
    ],
  ] as const) {
    const world = await openSealingWorld(t, perDay);
    const before = await allTrades(world.url);
    await live(world);
    for (const { bytes, stopped } of limits) {
      const { code, said } = await archiveWithin(world, bytes);
      assert.equal(code, 1, `${stopped}: ${said}`);
      assert.match(said, /^tapekeep: no space is left for .*stays in the database\. Free some/m);
      assert.equal(said.match(/no space is left/g)?.length, 1, 'other partitions are not tried');
      assert.deepEqual(await statesOf(world), ['sealed', 'sealed', 'sealed'], stopped);
      assert.deepEqual(await allTrades(world.url), before, stopped);
      assert.deepEqual(await filesBelow(world.coldDir), ['archive.json'], stopped);
    }
    assert.deepEqual((await live(world, { rules: { coldAfterMs: DAY_MS } })).failures, []);
    assert.deepEqual(await statesOf(world), ['archived', 'archived', 'archived']);
    const [first] = await tradePartitions(world.store);
    const { files } = await readColdManifest(new FolderStorage(world.coldDir), first?.uri ?? '');
    const manifest = await stat(join(world.coldDir, first?.uri ?? ''));
    if (perDay === 1) {
      // Else it was something else that had no room.
      const largest = Math.max(...files.map((one) => one.bytes));
      assert.ok(largest > 1_024 && largest <= 1_536 && manifest.size > 1_536);
    }
    await bringBack(world);
    assert.deepEqual(await allTrades(world.url), before);
  }
});
