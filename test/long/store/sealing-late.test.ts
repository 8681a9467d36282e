import assert from 'node:assert/strict';
import { truncate } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { filesBelow } from '../../../src/archive/cold/folder.js';
import { openArchive } from '../../../src/cli/opening/database.js';
import { openSession } from '../../../src/cli/opening/session.js';
import type { TradeRow } from '../../../src/model/batch.js';
import { Connection } from '../../../src/store/connection.js';
import { openTestStore, quietStoreEvents, runSql } from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';
import {
  miscountedDays,
  revoke,
  setCollectFrom,
  trade,
} from '../../support/postgres/postgres-rows.js';
import {
  allTrades,
  bringBack,
  DAY_MS,
  FIRST_MS,
  live as liveAll,
  openSealingWorld as open,
  threeDays,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';

const firstS = FIRST_MS / 1000;
const late = (tid: number, atS: number) => ({ ...trade(tid, 0), tradedAtS: firstS + atS });

test('a late row opens a sealed partition, told; a known one does not', async (t) => {
  const world = await open(t);
  const { url } = world;
  await liveAll(world);
  const reopened: string[] = [];
  const telemetry = quietStoreEvents({
    partitionReopened: ({ partition }) => reopened.push(partition),
  });
  const { store } = await openTestStore({ databaseUrl: url, telemetry });
  const again = await store.commit({ trades: threeDays() });
  assert.equal(again.outcomes.trade.duplicate, 240);
  assert.deepEqual(reopened, []);
  const states = async () => (await tradePartitions(store)).map(({ state }) => state);
  assert.deepEqual(await states(), ['sealed', 'sealed', 'sealed']);
  const first = (await tradePartitions(store)).map(({ checksum }) => checksum);

  const more = await store.commit({ trades: [late(900, 30), late(901, 86_430)] });
  assert.equal(more.outcomes.trade.stored, 2);
  assert.deepEqual(reopened, ['trade_20260113', 'trade_20260114']);
  assert.deepEqual(await states(), ['hot', 'hot', 'sealed']);
  assert.deepEqual(await miscountedDays(url), []);
  await liveAll(world);
  assert.deepEqual(await states(), ['sealed', 'sealed', 'sealed']);
  const second = (await tradePartitions(store)).map(({ checksum }) => checksum);
  assert.deepEqual(
    second.map((one, index) => one === first[index]),
    [false, false, true],
  );
  // An exact time that is learned late is a change too.
  const [row] = threeDays().filter(({ executedAtUs, tid }) => executedAtUs === null && tid < 1000);
  assert.ok(row !== undefined);
  const learned = { ...row, executedAtUs: row.tradedAtS * 1_000_000 + 5 };
  assert.equal((await store.commit({ trades: [learned] })).outcomes.trade.updated, 1);
  assert.deepEqual(await states(), ['hot', 'sealed', 'sealed']);
});

test('a sealed partition that somebody else has opened by then is not told a second time', async (t) => {
  const world = await open(t);
  const { url } = world;
  await liveAll(world);
  const reopened: string[] = [];
  const telemetry = quietStoreEvents({
    partitionReopened: ({ partition }) => reopened.push(partition),
  });
  const { store } = await openTestStore({ databaseUrl: url, telemetry });
  const { rows } = Connection.prototype;
  const ask = t.mock.method(
    Connection.prototype,
    'rows',
    async function (this: Connection, ...[sql, values]: Parameters<typeof rows>) {
      if (sql.includes('reopen_partition')) await runSql(url, sql, [...(values ?? [])]);
      return await rows.call(this, sql, values);
    },
  );
  const { outcomes } = await store.commit({ trades: [late(900, 30)] });
  ask.mock.restore();
  assert.equal(outcomes.trade.stored, 1);
  assert.deepEqual(reopened, []);
});

test('rows that come while a partition is being sealed win', async (t) => {
  const world = await open(t);
  const { store } = world;
  const { outcomes } = await liveAll(world, {
    onStep: async (step, partition) => {
      if (step !== 'seal: declare' || partition !== 'trade_20260113') return;
      assert.equal((await store.commit({ trades: [late(900, 30)] })).outcomes.trade.stored, 1);
    },
  });
  assert.deepEqual(
    outcomes.map(({ became }) => became),
    ['kept', 'sealed', 'sealed'],
  );
  assert.match(outcomes[0]?.note ?? '', /rows came/);
});

test('nobody changes a sealed partition behind its back', async (t) => {
  const world = await open(t);
  await liveAll(world);
  const { url } = world;
  for (const sql of [
    'DELETE FROM trade',
    'UPDATE trade SET price = 1',
    'TRUNCATE trade_20260113',
    'INSERT INTO trade SELECT traded_at, tid + 500, executed_at, received_at, market_id, side, price, amount, total FROM trade',
  ]) {
    await assert.rejects(runSql(url, sql), { code: 'TK001' }, sql);
  }
});

test('what is archived takes no rows: known ones are repetitions, others are refused', async (t) => {
  const world = await open(t);
  const { store, url, streams } = world;
  const [stream] = streams;
  assert.ok(stream !== undefined);
  // Half of the first day is not covered, and given up.
  const halfMs = FIRST_MS + DAY_MS / 2;
  await runSql(url, 'UPDATE stream SET collect_from = $1', [new Date(FIRST_MS)]);
  const gap = { fromMs: halfMs, toMs: halfMs + 3_600_000 };
  await revoke(store, stream, gap, { reason: 'suspect', note: '', atMs: FIRST_MS });
  await store.recordGap({
    stream,
    span: gap,
    state: 'unfillable',
    reason: 'beyond history',
    atMs: FIRST_MS,
  });
  const { outcomes } = await liveAll(world, {
    rules: { coldAfterMs: DAY_MS, needsChecks: false },
  });
  assert.equal(outcomes.filter(({ became }) => became === 'archived').length, 3);

  const span = { fromMs: FIRST_MS, toMs: FIRST_MS + 4 * DAY_MS };
  const result = await store.commit({
    trades: [
      ...[...threeDays(), late(950, 12 * 3600 + 60), late(9000, 3 * 86_400 + 5)],
      // Of no time at all: no partition is asked for it.
      { ...late(960, 0), tradedAtS: Number.NaN },
    ],
    claims: [{ stream, span, evidence: {} }],
  });
  const { stored, duplicate, rejected } = result.outcomes.trade;
  assert.deepEqual([stored, duplicate, rejected], [1, 240, 2]);
  assert.equal(result.ranges.length, 1);
  const refused = await runSql<{ reason: string }>(
    url,
    'SELECT reason FROM quarantine ORDER BY reason',
  );
  assert.deepEqual(
    refused.map(({ reason }) => reason),
    ['partition archived', 'time not a whole second'],
  );
  const covered = await runSql<{ from: Date; to: Date }>(
    url,
    'SELECT lower(span) AS from, upper(span) AS to FROM coverage WHERE market_id = 1 ORDER BY 1',
  );
  assert.deepEqual(
    covered.map(({ from, to }) => [from.getTime(), to.getTime()]),
    [
      [FIRST_MS, halfMs],
      [halfMs + 3_600_000, FIRST_MS + 4 * DAY_MS],
    ],
  );
  await assert.rejects(store.makePartitionsAhead(FIRST_MS), {
    code: 'partition_archived',
    action: 'skip',
    message: /tapekeep restore/,
  });
  await bringBack(world);
  assert.deepEqual(await miscountedDays(url), []);
});

test('trades that stand in files just so are repetitions, also where nothing is covered', async (t) => {
  const world = await open(t);
  const { store, url, coldDir, streams } = world;
  const [stream] = streams;
  assert.ok(stream !== undefined);
  await runSql(url, 'UPDATE stream SET collect_from = $1', [new Date(FIRST_MS)]);
  const gap = { fromMs: FIRST_MS, toMs: FIRST_MS + 3_600_000 };
  await revoke(store, stream, gap, { reason: 'suspect', note: '', atMs: FIRST_MS });
  const lost = { state: 'unfillable', reason: 'beyond history', atMs: FIRST_MS } as const;
  await store.recordGap({ stream, span: gap, ...lost });
  const rules = { coldAfterMs: DAY_MS, needsChecks: false };
  const { outcomes } = await liveAll(world, { rules });
  assert.equal(outcomes.filter(({ became }) => became === 'archived').length, 3);

  const session = openSession(
    { logLevel: 'silent' },
    { env: { TAPEKEEP_DATABASE_URL: url, TAPEKEEP_COLD_DIR: coldDir } },
  );
  const again = await openArchive(session, url);
  t.after(() => again.stop());
  const own = threeDays().filter(
    ({ marketId, tradedAtS }) => marketId === 1 && tradedAtS * 1000 < gap.toMs,
  );
  assert.equal(own.length, 30);
  const [first, second, third] = own;
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  const timeless = own.find(({ executedAtUs }) => executedAtUs === null) ?? assert.fail();
  const exact = { ...timeless, executedAtUs: timeless.tradedAtS * 1_000_000 + 5 };
  const others = [{ ...second, price: '2' }, { ...third, tid: 990 }, exact];
  const said = async (trades: readonly TradeRow[]) => {
    const { duplicate, rejected, stored } = (await again.commit({ trades })).outcomes.trade;
    return [duplicate, rejected, stored];
  };
  // Digits are not what counts: files keep numbers.
  assert.deepEqual(await said([{ ...first, amount: '3.000' }, ...own.slice(1)]), [30, 0, 0]);
  for (const other of others) assert.deepEqual(await said([other, first]), [1, 1, 0]);
  const kept = await runSql<{ count: number }>(
    url,
    `SELECT sum(count)::int AS count FROM quarantine WHERE reason = 'partition archived'`,
  );
  assert.deepEqual(kept, [{ count: others.length }]);
  // What cannot be read vouches for nothing.
  for (const path of await filesBelow(coldDir)) {
    if (path.endsWith('.parquet')) await truncate(join(coldDir, path), 10);
  }
  const blind = await openArchive(session, url);
  t.after(() => blind.stop());
  const refused = await blind.commit({ trades: [first] });
  assert.equal(refused.outcomes.trade.rejected, 1);
});

test('older than its retention: rows, ledger and expectation go, and do not come back', async (t) => {
  const world = await open(t);
  const { store, url, streams } = world;
  const [stream] = streams;
  assert.ok(stream !== undefined);
  const day = (n: number) => FIRST_MS + n * DAY_MS;
  // The first is archived, the second hot, when both are given up.
  const first = { isChosen: ({ span }: { span: { fromMs: number } }) => span.fromMs === FIRST_MS };
  await liveAll(world, { ...first, rules: { coldAfterMs: DAY_MS } });
  assert.deepEqual(
    (await tradePartitions(store)).map(({ state }) => state),
    ['archived', 'hot', 'hot'],
  );
  await store.want(stream, { fromMs: day(-2), toMs: day(-1) });
  const gap = { fromMs: day(-2), toMs: day(-1) };
  await store.recordGap({
    stream,
    span: gap,
    state: 'open',
    reason: 'not collected',
    atMs: day(0),
  });
  const nowMs = day(3) + DAY_MS / 2;
  const { outcomes, failures } = await liveAll(world, {
    nowMs,
    rules: { sealAfterMs: null, retentionMs: { trade: DAY_MS } },
  });
  assert.deepEqual(failures, []);
  assert.deepEqual(
    outcomes.map(({ became }) => became),
    ['expired', 'expired'],
  );
  assert.deepEqual(await miscountedDays(url), []);
  assert.equal((await allTrades(url)).length, 80);
  const ledger = await runSql(
    url,
    `SELECT (SELECT count(*)::int FROM coverage WHERE lower(span) < $1) AS covered,
            (SELECT count(*)::int FROM gap) AS gaps, (SELECT count(*)::int FROM wanted) AS wanted,
            (SELECT bool_and(collect_from = $1) FROM stream) AS moved`,
    [new Date(day(2))],
  );
  assert.deepEqual(ledger, [{ covered: 0, gaps: 0, wanted: 0, moved: true }]);
  assert.deepEqual(await store.gaps(stream, day(3)), []);
  const { expired } = await store.fillRequests(nowMs);
  assert.deepEqual(expired, { trades: day(2), candles: null });
  // Pages of a quiet market reach back: what they bring of that time is not stored again.
  const span = { fromMs: day(0), toMs: day(3) };
  const again = await store.commit({
    trades: threeDays(),
    claims: [{ stream, span, evidence: {} }],
  });
  assert.deepEqual([again.outcomes.trade.stored, again.outcomes.trade.duplicate], [0, 240]);
  assert.deepEqual(await miscountedDays(url), []);
  assert.equal((await allTrades(url)).length, 80);
  // Streams made later begin where anything is kept.
  const later = await store.ensureStream({
    kind: 'trades',
    marketId: 2,
    variant: 0,
    collectFromMs: day(0),
  });
  assert.equal(later.collectFromMs, day(2));
  await setCollectFrom(store, later.streamId, day(1));
  assert.equal((await store.ensureStream({ ...later })).collectFromMs, day(2));
});

test('a daemon that only writes can do it all', async (t) => {
  const world = await open(t);
  const before = await allTrades(world.url);
  const writer = await loginAs(world.url, 'tapekeep_writer');
  const { store } = await openTestStore({ databaseUrl: writer });
  const own = { store, coldDir: world.coldDir };
  const sealed = await liveAll(own, { rules: { coldAfterMs: DAY_MS } });
  assert.deepEqual(sealed.failures, []);
  assert.match(sealed.outcomes[0]?.note ?? '', /not frozen/);
  assert.equal(sealed.outcomes.filter(({ became }) => became === 'archived').length, 3);
  await bringBack(own);
  assert.deepEqual(await allTrades(world.url), before);
  await store.commit({ trades: [late(900, 30)] });
  const report = await liveAll(own, {
    rules: { sealAfterMs: null, retentionMs: { trade: DAY_MS } },
  });
  assert.equal(report.outcomes.length, 3);
  const reader = await loginAs(world.url, 'tapekeep_reader');
  for (const call of ["expire_partition('trade', now())", "begin_seal('trade', now())"]) {
    await assert.rejects(runSql(reader, `SELECT ${call}`), { code: '42501' });
  }
});
