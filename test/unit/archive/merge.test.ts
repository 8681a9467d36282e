import assert from 'node:assert/strict';
import test from 'node:test';
import { type Batches, InOrder, mergeSources } from '../../../src/archive/merge.js';
import fc from '../../support/properties.js';

interface Row {
  readonly atMs: number;
  readonly id: number;
}

const ORDER = { timeOf: ({ atMs }: Row) => atMs, compare: (a: Row, b: Row) => a.id - b.id };
const before = (a: Row, b: Row) => a.atMs - b.atMs || a.id - b.id;

async function* batchesOf(rows: readonly Row[], size: number, ended: () => void): Batches<Row> {
  try {
    for (let at = 0; at < rows.length; at += size) yield rows.slice(at, at + size);
  } finally {
    ended();
  }
}

test('rows of one time come by the rank of their source, within one rank by their own order', async () => {
  const rows = fc.array(fc.record({ atMs: fc.nat(6), id: fc.nat(500) }), { maxLength: 400 });
  const source = fc.record({ rank: fc.nat(2), rows, size: fc.integer({ min: 1, max: 300 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(source, { maxLength: 5 }), async (parts) => {
      let ended = 0;
      const sources = parts.map(({ rank, rows: all, size }) => ({
        rank,
        batches: batchesOf([...all].sort(before), size, () => {
          ended += 1;
        }),
      }));
      const merged: Row[] = [];
      for await (const batch of mergeSources(sources, ORDER)) {
        assert.ok(batch.length > 0 && batch.length <= 256);
        merged.push(...batch);
      }
      const expected = parts
        .flatMap(({ rank, rows: all }) => all.map((row) => ({ rank, row })))
        .sort((a, b) => a.row.atMs - b.row.atMs || a.rank - b.rank || a.row.id - b.row.id)
        .map(({ row }) => row);
      assert.deepEqual(merged, expected);
      assert.equal(ended, parts.length);
    }),
    { numRuns: 60 },
  );
});

test('sources are ended when the order is left early', async () => {
  let ended = 0;
  const endless = { atMs: 1, id: 1 };
  const sources = [1, 2].map((rank) => ({
    rank,
    batches: batchesOf(Array<Row>(1000).fill(endless), 10, () => {
      ended += 1;
    }),
  }));
  for await (const batch of mergeSources(sources, ORDER)) {
    assert.ok(batch.length > 0);
    break;
  }
  assert.equal(ended, 2);
});

test('rows of one key go out together, in their own order, once the next key has come', () => {
  const groups = fc.array(fc.array(fc.nat(50), { minLength: 1, maxLength: 6 }), { maxLength: 12 });
  fc.assert(
    fc.property(groups, fc.integer({ min: 1, max: 5 }), (keys, every) => {
      const inOrder = new InOrder<number>((a, b) => a - b);
      const out: number[] = [];
      let pushed = 0;
      let settled = 0;
      for (const [key, group] of keys.entries()) {
        for (const row of group) {
          inOrder.push(key, row);
          pushed += 1;
          if (pushed % every === 0) out.push(...inOrder.take());
          assert.ok(out.length <= settled, 'none of a key that may go on');
        }
        settled += group.length;
      }
      out.push(...inOrder.take(), ...inOrder.end());
      assert.deepEqual(
        out,
        keys.flatMap((group) => [...group].sort((a, b) => a - b)),
      );
      assert.deepEqual(inOrder.end(), []);
    }),
  );
});
