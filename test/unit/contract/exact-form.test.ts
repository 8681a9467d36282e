import assert from 'node:assert/strict';
import test from 'node:test';
import { z } from 'zod';
import { endpoints } from '../../../src/contract/endpoints.js';
import { quickParser } from '../../../src/contract/exact-form.js';
import { resultTrade } from '../../../src/contract/resources.js';
import * as values from '../../../src/contract/values.js';
import fc from '../../support/properties.js';

/** The short cut is one only as long as nobody can tell it from the long way. */

const decimals = {
  decimalText: values.decimalText,
  nonNegativeDecimal: values.nonNegativeDecimal,
  positiveDecimal: values.positiveDecimal,
};

function assertSame(schema: z.ZodType, value: unknown): void {
  const quick = quickParser(schema)(value);
  const slow = schema.safeParse(value);
  assert.equal(quick.success, slow.success, JSON.stringify(value));
  assert.deepEqual(quick.data, slow.data, JSON.stringify(value));
}

test('a decimal is read quickly as it is read slowly, up to and beyond every bound', () => {
  const digits = (count: number) => '7'.repeat(count);
  const texts = ['', '.', '-', '-.', '0', '-0', '00', '0.0', '-0.00', '.5', '5.', '-5.', '5..1'];
  texts.push(
    '1.2.3',
    '1e-8',
    '0e-8',
    '1E5',
    '+1',
    ' 1',
    '1 ',
    '１',
    '1,5',
    '--1',
    '-1',
    '-.5',
    '1/2',
  );
  for (const before of [1, 19, 39, 40, 41, 59, 60, 61, 79, 80, 81]) {
    texts.push(digits(before), `-${digits(before)}`);
    for (const after of [1, 18, 20, 38, 39, 40, 41]) {
      texts.push(`${digits(before)}.${digits(after)}`, `-${digits(before)}.${digits(after)}`);
      texts.push(`0.${'0'.repeat(after)}`, `-0.${'0'.repeat(after)}1`);
    }
  }
  for (const schema of Object.values(decimals)) {
    for (const text of texts) assertSame(schema, text);
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'0159.-eE+') }), (text) => {
        assertSame(schema, text);
      }),
    );
  }
});

const TRADE = { tid: 5, date: 60, price: '1.50', type: 'buy', amount: '2', total: '3' };

test('fields in another order, more fields and strange ones change no result', () => {
  const entries = Object.entries(TRADE);
  const strange: readonly unknown[] = [
    TRADE,
    Object.fromEntries(entries.toReversed()),
    { ...TRADE, more: 1 },
    { more: 1, ...TRADE },
    Object.fromEntries(entries.slice(1)),
    Object.assign(Object.create(null), TRADE),
    Object.assign(Object.create({ inherited: 1 }), TRADE),
    Object.create(TRADE),
    JSON.parse(`{"__proto__":{"tid":1},${JSON.stringify(TRADE).slice(1)}`),
    JSON.parse('{"__proto__":{"tid":5,"date":60,"price":"1"}}'),
    { ...TRADE, price: '15e-1' },
    { ...TRADE, tid: '5' },
    entries,
  ];
  for (const value of strange) {
    assertSame(resultTrade, value);
    assertSame(z.array(resultTrade), [TRADE, value]);
  }
});

test('what is of the form comes out as it went in; unknown fields do not come out', () => {
  const read = quickParser(resultTrade);
  assert.equal(read(TRADE).data, TRADE);
  assert.deepEqual(read({ ...TRADE, more: 1 }).data, TRADE);
  const level = ['2.50', '1'];
  const book = { asks: [level], bids: [] };
  assert.equal(endpoints.depth.result.parse(book).data, book);
  assert.deepEqual(endpoints.depth.result.parse({ ...book, more: 1 }).data, book);
  assert.throws(() => endpoints.depth.result.parse({ ...book, asks: [['1']] }), z.ZodError);
  assert.throws(
    () => endpoints.depth.result.parse({ asks: [[...level, '3']], bids: [] }),
    z.ZodError,
  );
});
