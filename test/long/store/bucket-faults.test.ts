import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PartitionInfo } from '../../../src/store/index.js';
import {
  assertReadBack,
  COLD,
  openBucket,
  rowsOf,
  rowsOfFolder,
  statesOf,
} from '../../support/s3/bucket-world.js';
import { type S3Fault, type S3Request, S3StandIn } from '../../support/s3/s3-stand-in.js';
import { bringBack, live, openSealingWorld } from '../../support/worlds/sealing-world.js';

/** Faults from the second partition on, each with the code that the run reports. */
const FAULTS: Readonly<Record<string, readonly [isMeant: Meant, fault: S3Fault, code: RegExp]>> = {
  'wrong bytes come back': [isData('GET'), 'other bytes', /^cold_(mismatch|damaged)$/],
  'another file comes back': [isData('GET'), { instead: 'one/archive.json' }, /^cold_mismatch$/],
  'a file is lost': [isData('GET'), { status: 404, code: 'NoSuchKey' }, /^cold_mismatch$/],
  'every body breaks off': [isData('GET'), 'cut body', /^cold_unreachable$/],
  'the store is busy': [isData('PUT'), { status: 503, code: 'SlowDown' }, /^cold_unreachable$/],
  'the network is lost': [isData('PUT'), 'lost request', /^cold_unreachable$/],
  'nothing is reached': [() => true, 'lost request', /^cold_unreachable$/],
  'the store is full': [isData('PUT'), { status: 507, code: 'QuotaExceeded' }, /^cold_disk_full$/],
  'writing is denied': [isData('PUT'), { status: 403, code: 'AccessDenied' }, /^cold_refused$/],
  'the bucket is gone': [isData('PUT'), { status: 404, code: 'NoSuchBucket' }, /^cold_refused$/],
  'a manifest does not fit': [
    isManifest('PUT'),
    { status: 507, code: 'QuotaExceeded' },
    /^cold_disk_full$/,
  ],
  'a manifest is lost': [
    isManifest('GET'),
    { status: 404, code: 'NoSuchKey' },
    /^cold_(conflict|missing)$/,
  ],
  'another manifest comes back': [
    isManifest('GET'),
    { instead: 'one/manifests/trade/trade_20260113.json' },
    /^cold_conflict$/,
  ],
  'another writes a manifest': [
    isManifest('PUT'),
    { status: 412, code: 'PreconditionFailed' },
    /^cold_conflict$/,
  ],
  'writers of a manifest meet': [
    isManifest('PUT'),
    { status: 409, code: 'ConditionalRequestConflict' },
    /^cold_unreachable$/,
  ],
};

type Meant = (request: S3Request) => boolean;

function isData(method: string): Meant {
  return (request) => request.method === method && request.key.includes('kind=');
}

function isManifest(method: string): Meant {
  return (request) => request.method === method && request.key.includes('manifests/');
}

test('faults keep rows in the database, and the next run goes on', async (t) => {
  const folder = await rowsOfFolder(t);
  for (const [name, [isMeant, fault, code]] of Object.entries(FAULTS)) {
    await t.test(name, async (sub) => {
      const store = await S3StandIn.start(sub);
      const bucket = await openBucket(sub, { endpoint: store.endpoint, tries: 2 });
      const world = await openSealingWorld(sub);
      // The second partition meets it.
      let partitions = 0;
      let isOver = false;
      const named = new Set<string>();
      const deleted: string[] = [];
      const onStep = async (step: string, partition: string) => {
        if (step === 'archive: read') partitions += 1;
        if (step !== 'archive: switch') return;
        const uri = `manifests/trade/${partition}.json`;
        for (const key of await assertReadBack(store, bucket, uri)) named.add(key);
      };
      store.fault = (request) => {
        if (request.method === 'DELETE' && named.has(request.key)) deleted.push(request.key);
        return partitions >= 2 && !isOver && isMeant(request) ? fault : undefined;
      };
      const { failures } = await live(world, { cold: bucket, rules: COLD, onStep });
      const codes = failures.map(({ error }) => error.code);
      assert.ok(codes.length > 0 && codes.every((one) => code.test(one)), codes.join());
      for (const { error } of failures) assert.match(error.message, /s3:\/\/archive\/one\/\S+/);
      assert.ok(!(await statesOf(world)).slice(1).includes('archived'));
      isOver = true;
      assert.equal(await rowsOf(world, bucket), folder, 'nothing is lost meanwhile');
      assert.deepEqual((await live(world, { cold: bucket, rules: COLD, onStep })).failures, []);
      assert.deepEqual(await statesOf(world), ['archived', 'archived', 'archived']);
      assert.equal(await rowsOf(world, await openBucket(sub, store)), folder);
      assert.equal(named.size, 9, 'two files and a manifest of each partition');
      assert.deepEqual(deleted, [], 'nothing goes that the ledger names');
      assert.equal(store.openUploads, 0);
    });
  }
});

test('objects that are lost, swapped or listed late are named, and nothing goes with them', async (t) => {
  const store = await S3StandIn.start(t);
  const world = await openSealingWorld(t);
  await live(world, { cold: await openBucket(t, store), rules: COLD });
  const whole = new Map(store.objects);
  const ends = async (code: string, key: string) => {
    const keys = [...store.objects.keys()];
    const fresh = await openBucket(t, store);
    const named = { code, message: new RegExp(`s3://archive/${key.replaceAll(/[.=]/g, '\\$&')}`) };
    await assert.rejects(rowsOf(world, fresh), named);
    const { failures } = await bringBack(world, { cold: fresh });
    assert.deepEqual(
      failures.map(({ error }) => error.message.includes(key)),
      [true],
      failures.map(({ error }) => error.message).join('\n'),
    );
    // Seals, archives and tidies.
    await live(world, { cold: fresh, rules: COLD });
    assert.deepEqual([...store.objects.keys()].sort(), keys.sort());
    assert.equal((await statesOf(world)).includes('archived'), true);
  };
  const [file = '', other = ''] = [...whole.keys()].filter((key) => key.endsWith('.parquet'));
  const [manifest = '', next = ''] = [...whole.keys()].filter((key) => key.includes('manifests/'));
  for (const [one, two] of [
    [file, other],
    [manifest, next],
  ] as const) {
    store.objects.delete(one);
    await ends('cold_missing', one);
    const bytes = whole.get(two)?.bytes ?? assert.fail();
    store.set(one, bytes);
    await ends('cold_damaged', one);
    store.objects.clear();
    for (const [key, { bytes: own }] of whole) store.set(key, own);
  }

  // What is deleted by way of a manifest is of its own partition: by restoring one, and when it expires.
  const isFirst = ({ name }: PartitionInfo) => name.endsWith('0113');
  const bucket = await openBucket(t, store);
  assert.deepEqual((await bringBack(world, { cold: bucket, isChosen: isFirst })).failures, []);
  store.set(manifest, whole.get(next)?.bytes ?? assert.fail());
  const keys = [...store.objects.keys()];
  const back = await bringBack(world, { cold: bucket, isChosen: isFirst }, true);
  assert.match(back.failures[0]?.error.message ?? '', /is the manifest of another partition than/);
  assert.deepEqual([...store.objects.keys()], keys);
  await live(world, { cold: bucket, isChosen: isFirst, rules: { retentionMs: { trade: 1 } } });
  assert.deepEqual(await statesOf(world), ['expired', 'archived', 'archived']);
  const rows = await rowsOf(world, await openBucket(t, store));
  store.isListed = () => false;
  const late = await openBucket(t, store);
  assert.deepEqual((await live(world, { cold: late, rules: COLD })).failures, []);
  assert.equal(await rowsOf(world, await openBucket(t, store)), rows);
});

test('faults that pass are not noticed', async (t) => {
  const folder = await rowsOfFolder(t);
  const store = await S3StandIn.start(t);
  const bucket = await openBucket(t, store);
  const world = await openSealingWorld(t);
  const seen = new Map<string, number>();
  const kinds = [
    ...([{ status: 503, code: 'SlowDown' }, 'lost request', 'lost response'] as const),
    ...(['cut body', { status: 500, code: 'InternalError' }] as const),
  ];
  let asked = 0;
  // Each request fails once, in turn by each of them.
  store.fault = ({ method, key, query }) => {
    const name = `${method} ${key} ${query}`;
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    if (times % 2 === 0) return undefined;
    asked += 1;
    const fault = kinds[asked % kinds.length];
    return fault === 'cut body' && method !== 'GET' ? undefined : fault;
  };
  store.isListed = (key) => !key.endsWith('.parquet') || seen.size % 3 > 0;
  assert.deepEqual((await live(world, { cold: bucket, rules: COLD })).failures, []);
  assert.equal(await rowsOf(world, bucket), folder);
  assert.ok(asked > 50, `${asked} faults`);
});
