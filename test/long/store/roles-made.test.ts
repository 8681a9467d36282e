import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { startEmbeddedPostgres } from '../../../src/store/index.js';
import { migrate } from '../../../src/store/schema/migrate.js';
import type { RolesOutcome } from '../../../src/store/schema/roles.js';
import {
  makeDatabase,
  openTestStore,
  runSql,
  testPostgres,
  withDatabase,
} from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';
import { trade } from '../../support/postgres/postgres-rows.js';
import {
  asSuperuser,
  makeTempDir,
  quietStoreEvents,
} from '../../support/postgres/postgres-server.js';
import { Program } from '../../support/programs/program.js';

/** How the roles come into being, and who may migrate. */

const REFUSED = { code: '42501' };

test('archives of one server are migrated at the same time', async () => {
  const urls = await Promise.all([1, 2, 3, 4].map(() => makeDatabase('empty')));
  const reports = await Promise.all(
    [...urls, ...urls].map((databaseUrl) => migrate({ databaseUrl })),
  );
  assert.equal(reports.filter(({ applied }) => applied.length > 0).length, 4);
  assert.deepEqual(new Set(reports.map(({ roles }) => roles.note)), new Set([null]));
});

test('rights that somebody changed are put right again, and what is right is left alone', async () => {
  const url = await makeDatabase();
  const again = async () => (await migrate({ databaseUrl: url })).roles.state;
  // A copy of a database is open to every login again.
  assert.equal(await again(), 'granted');
  assert.equal(await again(), 'current');
  await assert.rejects(runSql(await loginAs(url, null), 'SELECT 1'), REFUSED);
  await runSql(url, 'GRANT DELETE ON trade TO tapekeep_writer');
  await runSql(url, 'REVOKE SELECT ON analytics.trades FROM tapekeep_reader');
  assert.equal(await again(), 'granted');
  assert.equal(await again(), 'current');
  const writer = await loginAs(url, 'tapekeep_writer');
  await assert.rejects(runSql(writer, 'DELETE FROM trade'), REFUSED);
  await runSql(await loginAs(url, 'tapekeep_reader'), 'SELECT * FROM analytics.trades');
});

/** A database that belongs to a plain user, as a hosted one does. */
async function makeOwnDatabase(attributes = ''): Promise<string> {
  const { url } = await testPostgres();
  const database = new URL(await makeDatabase('empty')).pathname.slice(1);
  const login = await loginAs(withDatabase(url, database), null, attributes);
  await runSql(url, `ALTER DATABASE ${database} OWNER TO ${new URL(login).username}`);
  return login;
}

test('a user without any right on roles keeps the tables, and grants them all the same', async () => {
  const login = await makeOwnDatabase();
  const { roles, applied } = await migrate({ databaseUrl: login });
  assert.ok(applied.length > 0);
  assert.equal(roles.state, 'granted');
  assert.match(roles.note ?? '', /the tables stay with the user who made them/);
  const writer = await loginAs(login.replace(/.*@/, await adminPrefix()), 'tapekeep_writer');
  const { store } = await openTestStore({ databaseUrl: writer });
  assert.equal((await store.commit({ trades: [trade(1, 5)] })).outcomes.trade.stored, 1);
  await store.stop();
  const again = await migrate({ databaseUrl: login });
  assert.equal(again.roles.state, 'current');
  await runAdvice((await testPostgres()).url, again.roles);
  assert.deepEqual((await migrate({ databaseUrl: login })).roles, {
    state: 'granted',
    note: null,
  });
});

/** Does as an administrator what a note asks for. */
async function runAdvice(adminUrl: string, { note }: Pick<RolesOutcome, 'note'>): Promise<void> {
  const [, sql] = / run "([^"]+)" and /.exec(note ?? '') ?? [];
  assert.ok(sql !== undefined, note ?? 'no note');
  await runSql(adminUrl, sql);
}

/** `postgres://admin:password@` of the test's server. */
async function adminPrefix(): Promise<string> {
  const { url } = await testPostgres();
  return url.slice(0, url.indexOf('@') + 1);
}

test('a member of the owners migrates and makes over what it made', async () => {
  const login = await makeOwnDatabase();
  const { username } = new URL(login);
  const { url } = await testPostgres();
  await runSql(url, `GRANT tapekeep_owner TO ${username}`);
  const { roles } = await migrate({ databaseUrl: login });
  assert.deepEqual(roles, { state: 'granted', note: null });
  const owners = await runSql(
    login,
    `SELECT DISTINCT relowner::regrole::text AS owner FROM pg_class
    WHERE relnamespace IN ('public'::regnamespace, 'analytics'::regnamespace)`,
  );
  assert.deepEqual(owners, [{ owner: 'tapekeep_owner' }]);
  await runSql(login, `SELECT make_partition('trade', '2026-01-15')`);
});

test('whoever is not of the owners is told to let them migrate', async () => {
  const url = await makeDatabase();
  await runSql(url, `DELETE FROM tapekeep_migration WHERE name = '0001_archive'`);
  const writer = await loginAs(url, 'tapekeep_writer');
  await assert.rejects(migrate({ databaseUrl: writer }), {
    code: 'migration_failed',
    action: 'fatal',
    message: /lacks the migration 0001_archive.*as a member of tapekeep_owner/,
  });
});

/** A server without any archive: roles are names of a whole server. */
async function startFreshServer() {
  const dir = await makeTempDir();
  const telemetry = quietStoreEvents();
  const options = { dataDir: join(dir, 'data'), clock: systemClock, telemetry };
  const server = await startEmbeddedPostgres(options);
  const url = await asSuperuser(server.url, join(dir, 'data'));
  const made = ['owner', 'writer', 'reader'].map((name) => `tapekeep_${name}`);
  await runSql(url, `DROP EXTENSION postgres_fdw; DROP ROLE ${made.join(', ')}`);
  return {
    url,
    async stop() {
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

test('several archives of a new server make the roles together', async () => {
  const server = await startFreshServer();
  try {
    const names = ['one', 'two', 'three', 'four'];
    for (const name of names) await runSql(server.url, `CREATE DATABASE ${name}`);
    const reports = await Promise.all(
      names.map((name) => migrate({ databaseUrl: withDatabase(server.url, name) })),
    );
    for (const { roles } of reports) assert.deepEqual(roles, { state: 'granted', note: null });
  } finally {
    await server.stop();
  }
});

test('where roles cannot be made, it is said how, and the archive works without', async () => {
  const server = await startFreshServer();
  try {
    const login = await loginAs(server.url, null);
    const { username } = new URL(login);
    await runSql(server.url, `ALTER DATABASE tapekeep OWNER TO ${username}`);
    const { applied, analytics, roles, archiving } = await migrate({ databaseUrl: login });
    assert.ok(applied.length > 0);
    assert.match(
      archiving ?? '',
      /^nothing can be archived here, .*"CREATE EXTENSION .* postgres_fdw; GRANT USAGE/,
    );
    assert.equal(analytics.state, 'replaced');
    assert.equal(roles.state, 'not_allowed');
    assert.match(roles.note ?? '', /"CREATE ROLE tapekeep_owner; CREATE ROLE tapekeep_writer;/);
    await runSql(server.url, `CREATE DATABASE other OWNER ${username}`);
    const other = withDatabase(login, 'other');
    const env = { TAPEKEEP_DATABASE_URL: other, TAPEKEEP_HTTP_PORT: '0' };
    const daemon = new Program(['--log-format', 'json', 'start'], { env });
    try {
      await daemon.line(
        (line) => line.includes('"roles_unsettled"') && line.includes('CREATE ROLE'),
      );
    } finally {
      await daemon.dispose();
    }
    const { store } = await openTestStore({ databaseUrl: login });
    assert.equal((await store.commit({ trades: [trade(1, 5)] })).outcomes.trade.stored, 1);
    await store.stop();
    // With the right to make roles everything falls into place, without a superuser.
    await runSql(server.url, `ALTER ROLE ${username} CREATEROLE`);
    const later = await migrate({ databaseUrl: login });
    assert.deepEqual(later.roles, { state: 'granted', note: null });
    const [owner] = await runSql(
      login,
      `SELECT relowner::regrole::text AS name FROM pg_class WHERE relname = 'trade_20260115'`,
    );
    assert.deepEqual(owner, { name: 'tapekeep_owner' });
    const reader = await loginAs(server.url, 'tapekeep_reader');
    assert.equal((await runSql(reader, 'SELECT FROM trade')).length, 1);
    assert.deepEqual((await migrate({ databaseUrl: login })).roles.state, 'current');
  } finally {
    await server.stop();
  }
});

test('what an administrator is asked to run is all that is left to do', async () => {
  const server = await startFreshServer();
  try {
    const login = await loginAs(server.url, null);
    await runSql(server.url, `ALTER DATABASE tapekeep OWNER TO ${new URL(login).username}`);
    await runAdvice(server.url, (await migrate({ databaseUrl: login })).roles);
    const { roles, archiving } = await migrate({ databaseUrl: login });
    assert.deepEqual(roles, { state: 'granted', note: null });
    await runAdvice(server.url, { note: archiving });
    assert.equal((await migrate({ databaseUrl: login })).archiving, null);
  } finally {
    await server.stop();
  }
});
