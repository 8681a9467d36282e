import assert from 'node:assert/strict';
import test from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import fc from 'fast-check';
import {
  CANDLES,
  TRADES,
  writeFeatherOf,
} from '../../../../src/archive/interchange/file-writers.js';
import { pairName } from '../../../../src/archive/interchange/request.js';
import type { TradeRow } from '../../../../src/model/batch.js';
import { batches } from '../../../support/worlds/interchange.js';

async function bytesOf(work: (write: (bytes: Uint8Array) => Promise<void>) => Promise<void>) {
  const pieces: Uint8Array[] = [];
  await work((bytes) => {
    // The bytes are the writer's again as soon as it goes on.
    pieces.push(Uint8Array.from(bytes));
    return Promise.resolve();
  });
  return Buffer.concat(pieces);
}

const decimal = fc
  .tuple(fc.bigInt({ min: 0n, max: 10n ** 22n }), fc.nat(12))
  .map(([digits, scale]) => {
    const text = String(digits).padStart(scale + 1, '0');
    return scale === 0 ? text : `${text.slice(0, -scale)}.${text.slice(-scale)}`;
  });

test('candles: an Arrow file with the columns and types of freqtrade, each number the nearest double', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(decimal, { minLength: 5, maxLength: 5 })), async (rows) => {
      const candles = rows.map(
        ([open = '', high = '', low = '', close = '', volume = ''], index) => ({
          ...{ openAtS: 1_768_478_400 + index * 60, open, high, low, close, volume },
        }),
      );
      const bytes = await bytesOf((write) => writeFeatherOf(CANDLES, batches(candles, 3), write));
      assert.equal(bytes.toString('latin1', 0, 6), 'ARROW1');
      const table = tableFromIPC(bytes);
      assert.deepEqual(
        table.schema.fields.map(({ name, type }) => `${name} ${type}`),
        [
          'date Timestamp<MILLISECOND, UTC>',
          ...['open', 'high', 'low', 'close', 'volume'].map((name) => `${name} Float64`),
        ],
      );
      assert.deepEqual(
        [...table].map((row) => [Number(row?.date), row?.open, row?.volume]),
        candles.map(({ openAtS, open, volume }) => [openAtS * 1000, Number(open), Number(volume)]),
      );
    }),
    { numRuns: 30 },
  );
});

test('trades: ids stay text, times are milliseconds, the type of the order is not known', async () => {
  const atUs = (index: number) => 1_768_478_400_123_999 + index;
  const trade = (index: number): TradeRow => ({
    ...{ marketId: 1, tid: Number.MAX_SAFE_INTEGER - index, executedAtUs: atUs(index) },
    ...{ tradedAtS: 0, side: index % 2 === 0 ? 'buy' : 'sell', receivedAtMs: 0 },
    ...{ price: '61837.63000000', amount: '0.1', total: '6183.763' },
  });
  const trades = Array.from({ length: 70_000 }, (_, index) => trade(index));
  const bytes = await bytesOf((write) => writeFeatherOf(TRADES, batches(trades, 999), write));
  const table = tableFromIPC(bytes);
  assert.deepEqual(
    table.schema.fields.map(({ name, type }) => `${name} ${type}`),
    [
      ...['timestamp Int64', 'id Utf8', 'type Utf8', 'side Utf8'],
      ...['price Float64', 'amount Float64', 'cost Float64'],
    ],
  );
  assert.equal(table.numRows, trades.length);
  assert.ok(table.batches.length > 1, 'a file of some batches, not of one that grows');
  for (const index of [0, 1, 65_535, 66_000, 69_999]) {
    const row = table.get(index)?.toJSON();
    assert.deepEqual(row, {
      ...{ timestamp: BigInt(Math.floor(atUs(index) / 1000)), id: String(trade(index).tid) },
      ...{ type: null, side: trade(index).side, price: 61_837.63, amount: 0.1, cost: 6183.763 },
    });
  }
});

const PRECISIONS = { stockPrec: 8, moneyPrec: 2 };

test('a file is named by any letters of its currencies, and by nothing that leads elsewhere', () => {
  const named = (stock: string) =>
    pairName({ marketId: 1, name: `${stock}_USDT`, stock, money: 'USDT', ...PRECISIONS });
  for (const stock of ['BTC', 'ÄTH', '柴犬', '🚀e\u0301']) {
    assert.equal(named(stock), `${stock}_USDT`);
  }
  for (const stock of ['..', 'a/b', 'a\u202eb', 'a b', '柴'.repeat(70)]) {
    assert.throws(() => named(stock), { code: 'output_refused' }, stock);
  }
});
