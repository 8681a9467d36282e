import assert from 'node:assert/strict';
import { test } from 'node:test';
import { markGaps } from '../../../../src/archive/events/gaps.js';
import type { PlannedStream } from '../../../../src/archive/events/plan.js';
import type { ArchiveSnapshot } from '../../../../src/store/index.js';

/** Each stream has two gaps. */
const missing = [10, 30].map((fromMs) => ({
  ...{ span: { fromMs, toMs: fromMs + 5 }, reason: 'not collected' },
}));
const snapshot = {
  completeness: () => Promise.resolve({ missing, missingCount: missing.length, covered: [] }),
} as unknown as ArchiveSnapshot;

const planned = (markets: readonly string[]) =>
  ({ stream: { market: '*' }, kind: 'tickers', variantS: 0, markets }) as unknown as PlannedStream;

test('marks of all streams and markets together have a bound', async () => {
  const streams = [planned(['A', 'B']), planned(['C'])];
  const marks = await markGaps(snapshot, streams, 12);
  assert.equal(marks.length, 12);
  assert.deepEqual(
    marks.slice(0, 3).map(({ market, edge, atUs }) => [market, edge, atUs]),
    ['A', 'B', 'C'].map((market) => [market, 'begin', 10_000]),
  );
  await assert.rejects(markGaps(snapshot, streams, 11), {
    code: 'archive_gaps',
    message: /more than 11 begins and ends: choose a shorter span/,
  });
});
