import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COLD, openBucket, rowsOf, rowsOfFolder, statesOf } from '../../support/s3/bucket-world.js';
import { type S3Request, S3StandIn } from '../../support/s3/s3-stand-in.js';
import { live, openSealingWorld } from '../../support/worlds/sealing-world.js';

/** Faults of the data files, each with the code that the run reports. */
const FAULTS = {
  'wrong bytes come back': [isData('GET'), 'other bytes', /^cold_(mismatch|damaged)$/],
  'every body breaks off': [isData('GET'), 'cut body', /^cold_unreachable$/],
  'the store is busy': [isData('PUT'), { status: 503, code: 'SlowDown' }, /^cold_unreachable$/],
  'the network is lost': [isData('PUT'), 'lost request', /^cold_unreachable$/],
  'the store is full': [isData('PUT'), { status: 507, code: 'QuotaExceeded' }, /^cold_disk_full$/],
  'writing is denied': [isData('PUT'), { status: 403, code: 'AccessDenied' }, /^cold_refused$/],
  'the bucket is gone': [isData('PUT'), { status: 404, code: 'NoSuchBucket' }, /^cold_refused$/],
} as const;

function isData(method: string) {
  return (request: S3Request) => request.method === method && request.key.includes('kind=');
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
      const onStep = (step: string) => {
        if (step === 'archive: read') partitions += 1;
      };
      store.fault = (request) => (partitions >= 2 && isMeant(request) ? fault : undefined);
      const { failures } = await live(world, { cold: bucket, rules: COLD, onStep });
      const codes = failures.map(({ error }) => error.code);
      assert.ok(codes.length > 0 && codes.every((one) => code.test(one)), codes.join());
      assert.ok(!(await statesOf(world)).slice(1).includes('archived'));
      store.fault = () => undefined;
      assert.equal(await rowsOf(world, bucket), folder, 'nothing is lost meanwhile');
      assert.deepEqual((await live(world, { cold: bucket, rules: COLD })).failures, []);
      assert.deepEqual(await statesOf(world), ['archived', 'archived', 'archived']);
      assert.equal(await rowsOf(world, bucket), folder);
    });
  }
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
