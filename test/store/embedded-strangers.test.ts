import assert from 'node:assert/strict';
import { watch, writeFileSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { readPostmaster } from '../../src/store/embedded/server.js';
import { findEmbeddedPostgres, startEmbeddedPostgres } from '../../src/store/index.js';
import { gate } from '../support/gate.js';
import {
  makeTempDir,
  openSql,
  quietStoreEvents,
  runSql,
} from '../support/postgres/postgres-server.js';

/** What a loss of power leaves behind, when its process ids and ports belong to others by now. */

/** A start that waits for a stranger is the fault that is looked for. */
const START_MS = 5_000;

async function start(t: TestContext, dataDir: string, phases: string[] = []) {
  const { opened: again, open: onReady } = gate();
  const server = await startEmbeddedPostgres({
    ...{ dataDir, clock: systemClock, startTimeoutMs: START_MS },
    telemetry: quietStoreEvents({
      embeddedPostgres({ phase, detail = '' }) {
        phases.push(`${phase} ${detail}`.trim());
        if (detail.endsWith(', again')) onReady();
      },
    }),
  });
  t.after(() => server.stop());
  return { ...server, again };
}

async function folder(t: TestContext): Promise<string> {
  const dir = await makeTempDir();
  t.after(() => rm(dir, { recursive: true, force: true }));
  return join(dir, 'data');
}

/** Another Postgres that lives, with its `postmaster.pid`. */
async function startOther(t: TestContext) {
  const dataDir = await folder(t);
  const { url } = await start(t, dataDir);
  const clusterDir = join(dataDir, 'postgres');
  const { pid, port } = (await readPostmaster(clusterDir)) ?? assert.fail('no server');
  const lines = (await readFile(join(clusterDir, 'postmaster.pid'), 'utf8')).split('\n');
  const lives = async (when: string) => {
    const rows = await runSql(url, 'SELECT pg_postmaster_start_time()::text AS at');
    assert.equal((await readPostmaster(clusterDir))?.pid, pid, when);
    return rows;
  };
  const before = await lives('at first');
  return {
    ...{ pid, port, lines, url },
    stillLives: async (when: string) => assert.deepEqual(await lives(when), before, when),
  };
}

test('another server behind the id of postmaster.pid is not waited for, taken over or ended', async (t) => {
  const other = await startOther(t);
  const dataDir = await folder(t);
  const first = await start(t, dataDir);
  await runSql(first.url, 'CREATE TABLE kept AS SELECT 1 AS one');
  await first.stop();
  const pidFile = join(dataDir, 'postgres/postmaster.pid');
  const named = (port: number) =>
    [other.pid, join(dataDir, 'postgres'), other.lines[2], port, '', '127.0.0.1', ''].join('\n');
  for (const [what, text] of [
    ['its port as well', named(other.port)],
    ['a port of nobody', named(1)],
    ['no port yet', `${other.pid}\n`],
    ['a copy of its file', other.lines.join('\n')],
  ] as const) {
    await writeFile(pidFile, text);
    assert.equal(await findEmbeddedPostgres(dataDir, systemClock), undefined, what);
    const phases: string[] = [];
    const server = await start(t, dataDir, phases);
    assert.deepEqual(await runSql(server.url, 'SELECT one FROM kept'), [{ one: 1 }], what);
    assert.equal(
      phases.some((phase) => /waiting|taken over/.test(phase)),
      false,
      phases.join('; '),
    );
    await other.stillLives(`${what}: started`);
    await server.stop();
    await other.stillLives(`${what}: stopped`);
  }
});

test('a start that is given up ends no other server', async (t) => {
  const other = await startOther(t);
  const dataDir = await folder(t);
  await (await start(t, dataDir)).stop();
  await writeFile(join(dataDir, 'postgres/postmaster.pid'), other.lines.join('\n'));
  const stopping = new AbortController();
  const changes = watch(dataDir, () => stopping.abort(new Error('given up')));
  t.after(() => changes.close());
  const given = startEmbeddedPostgres({
    ...{ dataDir, clock: systemClock, startTimeoutMs: START_MS, signal: stopping.signal },
    telemetry: quietStoreEvents(),
  });
  await assert.rejects(given, /given up/);
  await other.stillLives('given up');
});

test('the id of a server that was killed, another server by now, is not ended at the stop', async (t) => {
  const other = await startOther(t);
  const dataDir = await folder(t);
  const server = await start(t, dataDir);
  const clusterDir = join(dataDir, 'postgres');
  const { pid } = (await readPostmaster(clusterDir)) ?? assert.fail('no server');
  process.kill(pid, 'SIGKILL');
  writeFileSync(join(clusterDir, 'postmaster.pid'), other.lines.join('\n'));
  // Something must keep this process alive meanwhile: the server does not.
  const kept = await openSql(other.url);
  await server.again;
  await kept.end();
  await other.stillLives('restarted');
  await server.stop();
  await other.stillLives('stopped');
});

test('a port and a lock left behind that are of others now stand in no way', async (t) => {
  const other = await startOther(t);
  const dataDir = await folder(t);
  const first = await start(t, dataDir);
  const { pid } = (await readPostmaster(join(dataDir, 'postgres'))) ?? assert.fail('no server');
  await first.stop();
  await writeFile(join(dataDir, 'postgres.port'), `${other.port}\n`);
  await writeFile(
    join(dataDir, 'postgres/postmaster.pid'),
    [pid, join(dataDir, 'postgres'), other.lines[2], other.port, '', '127.0.0.1', ''].join('\n'),
  );
  // Of the boot before; the id is that of the other server now.
  await writeFile(
    join(dataDir, 'postgres.lock'),
    `${other.pid} ${hostname()} 00000000-0000-0000-0000-000000000000/1 word\n`,
  );
  const phases: string[] = [];
  const server = await start(t, dataDir, phases);
  assert.notEqual(new URL(server.url).port, String(other.port));
  assert.equal(
    phases.some((phase) => phase.startsWith('waiting')),
    false,
    phases.join('; '),
  );
  await server.stop();
  await other.stillLives('stopped');
});
