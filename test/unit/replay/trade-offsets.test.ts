import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AsOfReader, TradeMarks, TradePlace } from '../../../src/archive/as-of/reader.js';
import { TradeOffsets } from '../../../src/replay/trade-view.js';
import { FakeClock } from '../../support/fake-clock.js';

/** Trades with the ids 1 to `count`, one a second; remembers how much of them was counted. */
function pastOf(count: number) {
  const asked = { rows: 0 };
  const countRun = (
    _: number,
    before: TradePlace,
    downTo: TradePlace | undefined,
    { step, maxCount }: { readonly step: number; readonly maxCount: number },
  ): Promise<TradeMarks> => {
    const top = Math.min(before.tid - 1, count);
    const bottom = Math.max(downTo?.tid ?? 1, 1);
    const counted = Math.max(0, Math.min(top - bottom + 1, maxCount));
    asked.rows += counted;
    const checkpoints = Array.from({ length: Math.floor(counted / step) }, (_one, at) => {
      const tid = top - (at + 1) * step + 1;
      return { tradedAtS: tid, tid };
    });
    return Promise.resolve({ checkpoints, count: counted, isWhole: counted < maxCount });
  };
  return { past: { runs: { count: countRun } } as unknown as AsOfReader, asked };
}

test('pages are found at any depth with few marks, and what was counted is not counted again', async () => {
  const trades = 3_000_000;
  const { past, asked } = pastOf(trades);
  const marksMax = 64;
  const ranks = new TradeOffsets(past, 1, new FakeClock(), marksMax);
  const top = { tradedAtS: trades + 1, tid: trades + 1 };
  // Fewer marks lie further apart: that much more is read to leave it out.
  const dropMax = (4 * trades) / marksMax;
  const skips = [5_000, 2_999_999, 1_234_567, 40_000, 2_000_000];
  for (const skip of skips) {
    const found = await ranks.find(top, skip);
    assert.ok(found !== undefined);
    assert.equal(found.before.tid - 1 - found.drop, trades - skip, `after ${skip}`);
    assert.ok(found.drop <= dropMax, `${found.drop} are left out`);
  }
  const { rows } = asked;
  assert.ok(rows < trades + skips.length * dropMax, `${rows} rows were counted`);
  const behind = await ranks.find(top, trades);
  assert.ok(behind === undefined || behind.before.tid - 1 - behind.drop === 0, 'none is left');
  assert.equal(await ranks.find(top, trades + 5), undefined);
  assert.ok(ranks.checkpointCount <= marksMax, `${ranks.checkpointCount} marks`);
});

test('what was counted is stale after a while', async () => {
  const clock = new FakeClock();
  const { past, asked } = pastOf(5_000);
  const ranks = new TradeOffsets(past, 1, clock);
  assert.equal(ranks.isStale, true, 'nothing is known yet');
  const top = { tradedAtS: 5_001, tid: 5_001 };
  await ranks.find(top, 4_000);
  assert.equal(ranks.isStale, false);
  const { rows } = asked;
  await ranks.find(top, 4_000);
  assert.equal(asked.rows, rows, 'remembered');
  clock.advance(600_001);
  assert.equal(ranks.isStale, true);
  await ranks.find(top, 4_000);
  assert.ok(asked.rows > rows, 'counted anew');
});
