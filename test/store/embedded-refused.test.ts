import assert from 'node:assert/strict';
import { chmod, chown, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { startEmbeddedPostgres } from '../../src/store/index.js';
import { makeTempDir, quietStoreEvents, runSql } from '../support/postgres/postgres-server.js';
import { startChild } from '../support/postgres/started-child.js';

/** Why an embedded server cannot start: the reason first, then what to do, and old lines of its log last. */

const telemetry = quietStoreEvents();
const OLD_LINE = '2026-01-02 03:04:05 UTC [7] FATAL:  an old line of the log\n';

/** A cluster that ran before and left a line in its log. */
async function makeStopped(t: TestContext): Promise<{ dataDir: string; clusterDir: string }> {
  const dir = await makeTempDir();
  t.after(() => rm(dir, { recursive: true, force: true }));
  const dataDir = join(dir, 'data');
  await (await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry })).stop();
  const clusterDir = join(dataDir, 'postgres');
  await writeFile(join(clusterDir, 'log/server-Mon.log'), OLD_LINE);
  return { dataDir, clusterDir };
}

async function refusalOf(dataDir: string): Promise<string> {
  const starting = startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry });
  const error = await starting.then(
    () => assert.fail('it started'),
    (reason: Error) => reason,
  );
  return error.message;
}

test('a cluster of another major version is refused by its version first', async (t) => {
  const { dataDir, clusterDir } = await makeStopped(t);
  const path = join(clusterDir, 'PG_VERSION');
  const version = Number(await readFile(path, 'utf8'));
  await writeFile(path, `${version - 1}\n`);
  assert.match(
    await refusalOf(dataDir),
    new RegExp(
      `did not start: database files are incompatible with server; The data directory was initialized by PostgreSQL version ${version - 1}, .*; start the tapekeep that made it, or .*keeping-an-archive.*; its log from before: .*an old line of the log$`,
    ),
  );
});

test('a cluster that others may read is refused with the command that closes it', async (t) => {
  const { dataDir, clusterDir } = await makeStopped(t);
  await chmod(clusterDir, 0o755);
  assert.match(
    await refusalOf(dataDir),
    /did not start: data directory "\S+" has invalid permissions; Permissions should be .*; run chmod 700 \S+\/postgres; its log from before: .*an old line of the log$/,
  );
  await chmod(clusterDir, 0o700);
  await (await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry })).stop();
});

test('a user whom the system has no name for can run it', async (t) => {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') {
    t.diagnostic('not checked: only root on Linux can be any user');
    return;
  }
  const dir = await makeTempDir();
  t.after(() => rm(dir, { recursive: true, force: true }));
  const ids = { uid: 54_321, gid: 54_321 };
  await chown(dir, ids.uid, ids.gid);
  for (const time of ['made', 'kept']) {
    const { first, errors, stop } = await startChild(t, join(dir, 'data'), ids);
    if (first === undefined) {
      // Without user namespaces it says so.
      assert.match(errors(), /uid 54321\) has no name.*\/etc\/passwd/, time);
      t.diagnostic('user namespaces are not allowed here: only the refusal was checked');
      return;
    }
    assert.deepEqual(await runSql(first, 'SELECT 1 AS one'), [{ one: 1 }], time);
    await stop();
    await assert.rejects(runSql(first, 'SELECT 1'), { code: 'ECONNREFUSED' }, time);
  }
});
