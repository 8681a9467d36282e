import assert from 'node:assert/strict';
import test from 'node:test';
import { addDecimals, compareDecimals, multiplyDecimals } from '../../../src/kernel/decimal.js';
import type { Span } from '../../../src/kernel/span.js';
import {
  type CandleFigures,
  type CheckRow,
  describeDifference,
  invalidateRows,
  judgeSlot,
  matchRow,
  mergeChecks,
  type SlotFigures,
  type TradeFigures,
} from '../../../src/model/check-results.js';
import fc from '../../support/properties.js';

interface Trade {
  readonly price: string;
  readonly amount: string;
}

const span = { fromMs: 0, toMs: 60_000 };

/** Sums as the database makes them. */
function sums(trades: readonly Trade[]): TradeFigures | null {
  const [first] = trades;
  const last = trades.at(-1);
  if (first === undefined || last === undefined) return null;
  const prices = trades.map(({ price }) => price).sort(compareDecimals);
  const paid = trades.reduce(
    (sum, { price, amount }) => addDecimals(sum, multiplyDecimals(price, amount)),
    '0',
  );
  return {
    count: trades.length,
    amount: trades.reduce((sum, { amount }) => addDecimals(sum, amount), '0'),
    ...{ total: paid, paid },
    first: first.price,
    last: last.price,
    high: prices.at(-1) ?? '',
    low: prices[0] ?? '',
  };
}

/** The candle of the same trades by either rule for its open. */
function candleOf(trades: TradeFigures, previous: string | null): CandleFigures {
  const open = previous ?? trades.first;
  return {
    open,
    close: trades.last,
    high: compareDecimals(open, trades.high) > 0 ? open : trades.high,
    low: compareDecimals(open, trades.low) < 0 ? open : trades.low,
    volume: trades.amount,
    quoteVolume: trades.total,
  };
}

function slot(
  trades: TradeFigures | null,
  candle: CandleFigures | null,
  more: Partial<SlotFigures> = {},
): SlotFigures {
  const known = { previousClose: null, hasTrades: true, hasCandle: true };
  return { span, trades, candle, ...known, ...more };
}

const decimal = (digits: number) =>
  fc
    .integer({ min: 1, max: 99_999_999 })
    .map(
      (value) =>
        `${Math.floor(value / 10 ** digits)}.${String(value % 10 ** digits).padStart(digits, '0')}`,
    )
    .filter((text) => /[1-9]/.test(text));
const someTrades = fc.array(fc.record({ price: decimal(2), amount: decimal(7) }), {
  minLength: 1,
  maxLength: 30,
});

test('candles made of the same trades match, by either rule for their open', () => {
  fc.assert(
    fc.property(someTrades, decimal(2), (trades, previousClose) => {
      const summed = sums(trades);
      assert.ok(summed !== null);
      for (const [open, known] of [
        [null, previousClose],
        [previousClose, previousClose],
        [previousClose, null],
        [null, null],
      ] as const) {
        const verdict = judgeSlot(slot(summed, candleOf(summed, open), { previousClose: known }));
        assert.deepEqual(verdict.differences, []);
        assert.equal(verdict.outcome, 'match');
      }
    }),
  );
});

test('a candle stands for its trades only where all of its values are theirs', () => {
  const trades = [
    { price: '10', amount: '1' },
    { price: '12', amount: '2' },
    { price: '11', amount: '1' },
  ];
  const summed = sums(trades) as TradeFigures;
  const candle = candleOf(summed, null);
  const isExact = (of: CandleFigures | null, figures: TradeFigures | null = summed) =>
    judgeSlot(slot(figures, of, { previousClose: '9' })).isExact;
  assert.equal(isExact(candle), true);
  assert.equal(isExact({ ...candle, open: '9', low: '9' }), false, 'open is the close before');
  assert.equal(isExact(candle, { ...summed, paid: '44.9' }), false, 'totals are rounded');
  assert.equal(isExact({ ...candle, volume: '5' }), false, 'it is no match');
  assert.equal(isExact(null, null), true, 'no trade and no candle');
});

test('one trade lost, added, or with another price or amount is caught', () => {
  const change = fc.constantFrom('delete', 'add', 'price', 'amount');
  fc.assert(
    fc.property(someTrades, change, fc.nat(), decimal(2), (trades, kind, pick, other) => {
      const candle = candleOf(sums(trades) as TradeFigures, null);
      const at = pick % trades.length;
      const chosen = trades[at] as Trade;
      const changed = [...trades];
      if (kind === 'delete') changed.splice(at, 1);
      if (kind === 'add') changed.splice(at, 0, { price: other, amount: '0.0000001' });
      if (kind === 'price') changed[at] = { ...chosen, price: addDecimals(chosen.price, other) };
      if (kind === 'amount') {
        changed[at] = { ...chosen, amount: addDecimals(chosen.amount, '0.0000001') };
      }
      const verdict = judgeSlot(slot(sums(changed), candle));
      assert.equal(verdict.outcome, 'mismatch', `${kind} at ${at}`);
    }),
  );
});

test('one digit of a candle that is another is caught, and named with both figures', () => {
  const figures = ['volume', 'quoteVolume', 'close', 'open', 'high', 'low'] as const;
  fc.assert(
    fc.property(someTrades, fc.constantFrom(...figures), (trades, figure) => {
      const summed = sums(trades) as TradeFigures;
      const candle = candleOf(summed, null);
      const told = addDecimals(candle[figure], '0.0000000001');
      const previousClose = summed.first;
      const verdict = judgeSlot(slot(summed, { ...candle, [figure]: told }, { previousClose }));
      assert.equal(verdict.outcome, 'mismatch');
      const named = verdict.differences.find((one) => one.figure === figure);
      assert.equal(named?.candle, told);
      assert.ok(named !== undefined && describeDifference(named).includes(told));
    }),
  );
});

test('an open at the edge of a candle excuses no trade beyond it', () => {
  const traded = sums([
    { price: '5', amount: '1' },
    { price: '7', amount: '1' },
    { price: '3', amount: '1' },
    { price: '5', amount: '1' },
  ]);
  const candle = candleOf(traded as TradeFigures, null);
  const named = (change: Partial<CandleFigures>) =>
    judgeSlot(slot(traded, { ...candle, ...change })).differences.map(({ figure }) => figure);
  assert.deepEqual(named({}), []);
  assert.deepEqual(named({ high: '5' }), ['high']);
  assert.deepEqual(named({ low: '5' }), ['low']);
});

test('silence matches: no candle, or one without volume, where no trade happened', () => {
  const flat = { open: '5', close: '5', high: '5', low: '5', volume: '0.000', quoteVolume: '0' };
  assert.equal(judgeSlot(slot(null, null)).outcome, 'match');
  assert.equal(judgeSlot(slot(null, flat)).outcome, 'match');
  assert.equal(judgeSlot(slot(null, { ...flat, volume: '1' })).outcome, 'mismatch');
  assert.equal(judgeSlot(slot(null, { ...flat, quoteVolume: '1' })).outcome, 'mismatch');
  const traded = sums([{ price: '5', amount: '1' }]);
  const alone = judgeSlot(slot(traded, null));
  assert.equal(alone.outcome, 'mismatch');
  assert.deepEqual(alone.differences.map(describeDifference), ['1 trade, but no candle']);
  assert.equal(judgeSlot(slot(traded, flat)).outcome, 'mismatch');
});

test('what is not covered is never judged, and says why', () => {
  const traded = sums([{ price: '5', amount: '1' }]);
  assert.ok(traded !== null);
  const candle = candleOf(traded, null);
  for (const [hasTrades, hasCandle, reason] of [
    [false, true, /trades/],
    [true, false, /candle/],
    [false, false, /neither/],
  ] as const) {
    const verdict = judgeSlot(slot(traded, candle, { hasTrades, hasCandle }));
    assert.equal(verdict.outcome, 'unproven');
    assert.match(verdict.reason ?? '', reason);
  }
  const partly = { hasTrades: false };
  assert.equal(judgeSlot(slot(null, null, partly)).outcome, 'unproven');
  assert.equal(judgeSlot(slot(traded, null, partly)).outcome, 'mismatch', 'one trade is enough');
  assert.equal(judgeSlot(slot(traded, null, { ...partly, hasCandle: false })).outcome, 'unproven');
});

const MINUTE_MS = 60_000;
const minutes = (from: number, to: number): Span => ({
  fromMs: from * MINUTE_MS,
  toMs: to * MINUTE_MS,
});
const mismatch = (at: number, tries = 0): CheckRow => ({
  span: minutes(at, at + 1),
  outcome: 'mismatch',
  differences: [],
  tries,
  nextTryAtMs: null,
  isExact: false,
});

test('runs of matches are one row, and the newest verdict of a slot wins', () => {
  const known = [matchRow(minutes(0, 5)), mismatch(5, 2), matchRow(minutes(6, 8))];
  assert.deepEqual(mergeChecks(known, [matchRow(minutes(5, 6))]), [matchRow(minutes(0, 8))]);
  assert.deepEqual(mergeChecks(known, [mismatch(2, 1), matchRow(minutes(8, 9))]), [
    matchRow(minutes(0, 2)),
    mismatch(2, 1),
    matchRow(minutes(3, 5)),
    mismatch(5, 2),
    matchRow(minutes(6, 9)),
  ]);
});

test('an hour with one candle that is not exact has none that is', () => {
  const known = [matchRow(minutes(0, 70))];
  const later = [matchRow(minutes(70, 71), false)];
  const rows = [matchRow(minutes(0, 60)), matchRow(minutes(60, 71), false)];
  assert.deepEqual(mergeChecks(known, later), rows);
  assert.deepEqual(mergeChecks(rows, [matchRow(minutes(71, 130))]), [
    matchRow(minutes(0, 60)),
    matchRow(minutes(60, 120), false),
    matchRow(minutes(120, 130)),
  ]);
});

test('merging says of every slot what the last word was, and never overlaps', () => {
  const word = fc.record({
    at: fc.nat(20),
    length: fc.integer({ min: 1, max: 4 }),
    bad: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(word, { maxLength: 30 }), (words) => {
      const expected = new Map<number, string>();
      let rows: CheckRow[] = [];
      for (const { at, length, bad } of words) {
        const later = bad ? mismatch(at) : matchRow(minutes(at, at + length));
        for (let slotAt = at; slotAt < (bad ? at + 1 : at + length); slotAt += 1) {
          expected.set(slotAt, later.outcome);
        }
        rows = mergeChecks(rows, [later]);
      }
      const found = new Map<number, string>();
      for (const [index, row] of rows.entries()) {
        const after = rows[index + 1];
        if (after !== undefined) {
          assert.ok(row.span.toMs <= after.span.fromMs, 'apart');
          const touch = row.span.toMs === after.span.fromMs;
          assert.ok(!(touch && row.outcome === 'match' && after.outcome === 'match'), 'merged');
        }
        for (let ms = row.span.fromMs; ms < row.span.toMs; ms += MINUTE_MS) {
          found.set(ms / MINUTE_MS, row.outcome);
        }
      }
      assert.deepEqual(
        [...found].sort(([a], [b]) => a - b),
        [...expected].sort(([a], [b]) => a - b),
      );
    }),
  );
});

test('a change ends what was proven there, and has mismatches judged anew with their tries', () => {
  const known = [matchRow(minutes(0, 5)), mismatch(5, 2)];
  assert.deepEqual(invalidateRows(known, minutes(3, 4), 7), [
    matchRow(minutes(0, 3)),
    matchRow(minutes(4, 5)),
    mismatch(5, 2),
  ]);
  const waiting = { ...mismatch(5, 1), nextTryAtMs: 99 };
  assert.deepEqual(invalidateRows([waiting], minutes(0, 9), 7), [waiting]);
  assert.deepEqual(invalidateRows(known, minutes(0, 9), 7), [
    { ...mismatch(5, 2), nextTryAtMs: 7 },
  ]);
});
