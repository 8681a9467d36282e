import assert from 'node:assert/strict';
import test from 'node:test';
import type { z } from 'zod';
import type * as types from '../../../src/contract/resource-types.js';
import * as resources from '../../../src/contract/resources.js';
import type {
  bookOrderWithoutFees,
  tickerEntryOfFewer,
  tickerOfFewer,
} from '../../../src/contract/tolerance.js';
import fc from '../../support/properties.js';
import { type Kind, specimens } from './specimens.js';

const hugeDigits = '9'.repeat(10_240);

const notDecimals: readonly unknown[] = [
  ...[1, 1.5, 0, Number.NaN, Number.POSITIVE_INFINITY, null, true, {}, ['1'], 1n],
  ...['', ' ', ' 1', '1 ', '+1', '1,5', '.5', '5.', '0x10', 'text', '--1', '1e', 'NaN'],
  ...['Infinity', '-Infinity', '1e999', '-1e999', '1e-999', hugeDigits, `0.${hugeDigits}`],
];

const notNumbers: readonly unknown[] = [
  ...[Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, null, true, {}, [1], 1n],
  ...['', ' 1', 'text', 'NaN', 'Infinity', '1e999', '0x10', hugeDigits],
];
const notWhole: readonly unknown[] = [...notNumbers, 1.5, '1.5', 1e300];
const beyondExact: readonly unknown[] = [2 ** 53, '9007199254740993', 1e16, '1e16'];

const refused: Readonly<Record<Kind, readonly unknown[]>> = {
  name: ['', 'x'.repeat(65), 1, null, true, [], {}],
  side: ['', 'BUY', 'bid', 1, null, ['buy']],
  decimal: [...notDecimals, '-1', '-0.00000001', '-1e-8'],
  positive: [...notDecimals, '-1', '0', '0.000', '0e-8', '-0'],
  signed: notDecimals.filter((value) => value !== null),
  id: [...notWhole, ...beyondExact, 0, -1, '0', '-1'],
  count: [...notWhole, ...beyondExact],
  precision: [...notWhole, ...beyondExact, -1, '-1', 31],
  period: [...notWhole, ...beyondExact, 0, -60],
  second: [...notWhole, ...beyondExact, -1, '-1'],
  time: [...notNumbers, -1, '-0.5'],
};

/** Values taken, each with what it becomes. */
const taken: Readonly<Record<Kind, ReadonlyArray<readonly [unknown, unknown]>>> = {
  name: [['x'.repeat(64), 'x'.repeat(64)]],
  side: [
    ['buy', 'buy'],
    ['sell', 'sell'],
  ],
  decimal: [
    ['0', '0'],
    ['0e-8', '0'],
    ['-0', '0'],
    ['1e-8', '0.00000001'],
    ['1.5E+3', '1500'],
    ['0.123456789012345678', '0.123456789012345678'],
    ['61837.63000000', '61837.63000000'],
  ],
  positive: [
    ['1e-8', '0.00000001'],
    ['61837.63000000', '61837.63000000'],
  ],
  signed: [
    ['-1.13', '-1.13'],
    ['-1e-2', '-0.01'],
    ['0', '0'],
  ],
  id: [
    [1, 1],
    ['1', 1],
    [2 ** 31, 2 ** 31],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
  ],
  count: [
    [0, 0],
    ['50', 50],
  ],
  precision: [
    [0, 0],
    [18, 18],
    ['8', 8],
    [30, 30],
  ],
  period: [
    [1, 1],
    ['86400', 86_400],
    ['6e1', 60],
  ],
  second: [
    [0, 0],
    ['1704067200', 1704067200],
    [JSON.parse('1.704067200E9'), 1704067200],
  ],
  time: [
    [0, 0],
    ['1704070810.123456', 1704070810.123456],
    [JSON.parse('1.790138674365E9'), 1790138674.365],
    ['1.790138674365E9', 1790138674.365],
  ],
};

const show = (value: unknown) => (typeof value === 'bigint' ? `${value}n` : JSON.stringify(value));

for (const [name, { schema, example, kinds, optional = [] }] of Object.entries(specimens)) {
  test(`${name}: its example is taken as it is, and fields of no contract are passed over`, () => {
    assert.deepEqual(Object.keys(example).sort(), Object.keys(kinds).sort());
    assert.deepEqual(schema.parse(example), example);
    const extended = { ...example, isFavourite: true, links: [{ href: '' }], extra: Number.NaN };
    assert.deepEqual(schema.parse(extended), example);
  });

  test(`${name}: each field takes what its kind allows, and is normalised`, () => {
    for (const [field, kind] of Object.entries(kinds)) {
      for (const [value, read] of taken[kind]) {
        assert.deepEqual(schema.parse({ ...example, [field]: value }), {
          ...example,
          [field]: read,
        });
      }
    }
  });

  test(`${name}: each field refuses what its kind forbids, and is named`, () => {
    for (const [field, kind] of Object.entries(kinds)) {
      for (const value of refused[kind]) {
        const issues = schema.safeParse({ ...example, [field]: value }).error?.issues;
        assert.equal(issues?.[0]?.path[0], field, `${field}: ${show(value)?.slice(0, 40)}`);
      }
    }
  });

  test(`${name}: ${optional.length === 0 ? 'no field' : optional.join()} may be missing`, () => {
    for (const field of Object.keys(kinds)) {
      const { [field]: _left, ...rest } = example;
      assert.equal(schema.safeParse(rest).success, optional.includes(field), field);
    }
  });

  test(`${name}: no garbage is taken for one, and none causes an error`, () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: true, withBigInt: true }), (garbage) => {
        assert.equal(schema.safeParse(garbage).success, false);
      }),
      { numRuns: 50 },
    );
  });
}

test('a ticker entry holds the time of the exchange beside the ticker', () => {
  const ticker = specimens['ticker of an entry']?.example;
  const entry = { at: 1704070810, ticker };
  assert.deepEqual(resources.tickerEntry.parse({ ...entry, extra: 1 }), entry);
  for (const broken of [
    { ticker },
    { at: -1, ticker },
    { at: 1704070810 },
    { at: 1, ticker: {} },
  ]) {
    assert.equal(resources.tickerEntry.safeParse(broken).success, false);
  }
});

test('a state update carries no change: absent and null are both taken', () => {
  const { change: _change, ...update } = specimens['state record']?.example ?? {};
  assert.deepEqual(resources.stateRecord.parse(update), update);
  assert.equal(resources.stateRecord.parse({ ...update, change: null }).change, null);
});

test('depth is pairs of price and amount, on either side any number of them', () => {
  const book = { asks: [['61837.63', '0.5']], bids: [] };
  assert.deepEqual(resources.depth.parse({ ...book, timestamp: 1 }), book);
  const exponents = { asks: [], bids: [['6.1E4', '1e-8']] };
  assert.deepEqual(resources.depth.parse(exponents).bids, [['61000', '0.00000001']]);
  const levels = [[61837.63, '1'], ['1', 1], ['1'], [], ['-1', '1'], ['1', '-1'], ['1', '0']];
  levels.push(['NaN', '1'], ['1', '1e999'], ['1', hugeDigits]);
  for (const level of levels) {
    assert.equal(resources.depth.safeParse({ asks: [level], bids: [] }).success, false);
    assert.equal(resources.depth.safeParse({ asks: [], bids: [level] }).success, false);
  }
  for (const broken of [{ asks: [] }, { bids: [] }, [], null, { asks: {}, bids: [] }]) {
    assert.equal(resources.depth.safeParse(broken).success, false);
  }
});

/** True when both types take the same values and leave out the same fields; never otherwise. */
type Same<A, B> = [A, Required<A>] extends [B, Required<B>]
  ? [B, Required<B>] extends [A, Required<A>]
    ? true
    : never
  : never;
/** What a reader takes besides. */
interface Tolerated {
  readonly bookOrder: z.infer<typeof bookOrderWithoutFees>;
  readonly ticker: z.infer<typeof tickerOfFewer>;
  readonly tickerEntry: z.infer<typeof tickerEntryOfFewer>;
}
type Given<Name extends keyof typeof resources> = Name extends keyof Tolerated
  ? Tolerated[Name]
  : (typeof resources)[Name] extends z.ZodType<infer Value>
    ? Value
    : never;

test('the described types are those that the schemas give: the compiler says so', () => {
  const same: {
    [Name in keyof typeof resources]: Capitalize<Name> extends keyof Described
      ? Same<Described[Capitalize<Name>], Given<Name>>
      : null;
  } = {
    ...{ market: true, product: true, ticker: true, tickerEntry: true, candle: true },
    ...{ historyTrade: true, resultTrade: true, depth: true, bookOrder: true },
    ...{ createdOrder: true, activeOrder: true, balance: true, stateRecord: true },
    ...{ klineHeader: null, bookHeader: null },
  };
  assert.deepEqual(Object.keys(same).sort(), Object.keys(resources).sort());
});

interface Described {
  readonly ActiveOrder: types.ActiveOrder;
  readonly Balance: types.Balance;
  readonly BookOrder: types.BookOrder;
  readonly Candle: types.Candle;
  readonly CreatedOrder: types.CreatedOrder;
  readonly Depth: types.Depth;
  readonly HistoryTrade: types.HistoryTrade;
  readonly Market: types.Market;
  readonly Product: types.Product;
  readonly ResultTrade: types.ResultTrade;
  readonly StateRecord: types.StateRecord;
  readonly Ticker: types.Ticker;
  readonly TickerEntry: types.TickerEntry;
}
