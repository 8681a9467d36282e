import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { BucketStorage } from '../../src/archive/cold/bucket/bucket.js';
import { filesBelow } from '../../src/archive/cold/folder.js';
import type { ColdEntry } from '../../src/archive/cold/storage.js';
import { Scratch } from '../../src/archive/files.js';
import { openBucket } from '../support/s3/bucket-world.js';
import { S3StandIn } from '../support/s3/s3-stand-in.js';
import { makeFolder } from '../support/worlds/export-world.js';

const BYTES = 1000;

/** Objects of a thousand bytes. */
async function putFiles(t: TestContext, bucket: BucketStorage, count: number) {
  const folder = await makeFolder(t, 'made');
  const files: ColdEntry[] = [];
  for (let n = 0; n < count; n += 1) {
    const content = Buffer.alloc(BYTES, n);
    const sha256 = createHash('sha256').update(content).digest('hex');
    const path = `kind=trades/market=BTC_USDT/date=2026-01-${10 + n}/part-${n}.parquet`;
    await writeFile(join(folder, 'file'), content);
    await bucket.put(join(folder, 'file'), path, { bytes: BYTES, sha256 });
    files.push({ path, bytes: BYTES, sha256 });
  }
  return files;
}

const gets = (store: S3StandIn) => store.done.filter((one) => one.startsWith('GET')).length;

async function sizeOf(cacheDir: string): Promise<number> {
  const sizes = await Promise.all(
    (await filesBelow(join(cacheDir, 'files'))).map(
      async (path) => (await stat(join(cacheDir, 'files', path))).size,
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

test('a file is fetched once, and again when its copy was altered', async (t) => {
  const store = await S3StandIn.start(t);
  const cacheDir = await makeFolder(t, 'cache');
  const [file] = await putFiles(t, await openBucket(t, store), 1);
  assert.ok(file !== undefined);
  const bucket = await openBucket(t, { endpoint: store.endpoint, cacheDir });
  const read = async () => {
    using held = bucket.hold();
    return await readFile(await held.local(file.path, file));
  };
  const before = gets(store);
  const all = await Promise.all([read(), read(), read()]);
  assert.ok(all.every((one) => one.equals(Buffer.alloc(BYTES, 0))));
  assert.equal(gets(store) - before, 1, 'three readers, one fetch');
  await read();
  assert.equal(gets(store) - before, 1);
  await writeFile(join(cacheDir, 'files', file.path), Buffer.alloc(BYTES, 9));
  assert.deepEqual(await read(), Buffer.alloc(BYTES, 0));
  assert.equal(gets(store) - before, 2);
});

test('the cache keeps its bound, and what is in use', async (t) => {
  const store = await S3StandIn.start(t);
  const cacheDir = await makeFolder(t, 'cache');
  const files = await putFiles(t, await openBucket(t, store), 12);
  const choice = { endpoint: store.endpoint, cacheDir, cacheBytes: 5 * BYTES };
  const bucket = await openBucket(t, choice);
  const [first, ...others] = files;
  assert.ok(first !== undefined);
  using held = bucket.hold();
  const at = await held.local(first.path, first);
  // Another process on the same cache has no say over what this one uses.
  const other = await openBucket(t, choice);
  for (const one of others) {
    for (const place of [bucket, other]) {
      using short = place.hold();
      assert.equal((await readFile(await short.local(one.path, one))).length, BYTES);
      assert.ok((await sizeOf(cacheDir)) <= 5 * BYTES);
    }
  }
  assert.deepEqual(await readFile(at), Buffer.alloc(BYTES, 0));
  using many = bucket.hold();
  const taking = async () => {
    for (const one of files) await many.local(one.path, one);
  };
  await assert.rejects(taking(), { code: 'cold_cache_full', message: /raise it/ });
});

test('readers that take and leave at once always read whole files', async (t) => {
  const store = await S3StandIn.start(t);
  const cacheDir = await makeFolder(t, 'cache');
  const files = await putFiles(t, await openBucket(t, store), 10);
  const choice = { endpoint: store.endpoint, cacheDir, cacheBytes: 6 * BYTES };
  const buckets = await Promise.all([1, 2, 3].map(async () => await openBucket(t, choice)));
  const read = async (bucket: BucketStorage, start: number) => {
    for (let n = 0; n < 60; n += 1) {
      const at = (start + n * 7) % files.length;
      const file = files[at];
      if (file === undefined) continue;
      using held = bucket.hold();
      const path = await held.local(file.path, file);
      assert.deepEqual(await readFile(path), Buffer.alloc(BYTES, at));
    }
  };
  await Promise.all(buckets.map(read));
  assert.ok((await sizeOf(cacheDir)) <= 7 * BYTES);
});

test('files are fetched ahead, and what a killed process left is removed', async (t) => {
  const store = await S3StandIn.start(t);
  const cacheDir = await makeFolder(t, 'cache');
  const files = await putFiles(t, await openBucket(t, store), 6);
  // Above all numbers that Linux gives.
  const left = `.tapekeep-export-4999999.${await numberSpace(t)}-abcdef`;
  await writeFile(join(await makeIn(cacheDir, left), '1'), 'half a file');
  const bucket = await openBucket(t, { endpoint: store.endpoint, cacheDir });
  const before = gets(store);
  bucket.ahead(files);
  for (const file of files) {
    using held = bucket.hold();
    await held.local(file.path, file);
  }
  assert.equal(gets(store) - before, files.length, 'none twice');
  assert.ok(!(await readdir(cacheDir)).includes(left));
});

async function makeIn(folder: string, name: string): Promise<string> {
  await mkdir(join(folder, name));
  return join(folder, name);
}

/** The number that stands behind that of a process. */
async function numberSpace(t: TestContext): Promise<string> {
  const scratch = await Scratch.makeBeside(await makeFolder(t, 'numbers'));
  await scratch.remove();
  return /\.(\d+)-[A-Za-z0-9]{6}$/.exec(scratch.path)?.[1] ?? '0';
}
