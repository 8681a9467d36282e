import assert from 'node:assert/strict';
import test from 'node:test';
import { makeDatabase } from '../../support/postgres/postgres.js';
import { openSql } from '../../support/postgres/postgres-server.js';
import { Program } from '../../support/programs/program.js';

test('migrate tells all that it did, and what it could not do', async (t) => {
  const env = { TAPEKEEP_DATABASE_URL: await makeDatabase('empty') };
  const migrate = async (...options: string[]) => {
    const program = new Program(['migrate', ...options], { env });
    t.after(() => program.dispose());
    const { code } = await program.ended();
    return { code, stdout: program.text('stdout'), stderr: program.text('stderr') };
  };
  const first = await migrate();
  assert.equal(first.code, 0, first.stderr);
  assert.match(
    first.stdout,
    /^Applied 0001_archive\.\nMade the analytics schema\.\nGranted the rights/,
  );
  assert.equal((await migrate()).stdout, 'The schema is up to date; nothing was applied.');
  const citus = await migrate('--citus');
  assert.equal(citus.code, 2);
  assert.match(
    citus.stderr,
    /^tapekeep: migrate: "--citus" is not allowed; a Citus cluster is not supported yet, so nothing/,
  );
});

test('a migration that takes long says which it is, of how many, and for how long', async (t) => {
  const url = await makeDatabase('empty');
  const other = await openSql(url);
  t.after(() => other.end());
  // The name is taken until this ends, and whoever wants it waits.
  await other.run('BEGIN');
  await other.run('CREATE TABLE market (id int)');
  const program = new Program(['migrate'], { env: { TAPEKEEP_DATABASE_URL: url } });
  t.after(() => program.dispose());
  const line = await program.line((text) => text.includes('1 of 1'));
  assert.match(line, /^0\.0%, 1 of 1 migration, 0001_archive for \d+(\.\d)?s$/);
  await other.run('ROLLBACK');
  assert.equal((await program.ended()).code, 0, program.dump());
});
