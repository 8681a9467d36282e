import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import pg from 'pg';
import { SERIES, SERIES_TABLES, type SeriesTable, streamsOf } from '../../src/model/series.js';
import { migrate } from '../../src/store/index.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import { NOON_S } from '../support/postgres/postgres-rows.js';

const SQL = join(import.meta.dirname, '../../sql');

/** A database as the first migrations left it. */
async function makeOldDatabase(last: number): Promise<string> {
  const url = await makeDatabase('empty');
  await runSql(
    url,
    'CREATE TABLE tapekeep_migration (id serial PRIMARY KEY, name varchar(255), run_on timestamp)',
  );
  const files = (await readdir(SQL)).filter((file) => /^\d{4}_/.test(file)).sort();
  for (const file of files.filter((one) => Number(one.slice(0, 4)) <= last)) {
    await runSql(url, await readFile(join(SQL, file), 'utf8'));
    const name = file.slice(0, -'.sql'.length);
    await runSql(url, 'INSERT INTO tapekeep_migration (name, run_on) VALUES ($1, now())', [name]);
  }
  return url;
}

/** What a daemon of before 0010 held as long as it wrote. */
const EARLIER_LOCK = `SELECT pg_try_advisory_lock(hashtext('tapekeep writer'), 0) AS got`;

async function connected(t: TestContext, connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  t.after(() => client.end());
  return client;
}

test('a daemon of the version before is not migrated beneath', async (t) => {
  const url = await makeOldDatabase(13);
  const earlier = await connected(t, url);
  await earlier.query(`SELECT hold_lock('writer')`);
  await assert.rejects(migrate({ databaseUrl: url }), {
    code: 'writer_lock_held',
    message: /of an earlier version writes to .* server process \d+.*stop it, and start this one/,
  });
  await earlier.query('SELECT pg_advisory_unlock_all()');
  assert.ok((await migrate({ databaseUrl: url })).applied.includes('0015_one_vocabulary'));
});

test('a daemon of an earlier version is not migrated beneath, and does not write beside a new one', async (t) => {
  const url = await makeOldDatabase(7);
  const earlier = await connected(t, url);
  await earlier.query(EARLIER_LOCK);
  await assert.rejects(migrate({ databaseUrl: url }), {
    code: 'writer_lock_held',
    action: 'fatal',
    message: /of an earlier version writes to .* server process \d+.*stop it, and start this one/,
  });
  const names = await runSql(url, `SELECT name FROM tapekeep_migration WHERE name > '0008'`);
  assert.deepEqual(names, []);
  await earlier.query('SELECT pg_advisory_unlock_all()');
  await migrate({ databaseUrl: url });
  const { store } = await openTestStore({ databaseUrl: url });
  await store.acquireWriterLock();
  const { rows } = await earlier.query(EARLIER_LOCK);
  assert.deepEqual(rows, [{ got: false }], 'one that comes back does not write');
});

test('a login that may not write does not keep an archive from being migrated by that lock', async (t) => {
  const url = await makeOldDatabase(7);
  const stranger = await connected(t, await loginAs(url, null));
  await stranger.query(EARLIER_LOCK);
  assert.ok((await migrate({ databaseUrl: url })).applied.includes('0010_locks_and_ledger'));
});

test('old memories of gaps get the words of the list, and are cut where they overlapped', async () => {
  const url = await makeOldDatabase(2);
  await runSql(
    url,
    `INSERT INTO market (name, stock, money, stock_prec, money_prec, fee_prec, min_amount, first_seen_at, last_seen_at)
     VALUES ('A_B', 'A', 'B', 8, 2, 4, 1, 'epoch', 'epoch');
     INSERT INTO stream (kind, market_id) VALUES ('trades', 1);
     INSERT INTO archive (name, base_url, is_sandbox) VALUES ('old', 'http://old', true);
     INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at, attempts, note)
     SELECT 1, 1, tstzrange(to_timestamp(${NOON_S} + from_s), to_timestamp(${NOON_S} + to_s)), state,
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
  assert.deepEqual(await store.offsetModes(), {});
});

test('streams of an earlier version get the one word for their kind, and keep what they cover', async () => {
  const url = await makeOldDatabase(14);
  await runSql(
    url,
    `INSERT INTO archive (name, base_url, is_sandbox) VALUES ('old', 'http://old', true);
     INSERT INTO market (name, stock, money, stock_prec, money_prec, fee_prec, min_amount, first_seen_at, last_seen_at)
     VALUES ('A_B', 'A', 'B', 8, 2, 4, 1, 'epoch', 'epoch');
     INSERT INTO stream (kind, market_id, variant)
     SELECT kind, 1, variant FROM (VALUES ('trades', 0), ('times', 0), ('depth', 0), ('ticker', 0),
       ('kline', 60), ('kline', 3600), ('state', 86400)) s(kind, variant);
     INSERT INTO coverage (stream_id, market_id, span, row_count, evidence, updated_at)
     SELECT stream_id, 1, tstzrange('2026-01-15', '2026-01-16'), 0, '{}', now() FROM stream`,
  );
  await migrate({ databaseUrl: url });
  const kinds = `SELECT kind || coalesce(' ' || nullif(variant, 0), '') AS kind FROM stream
                 JOIN coverage USING (stream_id) ORDER BY stream_id`;
  assert.deepEqual(
    (await runSql<{ kind: string }>(url, kinds)).map(({ kind }) => kind),
    ['trades', 'times', 'depth', 'tickers', 'candles 60', 'candles 3600', 'states 86400'],
  );
  const old = `INSERT INTO stream (kind, market_id) VALUES ('kline', 1)`;
  await assert.rejects(runSql(url, old), /stream_kind_known/);
  const { store } = await openTestStore({ databaseUrl: url });
  const found = await store.ensureStream({ kind: 'candles', marketId: 1, variant: 60 });
  assert.equal(found.streamId, 5, 'no second stream is made beside it');
  const tables = SERIES_TABLES.map((table) => [table, claimedBy(table)]);
  const known = await runSql<{ name: string; kinds: string[] }>(
    url,
    'SELECT t AS name, streams_of(t) AS kinds FROM unnest($1::text[]) AS t',
    [tables.map(([table]) => table)],
  );
  assert.deepEqual(
    known.map(({ name, kinds: words }) => [name, words]),
    tables,
  );
});

test('candles that may have been covered for nothing are asked for once more', async () => {
  const url = await makeOldDatabase(16);
  const covered = async (stream: number, ...spans: [number, number][]) => {
    for (const [fromMin, toMin] of spans) {
      const [from, to] = [fromMin, toMin].map((minute) => new Date((NOON_S + 60 * minute) * 1000));
      await runSql(
        url,
        `INSERT INTO coverage (stream_id, market_id, span, row_count, evidence)
         SELECT stream_id, market_id, tstzrange($2, $3), 0, '{}' FROM stream WHERE stream_id = $1`,
        [stream, from, to],
      );
    }
  };
  await runSql(
    url,
    `INSERT INTO archive (name, base_url, is_sandbox) VALUES ('old', 'http://old', true);
     INSERT INTO market (market_id, name, stock, money, stock_prec, money_prec, fee_prec, min_amount,
                         first_seen_at, last_seen_at)
     SELECT id, name, 'A', 'B', 8, 2, 4, 1, now(), now() FROM (VALUES (1, 'A_B'), (2, 'C_B'), (3, 'D_B')) m(id, name);
     INSERT INTO stream (stream_id, kind, market_id, variant) OVERRIDING SYSTEM VALUE VALUES
       (1, 'trades', 1, 0), (2, 'candles', 1, 60), (3, 'candles', 1, 300), (4, 'candles', 1, 3600),
       (5, 'candles', 1, 86400), (6, 'candles', 2, 60), (7, 'trades', 3, 0), (8, 'candles', 3, 60);
     INSERT INTO partition_policy (table_name, width) VALUES ('kline', 'month');
     INSERT INTO partition_state (table_name, span, state)
     VALUES ('kline', tstzrange(NULL, to_timestamp(${NOON_S + 70 * 60})), 'archived')`,
  );
  // Trades are missing from the middle of a minute on, then for a quiet while, then for long.
  await covered(1, [0, 60.5], [120, 180], [181, 182], [192, 200], [400, 500]);
  for (const stream of [3, 4, 5]) await covered(stream, [-1440, 1440]);
  await covered(2, [-1440, 300], [303, 1440]);
  // No trades are collected of one market, and nothing is missing between those of the other.
  await covered(6, [0, 180]);
  await covered(7, [60, 120]);
  await covered(8, [0, 180]);
  await runSql(
    url,
    `SELECT make_partition('kline', to_timestamp(${NOON_S}));
     INSERT INTO kline (market_id, interval_s, open_at, open, close, high, low, volume, amount, received_at)
     SELECT 1, 60, to_timestamp(${NOON_S} + 60 * minute), 1, 1, 1, 1, 1, 1, now()
     FROM unnest(ARRAY[0, 100, 101, 200, 201]) AS minute;
     INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at)
     SELECT 2, 1, tstzrange(to_timestamp(${NOON_S} + 60 * a), to_timestamp(${NOON_S} + 60 * b)), 'open', reason, now()
     FROM (VALUES (210, 220, 'exchange failed'), (295, 305, 'walk stalled')) g(a, b, reason)`,
  );
  await migrate({ databaseUrl: url });
  const suspect = await runSql(
    url,
    `SELECT stream_id, (extract(epoch FROM lower(span)) - ${NOON_S})::int / 60 AS from_min,
            (extract(epoch FROM upper(span)) - ${NOON_S})::int / 60 AS to_min
     FROM gap WHERE state = 'open' AND reason = 'suspect' ORDER BY stream_id, span`,
  );
  assert.deepEqual(suspect, [
    { stream_id: 2, from_min: 70, to_min: 100 },
    { stream_id: 2, from_min: 102, to_min: 120 },
    { stream_id: 2, from_min: 202, to_min: 295 },
    { stream_id: 2, from_min: 305, to_min: 400 },
    { stream_id: 3, from_min: 200, to_min: 400 },
  ]);
  const { store } = await openTestStore({ databaseUrl: url });
  const { suspects } = await store.fillRequests(NOON_S * 1000);
  assert.deepEqual(suspects.map(({ streamId }) => streamId).sort(), [2, 2, 2, 2, 3]);
});

test('the time until a market was found missing, of which nothing was expected, is given up', async () => {
  const url = await makeOldDatabase(17);
  await runSql(
    url,
    `INSERT INTO archive (name, base_url, is_sandbox) VALUES ('old', 'http://old', true);
     INSERT INTO market (market_id, name, stock, money, stock_prec, money_prec, fee_prec, min_amount,
                         first_seen_at, last_seen_at, delisted_at)
     SELECT id, name, 'A', 'B', 8, 2, 4, 1, at(0), at(300), delisted_at
     FROM (VALUES (1, 'A_B', at(1000)), (2, 'C_B', NULL)) m(id, name, delisted_at);
     INSERT INTO stream (stream_id, kind, market_id, variant, collect_from) OVERRIDING SYSTEM VALUE VALUES
       (1, 'trades', 1, 0, NULL), (2, 'candles', 1, 60, NULL), (3, 'depth', 1, 0, NULL),
       (4, 'times', 1, 0, NULL), (5, 'states', 1, 86400, at(200)), (6, 'candles', 1, 3600, NULL), (7, 'trades', 2, 0, NULL);
     INSERT INTO coverage (stream_id, market_id, span, row_count, evidence)
     SELECT stream_id, market_id, tstzrange(at(0), at(240)), 0, '{}' FROM stream
     WHERE stream_id IN (1, 2, 3, 7);
     INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at)
     VALUES (3, 1, tstzrange(at(240), at(300)), 'unfillable', 'delisted', now())`.replaceAll(
      /\bat\((\d+)\)/g,
      `to_timestamp(${NOON_S} + $1)`,
    ),
  );
  await migrate({ databaseUrl: url });
  const { store } = await openTestStore({ databaseUrl: url });
  const nowMs = (NOON_S + 5000) * 1000;
  const C = { name: 'C_B', stock: 'A', money: 'B', stockPrec: 8, moneyPrec: 2, feePrec: 4 };
  await store.ensureMarkets([{ ...C, minAmount: '1' }], nowMs);
  const gaps = await store.listGaps({ marketIds: [1], limit: 10 }, nowMs);
  const second = (ms: number) => ms / 1000 - NOON_S;
  assert.deepEqual(
    gaps
      .map(({ kind, span: { fromMs, toMs }, state, reason }) =>
        [kind, second(fromMs), second(toMs), state, reason].join(' '),
      )
      .sort(),
    [
      'candles 240 960 unfillable delisted',
      'depth 240 300 unfillable delisted',
      'depth 300 1000 unfillable not observed',
      'states 200 1000 unfillable not observed',
      'trades 240 1000 unfillable delisted',
    ],
  );
  const open = await runSql(url, `SELECT FROM gap WHERE state = 'open'`);
  assert.equal(open.length, 0);
});

test('when markets were away is taken from the notes of what could not be seen then', async () => {
  const url = await makeOldDatabase(19);
  const iso = (second: number) => new Date((NOON_S + second) * 1000).toISOString();
  const note = `the market was on the exchange's list at ${iso(90)}, missing from it at ${iso(100)}, and back at ${iso(200)}: nothing was observed between`;
  const at = (second: number) => `to_timestamp(${NOON_S + second})`;
  const gap = (stream: number, market: number, from: number, to: number, text: string) =>
    `(${stream}, ${market}, tstzrange(${at(from)}, ${at(to)}), 'unfillable', 'delisted', now(), ${text})`;
  await runSql(
    url,
    `INSERT INTO market (market_id, name, stock, money, stock_prec, money_prec, fee_prec, min_amount,
                         first_seen_at, last_seen_at, delisted_at)
     OVERRIDING SYSTEM VALUE
     SELECT id, name, 'X', 'Y', 8, 8, 4, 0, ${at(0)}, ${at(900)}, delisted_at
     FROM (VALUES (1, 'BACK', NULL), (2, 'OLD', NULL), (3, 'GONE', ${at(600)})) m(id, name, delisted_at);
     INSERT INTO stream (kind, market_id, variant) VALUES
       ('depth', 1, 0), ('tickers', 1, 0), ('trades', 1, 0), ('depth', 2, 0), ('states', 2, 60),
       ('tickers', 2, 0), ('depth', 3, 0);
     INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at, note) VALUES
       ${gap(1, 1, 30, 200, `$note$${note}$note$`)}, ${gap(2, 1, 80, 200, `$note$${note}$note$`)},
       ${gap(3, 1, 0, 50, 'NULL')}, ${gap(4, 2, 300, 400, 'NULL')}, ${gap(5, 2, 310, 400, 'NULL')},
       ${gap(6, 2, 310, 403, 'NULL')}, ${gap(7, 3, 500, 600, 'NULL')},
       ${gap(7, 3, 100, 150, `'missing when the market was found delisted, at X'`)}`,
  );
  await migrate({ databaseUrl: url });
  const rows = await runSql<{ id: number; from_s: number; to_s: number }>(
    url,
    `SELECT market_id AS id, (extract(epoch FROM lower(span)) - ${NOON_S})::int AS from_s,
            (extract(epoch FROM upper(span)) - ${NOON_S})::int AS to_s
     FROM market_absence ORDER BY 1, 2`,
  );
  assert.deepEqual(
    rows.map(({ id, from_s, to_s }) => [id, from_s, to_s]),
    [
      [1, 100, 200],
      [2, 310, 400],
    ],
  );
});

/** The streams of a table that lose their claims with its rows; former versions have none. */
const claimedBy = (table: SeriesTable) => (SERIES[table].batch === null ? [] : streamsOf(table));
