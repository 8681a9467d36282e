import assert from 'node:assert/strict';
import test from 'node:test';
import type { CoveredRange } from '../../../src/model/batch.js';
import { CoveredRangeList } from '../../../src/model/covered-ranges.js';
import { BlockedEdges } from '../../../src/model/edges.js';

const range = (fromMs: number, toMs: number): CoveredRange => ({
  streamId: 1,
  span: { fromMs, toMs },
});
const fromsOf = (list: CoveredRangeList) => list.spans.map(({ fromMs }) => fromMs);

test('ranges are kept newest first, and one that grew replaces those that it swallowed', () => {
  const list = new CoveredRangeList([range(10, 20), range(50, 60), range(30, 40)]);
  assert.deepEqual(fromsOf(list), [50, 30, 10]);
  assert.equal(list.top?.span.fromMs, 50);
  list.absorb(range(30, 60));
  assert.deepEqual(fromsOf(list), [30, 10]);
  list.absorb(range(20, 25));
  assert.deepEqual(fromsOf(list), [30, 20], 'ranges that touch are one in the ledger');
  list.absorb(range(10, 20));
  assert.deepEqual(fromsOf(list), [30, 10], 'the ledger no longer has the one above');
});

test('a span that is cut out leaves what lies on both sides of it', () => {
  const list = new CoveredRangeList([range(10, 20), range(30, 60), range(70, 80)]);
  list.cut({ fromMs: 15, toMs: 40 });
  assert.deepEqual(list.spans, [
    { fromMs: 70, toMs: 80 },
    { fromMs: 40, toMs: 60 },
    { fromMs: 10, toMs: 15 },
  ]);
  list.cut({ fromMs: 45, toMs: 50 });
  assert.deepEqual(fromsOf(list), [70, 50, 40, 10]);
});

test('beyond its limit the oldest ranges are forgotten', () => {
  const list = new CoveredRangeList([range(10, 20), range(30, 40), range(50, 60)], 2);
  assert.deepEqual(fromsOf(list), [50, 30]);
  list.absorb(range(70, 80));
  assert.deepEqual(fromsOf(list), [70, 50]);
  list.replace([range(70, 80)]);
  assert.equal(list.isCut, false, 'all that there is');
  list.replace([range(70, 80), range(50, 60)]);
  assert.equal(list.isCut, true, 'there may be more');
});

test('a blocked edge is put off longer each time, up to the cap, and at least as asked', () => {
  const edges = new BlockedEdges(() => 0.5, 1000, 10_000);
  edges.block(7, 0);
  assert.ok(edges.isBlocked(7, 1499) && !edges.isBlocked(7, 1500));
  edges.block(7, 0);
  assert.ok(edges.isBlocked(7, 2999) && !edges.isBlocked(7, 3000));
  for (let time = 0; time < 100; time += 1) edges.block(7, 0);
  assert.ok(edges.isBlocked(7, 7499) && !edges.isBlocked(7, 10_000));
  edges.block(8, 0, 60_000);
  assert.ok(edges.isBlocked(8, 59_999) && !edges.isBlocked(8, 60_000));
  edges.block(9, 0, 60_000);
  edges.release(7, 8, 1000);
  assert.deepEqual(
    [7, 8, 9].map((edge) => edges.isBlocked(edge, 1000)),
    [true, false, true],
  );
  edges.clear(8);
  assert.ok(!edges.isBlocked(8, 0));
  assert.ok(!edges.isBlocked(10, 0));
});

test('blocked edges are bounded: the oldest is forgotten', () => {
  const edges = new BlockedEdges(() => 0.5, 1000, 10_000);
  for (let edge = 0; edge <= 1000; edge += 1) edges.block(edge, 0);
  assert.ok(!edges.isBlocked(0, 0) && edges.isBlocked(1, 0) && edges.isBlocked(1000, 0));
});
