import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { migrate } from '../../src/store/index.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import { NOON_S } from '../support/postgres/postgres-rows.js';

const SQL = join(import.meta.dirname, '../../sql');

/** A database as the first two migrations left it. */
async function makeOldDatabase(): Promise<string> {
  const url = await makeDatabase('empty');
  await runSql(
    url,
    'CREATE TABLE tapekeep_migration (id serial PRIMARY KEY, name varchar(255), run_on timestamp)',
  );
  for (const name of ['0001_archive', '0002_accounts']) {
    await runSql(url, await readFile(join(SQL, `${name}.sql`), 'utf8'));
    await runSql(url, 'INSERT INTO tapekeep_migration (name, run_on) VALUES ($1, now())', [name]);
  }
  return url;
}

test('old memories of gaps get the words of the list, and are cut where they overlapped', async () => {
  const url = await makeOldDatabase();
  await runSql(
    url,
    `INSERT INTO stream (kind, market_id) VALUES ('trades', 0);
     INSERT INTO archive (name, base_url, is_sandbox) VALUES ('old', 'http://old', true);
     INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at, attempts, note)
     SELECT 1, 0, tstzrange(to_timestamp(${NOON_S} + from_s), to_timestamp(${NOON_S} + to_s)), state,
            reason, 'epoch', tries, note
     FROM (VALUES
       (0, 100, 'unfillable', 'beyond the history that the exchange still serves', 1, 'first'),
       (20, 30, 'open', 'rows refused by validation', 2, 'second'),
       (50, 60, 'filled', 'rows refused by validation', 3, 'third'),
       (70, 80, 'open', 'no connection', 4, 'swallowed'),
       (69, 81, 'open', 'not observed', 5, 'fifth'),
       (95, 120, 'open', 'no connection', 6, 'sixth')) AS g(from_s, to_s, state, reason, tries, note)`,
  );
  await migrate({ databaseUrl: url });
  const rows = await runSql(
    url,
    `SELECT (extract(epoch FROM lower(span)) - ${NOON_S})::int AS from_s,
            (extract(epoch FROM upper(span)) - ${NOON_S})::int AS to_s, state, reason, attempts, note
     FROM gap ORDER BY 1, state`,
  );
  const first = { state: 'unfillable', reason: 'beyond history', attempts: 1, note: 'first' };
  assert.deepEqual(rows, [
    { from_s: 0, to_s: 20, ...first },
    { from_s: 20, to_s: 30, state: 'open', reason: 'refused rows', attempts: 2, note: 'second' },
    { from_s: 30, to_s: 69, ...first },
    { from_s: 50, to_s: 60, state: 'filled', reason: 'refused rows', attempts: 3, note: 'third' },
    { from_s: 69, to_s: 81, state: 'open', reason: 'not observed', attempts: 5, note: 'fifth' },
    { from_s: 81, to_s: 95, ...first },
    { from_s: 95, to_s: 120, state: 'open', reason: 'no connection', attempts: 6, note: 'sixth' },
  ]);
  const { store } = await openTestStore({ databaseUrl: url });
  assert.deepEqual(await store.sinceModes(), {});
});
