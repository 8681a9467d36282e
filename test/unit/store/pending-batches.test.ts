import assert from 'node:assert/strict';
import test from 'node:test';
import { type CommitResult, NO_OUTCOMES } from '../../../src/model/batch.js';
import { silentStoreEvents } from '../../../src/observe/events.js';
import { PendingBatches } from '../../../src/store/writer/groups.js';
import { newRowCounts, sumOutcomes } from '../../../src/store/writer/series.js';
import { FakeClock } from '../../support/fake-clock.js';
import { trade } from '../../support/postgres/postgres-rows.js';

/** Batches that wait for the writer: how many may, and what one takes along that leaves. */

const RESULT = {} as CommitResult;
const batchOf = (rows: number) => ({
  trades: Array.from({ length: rows }, (_, at) => trade(at, at)),
});
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

function pendingOf(maxBatches: number, maxRows: number) {
  const clock = new FakeClock();
  const limits = { maxBatches, maxRows };
  return new PendingBatches({ limits, telemetry: silentStoreEvents, clock });
}

test('a batch whose signal aborts leaves alone: neither others nor their rows go with it', async () => {
  const pending = pendingOf(10, 100);
  const leaving = new AbortController();
  const first = pending.add(batchOf(2), leaving.signal);
  const second = pending.add(batchOf(3));
  await settle();
  assert.deepEqual([pending.size, pending.rows], [2, 5]);
  leaving.abort(new Error('stopped'));
  await assert.rejects(first, /stopped/);
  assert.deepEqual([pending.size, pending.rows], [1, 3]);
  for (const entry of pending.take(100)) entry.resolve(RESULT);
  assert.equal(await second, RESULT);
  assert.deepEqual([pending.size, pending.rows], [0, 0]);
});

test('the abort of a batch that was taken removes none of those that wait', async () => {
  const pending = pendingOf(10, 100);
  const late = new AbortController();
  const taken = pending.add(batchOf(2), late.signal);
  await settle();
  assert.equal(pending.take(100).length, 1);
  const waiting = pending.add(batchOf(3));
  await settle();
  late.abort(new Error('too late'));
  await assert.rejects(taken, /too late/);
  assert.deepEqual([pending.size, pending.rows], [1, 3]);
  for (const entry of pending.take(100)) entry.resolve(RESULT);
  assert.equal(await waiting, RESULT);
});

test('one batch is taken whatever its rows, then as many as fit, the oldest first', async () => {
  const pending = pendingOf(10, 100);
  for (const rows of [5, 3, 2, 1]) void pending.add(batchOf(rows));
  await settle();
  const sizes = (maxRows: number) => pending.take(maxRows).map(({ rows }) => rows);
  assert.deepEqual([sizes(1), sizes(5), sizes(9)], [[5], [3, 2], [1]]);
});

test('beyond either limit a batch waits for room; a single one is let in at any size', async () => {
  for (const [maxBatches, maxRows] of [
    [2, 100],
    [10, 5],
  ] as const) {
    const pending = pendingOf(maxBatches, maxRows);
    for (const rows of [2, 3, 1]) void pending.add(batchOf(rows));
    await settle();
    assert.equal(pending.size, 2);
    pending.take(1);
    await settle();
    assert.equal(pending.size, 2, 'the third one has come in');
  }
  const small = pendingOf(1, 1);
  void small.add(batchOf(50));
  await settle();
  assert.equal(small.rows, 50);
});

test('one that waits for room leaves when its signal aborts, and all when the store is stopped', async () => {
  const pending = pendingOf(1, 100);
  void pending.add(batchOf(1));
  const leaving = new AbortController();
  const left = pending.add(batchOf(1), leaving.signal);
  const kept = pending.add(batchOf(1));
  await settle();
  leaving.abort(new Error('stopped'));
  await assert.rejects(left, /stopped/);
  pending.close();
  await assert.rejects(kept, /the store is stopped/);
  await assert.rejects(pending.add(batchOf(1)), /the store is stopped/);
  assert.deepEqual([pending.size, pending.isClosed], [1, true]);
});

test('the outcomes of a group are those of its batches together, table by table', () => {
  const counts = (stored: number, duplicate: number) => ({ ...NO_OUTCOMES, stored, duplicate });
  const resultOf = (trades: number, tickers: number): CommitResult => ({
    outcomes: { ...newRowCounts(), trade: counts(trades, 1), ticker: counts(tickers, 0) },
    ranges: [],
  });
  const sums = sumOutcomes([resultOf(2, 1), resultOf(3, 0)]);
  assert.deepEqual(sums.trade, counts(5, 2));
  assert.deepEqual(sums.ticker, counts(1, 0));
  assert.deepEqual(sums.depth, NO_OUTCOMES);
});
