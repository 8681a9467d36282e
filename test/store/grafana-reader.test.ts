import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { migrate } from '../../src/store/index.js';
import { makeDatabase, runSql } from '../support/postgres/postgres.js';
import { repositoryPath } from '../support/repository/repository.js';

const execute = promisify(execFile);
const SCRIPT = join(repositoryPath, 'config', 'grafana', 'reader.sql');

test("Grafana's login reads the archive and nothing more, made before it or again", async (t) => {
  const isThere = await execute('psql', ['--version']).then(
    () => true,
    () => false,
  );
  if (!isThere) {
    t.skip('psql is not installed: the script of the login was not run');
    return;
  }
  const url = await makeDatabase('empty');
  const run = async (password: string) =>
    await execute('psql', ['--no-psqlrc', `--file=${SCRIPT}`, url], {
      env: { PATH: process.env.PATH, GRAFANA_READER_PASSWORD: password },
    });
  t.after(async () => {
    await runSql(url, 'DROP OWNED BY grafana; DROP ROLE grafana');
  });
  await run("it's 1");
  await migrate({ databaseUrl: url });
  await run('second');
  const login = new URL(url);
  login.username = 'grafana';
  login.password = 'second';
  assert.deepEqual(await runSql(login.href, 'SELECT count(*)::int AS n FROM analytics.markets'), [
    { n: 0 },
  ]);
  await assert.rejects(runSql(login.href, 'DELETE FROM market'), /permission denied/);
  await assert.rejects(runSql(login.href, 'SELECT * FROM quarantine'), /permission denied/);
});
