import assert from 'node:assert/strict';
import { chmod, readFile, rm, watch, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import pg from 'pg';
import { isAlive } from '../../../src/kernel/processes.js';
import { makeDatabase } from '../../support/postgres/postgres.js';
import { makeTempDir } from '../../support/postgres/postgres-server.js';
import { Program } from '../../support/programs/program.js';

/** A stop ends the program, whatever it is doing, and leaves no server behind. */

const LONGEST_STOP_MS = 10_000;
const START = ['--log-level', 'debug', '--log-format', 'json', 'start'];

async function startIn(t: TestContext, env: Readonly<Record<string, string>> = {}) {
  const cwd = await makeTempDir();
  const daemon = new Program(START, { cwd, env: { TAPEKEEP_HTTP_PORT: '0', ...env } });
  t.after(async () => {
    await daemon.dispose();
    await rm(cwd, { recursive: true, force: true });
  });
  return { cwd, daemon };
}

/** The process id of the server in a data folder; undefined when none is running. */
async function serverIn(cwd: string): Promise<number | undefined> {
  const path = join(cwd, 'data', 'postgres', 'postmaster.pid');
  const pid = Number((await readFile(path, 'utf8').catch(() => '')).split('\n')[0]);
  return pid > 0 && isAlive(pid) ? pid : undefined;
}

/**
 * @param expected the exit code; `as said`: 1 where it says that rows are not stored
 * @returns how long it took, milliseconds
 */
async function stopOf(daemon: Program, expected: 0 | 1 | 'as said' = 0): Promise<number> {
  const startedMs = performance.now();
  daemon.kill('SIGTERM');
  const ended = await daemon.ended();
  const said = daemon.dump().includes('"code":"rows_unstored"') ? 1 : 0;
  const code = expected === 'as said' ? said : expected;
  assert.deepEqual(ended, { code, signal: null }, daemon.dump());
  return performance.now() - startedMs;
}

for (const phase of ['initialising', 'starting', 'ready']) {
  test(`stopped while the embedded server is ${phase}, it ends and so does the server`, async (t) => {
    const { cwd, daemon } = await startIn(t);
    await daemon.line((line) => line.includes(`embedded Postgres: ${phase}`));
    const tookMs = await stopOf(daemon);
    assert.ok(tookMs < LONGEST_STOP_MS, `${tookMs} ms\n${daemon.dump()}`);
    assert.equal(await serverIn(cwd), undefined, daemon.dump());
  });
}

test('it reports to systemd that it is up, alive, and ending', async (t) => {
  const bin = await makeTempDir();
  t.after(() => rm(bin, { recursive: true, force: true }));
  const reports = join(bin, 'reports');
  await writeFile(join(bin, 'systemd-notify'), `#!/bin/sh\necho "$1" >> ${reports}\n`);
  await chmod(join(bin, 'systemd-notify'), 0o755);
  const url = await makeDatabase('empty');
  const changes = watch(bin);
  const { daemon } = await startIn(t, {
    ...{ TAPEKEEP_DATABASE_URL: url, PATH: `${bin}:${process.env.PATH}` },
    ...{ NOTIFY_SOCKET: join(bin, 'socket'), WATCHDOG_USEC: '600000' },
  });
  const reported = async () => (await readFile(reports, 'utf8').catch(() => '')).trim().split('\n');
  for await (const _ of changes) if ((await reported()).length > 4) break;
  await stopOf(daemon);
  const [first, ...rest] = await reported();
  assert.equal(first, 'READY=1');
  assert.equal(rest.at(-1), 'STOPPING=1');
  assert.deepEqual(new Set(rest.slice(0, -1)), new Set(['WATCHDOG=1']));
});

test('stopped while a table is locked, it does not wait, and says what is not stored', async (t) => {
  const url = await makeDatabase('empty');
  const { daemon } = await startIn(t, { TAPEKEEP_DATABASE_URL: url });
  await daemon.line((line) => line.includes('"committed"'));
  const locker = new pg.Client({ connectionString: url });
  await locker.connect();
  t.after(() => locker.end());
  await locker.query('BEGIN; LOCK TABLE coverage');
  await daemon.line((line) => line.includes('commit waits for a lock'));
  const tookMs = await stopOf(daemon, 1);
  assert.ok(tookMs < LONGEST_STOP_MS, `${tookMs} ms\n${daemon.dump()}`);
  const stopped = await daemon.line((line) => line.includes('"msg":"stopped"'));
  const { durationMs } = JSON.parse(stopped) as { durationMs: number };
  assert.ok(durationMs <= tookMs, `${durationMs} ms are more than the stop took: ${tookMs}`);
  assert.match(daemon.dump(), /tapekeep: [\d,]+ rows? that had arrived could not be stored/);
});

test('stopped while its server is frozen, it ends the server the hard way', async (t) => {
  const { cwd, daemon } = await startIn(t);
  await daemon.line((line) => line.includes('"committed"'));
  const server = await serverIn(cwd);
  assert.ok(server !== undefined);
  process.kill(server, 'SIGSTOP');
  const tookMs = await stopOf(daemon, 'as said');
  assert.ok(tookMs < LONGEST_STOP_MS, `${tookMs} ms\n${daemon.dump()}`);
  assert.equal(await serverIn(cwd), undefined, daemon.dump());
});
