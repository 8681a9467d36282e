import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeBackup } from '../../src/archive/backup/backup.js';
import { FolderBackup } from '../../src/archive/backup/folder-place.js';
import { filesBelow } from '../../src/archive/cold/folder.js';
import { systemClock } from '../../src/kernel/clock.js';
import { COLD, openBucket } from '../support/s3/bucket-world.js';
import { S3StandIn } from '../support/s3/s3-stand-in.js';
import { makeFolder } from '../support/worlds/export-world.js';
import { live, openSealingWorld } from '../support/worlds/sealing-world.js';

test('a backup copies more files of a bucket than its cache holds', async (t) => {
  const store = await S3StandIn.start(t);
  const world = await openSealingWorld(t);
  await live(world, { cold: await openBucket(t, store), rules: COLD });
  const sizes = [...store.objects]
    .filter(([key]) => key.endsWith('.parquet'))
    .map(([, { bytes }]) => bytes.length);
  const cacheBytes = Math.max(...sizes) + 1;
  const place = new FolderBackup(await makeFolder(t, 'backup'), systemClock);
  const { document, wrong } = await makeBackup({
    ...{ place, store: world.store, isWithFiles: true, isReplacing: false, version: '1' },
    source: {
      ...{ form: 'dump', version: '18', bytes: 4 },
      async *dump() {
        yield Buffer.from('rows');
      },
    },
    cold: await openBucket(t, { endpoint: store.endpoint, cacheBytes }),
    ...{ clock: systemClock, signal: new AbortController().signal, onProgress: () => undefined },
  });
  assert.deepEqual(wrong, []);
  assert.equal(document.cold.files, sizes.length);
  const copied = (await filesBelow(place.name)).filter((path) => path.endsWith('.parquet'));
  assert.equal(copied.length, sizes.length);
});
