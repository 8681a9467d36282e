import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { isThere } from '../../../src/kernel/folders.js';
import { migrate } from '../../../src/store/index.js';
import { makeTempDir, runSql, withDatabase } from '../../support/postgres/postgres-server.js';
import { BareServer, removeServer } from '../../support/postgres/standby.js';
import { runCommand } from '../../support/programs/commands.js';
import { S3StandIn } from '../../support/s3/s3-stand-in.js';
import { CREDENTIALS } from '../../support/s3/versitygw.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';

/** A backup of an archive whose cold files are in a bucket, and what is recovered from it. */

const PROGRAMS = '/usr/lib/postgresql/15/bin';
const QUERY = [
  ...['query', '--json'],
  'select market, count(*) as n, sum(total)::varchar as t from trades group by 1 order by 1',
];

test('an archive with files in a bucket is recovered, with what its bucket has', async (t) => {
  if (!(await isThere(join(PROGRAMS, 'initdb')))) return t.skip(`no Postgres in ${PROGRAMS}`);
  const dir = await makeTempDir();
  const server = await BareServer.makeOf(PROGRAMS, dir);
  t.after(() => rm(dir, { recursive: true, force: true }));
  t.after(() => removeServer(server));
  const bucket = await S3StandIn.start(t);
  /** Settings of an archive in a new database. */
  const at = async (name: string, prefix = 'one') => {
    await runSql(server.url, `CREATE DATABASE ${name}`);
    return {
      ...{ ...CREDENTIALS, TAPEKEEP_DATABASE_URL: withDatabase(server.url, name) },
      ...{ TAPEKEEP_DATA_DIR: join(dir, name), TAPEKEEP_VERIFICATION_ENABLED: 'false' },
      ...{ TAPEKEEP_COLD_ENABLED: 'true', TAPEKEEP_COLD_URL: `s3://archive/${prefix}` },
      ...{ TAPEKEEP_COLD_ENDPOINT: bucket.endpoint, TAPEKEEP_COLD_PATH_STYLE: 'true' },
    };
  };
  const env = await at('original');
  const url = env.TAPEKEEP_DATABASE_URL;
  await migrate({ databaseUrl: url });
  const { store } = await openDaysWorld(join(dir, 'cold'), url);
  await store.stop();
  const seal = ['seal', '--archive', '--kind', 'trades', '--before', DAYS[2]];
  const sealed = await runCommand(seal, env);
  assert.equal(sealed.code, 0, sealed.err + sealed.out);
  const before = await runCommand(QUERY, env);
  assert.equal(before.code, 0, before.err);

  const listed = join(dir, 'listed');
  const made = await runCommand(['backup', listed], env);
  assert.equal(made.code, 0, made.err);
  assert.match(made.out, /^Cold files of 2 partitions: 4 files, .* listed and not copied/m);

  const reader = await at('reader');
  const first = await runCommand(['recover', listed, '--deep'], reader);
  assert.equal(first.code, 0, first.err + first.out);
  assert.match(
    first.out,
    /^Cold files of 2 partitions: 4 are as they were, 0 came from the backup/m,
  );
  assert.match(first.out, /^s3:\/\/archive\/one is only read until "tapekeep adopt" gives it/m);
  assert.equal((await runCommand(QUERY, reader)).out, before.out);
  const keys = [...bucket.objects.keys()];
  const refused = await runCommand(seal.toSpliced(-1, 1, '2026-01-17'), reader);
  assert.notEqual(refused.code, 0);
  assert.match(refused.err + refused.out, /s3:\/\/archive\/one belongs to the database/);
  assert.deepEqual([...bucket.objects.keys()], keys, 'nothing was written there');

  // What is gone, of other bytes, or of another partition is named, each by its partition.
  const whole = new Map(bucket.objects);
  const [lost = '', altered = ''] = keys.filter((key) => key.endsWith('.parquet'));
  const dayOf = (key: string) => /date=([\d-]+)/.exec(key)?.[1]?.replaceAll('-', '') ?? '';
  bucket.objects.delete(lost);
  bucket.set(altered, Buffer.from(whole.get(altered)?.bytes ?? '').reverse());
  const part = await runCommand(['recover', listed, '--adopt'], await at('part'));
  assert.equal(part.code, 7, part.err + part.out);
  for (const key of [lost, altered]) {
    assert.match(part.out, new RegExp(`^Missing: trade_${dayOf(key)} .*: \\d of 2 files`, 'm'));
    assert.ok(part.out.includes(key.replace('one/', '')) || dayOf(lost) === dayOf(altered));
  }
  for (const [key, { bytes }] of whole) bucket.set(key, bytes);
  const [one = '', two = ''] = keys.filter((key) => key.includes('/manifests/'));
  bucket.objects.delete(one);
  bucket.set(two, whole.get(one)?.bytes ?? assert.fail());
  const blind = await runCommand(['recover', listed, '--adopt'], await at('blind'));
  assert.equal(blind.code, 7, blind.err + blind.out);
  assert.match(blind.out, new RegExp(`^Missing: .*s3://archive/${one} is not there`, 'm'));
  assert.match(blind.out, new RegExp(`^Missing: .*s3://archive/${two} is not the manifest`, 'm'));
  assert.doesNotMatch(blind.out, /belongs to this archive now/);
  for (const [key, { bytes }] of whole) bucket.set(key, bytes);

  const heir = await at('heir');
  const adopted = await runCommand(['recover', listed, '--adopt'], heir);
  assert.equal(adopted.code, 0, adopted.err + adopted.out);
  assert.match(adopted.out, /^s3:\/\/archive\/one belongs to this archive now\.$/m);
  assert.match((await runCommand(['doctor'], env)).out, /belongs to the database heir/);
  assert.equal((await runCommand(seal.toSpliced(-1, 1, '2026-01-17'), heir)).code, 0);
  const [later] = [...bucket.objects.keys()].filter((key) => !whole.has(key));
  assert.match(later ?? '', /kind=trades/);

  // The heir has archived more than the backup knows.
  const late = await runCommand(['recover', listed, '--adopt'], await at('late'));
  assert.equal(late.code, 7, late.err + late.out);
  assert.match(late.out, /^Missing: .* holds 1 partitions that this database does not have/m);

  // A damaged local copy is not what is backed up.
  const cached = join(dir, 'heir/cold-cache/files', lost.replace('one/', ''));
  await writeFile(cached, Buffer.alloc(whole.get(lost)?.bytes.length ?? 0));
  const copied = join(dir, 'copied');
  const files = await runCommand(['backup', copied, '--with-files'], heir);
  assert.equal(files.code, 0, files.err + files.out);
  const second = await at('second', 'two');
  const moved = await runCommand(['recover', copied, '--adopt', '--deep'], second);
  assert.equal(moved.code, 0, moved.err + moved.out);
  assert.match(moved.out, /: 6 are as they were, 9 came from the backup\.$/m);
  assert.equal((await runCommand(QUERY, second)).out, (await runCommand(QUERY, heir)).out);

  bucket.fault = ({ key }) =>
    key.startsWith('one/') ? { status: 503, code: 'SlowDown' } : undefined;
  const away = await runCommand(['backup', join(dir, 'away'), '--with-files'], heir);
  assert.equal(away.code, 7, away.err + away.out);
  assert.match(away.out, /^Missing: trade_\d+: the store answers 503 .*s3:\/\/archive\/one/m);
});
