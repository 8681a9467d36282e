import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import pg from 'pg';
import { whenDatabaseAnswers } from '../../../src/cli/opening/waiting.js';
import { sleep, systemClock } from '../../../src/kernel/clock.js';
import { childrenOf, signalIfAlive } from '../../../src/store/embedded/processes.js';
import { readPostmaster } from '../../../src/store/embedded/server.js';
import { StoreError, startEmbeddedPostgres } from '../../../src/store/index.js';
import { FakeClock } from '../../support/fake-clock.js';
import { makeDatabase, quietStoreEvents, runSql } from '../../support/postgres/postgres.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import { makeTempDir } from '../../support/postgres/postgres-server.js';
import { Program } from '../../support/programs/program.js';

/** A daemon starts while its database is in trouble: it waits and says so, or ends and says why. */

const LOG = ['--log-level', 'debug', '--log-format', 'json'];
const isWaiting = (line: string) => line.includes('"waiting for the database"');
const hasCommitted = (line: string) => line.includes('"committed"');

function startDaemon(t: TestContext, url: string, env = {}, ...args: string[]): Program {
  const settings = { TAPEKEEP_DATABASE_URL: url, TAPEKEEP_HTTP_PORT: '0', ...env };
  const daemon = new Program([...LOG, 'start', ...args], { env: settings });
  t.after(() => daemon.dispose());
  return daemon;
}

async function openProxy(t: TestContext, target: string) {
  const proxy = new PostgresProxy(target);
  const url = await proxy.start();
  t.after(() => proxy.stop());
  return { proxy, url };
}

async function stopWell(daemon: Program): Promise<void> {
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
}

test('down, then starting up: it waits, says what for, and goes on', async (t) => {
  const target = await makeDatabase('empty');
  const { proxy, url } = await openProxy(t, target);
  proxy.retarget(undefined);
  const daemon = startDaemon(t, url);
  assert.match(await daemon.line(isWaiting), /cannot connect to Postgres at 127\.0\.0\.1:\d+/);
  proxy.beStarting();
  // Told again after ten seconds, with what holds it up then.
  await daemon.line((line) => isWaiting(line) && line.includes('starting up'));
  proxy.retarget(target);
  await daemon.line(hasCommitted);
  await stopWell(daemon);
});

test('a run that is over while it waits says what it waited for', async (t) => {
  const { proxy, url } = await openProxy(t, await makeDatabase('empty'));
  proxy.retarget(undefined);
  const daemon = startDaemon(t, url, {}, '--for', '1s', '--wait-for-database', '1m');
  assert.equal((await daemon.ended()).code, 1, daemon.dump());
  assert.match(
    daemon.lines.stderr.at(-1) ?? '',
    /was over while it waited for the database: cannot connect to Postgres at 127\.0\.0\.1:/,
  );
});

test('the answer to the COMMIT of the migrations is lost: they are found to be done', async (t) => {
  const { proxy, url } = await openProxy(t, await makeDatabase('empty'));
  proxy.cutAfterNextCommit();
  const daemon = startDaemon(t, url);
  await daemon.line(hasCommitted);
  assert.equal(proxy.fired, 1);
  await stopWell(daemon);
});

/** Stops or wakes a server and all of its processes. */
async function signalServer(clusterDir: string, signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
  const { pid } = (await readPostmaster(clusterDir)) ?? assert.fail('no server');
  process.kill(pid, signal);
  // A backend whose client has left meanwhile may end by itself.
  for (const child of await childrenOf(pid)) signalIfAlive(child, signal);
}

test('frozen before and while its tables are made: it goes on when the server does', async (t) => {
  const dir = await makeTempDir();
  const clusterDir = join(dir, 'data/postgres');
  const telemetry = quietStoreEvents();
  const options = { dataDir: join(dir, 'data'), clock: systemClock, telemetry };
  const server = await startEmbeddedPostgres(options);
  t.after(async () => {
    await signalServer(clusterDir, 'SIGCONT');
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  await signalServer(clusterDir, 'SIGSTOP');
  const daemon = startDaemon(t, server.url, { TAPEKEEP_DATABASE_STATEMENT_TIMEOUT: '1s' });
  await daemon.line(isWaiting);
  await signalServer(clusterDir, 'SIGCONT');
  await daemon.line((line) => line.includes('"partition made"'));
  await signalServer(clusterDir, 'SIGSTOP');
  let waits = daemon.lines.stderr.filter(isWaiting).length;
  await daemon.line((line) => isWaiting(line) && --waits < 0);
  await signalServer(clusterDir, 'SIGCONT');
  await daemon.line(hasCommitted);
  await stopWell(daemon);
});

test('what no time can heal is an error at once', async (t) => {
  const url = new URL(await makeDatabase('empty'));
  const wrong = new URL(url);
  wrong.password = 'wrong';
  const unknown = new URL(url);
  unknown.pathname = '/none_of_this_name';
  for (const [refused, said] of [
    [wrong, /password authentication failed.*check the user, the password/],
    [unknown, /"none_of_this_name" does not exist.*the database name/],
  ] as const) {
    const daemon = startDaemon(t, refused.href);
    assert.equal((await daemon.ended()).code, 3, daemon.dump());
    assert.match(daemon.text('stderr'), said);
    assert.equal(daemon.lines.stderr.some(isWaiting), false);
  }
});

test('the wait ends: after its time, or at the first failure where there is none', async (t) => {
  const { proxy, url } = await openProxy(t, await makeDatabase('empty'));
  proxy.retarget(undefined);
  const waiting = startDaemon(t, url, {}, '--wait-for-database', '2s');
  assert.equal((await waiting.ended()).code, 1, waiting.dump());
  assert.match(waiting.text('stderr'), /cannot connect .*; waited 2s for it \(--wait-for-database/);
  assert.equal(waiting.lines.stderr.some(isWaiting), true);
  const hasty = startDaemon(t, url, {}, '--wait-for-database', '0');
  assert.equal((await hasty.ended()).code, 1, hasty.dump());
  assert.equal(hasty.lines.stderr.some(isWaiting), false);
  assert.doesNotMatch(hasty.text('stderr'), /waited/);
});

test('a database that answers and stores nothing is waited for no longer than asked', async (t) => {
  const url = await makeDatabase('empty');
  await runSql(
    url,
    `CREATE FUNCTION full_disk() RETURNS event_trigger LANGUAGE plpgsql AS $$
     BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$`,
  );
  await runSql(
    url,
    'CREATE EVENT TRIGGER full_disk ON ddl_command_start EXECUTE FUNCTION full_disk()',
  );
  // Longer than the pause between two looks at the server, which each find that it answers.
  const daemon = startDaemon(t, url, {}, '--wait-for-database', '11s');
  assert.equal((await daemon.ended()).code, 1, daemon.dump());
  assert.match(daemon.text('stderr'), /could not extend file; waited 11s for it/);
});

/** One try of a start: how long it takes, and the state that the server refuses it with; none: it succeeds. */
interface Try {
  readonly takesMs: number;
  readonly sqlstate?: string;
}

/** Waits a minute for work of such tries, the last of them again and again, in a time that passes at once. */
async function waitForTries(...tries: readonly [Try, ...Try[]]) {
  const databaseUrl = await makeDatabase('empty');
  const clock = new FakeClock();
  const waitedMs: number[] = [];
  const telemetry = {
    ...quietStoreEvents(),
    databaseAwaited: (wait: { waitedMs: number }) => void waitedMs.push(wait.waitedMs),
  };
  const stopping = new AbortController();
  const options = { databaseUrl, clock, telemetry, waitMs: 60_000, signal: stopping.signal };
  let begun = 0;
  const waiting = whenDatabaseAnswers(options, async () => {
    const { takesMs, sqlstate } = tries[begun] ?? tries.at(-1) ?? assert.fail();
    begun += 1;
    await sleep(clock, takesMs);
    if (sqlstate === undefined) return begun;
    throw new StoreError('database_failed', `refused with ${sqlstate}`, {
      ...{ action: 'retry', sqlstate },
    });
  });
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  waiting.then(over, over);
  // Looks ask a real server, whose answers take a time of their own: so each step of the clock takes as long as an answer.
  const server = new pg.Client({ connectionString: databaseUrl });
  await server.connect();
  while (!isOver && clock.monotonicMs() < 600_000) {
    await clock.run(50);
    await server.query('SELECT 1');
  }
  await server.end();
  const endedMs = clock.monotonicMs();
  stopping.abort(new Error('no end'));
  await clock.run(0);
  return { waiting, waitedMs, endedMs };
}

test('work that is refused after longer than two looks ends the wait, too', async () => {
  // A full disk; a lock that somebody holds, or a disk that is slow beyond the longest statement.
  for (const sqlstate of ['53100', '57014']) {
    const { waiting, waitedMs, endedMs } = await waitForTries({ takesMs: 25_000, sqlstate });
    await assert.rejects(waiting, new RegExp(`refused with ${sqlstate}; waited 1m for it`));
    assert.ok(endedMs < 120_000, `${sqlstate}: ${endedMs}`);
    assert.ok(waitedMs.length > 1 && (waitedMs.at(-1) ?? 0) > 25_000, String(waitedMs));
  }
});

test('work that took long before its connection was lost is waited for anew, whatever refused an earlier try', async () => {
  const { waiting } = await waitForTries(
    { takesMs: 0, sqlstate: '53300' },
    { takesMs: 300_000, sqlstate: '57P01' },
    { takesMs: 0 },
  );
  assert.equal(await waiting, 3);
});
