import assert from 'node:assert/strict';
import test from 'node:test';
import { Big } from 'big.js';
import fc from 'fast-check';
import { BAR_LINES, barLines } from '../../../../src/archive/interchange/bar-lines.js';
import { type Candle, exchangeCandles } from '../../../../src/archive/interchange/candles.js';
import { computeCandles, ExactSum } from '../../../../src/archive/interchange/computed-candles.js';
import { CoveredWalk } from '../../../../src/archive/interchange/covered-walk.js';
import { withQuietSlots } from '../../../../src/archive/interchange/quiet-slots.js';
import { MomentReader, tradesOf } from '../../../../src/archive/interchange/text-rows.js';
import { batches, gather, inPieces, tradeLine } from '../../../support/worlds/interchange.js';

const MINUTE_MS = 60_000;

test('a moment is read to the microsecond, and nothing else is taken for one', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1_230_768_000, max: 4_102_444_800 }),
      fc.nat(999_999),
      (s, us) => {
        const reader = new MomentReader();
        const [day = '', time = ''] = new Date(s * 1000).toISOString().slice(0, 19).split('T');
        const fraction = String(us).padStart(6, '0').replace(/0+$/, '');
        const point = fraction === '' ? '' : `.${fraction}`;
        assert.equal(reader.us(`${day} ${time}${point}+00`), s * 1_000_000 + us);
        assert.equal(reader.us(`${day}T${time}${point}+00:00`), s * 1_000_000 + us);
      },
    ),
  );
  for (const text of ['', '2026-01-15', '2026-01-15 12:00:00', '2026-01-15 12:00:00+01', 'x']) {
    assert.throws(() => new MomentReader().us(text), RangeError, text);
  }
});

test('rows are the same wherever the pieces end', async () => {
  const text = `${tradeLine(1, 0, '100.10', '1')}\n${tradeLine(2, 61, '99.9', '0.5')}\n`;
  const all = await gather(tradesOf(inPieces(text, text.length)));
  assert.deepEqual(
    all.map(({ tid, price, atUs, isExact, side }) => [tid, price, atUs, isExact, side]),
    [
      ['1', '100.10', 1_768_478_400_000_000, false, 'buy'],
      ['2', '99.9', 1_768_478_461_000_000, false, 'buy'],
    ],
  );
  for (let length = 1; length < 40; length += 1) {
    assert.deepEqual(await gather(tradesOf(inPieces(text, length))), all);
  }
});

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
    ...[tradeLine(1, 0, '10.00', '0.1'), tradeLine(2, 0, '12.5', '0.2')],
    ...[tradeLine(3, 59, '9.000000000000000001', '0.30')],
    ...[tradeLine(4, 130, '9', '1'), tradeLine(5, 200, '8', '1')],
  ];
  let partial = 0;
  const noonMs = 1_768_478_400_000;
  const covered = new CoveredWalk([{ fromMs: noonMs, toMs: noonMs + 190_000 }]);
  const made = await gather(
    computeCandles(tradesOf(inPieces(`${lines.join('\n')}\n`, 50)), {
      ...{ intervalMs: MINUTE_MS, covered },
      onPartial: () => {
        partial += 1;
      },
    }),
  );
  assert.deepEqual(made, [
    {
      ...{ openMs: noonMs, open: '10.00', high: '12.5', low: '9.000000000000000001' },
      ...{ close: '9.000000000000000001', volume: '0.60' },
    },
    { openMs: noonMs + 120_000, open: '9', high: '9', low: '9', close: '9', volume: '1' },
  ]);
  assert.equal(partial, 1, 'the fourth minute is covered for ten seconds only');
});

test('prices that no double tells apart are told apart', async () => {
  const lines = [
    tradeLine(1, 0, '1.00000000000000000001', '1'),
    tradeLine(2, 1, '1.00000000000000000002', '1'),
    tradeLine(3, 2, '1', '1'),
  ];
  const [candle] = await gather(
    computeCandles(tradesOf(inPieces(`${lines.join('\n')}\n`, 99)), {
      ...{ intervalMs: MINUTE_MS, covered: new CoveredWalk([{ fromMs: 0, toMs: 1e15 }]) },
      onPartial: () => assert.fail(),
    }),
  );
  assert.deepEqual([candle?.high, candle?.low], ['1.00000000000000000002', '1']);
});

const flat = (slot: number, close: string): Candle => ({
  ...{ openMs: slot * MINUTE_MS, open: close, high: close, low: close, close, volume: '1' },
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
  return { rows: all.map((one) => [one.openMs / MINUTE_MS, one.close, one.volume]), counts };
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
  const row =
    '2026-01-15 12:00:00+00,60,100.10,103,99.000,101,8.5,816,0,2026-01-15 12:01:01.5+00\n';
  const written = async (form: keyof typeof BAR_LINES) => {
    const pieces: Buffer[] = [];
    const lines = barLines(exchangeCandles(inPieces(row, 30)), BAR_LINES[form]);
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
