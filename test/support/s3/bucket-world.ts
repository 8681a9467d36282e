import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { BucketStorage } from '../../../src/archive/cold/bucket/bucket.js';
import { filesBelow } from '../../../src/archive/cold/folder.js';
import { readColdManifest } from '../../../src/archive/cold/manifest.js';
import { type ColdStorage, FolderStorage } from '../../../src/archive/cold/storage.js';
import { openReading } from '../../../src/archive/reading.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { makeFolder } from '../worlds/export-world.js';
import {
  DAY_MS,
  FIRST_MS,
  live,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../worlds/sealing-world.js';
import type { S3StandIn } from './s3-stand-in.js';
import { CREDENTIALS } from './versitygw.js';

export interface BucketChoice {
  readonly endpoint: string;
  readonly prefix?: string;
  readonly cacheDir?: string;
  readonly cacheBytes?: number;
  readonly tries?: number;
}

/** Storage in the bucket `archive` of a store of this machine. */
export async function openBucket(t: TestContext, choice: BucketChoice): Promise<BucketStorage> {
  Object.assign(process.env, CREDENTIALS);
  // Each cache removes its links when the process ends.
  process.setMaxListeners(0);
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
  const { endpoint, prefix = 'one', cacheBytes = 1_000_000_000, tries } = choice;
  return new BucketStorage({
    ...{ url: `s3://archive/${prefix}`, endpoint, region: null, isPathStyle: true, cacheBytes },
    cacheDir: choice.cacheDir ?? (await makeFolder(t, 'cold-cache')),
    ...{ clock: systemClock, random: systemRandom, ...(tries !== undefined && { tries }) },
  });
}

/** Puts the cold files of a folder into the bucket. */
export async function fillBucket(store: S3StandIn, coldDir: string, prefix = 'one') {
  for (const path of await filesBelow(coldDir)) {
    store.set(`${prefix}/${path}`, await readFile(join(coldDir, path)));
  }
}

/** Sees that each object of a partition was read after it was written. Returns their keys. */
export async function assertReadBack(store: S3StandIn, cold: ColdStorage, uri: string) {
  const done = [...store.done];
  const { files } = await readColdManifest(cold, uri);
  const lastOf = (method: string, path: string) => done.lastIndexOf(`${method} one/${path}`);
  const paths = [...files.map(({ path }) => path), uri];
  for (const path of paths) {
    const put = lastOf('PUT', path);
    assert.ok(put >= 0 && lastOf('GET', path) > put, `${path} was not read back`);
  }
  return paths.map((path) => `one/${path}`);
}

/** Archives at once. */
export const COLD = { coldAfterMs: DAY_MS };
/** The days of a sealing world. */
export const SPAN = { fromMs: FIRST_MS, toMs: FIRST_MS + 3 * DAY_MS };

/** Checksum of all rows of both markets, from wherever they are. */
export async function rowsOf({ store }: SealingWorld, cold: ColdStorage): Promise<string> {
  const reading = await openReading(store, { cold });
  try {
    let text = '';
    for (const marketId of [1, 2]) {
      const slice = { kind: 'trades', marketId, variantS: 0, span: SPAN } as const;
      for await (const piece of reading.rows(slice, 'csv')) text += piece.toString();
    }
    // A file keeps numbers and not their texts.
    return createHash('sha256')
      .update(text.replaceAll(/\.?0+(?=[,\n])/g, ''))
      .digest('hex');
  } finally {
    await reading.close();
  }
}

/** What a folder gives for the same archive. */
export async function rowsOfFolder(t: TestContext): Promise<string> {
  const world = await openSealingWorld(t);
  const folder = new FolderStorage(world.coldDir);
  await live(world, { rules: COLD });
  const text = await rowsOf(world, folder);
  return text;
}

/** States of the partitions of trades, oldest first. */
export const statesOf = async ({ store }: SealingWorld) =>
  (await tradePartitions(store)).map(({ state }) => state);
