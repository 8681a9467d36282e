import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { sleep, systemClock } from '../../../src/kernel/clock.js';
import { blocksOf, readDocument } from '../../support/documents/documents.js';
import { runSql } from '../../support/postgres/postgres.js';
import { claim, NOON_S, revoke, ticker, trade } from '../../support/postgres/postgres-rows.js';
import {
  startQuickPostgres,
  TEMPLATE,
  withDatabase,
} from '../../support/postgres/postgres-server.js';
import { DAY_MS, FIRST_MS, live, openSealingWorld } from '../../support/worlds/sealing-world.js';
import { BTC, openWithStreams } from '../../support/worlds/store-world.js';

/** Logical replication of an archive: what a changed row is known by, and an archive that follows another. */

const WITHOUT_KEY = `
  SELECT c.oid::regclass::text AS name FROM pg_class c
  WHERE (c.relkind = 'r' OR c.relkind = 'p' AND c.relreplident <> 'f') AND c.relpersistence = 'p'
    AND c.relnamespace IN ('public'::regnamespace, 'analytics'::regnamespace)
    AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid)`;

test('every table and every partition has a primary key, and every series a replica identity', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  await store.makePartitionsAhead(FIRST_MS);
  const [{ count }] = (await runSql<{ count: number }>(
    url,
    'SELECT count(*)::int AS count FROM pg_inherits WHERE inhrelid::regclass::text ~ $1',
    ['^[a-z_]+_[0-9]{6,8}$'],
  )) as [{ count: number }];
  assert.ok(count >= 8, `${count} partitions`);
  assert.deepEqual(await runSql(url, WITHOUT_KEY), []);
  const rules = { coldAfterMs: DAY_MS };
  assert.deepEqual((await live(world)).failures, []);
  assert.deepEqual((await live(world, { rules })).failures, []);
  const at = `'trade', to_timestamp(${FIRST_MS / 1000})`;
  await runSql(url, `SELECT begin_restore(${at}); SELECT index_restored(${at})`);
  assert.deepEqual(await runSql(url, WITHOUT_KEY), [], 'nor is there one while it is restored');
});

/** A commit that the server refuses for now is repeated without end. */
const inTime = () => ({ signal: AbortSignal.timeout(20_000) });

test('a publication of all tables refuses nothing that a writer does', async () => {
  const { store, url, trades } = await openWithStreams();
  await runSql(url, 'CREATE PUBLICATION everything FOR ALL TABLES');
  const tickers = await store.ensureStream({ kind: 'tickers', marketId: 1, variant: 0 });
  for (const at of [1, 3]) {
    const claims = [claim(trades, at - 1, at + 1)];
    const rows = { trades: [trade(at, at)], tickers: [ticker(1, at)] };
    await store.commit({ ...rows, claims: [...claims, claim(tickers, 0, at)] }, inTime());
  }
  await store.commit({ claims: [claim(trades, 0, 10)] }, inTime());
  const span = { fromMs: NOON_S * 1_000, toMs: (NOON_S + 2) * 1_000 };
  await revoke(store, trades, span, { reason: 'suspect', note: 'test', atMs: span.toMs });
  await store.ensureMarkets([{ ...BTC, stockPrec: 4 }], (NOON_S + 60) * 1_000);
  const kept = await runSql(url, 'SELECT FROM market_history');
  assert.equal(kept.length, 1);
});

/** A server of its own with the schema of an archive. */
async function makeServer(t: TestContext, settings: Readonly<Record<string, string>> = {}) {
  const server = await startQuickPostgres(settings);
  t.after(() => server.stop());
  return withDatabase(server.url, TEMPLATE);
}

const PAGE = readDocument('docs/guides/keeping-an-archive.md').text;

/** What a reader of either side sees of an archive. */
const SEEN = `
  SELECT (SELECT json_agg(t ORDER BY market_id, traded_at, tid) FROM trade t) AS trades,
         (SELECT json_agg(c ORDER BY coverage_id) FROM coverage c) AS coverage,
         (SELECT json_agg(g ORDER BY gap_id) FROM gap g) AS gaps,
         (SELECT json_agg(p ORDER BY table_name, span) FROM partition_state p) AS partitions,
         (SELECT json_agg(m ORDER BY market_id) FROM market m) AS markets`;
const ALL_COPIED = `SELECT bool_and(srsubstate = 'r') AS yes FROM pg_subscription_rel`;

/** Looks again and again until both are alike: replication tells nobody when it has come so far. */
async function becomesLike<T>(
  read: () => Promise<readonly [actual: T, expected: T]>,
  what: string,
) {
  const deadline = AbortSignal.timeout(60_000);
  for (;;) {
    const [actual, expected] = await read();
    if (isDeepStrictEqual(actual, expected)) return;
    if (deadline.aborted) assert.deepEqual(actual, expected, what);
    await sleep(systemClock, 50, new AbortController().signal);
  }
}

test('an archive is followed by another server, as the guide says', async (t) => {
  const source = await makeServer(t, { wal_level: 'logical' });
  const copy = await makeServer(t);
  const world = await openSealingWorld(t, 10, source);
  const { store } = world;
  await runSql(source, 'DROP SCHEMA cold CASCADE');
  const [publish = ''] = blocksOf(PAGE, 'sql publisher');
  const [prepare = '', subscribe = ''] = blocksOf(PAGE, 'sql subscriber');
  await runSql(source, publish);
  await runSql(copy, prepare);
  const { hostname, port, username, password } = new URL(source);
  const address = `host=${hostname} port=${port} dbname=${TEMPLATE} user=${username} password=${password}`;
  await runSql(copy, subscribe.replace(/host=[^']*/, address));
  await becomesLike(async () => [await runSql(copy, ALL_COPIED), [{ yes: true }]], 'first copy');

  const same = (what: string) =>
    becomesLike(async () => [await runSql(copy, SEEN), await runSql(source, SEEN)] as const, what);
  await same('what there was before');

  const [stream] = world.streams;
  assert.ok(stream !== undefined);
  const day = { fromMs: FIRST_MS + 3 * DAY_MS, toMs: FIRST_MS + 4 * DAY_MS };
  const late = trade(9_000, 0, { tradedAtS: day.fromMs / 1_000 + 5 });
  await store.commit({ trades: [late], claims: [{ stream, span: day, evidence: {} }] });
  await same('a commit into a new partition, whose coverage grows');
  await store.commit({ trades: [{ ...late, executedAtUs: late.tradedAtS * 1_000_000 + 1 }] });
  await same('an exact time that was learned');
  const part = { fromMs: day.toMs - 60_000, toMs: day.toMs };
  await revoke(store, stream, part, { reason: 'suspect', note: 'test', atMs: day.toMs });
  await same('coverage that was revoked');

  // What leaves the database of the source stays in the copy.
  const count = 'SELECT count(*)::int AS rows FROM trade';
  const before = await runSql(copy, count);
  assert.deepEqual((await live(world)).failures, []);
  assert.deepEqual((await live(world, { rules: { coldAfterMs: DAY_MS } })).failures, []);
  const states = 'SELECT table_name, span, state, checksum FROM partition_state ORDER BY 1, 2';
  const both = async () => [await runSql(copy, states), await runSql(source, states)] as const;
  await becomesLike(both, 'partitions that were archived');
  assert.deepEqual(await runSql(copy, count), before);
});
