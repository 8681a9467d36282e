import assert from 'node:assert/strict';
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { isAlive } from '../../../src/kernel/processes.js';
import { programUrl } from '../../../src/store/embedded/logins.js';
import { childrenOf } from '../../../src/store/embedded/processes.js';
import { readPostmaster } from '../../../src/store/embedded/server.js';
import { makeTempDir, openSql, runSql } from '../../support/postgres/postgres-server.js';
import { Program } from '../../support/programs/program.js';

/** The daemon's own Postgres is killed, as the out-of-memory killer does it, and the daemon lives. */

/** A hang is the fault that is looked for. */
const LIMIT = { timeout: 180_000 };
const START = ['--log-level', 'debug', '--log-format', 'json', 'start'];

async function startDaemon(t: TestContext) {
  const cwd = await makeTempDir();
  const daemon = new Program(START, { cwd, env: { TAPEKEEP_HTTP_PORT: '0' } });
  t.after(async () => {
    await daemon.dispose();
    // A test that failed may have left the server.
    const left = await readPostmaster(join(cwd, 'data/postgres'));
    if (left !== undefined) kill(left.pid, 'SIGQUIT');
    await rm(cwd, { recursive: true, force: true });
  });
  const page = await daemon.page();
  await daemon.line((line) => line.includes('"committed"'));
  const clusterDir = join(cwd, 'data/postgres');
  const database = await daemon.line((line) => line.startsWith('  database '));
  const { port } = new URL(database.split(/\s+/)[2] ?? '');
  const password = (await readFile(`${clusterDir}.password`, 'utf8')).trim();
  return { cwd, daemon, clusterDir, page, url: programUrl(Number(port), password) };
}

type Started = Awaited<ReturnType<typeof startDaemon>>;

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone already.
  }
}

async function killServer({ clusterDir }: Started): Promise<number> {
  const { pid } = (await readPostmaster(clusterDir)) ?? assert.fail('no server');
  process.kill(pid, 'SIGKILL');
  return pid;
}

/** Matches lines that were not printed yet when this was called. */
function newLine({ daemon }: Started, text: string): Promise<string> {
  let old = daemon.lines.stderr.length + daemon.lines.stdout.length;
  return daemon.line((line) => {
    old -= 1;
    return old < 0 && line.includes(text);
  });
}

const codeOf = async (url: string) => (await fetch(url)).status;

test(
  'killed again and again, it is back on its old port, and collecting goes on',
  LIMIT,
  async (t) => {
    const started = await startDaemon(t);
    const { daemon, page, url } = started;
    for (let round = 1; round <= 3; round += 1) {
      const killed = newLine(started, 'embedded Postgres: lost');
      // A server that is back before the next commit was never away to the writer.
      const back = newLine(started, 'embedded Postgres: ready');
      const startedMs = performance.now();
      // A command beside it waits until the daemon has started its server again.
      const pid = await killServer(started);
      const beside = new Program(['status'], { cwd: started.cwd });
      t.after(() => beside.dispose());
      assert.match(await killed, new RegExp(`process ${pid} is gone`));
      await back;
      const backMs = performance.now() - startedMs;
      await newLine(started, '"committed"');
      const storedMs = performance.now() - startedMs;
      t.diagnostic(
        `round ${round}: back after ${Math.round(backMs)} ms, stored again after ${Math.round(storedMs)} ms`,
      );
      assert.equal((await beside.ended()).code, 0, beside.dump());
      await daemon.until(async () => (await codeOf(`${page}/readyz`)) === 200);
      assert.deepEqual(await runSql(url, 'SELECT 1 AS one'), [{ one: 1 }]);
    }
    const metrics = await (await fetch(`${page}/metrics`)).text();
    assert.match(metrics, /tapekeep_embedded_postgres_phases_total\{phase="lost"\} 3/);
    daemon.kill('SIGTERM');
    assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
    assert.equal(await readPostmaster(started.clusterDir), undefined, 'its owner ends it');
  },
);

test(
  'a backend that outlives the killed server does not keep the next one from starting',
  LIMIT,
  async (t) => {
    const started = await startDaemon(t);
    const sql = await openSql(started.url);
    const [backend] = await sql.run<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    assert.ok(backend !== undefined);
    // It holds the shared memory, and does not see that its parent is gone.
    process.kill(backend.pid, 'SIGSTOP');
    t.after(() => kill(backend.pid, 'SIGKILL'));
    const back = newLine(started, 'embedded Postgres: ready');
    await killServer(started);
    await back;
    await newLine(started, '"committed"');
    await sql.end().catch(() => undefined);
    started.daemon.kill('SIGTERM');
    assert.equal((await started.daemon.ended()).code, 0, started.daemon.dump());
  },
);

test(
  'what a daemon and its server left when both were killed does not stop the next start',
  LIMIT,
  async (t) => {
    const started = await startDaemon(t);
    const { pid } = (await readPostmaster(started.clusterDir)) ?? assert.fail('no server');
    const children = await childrenOf(pid);
    assert.ok(children.length > 3);
    for (const child of children) process.kill(child, 'SIGSTOP');
    t.after(() => children.forEach((child) => void kill(child, 'SIGKILL')));
    started.daemon.kill('SIGKILL');
    await started.daemon.ended();
    await killServer(started);
    const next = new Program(['status'], { cwd: started.cwd });
    t.after(() => next.dispose());
    assert.equal((await next.ended()).code, 0, next.dump());
  },
);

test('a server that cannot be started again ends the daemon, which says why', LIMIT, async (t) => {
  const started = await startDaemon(t);
  const { daemon, clusterDir, page } = started;
  const control = join(clusterDir, 'global/pg_control');
  await rename(control, `${control}.away`);
  const first = newLine(started, 'embedded Postgres: not started');
  await killServer(started);
  await first;
  assert.equal(await codeOf(`${page}/healthz`), 200, 'it still helps itself');
  const ready = await (await fetch(`${page}/readyz`)).text();
  assert.match(
    ready,
    /"database","ok":false,"detail":"the embedded Postgres in \S+ did not start: /,
  );
  assert.deepEqual(await daemon.ended(), { code: 1, signal: null }, daemon.dump());
  assert.match(
    daemon.text('stderr'),
    /the embedded Postgres in .*\/data\/postgres is gone and could not be started again in \d+ tries/,
  );
});

test(
  'a data folder that is moved away leaves no server behind, and goes on in its new place',
  LIMIT,
  async (t) => {
    const { cwd, daemon, clusterDir } = await startDaemon(t);
    const { pid } = (await readPostmaster(clusterDir)) ?? assert.fail('no server');
    await rename(join(cwd, 'data'), join(cwd, 'moved'));
    daemon.kill('SIGTERM');
    await daemon.ended();
    assert.doesNotMatch(daemon.dump(), /ENOENT/);
    assert.equal(isAlive(pid), false, 'the server has ended');
    const next = new Program(['status'], { cwd, env: { TAPEKEEP_DATA_DIR: 'moved' } });
    t.after(() => next.dispose());
    assert.equal((await next.ended()).code, 0, next.dump());
  },
);

test(
  'the server of a data folder that was moved away is the one that ends, not that of a new folder in its place',
  LIMIT,
  async (t) => {
    const { cwd, daemon, clusterDir } = await startDaemon(t);
    const { pid } = (await readPostmaster(clusterDir)) ?? assert.fail('no server');
    await rename(join(cwd, 'data'), join(cwd, 'moved'));
    const other = new Program(START, { cwd, env: { TAPEKEEP_HTTP_PORT: '0' } });
    t.after(() => other.dispose());
    await other.page();
    await other.line((line) => line.startsWith('  database '));
    const { pid: otherPid } = (await readPostmaster(clusterDir)) ?? assert.fail('no other server');
    daemon.kill('SIGTERM');
    await daemon.ended();
    assert.deepEqual([isAlive(pid), isAlive(otherPid)], [false, true]);
    other.kill('SIGTERM');
    assert.equal((await other.ended()).code, 0, other.dump());
  },
);
