import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BlockCache } from '../../../src/archive/block-cache.js';
import { BlockMaker, type BlockSeries, sliceAt } from '../../../src/archive/blocks.js';
import { CandleMaker } from '../../../src/archive/candles.js';
import type { ArchiveRow } from '../../../src/archive/row-blocks.js';
import { DAY_MS, HOUR_MS } from '../../../src/kernel/durations.js';
import { rowPlaces } from '../../../src/model/kinds.js';

/** Rows in columns, and how many of them are kept. */

const START_MS = Date.UTC(2026, 0, 15);
const DAY = { fromMs: START_MS, toMs: START_MS + DAY_MS };
const TRADES: BlockSeries = { kind: 'trades', marketId: 1, variantS: 0 };
const PLACES = rowPlaces('trade');

interface Made {
  readonly tid: number;
  readonly atS: number;
  /** Microseconds within the second; null: unknown. */
  readonly us: number | null;
  readonly price: string;
}

/** A row as files and the database give it. */
function rowOf({ tid, atS, us, price }: Made): ArchiveRow {
  const secondUs = (START_MS / 1000 + atS) * 1e6;
  const values = new Map<number | undefined, number | string | null>([
    [0, 0],
    [PLACES.get('traded_at'), secondUs],
    [PLACES.get('tid'), tid],
    [PLACES.get('executed_at'), us === null ? null : secondUs + us],
    [PLACES.get('side'), tid % 2 === 0 ? 'buy' : 'sell'],
    [PLACES.get('price'), price],
    [PLACES.get('amount'), '0.10'],
    [PLACES.get('total'), '2'],
  ]);
  const number = (at: number) => Number(values.get(at));
  return {
    isNull: (at) => (values.get(at) ?? null) === null,
    us: number,
    number,
    text: (at) => String(values.get(at)),
    decimal: (text) => text,
    timeKey: number,
  };
}

function blockOf(rows: readonly Made[], span = DAY) {
  const maker = new BlockMaker([TRADES]);
  for (const row of rows) maker.make(rowOf(row));
  const [block] = maker.blocks(span);
  assert.ok(block !== undefined);
  return block;
}

const trade = (tid: number, atS: number, us: number | null, price = '100.50'): Made => ({
  ...{ tid, atS, us, price },
});

test('a trade is visible from its time on, and never before one of a lower id', () => {
  const block = blockOf([trade(1, 10, 200_000), trade(2, 10, null), trade(3, 10, 600_000)]);
  const startUs = (START_MS / 1000 + 10) * 1e6;
  const seen = [0, 199_999, 200_000, 999_999, 1_000_000].map((us) => block.visible(startUs + us));
  assert.deepEqual(seen, [0, 0, 1, 1, 3]);
  assert.deepEqual(block.trade(1), {
    ...{ tid: 2, tradedAtS: START_MS / 1000 + 10, executedAtUs: null },
    ...{ price: '100.50', amount: '0.10', total: '2', side: 'buy' },
  });
});

test('candles of a part of a block are those of its trades, however many there are', () => {
  const rows = Array.from({ length: 5000 }, (_, n) =>
    trade(n + 1, 7 * n, 0, `${100 + ((n * 37) % 91)}.${n % 10}`),
  );
  const block = blockOf(rows);
  for (const [intervalS, from, to] of [
    [86_400, 0, 5000],
    [3600, 17, 4711],
    [60, 255, 300],
    [86_400, 256, 257],
  ] as const) {
    const maker = new CandleMaker(intervalS);
    const expected = rows
      .slice(from, to)
      .flatMap((_, n) => maker.add(block.trade(from + n)) ?? [])
      .concat(maker.end() ?? []);
    const made = block.candles(intervalS, from, to);
    const sums = made.map(({ volume, quoteVolume }) => [Number(volume), Number(quoteVolume)]);
    assert.deepEqual(
      made.map(({ volume: _v, quoteVolume: _q, ...prices }) => prices),
      expected.map(({ volume: _v, quoteVolume: _q, ...prices }) => prices),
    );
    assert.deepEqual(
      sums,
      expected.map(({ volume, quoteVolume }) => [Number(volume), Number(quoteVolume)]),
    );
    // Again from what was kept.
    assert.deepEqual(block.candles(intervalS, from, to), made);
  }
});

test('columns grow with the rows, and texts stay whole', () => {
  const rows = Array.from({ length: 3000 }, (_, n) =>
    trade(n + 1, n, null, '1.'.padEnd(3 + (n % 60), '7')),
  );
  const block = blockOf(rows);
  assert.equal(block.rows, 3000);
  for (const n of [0, 1023, 1024, 2999]) {
    assert.equal(block.trade(n).price, rows[n]?.price);
  }
  assert.ok(block.bytes < 3000 * 120, `${block.bytes} bytes`);
});

const hours = (count: number) =>
  Array.from({ length: count }, (_, n) => sliceAt(START_MS + n * HOUR_MS, HOUR_MS));

test('what was used longest ago goes first, and a change drops what it overlaps', () => {
  const [first, second, third] = hours(3).map((span) => blockOf([trade(1, 1, 0)], span));
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  const cache = new BlockCache(2 * first.bytes);
  cache.add(TRADES, first, 0);
  cache.add(TRADES, second, 1);
  assert.equal(cache.get(TRADES, first.span, 60_000), first);
  assert.equal(cache.add(TRADES, third, 60_000), false);
  assert.equal(cache.has(TRADES, second.span), false);
  assert.equal(cache.bytes, first.bytes + third.bytes);
  const change = { change: 'rows', series: 'trade', marketId: 1, variant: 0 } as const;
  cache.drop({ ...change, marketId: 2, span: DAY });
  cache.drop({ ...change, series: 'depth', span: DAY });
  cache.drop({ ...change, span: second.span });
  assert.equal(cache.bytes, first.bytes + third.bytes);
  cache.drop({ ...change, span: { fromMs: third.span.toMs - 1, toMs: DAY.toMs } });
  assert.deepEqual([cache.has(TRADES, first.span), cache.has(TRADES, third.span)], [true, false]);
  cache.drop({ change: 'expired', series: null, marketId: null, variant: null, span: DAY });
  assert.equal(cache.bytes, 0);
});

test('a budget that is too small for what is in use is told once', () => {
  const [first, second, third] = hours(3).map((span) => blockOf([trade(1, 1, 0)], span));
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  const cache = new BlockCache(first.bytes);
  assert.equal(cache.add(TRADES, first, 0), false);
  assert.equal(cache.add(TRADES, second, 1), true);
  assert.equal(cache.add(TRADES, third, 2), false);
  assert.equal(cache.bytes, third.bytes);
});

test('days with many rows are held by the hour, or less', () => {
  const roomy = new BlockCache(256 * 2 ** 20);
  assert.equal(roomy.sliceMs('trades', 50_000), DAY_MS);
  assert.equal(roomy.sliceMs('trades', 50_001), HOUR_MS);
  assert.equal(roomy.sliceMs('trades', 1_000_000), HOUR_MS);
  assert.equal(roomy.sliceMs('trades', 100_000_000), HOUR_MS / 16);
  assert.equal(roomy.sliceMs('depth', 5000), HOUR_MS);
  assert.equal(new BlockCache(64 * 2 ** 20).sliceMs('trades', 1_000_000), HOUR_MS / 2);
  assert.deepEqual(sliceAt(START_MS + 5, 0), {
    ...{ fromMs: Date.UTC(2026, 0), toMs: Date.UTC(2026, 1) },
  });
});
