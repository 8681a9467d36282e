import assert from 'node:assert/strict';
import test from 'node:test';
import type { TradeRow } from '../../../src/model/batch.js';
import { TRADE } from '../../../src/store/writer/series.js';
import { copyLine } from '../../../src/store/writer/staging.js';
import {
  allPlaces,
  tradeColumnSet,
  tradeKeyFault,
} from '../../../src/store/writer/trade-columns.js';
import fc from '../../support/properties.js';

const LAST_SECOND = 253_402_300_799;
const window = { fromMs: 0, toMs: LAST_SECOND * 1_000 };
const ignore = { settle: () => undefined, refuse: () => undefined };

const digits = (most: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength: most });
/** With zeros at both ends, very long ones, and some that are written with an exponent. */
const decimal = fc
  .oneof(
    digits(39),
    fc.tuple(digits(39), digits(39)).map(([whole, part]) => `${whole}.${part}`),
    fc.tuple(digits(3), fc.integer({ min: -9, max: 9 })).map(([whole, ten]) => `${whole}e${ten}`),
  )
  .filter((text) => /[1-9]/.test(text.split('e')[0] ?? ''));

const trades = fc.array(
  fc
    .record({
      marketId: fc.integer({ min: 1, max: 3 }),
      tid: fc.oneof(
        fc.integer({ min: 1, max: 9 }),
        fc.maxSafeNat().map((id) => id || 1),
      ),
      tradedAtS: fc.oneof(fc.nat(200_000), fc.integer({ min: 0, max: LAST_SECOND })),
      fraction: fc.option(fc.nat(999_999)),
      price: decimal,
      amount: decimal,
      total: fc.oneof(decimal, fc.constantFrom('0', '0.00')),
      side: fc.constantFrom('buy' as const, 'sell' as const),
      receivedAtMs: fc.oneof(fc.nat(), fc.integer({ min: 0, max: LAST_SECOND * 1_000 })),
    })
    .map(({ fraction, ...row }): TradeRow => {
      const us = row.tradedAtS * 1_000_000 + (fraction ?? 0);
      return { ...row, executedAtUs: fraction === null || !Number.isSafeInteger(us) ? null : us };
    }),
  { maxLength: 40 },
);

/** The line that the shape of all series gives; a whole second is written without its zeros. */
const lineOf = (row: TradeRow) => copyLine(TRADE.fields(row)).replace('.000Z', 'Z');

test('lines of trades are those of COPY, in the order of the key, each trade once', () => {
  fc.assert(
    fc.property(trades, (rows) => {
      const {
        encoder: lines,
        lineNumbers,
        ...sheet
      } = tradeColumnSet([{ trades: rows }], window, ignore);
      assert.equal(lines.pick(allPlaces(rows.length)).toString(), rows.map(lineOf).join(''));
      const expected = sheet.rows.map(lineOf);
      assert.equal(lines.pick(lineNumbers).toString(), expected.join(''));
      const numbered = expected.map((line, place) => `${place}\t${line}`);
      assert.equal(lines.pickNumbered(lineNumbers).toString(), numbered.join(''));
      assert.deepEqual([...sheet.rows], sheet.rows.toSorted(TRADE.compare));
      const ids = (all: readonly TradeRow[]) =>
        new Set(all.map(({ marketId, tid }) => `${marketId} ${tid}`));
      assert.deepEqual(ids(sheet.rows), ids(rows));
      // The same id at another time, more than a second away, is another trade: ids may start again.
      for (const [place, row] of sheet.rows.entries()) {
        const again = sheet.rows.slice(place + 1).filter(({ marketId, tid }) => {
          return marketId === row.marketId && tid === row.tid;
        });
        for (const { tradedAtS } of again) assert.ok(Math.abs(tradedAtS - row.tradedAtS) > 1);
      }
      for (const [place, row] of sheet.rows.entries()) {
        assert.equal(sheet.ms[place], row.tradedAtS * 1_000);
        assert.equal(sheet.tids[place], row.tid);
        assert.equal(sheet.timed[place], row.executedAtUs === null ? 0 : 1);
      }
      const ofRuns = sheet.runs.flatMap(({ marketId, start, end }) =>
        Array.from({ length: end - start }, () => marketId),
      );
      assert.deepEqual(
        ofRuns,
        sheet.rows.map(({ marketId }) => marketId),
      );
    }),
  );
});

test('a decimal that is none is refused, and the lines around it stay whole', () => {
  const row: TradeRow = {
    ...{ marketId: 1, tid: 1, tradedAtS: 60, executedAtUs: null, receivedAtMs: 61_000 },
    ...{ price: '1.5', amount: '2', total: '3', side: 'buy' },
  };
  const bad = ['.', '.5', '5.', '1.2.3', '', '-1', '1\t2', '０', 'NaN', '0', '0.0', '+1'];
  const rows = bad.flatMap((price, index) => [
    { ...row, tid: 2 * index + 1 },
    { ...row, tid: 2 * index + 2, amount: price },
  ]);
  const long = '9'.repeat(10_000);
  rows.push({ ...row, tid: 2 * rows.length, price: long, amount: long, total: long });
  const refused: string[] = [];
  const refuse = (reason: string) => refused.push(reason);
  const { encoder: lines } = tradeColumnSet([{ trades: rows }], window, { ...ignore, refuse });
  assert.equal(refused.length, bad.length + 1);
  const good = rows.filter(({ amount }) => amount === '2');
  assert.equal(lines.pick(allPlaces(good.length)).toString(), good.map(lineOf).join(''));
});

test('what keeps a trade from being stored is what the shape of any series says of it', () => {
  const odd = (usual: fc.Arbitrary<number>) =>
    fc.oneof(
      { weight: 6, arbitrary: usual },
      fc.constantFrom(0, -1, 0.5, Number.NaN, 2 ** 31, 2 ** 53, LAST_SECOND + 1),
    );
  const row = fc.record({
    marketId: odd(fc.integer({ min: 1, max: 3 })),
    tid: odd(fc.integer({ min: 1, max: 9 })),
    tradedAtS: odd(fc.nat(200_000)),
    executedAtUs: fc.option(odd(fc.nat(200_000).map((second) => second * 1_000_000 + 7))),
    price: fc.constant('1'),
    amount: fc.constant('1'),
    total: fc.constant('1'),
    side: fc.constantFrom('buy', 'sell', 'both') as fc.Arbitrary<TradeRow['side']>,
    receivedAtMs: odd(fc.nat()),
  });
  fc.assert(
    fc.property(row, (trade) => {
      const near = { ...trade, executedAtUs: trade.executedAtUs ?? null };
      const [byHand, byShape] = [tradeKeyFault(near, window), TRADE.faultOf(near, window)];
      assert.equal(byHand === undefined, byShape === undefined, `${byHand} | ${byShape}`);
    }),
    { numRuns: 3000 },
  );
});

test('a total that only rounds the product to its last digit is the same, one a whole digit off is not', () => {
  const row: TradeRow = {
    ...{ marketId: 1, tid: 1, tradedAtS: 60, executedAtUs: null, receivedAtMs: 61_000 },
    ...{ price: '1.51', amount: '1', total: '1.51', side: 'buy' },
  };
  const outcomeOf = (total: string) => {
    const said: string[] = [];
    const settle = (_batch: number, outcome: string) => said.push(outcome);
    const batches = [{ trades: [row] }, { trades: [{ ...row, total }] }];
    tradeColumnSet(batches, window, { ...ignore, settle });
    return said.join();
  };
  for (const total of ['1.510', '1.5', '1.6', '2', '1']) {
    assert.equal(outcomeOf(total), 'duplicate', total);
  }
  for (const total of ['1.50', '1.52', '1.7', '3']) {
    assert.equal(outcomeOf(total), 'conflict', total);
  }
});
