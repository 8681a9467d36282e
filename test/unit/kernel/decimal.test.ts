import assert from 'node:assert/strict';
import test from 'node:test';
import {
  addDecimals,
  compareDecimals,
  decimalSign,
  divideDecimals,
  equalDecimals,
  isDecimalText,
  MAX_DECIMAL_LENGTH,
  multiplyDecimals,
  roundDecimal,
  subtractDecimals,
  toPlainDecimal,
} from '../../../src/kernel/decimal.js';
import fc from '../../support/properties.js';

/** An exact fraction: the yardstick, which shares no code with the module. */
interface Rational {
  readonly over: bigint;
  readonly under: bigint;
}

function rational(text: string): Rational {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  assert.ok(match, `not a decimal: ${text}`);
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match;
  const digits = BigInt(`${whole}${fraction}`) * (sign === '-' ? -1n : 1n);
  const shift = Number(exponent) - fraction.length;
  return shift >= 0
    ? { over: digits * 10n ** BigInt(shift), under: 1n }
    : { over: digits, under: 10n ** BigInt(-shift) };
}

function compareRationals(a: Rational, b: Rational): number {
  const left = a.over * b.under;
  const right = b.over * a.under;
  return left === right ? 0 : left < right ? -1 : 1;
}

function assertSame(actual: string, expected: Rational): void {
  assert.match(actual, /^-?\d+(\.\d+)?$/);
  assert.equal(
    compareRationals(rational(actual), expected),
    0,
    `${actual} is not the exact result`,
  );
}

const digit = fc.constantFrom(...'0123456789');
const digits = (minLength: number, maxLength: number) =>
  fc.string({ unit: digit, minLength, maxLength });

/** Any text that is taken from outside: signs, leading and closing zeros, exponents. */
const anyDecimal = fc
  .tuple(
    fc.constantFrom('', '-'),
    digits(1, 24),
    fc.option(digits(1, 18), { nil: undefined }),
    fc.option(fc.tuple(fc.constantFrom('e', 'E'), fc.integer({ min: -40, max: 40 })), {
      nil: undefined,
    }),
  )
  .map(([sign, whole, fraction, exponent]) => {
    const point = fraction === undefined ? '' : `.${fraction}`;
    return `${sign}${whole}${point}${exponent === undefined ? '' : exponent.join('')}`;
  });

test('decimal text: optional minus, digits, one point, an exponent of at most 40', () => {
  for (const text of ['0', '-0', '007', '61837.63000000', '1e-8', '0e-8', '-1E+40', '1.5e-40']) {
    assert.equal(isDecimalText(text), true, text);
  }
  assert.equal(isDecimalText('0.000000000000000001'), true);
  assert.equal(isDecimalText(`${'9'.repeat(60)}`), true);
});

test('what is no decimal number is refused', () => {
  const refused = ['', ' ', ' 1', '1 ', '1\n', '+1', '--1', '.5', '5.', '1.2.3', '1,5', '1_000'];
  refused.push('0x10', '1e', 'e5', '1e1.5', '1e+-1', 'NaN', 'Infinity', '-Infinity', 'null', '١');
  for (const text of refused) assert.equal(isDecimalText(text), false, JSON.stringify(text));
});

test('numbers too large to be stored are refused: long ones and those with huge exponents', () => {
  for (const text of ['1e41', '1e-41', '1e999', '1e-999', '1e9999999', '9'.repeat(61)]) {
    assert.equal(isDecimalText(text), false, text.slice(0, 20));
  }
  assert.equal(isDecimalText(`0.${'1'.repeat(41)}`), false);
  assert.equal(isDecimalText(`${'1'.repeat(60)}.${'1'.repeat(19)}`), true);
  assert.equal(`${'1'.repeat(60)}.${'1'.repeat(20)}`.length, MAX_DECIMAL_LENGTH + 1);
  assert.equal(isDecimalText(`${'1'.repeat(60)}.${'1'.repeat(20)}`), false);
});

test('refusing kilobytes of digits costs no more than refusing a word', () => {
  const refuseMs = (texts: readonly string[]) => {
    const started = performance.now();
    for (let round = 0; round < 10_000; round += 1) {
      for (const text of texts) if (isDecimalText(text)) assert.fail(text.slice(0, 20));
    }
    return performance.now() - started;
  };
  const wordsMs = refuseMs(['nonsense', 'Infinity', '1,5']);
  const attacks = ['9'.repeat(10_240), `${'1'.repeat(10_240)}e5`, `0.${'0'.repeat(10_240)}1`];
  const attacksMs = refuseMs(attacks);
  // A look at the length takes microseconds; reading these 300 MB of digits takes far longer.
  assert.ok(attacksMs < 10 * wordsMs + 100, `${attacksMs} ms against ${wordsMs} ms for words`);
});

test('any text is judged without an error, and what passes can be calculated with', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), anyDecimal), (text) => {
      if (isDecimalText(text)) assertSame(toPlainDecimal(text), rational(text));
    }),
  );
});

test('plain notation means the same number, without exponent and without a negative zero', () => {
  fc.assert(
    fc.property(anyDecimal, (text) => {
      const plain = toPlainDecimal(text);
      assertSame(plain, rational(text));
      assert.equal(plain.startsWith('-'), rational(text).over < 0n);
      assert.ok(plain.length <= 2 * MAX_DECIMAL_LENGTH);
      assert.equal(toPlainDecimal(plain), plain);
    }),
  );
});

test('plain notation keeps the digits as sent and only unfolds exponents', () => {
  const pairs = [
    ['61837.63000000', '61837.63000000'],
    ['-0.50', '-0.50'],
    ['1e-8', '0.00000001'],
    ['0e-8', '0'],
    ['1.790138674365E9', '1790138674.365'],
    ['-0', '0'],
    ['-0.000', '0.000'],
    ['-0e-8', '0'],
  ] as const;
  for (const [sent, plain] of pairs) assert.equal(toPlainDecimal(sent), plain);
});

test('sum, difference and product are exact', () => {
  fc.assert(
    fc.property(anyDecimal, anyDecimal, (a, b) => {
      const [x, y] = [rational(a), rational(b)];
      const under = x.under * y.under;
      assertSame(addDecimals(a, b), { over: x.over * y.under + y.over * x.under, under });
      assertSame(subtractDecimals(a, b), { over: x.over * y.under - y.over * x.under, under });
      assertSame(multiplyDecimals(a, b), { over: x.over * y.over, under });
    }),
  );
  assert.equal(addDecimals('0.1', '0.2'), '0.3');
  assert.equal(multiplyDecimals('61837.63000000', '0.00000001'), '0.0006183763');
});

test('products of short numbers are exact, wherever their points stand', () => {
  const short = fc.tuple(digits(0, 4), digits(0, 3)).map(([whole, part]) => {
    const text = part === '' ? whole : `${whole}.${part}`;
    return text === '' ? '0' : text;
  });
  fc.assert(
    fc.property(short, short, (a, b) => {
      const [one, other] = [a, b].map((text) => rational(text.startsWith('.') ? `0${text}` : text));
      assert.ok(one && other);
      const product = { over: one.over * other.over, under: one.under * other.under };
      assertSame(multiplyDecimals(a, b), product);
    }),
  );
  assert.equal(multiplyDecimals('1.50', '0.20'), '0.3');
  assert.equal(multiplyDecimals('100', '20'), '2000');
});

test('order, equality and sign go by value, not by text', () => {
  fc.assert(
    fc.property(anyDecimal, anyDecimal, (a, b) => {
      const order = compareRationals(rational(a), rational(b));
      assert.equal(Math.sign(compareDecimals(a, b)), order);
      assert.equal(equalDecimals(a, b), order === 0);
      assert.equal(decimalSign(a), compareRationals(rational(a), rational('0')));
    }),
  );
  assert.equal(equalDecimals('1.50', '15e-1'), true);
  assert.equal(equalDecimals('-0', '0'), true);
  assert.equal(compareDecimals('9', '10') < 0, true);
  assert.equal(decimalSign('0e5'), 0);
});

/** `over ÷ under` in whole steps of 10^-places, halves away from zero. */
function roundedSteps({ over, under }: Rational, places: number): bigint {
  const isNegative = over < 0n !== under < 0n;
  const [top, bottom] = [over < 0n ? -over : over, under < 0n ? -under : under];
  const steps = (2n * top * 10n ** BigInt(places) + bottom) / (2n * bottom);
  return isNegative ? -steps : steps;
}

test('rounding and division go half away from zero, to exactly the places asked for', () => {
  fc.assert(
    fc.property(anyDecimal, anyDecimal, fc.integer({ min: 0, max: 20 }), (a, b, places) => {
      const under = 10n ** BigInt(places);
      const isPlaced = (text: string) => (text.split('.')[1] ?? '').length === places;

      const rounded = roundDecimal(a, places);
      assertSame(rounded, { over: roundedSteps(rational(a), places), under });
      assert.ok(isPlaced(rounded));

      fc.pre(decimalSign(b) !== 0);
      const [x, y] = [rational(a), rational(b)];
      const quotient = { over: x.over * y.under, under: x.under * y.over };
      const divided = divideDecimals(a, b, places);
      assertSame(divided, { over: roundedSteps(quotient, places), under });
      assert.ok(isPlaced(divided));
    }),
  );
  assert.equal(roundDecimal('0.125', 2), '0.13');
  assert.equal(roundDecimal('-0.125', 2), '-0.13');
  assert.equal(roundDecimal('-0.4', 0), '0');
  assert.equal(divideDecimals('2', '3', 8), '0.66666667');
});

test('division by zero is an error, however the zero is written', () => {
  for (const zero of ['0', '-0', '0.000', '0e9']) {
    assert.throws(() => divideDecimals('1', zero, 2), RangeError);
  }
});
