import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import type { StreamRef } from '../../src/model/batch.js';
import type { PartitionInfo, Store } from '../../src/store/index.js';
import { inSeconds, spanOf } from '../support/models/model-ledger.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import {
  claim,
  exposeTrades,
  marketOf,
  miscountedDays,
  NOON_S,
  trade,
} from '../support/postgres/postgres-rows.js';

/** Rows that never were trades leave the archive together with what claims them; ids that begin anew. */

const MARKETS = ['A_USDT', 'B_USDT', 'C_USDT'].map((name) => marketOf(name));
const ms = (s: number) => (NOON_S + s) * 1_000;

let store: Store;
let url: string;
let trades: StreamRef;

before(async () => {
  ({ store, url } = await openTestStore({ commitLatencyMs: 0 }, 'file'));
  await store.ensureMarkets(MARKETS, 0);
  trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
});

const timed = (tid: number, s: number) =>
  trade(tid, s, { executedAtUs: (NOON_S + s) * 1_000_000 + 1 });

const spansOf = async (stream: StreamRef) =>
  (await store.coveredRanges(stream, 100)).map((range) => inSeconds(range)).reverse();

test('a row that never was a trade goes to quarantine, with all coverage around it', async () => {
  const rows = Array.from({ length: 60 }, (_, s) => timed(s + 1, s));
  const wrong = timed(1_000_030, 29);
  await store.commit({
    trades: [...rows, wrong],
    claims: [claim(trades, 0, 60)],
  });
  const found = {
    marketId: 1,
    rows: [{ tid: 1_000_030, tradedAtS: NOON_S + 29 }],
    span: spanOf(28, 31),
    note: 'not among the trades of its time',
    atMs: ms(70),
  };
  await exposeTrades(store, found);
  assert.deepEqual(await spansOf(trades), [
    { fromS: 0, toS: 28 },
    { fromS: 31, toS: 60 },
  ]);
  const gaps = await store.listGaps({ marketIds: [1], kinds: ['trades'], limit: 9 }, ms(60));
  assert.deepEqual(
    gaps.map((gap) => [inSeconds(gap), gap.state, gap.reason]),
    [[{ fromS: 28, toS: 31 }, 'open', 'suspect']],
  );
  assert.deepEqual(await miscountedDays(url), []);
  const stored = await store.storedTrades(1, { fromMs: ms(28), toMs: Number.POSITIVE_INFINITY }, 3);
  assert.deepEqual(
    stored.map(({ tid, tradedAtS }) => [tid, tradedAtS - NOON_S]),
    [
      [29, 28],
      [30, 29],
      [31, 30],
    ],
  );
  const [refused] = await runSql<{ payload: string; market: string }>(
    url,
    'SELECT payload, market FROM quarantine ORDER BY quarantine_id DESC LIMIT 1',
  );
  assert.match(refused?.payload ?? '', /1000030/);
  assert.equal(refused?.market, 'A_USDT');
  const counts = await store.inspection.quarantineCounts();
  const { endpoint, reason, kept } = counts[0] ?? assert.fail('it is counted');
  assert.deepEqual([endpoint, reason, kept], ['store:trade', 'exposed by later answers', 1]);
  const [sample] = await store.inspection.quarantined({ reason, limit: 1 });
  assert.equal(sample?.reason, `${reason}: ${found.note}`);
  // Once more changes nothing, and the refetched span closes over it.
  await exposeTrades(store, found);
  await store.commit({ trades: rows.slice(25, 35), claims: [claim(trades, 28, 31)] });
  assert.deepEqual(await spansOf(trades), [{ fromS: 0, toS: 60 }]);
});

test('many rows are exposed in one transaction, and no other row with them', async () => {
  const D = { marketId: 4 };
  await store.ensureMarkets([...MARKETS, marketOf('D_USDT')], 0);
  const stream = await store.ensureStream({ kind: 'trades', variant: 0, ...D });
  const rows = Array.from({ length: 1000 }, (_, s) => ({ ...timed(s + 1, s), ...D }));
  const wrong = rows.map((row) => ({ ...row, tid: row.tid + 1_000_000 }));
  await store.commit({ trades: [...rows, ...wrong], claims: [claim(stream, 0, 1000)] });
  const places = wrong.map(({ tid, tradedAtS }) => ({ tid, tradedAtS })).reverse();
  const how = { span: spanOf(0, 1000), note: 'shown under two ids', atMs: ms(1000) };
  await exposeTrades(store, { ...D, rows: places, ...how });
  const left = await store.storedTrades(4, { fromMs: ms(0), toMs: ms(1000) }, 3000);
  assert.deepEqual(
    left.map(({ tid }) => tid),
    rows.map(({ tid }) => tid),
  );
  assert.deepEqual(await spansOf(stream), []);
  assert.deepEqual(await miscountedDays(url), []);
  await runSql(
    url,
    'DELETE FROM trade WHERE market_id = 4; DELETE FROM rows_by_day WHERE market_id = 4',
  );
});

test('nobody can take a row away that coverage claims', async () => {
  await assert.rejects(
    runSql(url, `SELECT expose_trade(1, to_timestamp(${NOON_S + 40}), 41, 'by hand')`),
    /revoke its coverage first/,
  );
});

test('the same id in a new epoch is another trade, in one batch and in two', async () => {
  const stream = await store.ensureStream({ kind: 'trades', marketId: 2, variant: 0 });
  const of = (tid: number, s: number) => ({ ...trade(tid, s), marketId: 2 });
  const old = [of(1, 0), of(2, 1), of(3, 2)];
  const anew = [of(1, 10), of(2, 11), of(3, 12)];
  const first = await store.commit({
    trades: [...old, ...anew],
    claims: [claim(stream, 0, 13)],
  });
  assert.equal(first.outcomes.trade.stored, 6);
  assert.equal(first.outcomes.trade.conflict, 0);
  const second = await store.commit({ trades: [of(1, 20), of(2, 21)], claims: [] });
  assert.equal(second.outcomes.trade.stored, 2);
  const twice = await store.commit({ trades: [of(5, 30), of(5, 31)], claims: [] });
  assert.deepEqual(
    [twice.outcomes.trade.stored, twice.outcomes.trade.conflict],
    [1, 1],
    'one that is told with the second beside is the same trade',
  );
  assert.deepEqual(await miscountedDays(url), []);
});

test('a row takes back the coverage of its second, wherever the span ends', async () => {
  const C = { marketId: 3 };
  const own = await store.ensureStream({ kind: 'trades', variant: 0, ...C });
  const rows = [...Array(10).keys()].map((s) => ({ ...timed(s + 1, s), ...C }));
  const wrong = { ...timed(700, 8), ...C };
  await store.commit({ trades: [...rows, wrong], claims: [claim(own, 0, 10)] });
  const found = { rows: [{ tid: 700, tradedAtS: NOON_S + 8 }], note: 'no trade', atMs: ms(70) };
  await exposeTrades(store, { ...C, ...found, span: spanOf(4, 5) });
  assert.deepEqual(await spansOf(own), [
    { fromS: 0, toS: 4 },
    { fromS: 9, toS: 10 },
  ]);
  assert.deepEqual(await miscountedDays(url), []);
});

test('an epoch of ids is recorded once', async () => {
  const epoch = {
    ...{ marketId: 2, beginsMs: ms(10), firstId: 1, lastBeforeMs: ms(2), lastIdBefore: 3 },
    ...{ endpoint: 'history', atMs: ms(20) },
  };
  assert.equal(await store.recordIdEpoch(epoch), true);
  assert.equal(await store.recordIdEpoch({ ...epoch, endpoint: 'historyResult' }), false);
});

test('a row of a sealed partition is exposed as well: the partition is reopened for that', async () => {
  const [C, wrong] = [{ marketId: 3 }, { tid: 900, tradedAtS: NOON_S + 5 }];
  const stream = await store.ensureStream({ kind: 'trades', variant: 0, ...C });
  const rows = [...Array(10).keys()].map((s) => ({ ...trade(s + 1, s), ...C }));
  await store.commit({
    trades: [...rows, { ...trade(900, 5), ...C }],
    claims: [claim(stream, 0, 10)],
  });
  const isPlace = ({ table, span }: PartitionInfo) =>
    table === 'trade' && span.fromMs <= NOON_S * 1_000 && NOON_S * 1_000 < span.toMs;
  const place = (await store.sealing.partitions()).find(isPlace);
  assert.ok(place !== undefined);
  const desk = await store.sealing.open(AbortSignal.timeout(60_000));
  assert.equal(await desk.beginSeal(place), true);
  const [counted] = await runSql<{ rows: number }>(
    url,
    `SELECT count(*)::int AS rows FROM ${place.name}`,
  );
  assert.equal(await desk.finishSeal(place, { rows: counted?.rows ?? 0, checksum: 'x' }), true);
  await desk.close();
  await exposeTrades(store, {
    ...C,
    rows: [wrong],
    span: spanOf(4, 7),
    note: 'no trade',
    atMs: ms(70),
  });
  assert.deepEqual(await spansOf(stream), [
    { fromS: 0, toS: 4 },
    { fromS: 7, toS: 10 },
  ]);
  assert.equal((await store.sealing.partitions()).find(isPlace)?.state, 'hot');
});
