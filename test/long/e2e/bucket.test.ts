import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { runCommand } from '../../support/programs/commands.js';
import { S3StandIn } from '../../support/s3/s3-stand-in.js';
import { CREDENTIALS } from '../../support/s3/versitygw.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

const COUNTS =
  'select market, count(*) as n, sum(amount)::double as a from trades group by 1 order by 1';

test('commands archive to a bucket, read it, and say what is wrong with it', async (t) => {
  const store = await S3StandIn.start(t);
  const dataDir = await makeFolder(t, 'data');
  const { url } = await openDaysWorld(await makeFolder(t));
  const settings = {
    ...{ ...CREDENTIALS, TAPEKEEP_DATABASE_URL: url, TAPEKEEP_DATA_DIR: dataDir },
    ...{ TAPEKEEP_COLD_ENABLED: 'true', TAPEKEEP_COLD_URL: 's3://archive/one' },
    ...{ TAPEKEEP_COLD_ENDPOINT: store.endpoint, TAPEKEEP_COLD_PATH_STYLE: 'true' },
    TAPEKEEP_VERIFICATION_ENABLED: 'false',
  };
  const run = (...args: string[]) => runCommand(args, settings);
  const { out: before, err } = await run('query', '--json', COUNTS);
  assert.match(before, /BTC_USD/, err);
  const sealed = await run('seal', '--archive', '--kind', 'trades', '--before', DAYS[2], '--json');
  assert.equal(sealed.code, 0, sealed.err);
  assert.doesNotMatch(sealed.err, /NodeVersionSupportWarning/);
  assert.ok([...store.objects.keys()].some((key) => key.startsWith('one/manifests/trade/')));
  const after = await run('query', '--json', COUNTS);
  assert.equal(after.out, before, after.err);
  const archived = await run('query', '--json', '--to', DAYS[2], COUNTS);
  const files = await run('query', '--json', '--cold', 's3://archive/one', COUNTS);
  assert.equal(files.out, archived.out, files.err);
  assert.match(files.err, /only the cold files are asked/);
  const none = await run('query', '--cold', 's3://archive/none', COUNTS);
  assert.match(
    none.err,
    /s3:\/\/archive\/none is no place of cold partitions: it has no manifests/,
  );
  const kept = (await readdir(join(dataDir, 'cold-cache'))).filter(
    (name) => !name.startsWith('.tapekeep'),
  );
  assert.deepEqual(kept, ['files'], 'and no file under way');

  const cold = async () => (await run('doctor')).out.split('\n').filter((line) => /s3:/.test(line));
  assert.match((await cold()).join(), /^ok +cold folder +s3:\/\/archive\/one can be written/);
  store.fault = () => ({ status: 403, code: 'AccessDenied' });
  assert.match((await cold()).join(), /WRONG +cold folder +access to s3:\/\/archive\/one.*denied/);
  store.fault = () => ({ status: 404, code: 'NoSuchBucket' });
  assert.match((await cold()).join(), /the bucket of s3:\/\/archive\/one.* does not exist/);
  store.fault = () => undefined;
  store.ignoresConditions = true;
  assert.match((await cold()).join(), /ignores conditional writes/);

  const both = await runCommand(['doctor'], { ...settings, TAPEKEEP_COLD_DIR: '/elsewhere' });
  assert.equal(both.code, 2, both.out);
  assert.match(both.err, /cold\.url.*either a bucket .* or a folder/);
});
