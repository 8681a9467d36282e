import assert from 'node:assert/strict';
import test from 'node:test';
import { connectFailure } from '../../src/store/address.js';
import { gate } from '../support/gate.js';
import {
  makeDatabase,
  openTestStore,
  quietStoreEvents,
  runSql,
  testPostgres,
} from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import { trade } from '../support/postgres/postgres-rows.js';

/** The server refuses the login of a store that runs: rows wait for it, as for a server that is away. */

interface Refusal {
  readonly sqlstate: string;
  readonly said: RegExp;
  /** Statements of an administrator, on another database; `$` stands for the name given with them. */
  readonly breaks: string;
  readonly heals: string;
  readonly of: 'login' | 'database';
}

const REFUSALS: Readonly<Record<string, Refusal>> = {
  'the password is changed': {
    ...{ sqlstate: '28P01', said: /password authentication failed/, of: 'login' },
    ...{ breaks: "ALTER ROLE $ PASSWORD 'another'", heals: "ALTER ROLE $ PASSWORD 'test'" },
  },
  'the role may not log in': {
    ...{ sqlstate: '28000', said: /not permitted to log in.*ALTER ROLE/s, of: 'login' },
    ...{ breaks: 'ALTER ROLE $ NOLOGIN', heals: 'ALTER ROLE $ LOGIN' },
  },
  'the right to connect is taken away': {
    ...{
      sqlstate: '42501',
      said: /permission denied for database.*GRANT CONNECT/s,
      of: 'database',
    },
    breaks: 'REVOKE CONNECT ON DATABASE $ FROM PUBLIC, tapekeep_writer',
    heals: 'GRANT CONNECT ON DATABASE $ TO tapekeep_writer',
  },
  'the database is renamed': {
    ...{ sqlstate: '3D000', said: /does not exist/, of: 'database' },
    breaks: 'ALTER DATABASE $ RENAME TO $_away',
    heals: 'ALTER DATABASE $_away RENAME TO $',
  },
};

for (const [name, { sqlstate, said, breaks, heals, of }] of Object.entries(REFUSALS)) {
  test(`${name}: commits wait, and are stored once the login works again`, async () => {
    const url = await makeDatabase();
    const { url: adminUrl } = await testPostgres();
    const database = new URL(url).pathname.slice(1);
    const databaseUrl = await loginAs(url, 'tapekeep_writer');
    const changed = of === 'login' ? new URL(databaseUrl).username : database;
    const change = (sql: string) => runSql(adminUrl, sql.replaceAll('$', changed));
    const failures: { code: string; message: string; willRetry: boolean }[] = [];
    const states: boolean[] = [];
    const { opened: isRefused, open: refused } = gate();
    const telemetry = quietStoreEvents({
      commitFailed: (failure) => {
        failures.push(failure);
        if (failure.code === sqlstate) refused();
      },
      databaseState: ({ up }) => states.push(up),
    });
    const { store } = await openTestStore({ databaseUrl, telemetry, retryCapMs: 50 });
    await store.acquireWriterLock();
    await store.commit({ trades: [trade(1, 1)] });
    const end = 'SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1';
    // An end before it as well: a database in use cannot be renamed.
    await runSql(adminUrl, end, [database]);
    for (let isDone = false; !isDone; ) {
      isDone = await change(breaks).then(
        () => true,
        () => false,
      );
    }
    await runSql(adminUrl, end, [database]);
    const waiting = store.commit({ trades: [trade(2, 2)] });
    const given = waiting.catch((error: Error) => error);
    await isRefused;
    const told = failures.find(({ code }) => code === sqlstate) ?? assert.fail('not told');
    assert.equal(told.willRetry, true);
    assert.match(told.message, said);
    assert.match(told.message, /rows wait.*let it in again, or start again with the right/);
    const refusal = { code: 'database_login_refused', action: 'retry' };
    await assert.rejects(store.query('SELECT 1'), refusal);
    await change(heals);
    assert.ok(!((await given) instanceof Error));
    assert.equal((await store.query('SELECT FROM trade')).length, 2);
    assert.deepEqual(states, [true, false, true]);
    await store.stop();
  });
}

test('a refused login is advised on by what the server says, and never shows the password', () => {
  const at = 'postgres://u:canary@db.example.test/x';
  for (const [code, said, advice] of [
    [
      '28000',
      'no pg_hba.conf entry for host "::1", user "u", no encryption',
      /or one for encrypted .*sslmode/,
    ],
    [
      '28000',
      'no pg_hba.conf entry for host "::1", user "u", SSL encryption',
      /: its pg_hba\.conf has no line that lets in this user, database and address$/,
    ],
    [
      '28000',
      'pg_hba.conf rejects connection for host "::1", user "u", SSL encryption',
      /: its pg_hba\.conf has no line that lets in this user/,
    ],
    ['28000', 'connection requires a valid client certificate', /sslcert=FILE and sslkey=FILE/],
    ['28P01', 'password authentication failed for user "u"', /check the user, the password and/],
    ['3D000', 'database "x" does not exist', /check the user, the password and the database/],
  ] as const) {
    const { message } = connectFailure(Object.assign(new Error(said), { code }), at);
    assert.match(message, advice);
    assert.doesNotMatch(message, /canary/);
  }
});
