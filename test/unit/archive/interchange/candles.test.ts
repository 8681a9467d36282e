import assert from 'node:assert/strict';
import test from 'node:test';
import { Big } from 'big.js';
import fc from 'fast-check';
import {
  type Candle,
  CoveredWalk,
  computeCandles,
  ExactSum,
  withQuietSlots,
} from '../../../../src/archive/candles.js';
import { BAR_LINES, barLines } from '../../../../src/archive/interchange/file-writers.js';
import { batches, gather, trade } from '../../../support/worlds/interchange.js';

const MINUTE_MS = 60_000;

test('a sum of decimals has every digit', () => {
  const decimal = fc
    .tuple(fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.nat(18))
    .map(([digits, scale]) => Big(String(digits)).div(Big(10).pow(scale)).toFixed(scale));
  fc.assert(
    fc.property(fc.array(decimal, { minLength: 1, maxLength: 20 }), (texts) => {
      const sum = new ExactSum();
      for (const text of texts) sum.add(text);
      const expected = texts.reduce((total, text) => total.plus(text), Big(0));
      assert.ok(Big(String(sum)).eq(expected), `${sum} is not ${expected.toFixed()}`);
    }),
  );
});

test('candles of trades: first, last, highest, lowest and the exact sum; a slot in doubt is left out', async () => {
  const lines = [
    ...[trade(1, 0, '10.00', '0.1'), trade(2, 0, '12.5', '0.2')],
    ...[trade(3, 59, '9.000000000000000001', '0.30')],
    ...[trade(4, 130, '9', '1'), trade(5, 200, '8', '1')],
  ];
  let partial = 0;
  const noonMs = 1_768_478_400_000;
  const covered = new CoveredWalk([{ fromMs: noonMs, toMs: noonMs + 190_000 }]);
  const made = await gather(
    computeCandles(batches(lines, 2), {
      ...{ intervalMs: MINUTE_MS, covered },
      onPartial: () => {
        partial += 1;
      },
    }),
  );
  assert.deepEqual(made, [
    {
      ...{ openAtS: noonMs / 1000, open: '10.00', high: '12.5', low: '9.000000000000000001' },
      ...{ close: '9.000000000000000001', volume: '0.60', amount: '3' },
    },
    {
      ...{ openAtS: noonMs / 1000 + 120, open: '9', high: '9', low: '9', close: '9' },
      ...{ volume: '1', amount: '1' },
    },
  ]);
  assert.equal(partial, 1, 'the fourth minute is covered for ten seconds only');
});

test('prices that no double tells apart are told apart', async () => {
  const lines = [
    trade(1, 0, '1.00000000000000000001', '1'),
    trade(2, 1, '1.00000000000000000002', '1'),
    trade(3, 2, '1', '1'),
  ];
  const [candle] = await gather(
    computeCandles(batches(lines, 2), {
      ...{ intervalMs: MINUTE_MS, covered: new CoveredWalk([{ fromMs: 0, toMs: 1e15 }]) },
      onPartial: () => assert.fail(),
    }),
  );
  assert.deepEqual([candle?.high, candle?.low], ['1.00000000000000000002', '1']);
});

const flat = (slot: number, close: string): Candle => ({
  ...{
    openAtS: (slot * MINUTE_MS) / 1000,
    open: close,
    high: close,
    low: close,
    close,
    volume: '1',
  },
});

async function filled(candles: readonly Candle[], spans: readonly (readonly [number, number])[]) {
  const counts = { filled: 0, leftOut: 0 };
  const covered = spans.map(([from, to]) => ({ fromMs: from * MINUTE_MS, toMs: to * MINUTE_MS }));
  const all = await gather(
    withQuietSlots(batches(candles, 2), {
      ...{ span: { fromMs: 0, toMs: 10 * MINUTE_MS }, intervalMs: MINUTE_MS },
      covered: new CoveredWalk(covered),
      onFilled: () => {
        counts.filled += 1;
      },
      onLeftOut: () => {
        counts.leftOut += 1;
      },
    }),
  );
  return {
    rows: all.map((one) => [(one.openAtS * 1000) / MINUTE_MS, one.close, one.volume]),
    counts,
  };
}

test('a slot without trades has the close before, only where it is proven that there were none', async () => {
  const whole = await filled([flat(1, '5'), flat(3, '6'), flat(4, '7')], [[0, 10]]);
  assert.deepEqual(
    whole.rows.map(([slot, close, volume]) => `${slot} ${close} ${volume}`),
    ['1 5 1', '2 5 0', '3 6 1', '4 7 1', '5 7 0', '6 7 0', '7 7 0', '8 7 0', '9 7 0'],
  );
  assert.deepEqual(whole.counts, { filled: 6, leftOut: 1 });
  const gap = await filled(
    [flat(0, '5'), flat(7, '6')],
    [
      [0, 3],
      [5, 10],
    ],
  );
  assert.deepEqual(
    gap.rows.map(([slot, close]) => `${slot} ${close}`),
    ['0 5', '1 5', '2 5', '7 6', '8 6', '9 6'],
    'behind the gap no close is known before the next candle',
  );
  assert.deepEqual(gap.counts, { filled: 4, leftOut: 2 });
});

test('rows and quiet slots together are every covered slot behind the first candle, once, in order', async () => {
  const slots = fc
    .uniqueArray(fc.nat(9), { maxLength: 10 })
    .map((all) => all.sort((a, b) => a - b));
  await fc.assert(
    fc.asyncProperty(slots, fc.nat(9), fc.nat(9), async (traded, from, length) => {
      const to = Math.min(10, from + length);
      const inside = traded.filter((slot) => slot >= from && slot < to);
      const { rows } = await filled(
        inside.map((slot) => flat(slot, String(slot))),
        [[from, to]],
      );
      const first = inside[0] ?? to;
      const expected = Array.from({ length: to - first }, (_, index) => first + index);
      assert.deepEqual(
        rows.map(([slot]) => slot),
        expected,
      );
    }),
  );
});

test('the exchange’s candles are taken as they are, and written as each program wants them', async () => {
  const prices = { open: '100.10', high: '103', low: '99.000', close: '101', volume: '8.5' };
  const row = { openAtS: Date.parse('2026-01-15T12:00:00Z') / 1000, ...prices };
  const written = async (form: keyof typeof BAR_LINES) => {
    const pieces: Buffer[] = [];
    const lines = barLines(batches([row], 1), BAR_LINES[form]);
    for await (const piece of lines) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  };
  assert.equal(
    await written('backtrader'),
    'datetime,open,high,low,close,volume,openinterest\n2026-01-15 12:00:00,100.10,103,99.000,101,8.5,0\n',
  );
  assert.equal(
    await written('vectorbt'),
    'Date,Open,High,Low,Close,Volume\n2026-01-15 12:00:00+00:00,100.10,103,99.000,101,8.5\n',
  );
});
