import assert from 'node:assert/strict';
import { mkdir, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { makeDatabase } from '../../support/postgres/postgres.js';
import { makeTempDir, runSql } from '../../support/postgres/postgres-server.js';
import { Program } from '../../support/programs/program.js';

const folder = await makeTempDir();
const programs: Program[] = [];
after(async () => {
  for (const program of programs) await program.dispose();
  await rm(folder, { recursive: true, force: true });
});

const env = {
  TAPEKEEP_DATA_DIR: join(folder, 'data'),
  TAPEKEEP_SANDBOX_HISTORY: 'none',
  TAPEKEEP_HTTP_PORT: '0',
};

function run(...args: string[]): Program {
  const program = new Program(args, { env });
  programs.push(program);
  return program;
}

async function toEnd(...args: string[]) {
  const program = run(...args);
  const { code } = await program.ended();
  return { code, stdout: program.text('stdout'), stderr: program.text('stderr') };
}

test('the database stays without a daemon, and under one that goes on when its owner ends', async () => {
  const none = await toEnd('db');
  assert.equal(none.code, 2);
  assert.match(none.stderr, /there is no archive in .*"tapekeep start" makes one/);
  assert.equal((await toEnd('migrate')).code, 0);

  const kept = run('db');
  await kept.line((line) => line.startsWith('database  postgres'));
  const url = (await toEnd('url')).stdout;
  // The only name of the scheme that SQLAlchemy takes.
  assert.match(url, /^postgresql:\/\/analyst:/);
  const [row] = await runSql<{ who: string }>(
    url,
    'SELECT current_user::text AS who FROM (SELECT count(*) FROM trades) t',
  );
  assert.equal(row?.who, 'analyst');

  const daemon = run('--log-level', 'debug', '--log-format', 'json', 'start');
  await daemon.line((line) => line.startsWith('  exchange  http://'));
  await daemon.line((line) => line.startsWith('  realtime  ws://'));
  assert.equal((await toEnd('url')).stdout, url);
  assert.equal((await toEnd('status')).code, 0);
  await runSql(url, 'SELECT 1');
  const second = await toEnd('start');
  assert.equal(second.code, 3, second.stderr);
  assert.match(second.stderr, /another tapekeep writes to this database/);

  kept.kill('SIGINT');
  assert.deepEqual(await kept.ended(), { code: 0, signal: null });
  await daemon.line((line) => /, again".*embedded Postgres: ready/.test(line));
  const before = daemon.lines.stderr.length;
  await daemon.until(() =>
    Promise.resolve(daemon.lines.stderr.slice(before).some((line) => line.includes('"committed"'))),
  );
  assert.equal((await toEnd('url')).stdout, url);
  daemon.kill('SIGINT');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  await assert.rejects(runSql(url, 'SELECT 1'), { code: 'ECONNREFUSED' });
  const ended = await toEnd('url');
  assert.equal(ended.code, 1);
  assert.match(ended.stderr, /does not run now: "tapekeep db"/);
  assert.equal(ended.stdout, '');
});

test("of a database of one's own url prints the address that is set, by the scheme's long name", async () => {
  const url = await makeDatabase();
  const migrated = new Program(['migrate'], { env: { ...env, TAPEKEEP_DATABASE_URL: url } });
  programs.push(migrated);
  assert.equal((await migrated.ended()).code, 0, migrated.dump());
  for (const scheme of ['postgres:', 'postgresql:']) {
    const set = url.replace(/^postgres(ql)?:/, scheme);
    const program = new Program(['url'], { env: { ...env, TAPEKEEP_DATABASE_URL: set } });
    programs.push(program);
    assert.equal((await program.ended()).code, 0, program.dump());
    assert.equal(program.text('stdout').trim(), url.replace(/^postgres(ql)?:/, 'postgresql:'));
  }
});

test('psql gets the reader, or the owner, with the password out of sight', async (t) => {
  const said = await toEnd('psql', '--', '-Atc', 'SELECT current_user');
  if (said.stderr.includes('psql is not installed')) {
    t.skip('psql is not installed here');
    return;
  }
  assert.deepEqual([said.code, said.stdout], [0, 'analyst'], said.stderr);
  const owner = await toEnd('psql', '--owner', '--', '-Atc', 'SELECT current_user');
  assert.equal(owner.stdout, 'tapekeep_program');
  assert.equal((await toEnd('psql', '--', '-c', 'SELECT 1/0')).code, 1);
});

test('options of psql that stand before -- are refused with what helps', async () => {
  for (const option of ['-c', '-Atc']) {
    const meant = await toEnd('psql', option, 'SELECT 1');
    assert.equal(meant.code, 2, meant.stderr);
    assert.match(meant.stderr, /arguments of psql go after "--": tapekeep psql -- -c/);
  }
});

test("psql on a database of one's own begins as an analyst's, but for --owner", async (t) => {
  // The plus sign is of an option that the address has already.
  const url = `${await makeDatabase()}&options=-c%20own.word%3Da%2Bb`;
  const ask = async (...args: string[]) => {
    const sql = `SHOW own.word; SHOW search_path; CREATE TABLE made_by_mistake ()`;
    const program = new Program(['psql', ...args, '--', '-Atqc', sql], {
      env: { ...env, TAPEKEEP_DATABASE_URL: url },
    });
    programs.push(program);
    const { code } = await program.ended();
    return { code, out: program.text('stdout'), err: program.text('stderr') };
  };
  const reader = await ask();
  if (reader.err.includes('psql is not installed')) {
    t.skip('psql is not installed here');
    return;
  }
  assert.deepEqual([reader.code, reader.out], [1, 'a+b\nanalytics,public'], reader.err);
  assert.match(reader.err, /cannot execute CREATE TABLE in a read-only transaction/);
  assert.deepEqual(await ask('--owner'), { code: 0, out: 'a+b\n"$user", public', err: '' });
});

test('where psql is not installed the message names what serves instead', async () => {
  const program = new Program(['psql'], { env: { ...env, PATH: folder } });
  programs.push(program);
  assert.equal((await program.ended()).code, 1);
  assert.match(program.text('stderr'), /psql is not installed here: .*tapekeep url/);
});

test('an archive that this user may not look at is no archive that is not there', async () => {
  const dataDir = join(folder, 'closed');
  await mkdir(dataDir);
  // Root may look everywhere, but not along a link that leads to itself.
  await symlink('postgres', join(dataDir, 'postgres'));
  const status = new Program(['status'], { env: { ...env, TAPEKEEP_DATA_DIR: dataDir } });
  programs.push(status);
  assert.equal((await status.ended()).code, 1);
  const said = status.text('stderr');
  assert.match(
    said,
    /^tapekeep: the database in \S+ cannot be looked at \(ELOOP\): run tapekeep as/,
  );
});
