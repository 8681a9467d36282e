import assert from 'node:assert/strict';
import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { BucketStorage } from '../../src/archive/cold/bucket/bucket.js';
import { openArchive } from '../../src/archive/events/archive.js';
import { ColdEndpoint } from '../../src/archive/serve/endpoint.js';
import { SERVE_USER } from '../../src/archive/serve/login.js';
import { systemClock } from '../../src/kernel/clock.js';
import { codeOf } from '../../src/kernel/errors.js';
import {
  assertReadBack,
  COLD,
  openBucket,
  rowsOf,
  rowsOfFolder,
  SPAN,
  statesOf,
} from '../support/s3/bucket-world.js';
import { S3StandIn } from '../support/s3/s3-stand-in.js';
import { startVersitygw } from '../support/s3/versitygw.js';
import { makeFolder } from '../support/worlds/export-world.js';
import { allTrades, bringBack, live, openSealingWorld } from '../support/worlds/sealing-world.js';
import { quietServeEvents } from '../support/worlds/served-world.js';

/** Archives, reads, brings back and archives again. */
async function goThrough(t: TestContext, bucket: BucketStorage): Promise<void> {
  const folder = await rowsOfFolder(t);
  const world = await openSealingWorld(t);
  const { failures } = await live(world, { cold: bucket, rules: COLD });
  assert.deepEqual(failures, []);
  assert.deepEqual(await statesOf(world), ['archived', 'archived', 'archived']);
  assert.equal(await rowsOf(world, bucket), folder);
  const back = await bringBack(world, { cold: bucket });
  assert.deepEqual(back.failures, []);
  assert.deepEqual(await statesOf(world), ['sealed', 'sealed', 'sealed']);
  assert.deepEqual((await live(world, { cold: bucket, rules: COLD })).failures, []);
  assert.equal(await rowsOf(world, bucket), folder);
  assert.deepEqual((await bringBack(world, { cold: bucket }, true)).failures, []);
  const left: string[] = [];
  for await (const path of bucket.list('')) left.push(path);
  assert.deepEqual(left, ['archive.json'], 'no file is left of restored partitions');
}

test('a bucket gives what a folder gives', async (t) => {
  const store = await S3StandIn.start(t);
  await goThrough(t, await openBucket(t, store));
  assert.equal(store.openUploads, 0);
});

test('Postgres and the library read a bucket as they read the database', async (t) => {
  const store = await S3StandIn.start(t);
  const cacheDir = await makeFolder(t, 'cache');
  const bucket = await openBucket(t, { endpoint: store.endpoint, cacheDir });
  const world = await openSealingWorld(t);
  const { url } = world;
  const place = { url: bucket.name, endpoint: store.endpoint, pathStyle: true, cacheDir };
  const events = async () => {
    const archive = await openArchive({ databaseUrl: url, bucket: place });
    try {
      const prices = [];
      const span = { from: new Date(SPAN.fromMs), to: new Date(SPAN.toMs) };
      const kinds = ['trades'] as const;
      for await (const one of archive.events({ ...span, kinds, gaps: 'ignore' })) {
        if (one.kind === 'trade') prices.push([one.atUs, one.market, Number(one.price)]);
      }
      return prices;
    } finally {
      await archive.close();
    }
  };
  const before = [await allTrades(url), await events()];
  assert.deepEqual(
    before.map((rows) => rows.length),
    [240, 240],
  );
  assert.deepEqual((await live(world, { cold: bucket, rules: COLD })).failures, []);
  const { sealing } = world.store;
  const endpoint = await ColdEndpoint.start({
    ...{ host: '127.0.0.1', port: 0, identity: 'bucket', password: 'secret', cold: bucket },
    ...{ clock: systemClock, telemetry: quietServeEvents },
    isOwnBackend: async () => true,
    partitionOf: (name) => sealing.archived(name),
  });
  t.after(() => endpoint.close());
  const { host, port } = endpoint.address;
  const login = { user: SERVE_USER, password: 'secret', dbname: 'bucket' };
  await sealing.pointColdServer({ host, port, ...login });
  const read = gets(store);
  assert.deepEqual([await allTrades(url), await events()], before);
  assert.equal(gets(store), read, 'all came from the cache');
  await rm(join(cacheDir, 'files'), { recursive: true });
  assert.deepEqual([await allTrades(url), await events()], before);
  assert.ok(gets(store) > read, 'and from the bucket where the cache is empty');
});

test('what is in the cache is read while the store is away; an altered copy is not', async (t) => {
  const store = await S3StandIn.start(t);
  const cacheDir = await makeFolder(t, 'cache');
  const choice = { endpoint: store.endpoint, cacheDir, tries: 1 };
  const world = await openSealingWorld(t);
  await live(world, { cold: await openBucket(t, choice), rules: COLD });
  const folder = await rowsOfFolder(t);
  const read = async () => await rowsOf(world, await openBucket(t, choice));
  assert.equal(await read(), folder);
  let asked = 0;
  store.fault = () => {
    asked += 1;
    return 'lost request';
  };
  assert.equal(await read(), folder);
  assert.equal(asked, 0);
  const [first, second] = ['13', '14'].map((day) =>
    join(cacheDir, `files/manifests/trade/trade_202601${day}.json`),
  );
  await copyFile(second ?? '', first ?? '');
  await assert.rejects(read(), { code: 'cold_unreachable' });
  store.fault = () => undefined;
  assert.equal(await read(), folder);
});

const gets = ({ done }: S3StandIn) =>
  done.filter((one) => one.startsWith('GET') && one.endsWith('.parquet')).length;

test('versitygw gives what a folder gives', async (t) => {
  const endpoint = await startVersitygw(t);
  if (endpoint === undefined) return;
  await goThrough(t, await openBucket(t, { endpoint }));
});

test('no partition leaves before its objects were read back', async (t) => {
  const store = await S3StandIn.start(t);
  const bucket = await openBucket(t, store);
  const world = await openSealingWorld(t);
  let switched = 0;
  const { failures } = await live(world, {
    ...{ cold: bucket, rules: COLD },
    onStep: async (step, partition) => {
      if (step !== 'archive: switch') return;
      switched += 1;
      await assertReadBack(store, bucket, `manifests/trade/${partition}.json`);
    },
  });
  assert.deepEqual(failures, []);
  assert.equal(switched, 3);
});

test('of two databases one gets a prefix', async (t) => {
  const store = await S3StandIn.start(t);
  const worlds = [await openSealingWorld(t), await openSealingWorld(t)];
  const runs = await Promise.all(
    worlds.map(async (world) => live(world, { cold: await openBucket(t, store), rules: COLD })),
  );
  const codes = runs.map(({ failures }) => failures.map(({ error }) => error.code).join());
  assert.deepEqual(codes.toSorted(), ['', 'cold_refused'], 'one is refused');
});

test('an archiver that was overtaken cannot replace a manifest', async (t) => {
  const store = await S3StandIn.start(t);
  const bucket = await openBucket(t, store);
  const uri = 'manifests/trade/x.json';
  await bucket.putText(uri, 'first', { version: null });
  const { version } = await bucket.readText(uri);
  await bucket.putText(uri, 'second', { version });
  for (const late of [version, null]) {
    await assert.rejects(bucket.putText(uri, 'late', { version: late }), { code: 'cold_conflict' });
  }
  assert.equal((await bucket.readText(uri)).text, 'second');
  // Its own write whose response was lost is none of another.
  let lost = 0;
  store.fault = ({ method }) => {
    if (method !== 'PUT' || lost > 0) return undefined;
    lost += 1;
    return 'lost response';
  };
  const now = (await bucket.readText(uri)).version;
  await bucket.putText(uri, 'third', { version: now });
  assert.deepEqual([lost, (await bucket.readText(uri)).text], [1, 'third']);
});

test('a store without conditional writes is refused', async (t) => {
  const store = await S3StandIn.start(t);
  store.ignoresConditions = true;
  const bucket = await openBucket(t, store);
  const world = await openSealingWorld(t);
  const { failures } = await live(world, { cold: bucket, rules: COLD });
  assert.deepEqual(
    failures.map(({ error }) => error.code),
    ['cold_refused'],
  );
  assert.match(failures[0]?.error.message ?? '', /ignores conditional writes/);
  assert.ok(!(await statesOf(world)).includes('archived'));
  assert.equal(store.objects.size, 0, 'and nothing is left there');
});

test('lost and altered objects are named', async (t) => {
  const store = await S3StandIn.start(t);
  const world = await openSealingWorld(t);
  const first = await openBucket(t, store);
  await live(world, { cold: first, rules: COLD });
  const [key = ''] = [...store.objects.keys()].filter((one) => one.endsWith('.parquet'));
  const whole = store.objects.get(key);
  assert.ok(whole !== undefined);
  const named = new RegExp(`s3://archive/${key.replaceAll(/[.=]/g, '\\$&')}`);
  const reading = async () =>
    rowsOf(world, await openBucket(t, { ...store, endpoint: store.endpoint }));
  store.objects.delete(key);
  await assert.rejects(reading(), { code: 'cold_missing', message: named });
  const other = Buffer.from(whole.bytes).reverse();
  store.objects.set(key, { ...whole, bytes: other });
  await assert.rejects(reading(), { code: 'cold_damaged', message: named });
  assert.ok((await rowsOf(world, first)).length > 0, 'the copy of this machine is whole');
  store.objects.set(key, whole);
  assert.ok((await reading()).length > 0);
  assert.equal(
    codeOf(await first.readText('manifests/none').catch((e: unknown) => e)),
    'cold_missing',
  );
});
