import assert from 'node:assert/strict';
import test from 'node:test';
import type { CheckRow } from '../../src/model/check-results.js';
import { migrate } from '../../src/store/schema/migrate.js';
import { OWNED_FUNCTIONS, OWNED_TYPES, TABLE_RIGHTS } from '../../src/store/schema/roles.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import {
  claim,
  marketOf,
  miscountedDays,
  NOON_S,
  revoke,
  setCollectFrom,
  ticker,
  trade,
} from '../support/postgres/postgres-rows.js';

const REFUSED = { code: '42501' };
const BTC = marketOf('BTC_USD');
const HOUR_S = 3600;

test('every table, function and type of the archive has a decision on its rights', async () => {
  const url = await makeDatabase();
  const names = async (sql: string) =>
    (await runSql<{ name: string }>(url, sql)).map(({ name }) => name).sort();
  const tables = await names(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace
       AND relkind IN ('r', 'p') AND NOT relispartition`,
  );
  assert.deepEqual(tables, Object.keys(TABLE_RIGHTS).sort());
  const functions = await names(
    `SELECT proname AS name FROM pg_proc WHERE pronamespace = 'public'::regnamespace
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = pg_proc.oid AND d.deptype = 'e')`,
  );
  assert.deepEqual(functions, [...OWNED_FUNCTIONS].sort());
  // The caller's search_path must not decide what the owner's rights are used on.
  const open = await names(
    `SELECT proname AS name FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef
       AND (proacl IS NULL OR has_function_privilege('public', oid, 'EXECUTE') OR NOT proconfig::text LIKE '%search_path%')`,
  );
  assert.deepEqual(open, []);
  const types = await names(
    `SELECT typname AS name FROM pg_type
     WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')`,
  );
  assert.deepEqual(types, [...OWNED_TYPES].sort());
});

test('the owner of everything is a group that cannot log in', async () => {
  const url = await makeDatabase();
  await runSql(url, `SELECT make_partition('trade', '2026-01-15')`);
  const strangers = await runSql(
    url,
    `SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'S')
       AND relnamespace IN ('public'::regnamespace, 'analytics'::regnamespace)
       AND relowner <> 'tapekeep_owner'::regrole`,
  );
  assert.deepEqual(strangers, []);
  const roles = await runSql(
    url,
    `SELECT rolname FROM pg_roles WHERE rolname LIKE 'tapekeep\\_%'
       AND NOT (rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls) ORDER BY 1`,
  );
  assert.deepEqual(
    roles.map((row) => Object.values(row)[0]),
    ['tapekeep_owner', 'tapekeep_reader', 'tapekeep_writer'],
  );
});

test('a daemon that only writes does everything it does', async () => {
  const url = await makeDatabase();
  const writer = await loginAs(url, 'tapekeep_writer');
  assert.deepEqual((await migrate({ databaseUrl: writer })).applied, []);
  const { store } = await openTestStore({ databaseUrl: writer });
  await store.claimArchive({ name: 'x', baseUrl: 'http://x', isSandbox: true, identity: null });
  await store.acquireWriterLock();
  await store.ensureMarkets([BTC], NOON_S * 1000);
  await store.ensureMarkets([{ ...BTC, moneyPrec: 4 }], NOON_S * 1000 + 60_000);
  const stream = (kind: 'trades' | 'candles' | 'depth' | 'states', variant = 0) =>
    store.ensureStream({ kind, marketId: 1, variant });
  const [trades, klines] = [await stream('trades'), await stream('candles', HOUR_S)];
  const states = await stream('states', 60);
  await setCollectFrom(store, trades.streamId, (NOON_S - HOUR_S) * 1000);
  await store.makePartitionsAhead(NOON_S * 1000);
  const figures = { open: '100.5', close: '100.5', high: '100.5', low: '100.5' };
  const candle = { marketId: 1, intervalS: HOUR_S, openAtS: NOON_S, ...figures, volume: '2' };
  const sums = { quoteVolume: '201', receivedAtMs: (NOON_S + 2 * HOUR_S) * 1000 };
  const session = await store.openSession(states, NOON_S * 1000);
  const observed = { marketId: 1, observedAtMs: NOON_S * 1000, receivedAtMs: NOON_S * 1000 };
  const levels = { bidPrices: ['1'], bidAmounts: ['1'], askPrices: ['2'], askAmounts: ['1'] };
  await store.commit({
    trades: [trade(1, 5)],
    klines: [{ ...candle, ...sums }],
    tickers: [ticker(1, 5)],
    depths: [{ ...observed, ...levels }],
    states: [
      {
        ...{ ...observed, ...figures, periodS: 60, seq: 0, origin: 'query', sessionId: session },
        ...{ last: '1', quoteVolume: '1', volume: '1', change: null },
      },
    ],
    claims: [claim(trades, 0, HOUR_S), claim(klines, 0, 2 * HOUR_S)],
  });
  // Overlap, a conflict, an exact time, a corrected candle, a row that is refused.
  const exact = { executedAtUs: (NOON_S + 5) * 1e6 + 250_000 };
  const mixed = await store.commit({
    trades: [trade(1, 5, exact), trade(2, 6), trade(3, -6e8)],
    klines: [{ ...candle, ...sums, volume: '3', receivedAtMs: sums.receivedAtMs + 1 }],
  });
  const { stored, updated, rejected } = mixed.outcomes.trade;
  assert.deepEqual([stored, updated, rejected, mixed.outcomes.kline.updated], [1, 1, 1, 1]);
  assert.equal(
    (await store.commit({ trades: [trade(2, 6, { price: '7' })] })).outcomes.trade.conflict,
    1,
  );

  const span = (fromS: number, toS: number) => ({
    fromMs: (NOON_S + fromS) * 1000,
    toMs: (NOON_S + toS) * 1000,
  });
  const atMs = NOON_S * 1000;
  await store.recordGap({
    stream: trades,
    span: span(-60, 0),
    state: 'open',
    reason: 'walk stalled',
    atMs,
  });
  const listed = await store.listGaps({ limit: 10 }, atMs);
  await store.inspection.note(listed, 'looked at', atMs);
  await store.retryGaps({ limit: 10 }, atMs, true);
  await store.want(trades, span(-9000, -8000));
  await revoke(store, trades, span(600, 900), { reason: 'suspect', note: 'test', atMs });
  await store.commit({ claims: [claim(trades, 600, 900)] });
  assert.ok((await store.closeFilledGaps()) > 0);
  await store.touchSession(session, atMs + 1);
  await store.closeSession(session, { atMs: atMs + 2, code: 1000, reason: 'test' });
  await store.closeOrphanSessions();
  await store.rememberOffsetMode('historyResult', 'skip');
  const [target] = await store.checks.targets();
  assert.equal(target?.marketId, 1);
  await runVerdicts(url, store);
  assert.deepEqual(await miscountedDays(url), []);
  await store.makePartitionsAhead(span(9 * 86_400, 9 * 86_400).fromMs);
  const [made] = await runSql(url, `SELECT to_regclass('trade_20260124') IS NOT NULL AS is_there`);
  assert.deepEqual(made, { is_there: true });
  await store.stop();
});

/** All that is written about verdicts. */
async function runVerdicts(url: string, store: Awaited<ReturnType<typeof openTestStore>>['store']) {
  const fromMs = NOON_S * 1000;
  const mismatch: CheckRow = {
    ...{ span: { fromMs, toMs: fromMs + HOUR_S * 1000 }, outcome: 'mismatch' as const, tries: 0 },
    differences: [{ figure: 'volume', trades: '1', candle: '2' }],
    nextTryAtMs: fromMs,
    isExact: false,
  };
  await store.checks.record(1, HOUR_S, [mismatch]);
  await store.checks.record(1, HOUR_S, [{ ...mismatch, tries: 1, nextTryAtMs: null }]);
  await store.checks.applySuspects(fromMs, 100);
  assert.deepEqual(await runSql(url, 'SELECT FROM candle_recheck'), []);
}

test('the writer cannot make, change or empty a table', async () => {
  const url = await makeDatabase();
  await runSql(url, `SELECT make_partition('trade', '2026-01-15')`);
  const writer = await loginAs(url, 'tapekeep_writer');
  const refused = [
    'DROP TABLE trade',
    'DROP TABLE trade_20260115',
    'CREATE TABLE mine (x int)',
    'CREATE TABLE analytics.mine (x int)',
    'TRUNCATE trade',
    'TRUNCATE coverage',
    'ALTER TABLE trade ADD COLUMN x int',
    'ALTER TABLE trade DETACH PARTITION trade_20260115',
    'CREATE INDEX ON trade (price)',
    'DELETE FROM trade',
    'DELETE FROM trade_20260115',
    'UPDATE trade SET price = 1',
    'DELETE FROM kline_revision',
    'DELETE FROM market',
    `UPDATE partition_policy SET width = 'month'`,
    'DELETE FROM partition_state',
    'DELETE FROM tapekeep_migration',
    'DROP FUNCTION make_partition',
    'CREATE OR REPLACE VIEW analytics.markets AS SELECT 1 AS one',
    'SET ROLE tapekeep_owner',
  ];
  for (const sql of refused) await assert.rejects(runSql(writer, sql), REFUSED, sql);
});

test('the reader reads series, ledger and analytics, and nothing else', async () => {
  const url = await makeDatabase();
  await runSql(url, `SELECT make_partition('trade', '2026-01-15')`);
  const reader = await loginAs(url, 'tapekeep_reader');
  const readable = Object.entries(TABLE_RIGHTS).filter(
    ([, { reader: rights }]) => rights.length > 0,
  );
  for (const [table] of readable) {
    await runSql(reader, `SELECT * FROM ${table}`);
    await assert.rejects(runSql(reader, `INSERT INTO ${table} DEFAULT VALUES`), REFUSED, table);
    await assert.rejects(runSql(reader, `DELETE FROM ${table}`), REFUSED, table);
    await assert.rejects(runSql(reader, `TRUNCATE ${table}`), REFUSED, table);
  }
  await runSql(reader, 'SELECT * FROM trade_20260115');
  const { store } = await openTestStore({ databaseUrl: reader });
  assert.deepEqual(await store.query('SELECT * FROM analytics.trades'), []);
  assert.deepEqual(await store.statusRows(NOON_S * 1000), []);
  await assert.rejects(store.ensureMarkets([BTC], NOON_S * 1000), { action: 'fatal' });
  await store.stop();
  const refused = [
    'SELECT * FROM quarantine',
    'UPDATE trade SET price = 1',
    'UPDATE market SET name = name',
    `SELECT make_partition('trade', '2026-02-01')`,
    'CREATE TABLE mine (x int)',
    'DROP VIEW analytics.trades',
  ];
  for (const sql of refused) await assert.rejects(runSql(reader, sql), REFUSED, sql);
});

test('the function that makes partitions is not led astray', async () => {
  const url = await makeDatabase();
  const writer = await loginAs(url, 'tapekeep_writer');
  const stranger = await loginAs(url, null);
  await assert.rejects(runSql(stranger, `SELECT make_partition('trade', now())`), REFUSED);
  await assert.rejects(runSql(writer, `SELECT make_partition('market', now())`), { code: 'P0002' });
  // Temporary tables of the same names, as a caller may make them, are not looked at.
  const traps = `
    CREATE TEMP TABLE partition_policy (table_name text, width text);
    INSERT INTO partition_policy VALUES ('trade', 'century');
    CREATE TEMP TABLE partition_state (LIKE public.partition_state);
    SET search_path = pg_temp, public;
    CREATE TEMP TABLE answers AS SELECT public.make_partition('trade', '2026-01-15') AS made`;
  await runSql(writer, traps);
  const kept = await runSql(url, 'SELECT table_name, state FROM partition_state');
  assert.deepEqual(kept, [{ table_name: 'trade', state: 'hot' }]);
  const rights = await runSql(
    url,
    `SELECT has_table_privilege('tapekeep_reader', 'trade_20260115', 'SELECT') AS reads,
            has_table_privilege('tapekeep_writer', 'trade_20260115', 'INSERT') AS writes,
            has_table_privilege('tapekeep_writer', 'trade_20260115', 'DELETE') AS deletes`,
  );
  assert.deepEqual(rights, [{ reads: true, writes: true, deletes: false }]);
});
