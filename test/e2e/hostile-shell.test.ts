import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { makeTempDir } from '../support/postgres/postgres-server.js';
import { Program } from '../support/programs/program.js';

/** What a shell may say of other servers: no connection could be made with any of it. */
const PG = {
  ...{ PGHOST: 'other.invalid', PGHOSTADDR: '192.0.2.1', PGPORT: '1', PGUSER: 'stranger' },
  ...{ PGDATABASE: 'other', PGPASSWORD: 'wrong', PGPASSFILE: '/nowhere/pgpass' },
  ...{ PGSERVICE: 'none', PGSERVICEFILE: '/nowhere/services', PGSYSCONFDIR: '/nowhere' },
  ...{
    PGSSLMODE: 'require',
    PGREQUIRESSL: '1',
    PGSSLNEGOTIATION: 'direct',
    PGGSSENCMODE: 'require',
  },
  ...{
    PGSSLROOTCERT: '/nowhere/root.crt',
    PGSSLCERT: '/nowhere/c.crt',
    PGSSLKEY: '/nowhere/c.key',
  },
  ...{ PGCHANNELBINDING: 'require', PGREQUIREAUTH: 'none', PGTARGETSESSIONATTRS: 'standby' },
  ...{ PGOPTIONS: '-c no_such_setting=1', PGREPLICATION: 'true', PGBINARY: '1' },
  ...{ PGAPPNAME: 'stranger', PGCLIENT_ENCODING: 'KOI8R', PGCLIENTENCODING: 'KOI8R' },
  ...{ PGTZ: 'no/such/zone', PGDATESTYLE: 'German', PGGEQO: 'off', PGCONNECT_TIMEOUT: '2' },
  ...{ PGDATA: '/nowhere/data', PGCTLTIMEOUT: '1', PGLOCALEDIR: '/nowhere', PG_COLOR: 'always' },
};

test('the embedded server is reached whatever PG* variables the shell has', async (t) => {
  const cwd = await makeTempDir();
  t.after(() => rm(cwd, { recursive: true, force: true }));
  const env = { ...PG, TAPEKEEP_HTTP_PORT: '0' };
  const run = async (...args: string[]) => {
    const one = new Program(args, { cwd, env });
    t.after(() => one.dispose());
    const { code } = await one.ended();
    assert.equal(code, 0, one.dump());
    return one.text('stdout');
  };
  const daemon = new Program(['--log-level', 'debug', 'start'], { cwd, env });
  t.after(() => daemon.dispose());
  await daemon.line((line) => line.includes('"committed"'));
  await run('status');
  const address = await run('url');
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  assert.match(await run('query', 'select count(*) > 0 as found from trades'), /true/);
  assert.match(address, /\?sslmode=disable/);
  if (spawnSync('psql', ['--version']).status !== 0) {
    t.diagnostic('psql is not installed: not checked with it');
    return;
  }
  assert.match(await run('psql', '--', '-Atc', 'select 1 + 1'), /^2$/m);
});

test('a TMPDIR that cannot be written is named, and nothing waits for it', async (t) => {
  const cwd = await makeTempDir();
  t.after(() => rm(cwd, { recursive: true, force: true }));
  const run = async (TMPDIR: string, ...args: string[]) => {
    const one = new Program(args, { cwd, env: { TMPDIR, TAPEKEEP_HTTP_PORT: '0' } });
    t.after(() => one.dispose());
    const { code } = await one.ended();
    return { code, said: one.lines.stderr.at(-1) ?? '' };
  };
  const refused = (folder: string) =>
    new RegExp(`^tapekeep: the folder for temporary files, ${folder}, cannot be written .*TMPDIR`);
  // A new archive is migrated, by a package that makes a folder there.
  const unmade = await run('/proc/none', 'start', '--for', '1s');
  assert.match(unmade.said, refused('/proc/none'));
  assert.equal(unmade.code, 2);
  assert.equal((await run(cwd, 'start', '--for', '1s')).code, 0);
  const file = join(cwd, 'data/postgres.port');
  for (const folder of ['/proc', join(cwd, 'none'), file]) {
    const asked = await run(folder, 'query', 'select count(*) from trades');
    assert.match(asked.said, refused(folder));
    assert.equal(asked.code, 2);
    assert.equal((await run(folder, 'start', '--for', '1s')).code, 0, 'nothing is to be migrated');
  }
});
