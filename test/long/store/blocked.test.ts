import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { Connection } from '../../../src/store/connection.js';
import { BlockerWatch } from '../../../src/store/writer/session.js';
import {
  makeDatabase,
  openTestStore,
  quietStoreEvents,
  runSql,
} from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';
import { trade } from '../../support/postgres/postgres-rows.js';
import { openSql } from '../../support/postgres/postgres-server.js';

/** A commit waits behind what somebody else has locked: it is told who that is. */

const LIMIT = { timeout: 60_000 };
/** Under load a look may come too late for the first of them. */
const FAILURES_MAX = 5;

/** A store that writes as `databaseUrl`; `failed` resolves with a failed try that names a holder, or the last. */
function openBlocked(databaseUrl: string, failuresMax = FAILURES_MAX) {
  let found: (message: string) => void = () => undefined;
  const failed = new Promise<string>((resolve) => {
    found = resolve;
  });
  let failures = 0;
  const blocked: string[] = [];
  const telemetry = quietStoreEvents({
    commitFailed: ({ message }) => {
      failures += 1;
      if (message.includes('process') || failures >= failuresMax) found(message);
    },
    commitBlocked: ({ by }) => blocked.push(by),
  });
  const limits = { statementTimeoutMs: 1_000, retryCapMs: 50 };
  return { failed, blocked, opening: openTestStore({ databaseUrl, telemetry, ...limits }) };
}

async function openHolder(t: TestContext, url: string, name: string) {
  const sql = await openSql(url);
  t.after(() => sql.end().catch(() => undefined));
  await sql.run(`SET application_name = '${name}'`);
  const [row] = await sql.run<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  return { sql, pid: row?.pid };
}

test(
  'a table that psql has locked: the failed try and an event name its session',
  LIMIT,
  async (t) => {
    const url = await makeDatabase();
    const { opening, failed, blocked } = openBlocked(url);
    const { store } = await opening;
    await store.commit({ trades: [trade(1, 1)] });
    const { sql, pid } = await openHolder(t, url, 'psql');
    await sql.run('BEGIN');
    await sql.run(
      `LOCK TABLE trade IN ACCESS EXCLUSIVE MODE; SELECT 'a password', $x$that is's$x$ AS ${'long'.repeat(9)}`,
    );
    const waiting = store.commit({ trades: [trade(2, 2)] });
    const message = await failed;
    const user = decodeURIComponent(new URL(url).username);
    const holder = new RegExp(
      `process ${pid} \\(psql, user ${user}, idle in transaction since 20\\S+Z: "LOCK TABLE trade IN ACCESS EXCLUSIVE MODE; SELECT '…', \\$…\\$ AS (long){4}lo …"\\)`,
    );
    assert.match(message, holder);
    assert.match(message, /statement timeout.*a lock.*end its transaction/);
    assert.match(blocked[0] ?? '', holder);
    await sql.run('COMMIT');
    assert.equal((await waiting).outcomes.trade.stored, 1);
    await store.stop();
  },
);

test('who waits for another in turn is told with it, the one to end first', LIMIT, async (t) => {
  const url = await makeDatabase();
  const { opening, failed } = openBlocked(url);
  const { store } = await opening;
  await store.commit({ trades: [trade(1, 1)] });
  const reader = await openHolder(t, url, 'report');
  const alter = await openHolder(t, url, 'psql');
  await reader.sql.run('BEGIN');
  // The server cuts a statement off, here within a text.
  await reader.sql.run(`SELECT count(*), $$a secret as ${'long'.repeat(300)}$$ FROM trade`);
  const altering = alter.sql.run('ALTER TABLE trade ADD COLUMN note text').catch(() => undefined);
  const isWaiting = 'SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = $2';
  while ((await runSql(url, isWaiting, [alter.pid, 'Lock'])).length === 0);
  const waiting = store.commit({ trades: [trade(2, 2)] });
  assert.match(
    await failed,
    new RegExp(
      `process ${reader.pid} \\(report, .*: "SELECT count\\(\\*\\), \\$…\\$"\\); process ${alter.pid} \\(psql, .*: "ALTER TABLE trade ADD COLUMN note text"\\), which waits itself`,
    ),
  );
  await runSql(url, 'SELECT pg_cancel_backend($1)', [alter.pid]);
  await altering;
  await waiting;
  await reader.sql.run('COMMIT');
  await store.stop();
});

test(
  'of sessions of others a login without rights sees no statement, and says so',
  LIMIT,
  async (t) => {
    const url = await makeDatabase();
    const { opening, failed } = openBlocked(await loginAs(url, 'tapekeep_writer'));
    const { store } = await opening;
    await store.commit({ trades: [trade(1, 1)] });
    const { sql, pid } = await openHolder(t, url, 'psql');
    await sql.run('BEGIN');
    await sql.run('LOCK TABLE trade IN ACCESS EXCLUSIVE MODE');
    const waiting = store.commit({ trades: [trade(2, 2)] });
    const message = await failed;
    assert.match(message, new RegExp(`process ${pid} \\(.*pg_read_all_stats`));
    await sql.run('COMMIT');
    await waiting;
    await store.stop();
  },
);

test('a commit that is slow by itself is not said to wait for anybody', LIMIT, async () => {
  const url = await makeDatabase();
  const { opening, failed, blocked } = openBlocked(url, 2);
  const { store } = await opening;
  await runSql(
    url,
    `CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql
       AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
     CREATE TRIGGER dawdle BEFORE INSERT ON trade EXECUTE FUNCTION dawdle()`,
  );
  const waiting = store.commit({ trades: [trade(1, 1)] });
  assert.doesNotMatch(await failed, /lock/);
  assert.deepEqual(blocked, []);
  await runSql(url, 'DROP TRIGGER dawdle ON trade');
  assert.equal((await waiting).outcomes.trade.stored, 1);
  await store.stop();
});

/** One look at what blocks a session, to its end. The try that it belongs to may be over by then. */
async function lookAt(
  t: TestContext,
  url: string,
  pid: number,
  isOver: boolean,
): Promise<string[]> {
  const blocked: string[] = [];
  const { close } = Connection.prototype;
  const ended = new Promise<void>((resolve) => {
    const closing = t.mock.method(Connection.prototype, 'close', async function (this: Connection) {
      closing.mock.restore();
      await close.call(this);
      resolve();
    });
  });
  let look = () => {};
  const hold: typeof systemClock.after = (_, callback) => {
    look = callback;
    return () => {};
  };
  const clock = { ...systemClock, after: hold };
  const limits = { connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 };
  const telemetry = quietStoreEvents({ commitBlocked: ({ by }) => blocked.push(by) });
  const watch = new BlockerWatch({ databaseUrl: url, clock, ...limits }, telemetry, pid);
  // Only its own timer is held: its connection has others.
  clock.after = systemClock.after;
  look();
  if (isOver) watch[Symbol.dispose]();
  await ended;
  return blocked;
}

test('a look that comes back when its try is over names nobody', LIMIT, async (t) => {
  const url = await makeDatabase();
  const holder = await openHolder(t, url, 'psql');
  const { sql, pid = 0 } = await openHolder(t, url, 'waiter');
  await holder.sql.run('BEGIN; LOCK TABLE trade IN ACCESS EXCLUSIVE MODE');
  const waiting = sql.run('SELECT count(*) FROM trade');
  const isWaiting = 'SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = $2';
  while ((await runSql(url, isWaiting, [pid, 'Lock'])).length === 0);
  assert.deepEqual(await lookAt(t, url, pid, true), []);
  assert.match((await lookAt(t, url, pid, false)).join(), /psql/);
  await holder.sql.run('COMMIT');
  await waiting;
});

test('a worker of the server itself is named by what it does: it has no user', LIMIT, async (t) => {
  const url = await makeDatabase();
  const query = 'autovacuum: VACUUM public.trade (to prevent wraparound)';
  const worker = { pid: 7, user: null, application: '', state: 'active', query, isWaiting: false };
  const { rows } = Connection.prototype;
  t.mock.method(
    Connection.prototype,
    'rows',
    async function (this: Connection, ...[sql, values]: Parameters<typeof rows>) {
      if (sql.includes('pg_blocking_pids')) return [{ ...worker, since: '2026-01-15T12:00:00Z' }];
      return await rows.call(this, sql, values);
    },
  );
  assert.deepEqual(await lookAt(t, url, 1, false), [
    `process 7 (active since 2026-01-15T12:00:00Z: "${query}")`,
  ]);
});
