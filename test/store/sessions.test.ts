import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { openArchive } from '../../src/archive/events/archive.js';
import { Past } from '../../src/archive/past.js';
import { systemClock } from '../../src/kernel/clock.js';
import { seededRandom } from '../../src/kernel/random.js';
import { migrate } from '../../src/store/index.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import {
  EVENT_DAY_MS,
  EVENT_SPAN,
  EVENT_START_MS,
  type EventWorld,
  makeEventWorld,
} from '../support/worlds/event-world.js';
import { makeFolder, runExport } from '../support/worlds/export-world.js';

/** What a server, a database or a role sets must change nothing of what is stored and read. */

const OF_THE_DATABASE: Readonly<Record<string, string>> = {
  ...{ datestyle: 'German, DMY', intervalstyle: 'iso_8601', timezone: 'Asia/Kathmandu' },
  ...{ extra_float_digits: '0', bytea_output: 'escape', xmloption: 'document' },
  ...{ array_nulls: 'off', standard_conforming_strings: 'off', backslash_quote: 'off' },
  ...{ escape_string_warning: 'off', quote_all_identifiers: 'on', transform_null_equals: 'on' },
  ...{ default_transaction_isolation: 'serializable', default_transaction_deferrable: 'on' },
  ...{ client_encoding: 'LATIN1', synchronous_commit: 'off', client_min_messages: 'debug5' },
};
const OF_THE_ROLE: Readonly<Record<string, string>> = {
  ...{ extra_float_digits: '-15', lock_timeout: '1', idle_session_timeout: '250' },
  ...{ idle_in_transaction_session_timeout: '50', session_replication_role: 'replica' },
  ...{ row_security: 'on', jit: 'on', 'plpgsql.variable_conflict': 'use_variable' },
  'plpgsql.extra_errors': 'all',
};

/** Sets all of them for new sessions in a database. */
async function makeHostile(url: string): Promise<string> {
  const { pathname, username } = new URL(url);
  const database = pathname.slice(1);
  const set =
    (whose: string) =>
    ([name, value]: [string, string]) =>
      runSql(
        url,
        `ALTER ${whose} SET ${name} = '${value}'`.replace("= 'German, DMY'", '= German, DMY'),
      );
  for (const one of Object.entries(OF_THE_DATABASE)) await set(`DATABASE ${database}`)(one);
  for (const one of Object.entries(OF_THE_ROLE)) {
    await set(`ROLE ${username} IN DATABASE ${database}`)(one);
  }
  const hostile = new URL(url);
  // As PGOPTIONS would.
  hostile.searchParams.set(
    'options',
    '-c extra_float_digits=-15 -c array_nulls=off -c xmlbinary=hex',
  );
  return hostile.href;
}

/** Whatever a user sees of an archive: export, replay, status and query. */
async function seenOf(t: TestContext, { store, streams }: EventWorld) {
  const past = new Past(store, { clock: systemClock, cold: new FolderStorage('/nonexistent') });
  const [fromMs, toMs] = [EVENT_SPAN.from.getTime(), EVENT_SPAN.to.getTime()];
  const span = { fromMs, toMs };
  const folder = await makeFolder(t);
  const files: string[] = [];
  for (const [kind, stream] of [
    ['trades', 'trades'],
    ['depth', 'depth'],
    ['tickers', 'tickers'],
  ] as const) {
    for (const format of ['csv', 'ndjson'] as const) {
      const path = join(folder, `${kind}.${format}`);
      const parts = streams
        .filter((one) => one.kind === stream)
        .map((one) => ({
          market: `M${one.marketId}`,
          marketId: one.marketId,
          stream: one,
          span,
          notes: [],
        }));
      await runExport({ store, kind, parts, format, path });
      files.push(await readFile(path, 'utf8'));
    }
  }
  const replay = [
    await past.trades(1, toMs * 1000, 0, 500),
    await past.candlesOfTrades(1, 60, span, toMs * 1000),
    await past.klines(1, 60, span, 100),
    await past.lastDepth(1, toMs),
    await past.lastState(1, 60, toMs, true),
    await past.updatesAfter(1, 60, { observedAtMs: fromMs, seq: 0 }, toMs, 100),
  ];
  const status = [
    (await store.statusRows(toMs + 60_000)).map((row) => ({ ...row, ageS: 0 })),
    await store.gapTotals(toMs + 60_000),
    await Promise.all(streams.map((one) => store.coveredRanges(one, 10))),
  ];
  const sql = `SELECT max(executed_at) AS at, interval '1 day 2 hours' AS length, 0.1::float8 + 0.2 AS sum,
    1e15::float8 AS big, decode('00ff', 'hex') AS bytes, 'a\\b' AS text, '{1,NULL}'::int[] AS list,
    (NULL = NULL) IS NULL AS is_null, extract(epoch FROM max(executed_at))::float8 AS at_s
    FROM trade`;
  return { files, replay, status, answer: await store.query(sql) };
}

test('settings of the server, the database and the role change nothing of what is stored and read', async (t) => {
  const plain = await makeEventWorld(seededRandom(7));
  const hostileUrl = await makeHostile(await makeDatabase('empty'));
  await migrate({ databaseUrl: hostileUrl });
  const hostile = await makeEventWorld(seededRandom(7), false, hostileUrl);
  const archive = await openArchive({ databaseUrl: hostileUrl });
  t.after(() => archive.close());
  const happened = [];
  for await (const event of archive.events(EVENT_SPAN)) happened.push(event);
  assert.deepEqual(happened, hostile.happened);
  const [expected, seen] = [await seenOf(t, plain), await seenOf(t, hostile)];
  assert.deepEqual(seen.files, expected.files);
  assert.deepEqual(seen.replay, expected.replay);
  assert.deepEqual(seen.status, expected.status);
  assert.deepEqual(seen.answer, expected.answer);
  const day = { fromMs: EVENT_START_MS, toMs: EVENT_START_MS + EVENT_DAY_MS };
  assert.ok((await hostile.store.storedTrades(1, day, 10_000)).length > 10);
});

test('a stronger promise of commits is kept', async () => {
  const url = await makeDatabase();
  const database = new URL(url).pathname.slice(1);
  await runSql(url, `ALTER DATABASE ${database} SET synchronous_commit = remote_apply`);
  const { store } = await openTestStore({ databaseUrl: url });
  assert.deepEqual(await store.query('SHOW synchronous_commit'), [
    { synchronous_commit: 'remote_apply' },
  ]);
});

test('a setting that only an administrator can undo is refused by name', async () => {
  const url = await makeDatabase();
  const login = await loginAs(url, 'tapekeep_writer');
  const { username, pathname } = new URL(login);
  await runSql(
    url,
    `ALTER ROLE ${username} IN DATABASE ${pathname.slice(1)} SET session_replication_role = replica`,
  );
  await assert.rejects(openTestStore({ databaseUrl: login }), {
    code: 'database_login_refused',
    message: /session_replication_role.*let an administrator reset it/,
  });
});

test('a database that is not UTF8 is refused by name', async () => {
  const server = await makeDatabase('empty');
  for (const encoding of ['LATIN1', 'WIN1252', 'SQL_ASCII']) {
    const name = `${new URL(server).pathname.slice(1)}_${encoding.toLowerCase()}`;
    await runSql(
      server,
      `CREATE DATABASE ${name} ENCODING '${encoding}' LOCALE 'C' TEMPLATE template0`,
    );
    const url = new URL(server);
    url.pathname = `/${name}`;
    const refused = {
      code: 'database_encoding',
      message: new RegExp(`has the encoding ${encoding}.*ENCODING 'UTF8' .*TEMPLATE template0`),
    };
    try {
      await assert.rejects(migrate({ databaseUrl: url.href }), refused);
      await assert.rejects(openTestStore({ databaseUrl: url.href }), refused);
    } finally {
      await runSql(server, `DROP DATABASE ${name} WITH (FORCE)`);
    }
  }
});
