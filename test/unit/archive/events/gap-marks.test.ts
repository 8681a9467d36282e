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
  pieces: () => Promise.resolve(missing),
} as unknown as ArchiveSnapshot;

const planned = (market: string) =>
  ({
    ...{ stream: { market }, kind: 'tickers', variantS: 0, untilUs: 60_032_000 },
  }) as unknown as PlannedStream;

test('marks of all streams and markets together have a bound', async () => {
  const streams = ['A', 'B', 'C'].map(planned);
  const marks = await markGaps(snapshot, streams, 12);
  assert.equal(marks.length, 12);
  assert.deepEqual(
    marks.slice(0, 3).map(({ market, edge, atUs }) => [market, edge, atUs]),
    ['A', 'B', 'C'].map((market) => [market, 'begin', 10_000]),
  );
  await assert.rejects(markGaps(snapshot, streams, 11), {
    code: 'archive_gaps',
    message: /more than 11 starts and ends: choose a shorter time range/,
  });
});

test('gaps of candles begin and end when the candles would have become known, within the span', async () => {
  const stream = { ...planned('A'), kind: 'candles', variantS: 60 } as unknown as PlannedStream;
  const marks = await markGaps(snapshot, [stream]);
  assert.deepEqual(
    marks.map(({ edge, atUs }) => [edge, atUs]),
    [
      ['begin', 60_010_000],
      ['end', 60_015_000],
      ['begin', 60_030_000],
      ['end', 60_032_000],
    ],
  );
});

/** A stream with these gaps, milliseconds. */
const streamOf = (kind: string, gaps: readonly (readonly [number, number])[]) => ({
  stream: { ...planned('A'), kind } as unknown as PlannedStream,
  missing: gaps.map(([fromMs, toMs]) => ({ span: { fromMs, toMs }, reason: 'not collected' })),
});

async function marksOf(...streams: readonly ReturnType<typeof streamOf>[]) {
  const rest = [...streams];
  const pieces = async () => rest.shift()?.missing;
  const all = streams.map(({ stream }) => stream);
  const marks = await markGaps({ pieces } as unknown as ArchiveSnapshot, all);
  return marks.map(({ of, edge, atUs }) => `${of} ${edge} ${atUs / 1000}`);
}

test('at one instant ends go before begins, and those of trades before those of tickers', async () => {
  const [trades, tickers] = [streamOf('trades', [[10, 15]]), streamOf('tickers', [[10, 15]])];
  const both = ['trades begin 10', 'tickers begin 10', 'trades end 15', 'tickers end 15'];
  assert.deepEqual(await marksOf(trades, tickers), both);
  assert.deepEqual(await marksOf(tickers, trades), both);
  const later = streamOf('trades', [[15, 20]]);
  const oneByOne = ['tickers begin 10', 'tickers end 15', 'trades begin 15', 'trades end 20'];
  assert.deepEqual(await marksOf(tickers, later), oneByOne);
  assert.deepEqual(await marksOf(later, tickers), oneByOne);
});

test('a stream with too many gaps is refused, not marked in part', async () => {
  const many = (count: number) => Array.from({ length: count }, () => [10, 15] as const);
  assert.equal((await marksOf(streamOf('trades', many(100_000)))).length, 200_000);
  await assert.rejects(marksOf(streamOf('trades', many(100_001))), {
    code: 'archive_gaps',
    message: /100001 gaps there, more than 100000: choose a shorter time range/,
  });
});
