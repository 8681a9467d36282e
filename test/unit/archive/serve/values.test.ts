import { deepEqual, equal, throws } from 'node:assert/strict';
import { test } from 'node:test';
import { divide, roundDigits } from '../../../../src/archive/serve/numbers.js';
import { doubleText, intervalText } from '../../../../src/archive/serve/rows.js';
import {
  comparedUs,
  decimalText,
  digitsOf,
  readArray,
  readInterval,
  readTimestamp,
} from '../../../../src/archive/serve/values.js';

const quotient = (a: string, b: string) => {
  const [one, other] = [digitsOf(a), digitsOf(b)];
  if (one === undefined || other === undefined) throw new Error('no number');
  const { units, scale } = divide(one, other);
  return decimalText(units, scale);
};

test('divides with as many digits as Postgres', () => {
  // SELECT a / b of Postgres.
  const cases = [
    ['1', '3', '0.33333333333333333333'],
    ['2', '3', '0.66666666666666666667'],
    ['-2', '3', '-0.66666666666666666667'],
    ['10000', '3', '3333.3333333333333333'],
    ['1', '10000', '0.000100000000000000000000'],
    ['123456789012345678', '7', '17636684144620811'],
    ['1.50', '2', '0.75000000000000000000'],
    ['0', '7', '0.00000000000000000000'],
    ['1', '0.00000000000000000000001', '100000000000000000000000.00000000000000000000000'],
  ] as const;
  for (const [a, b, wanted] of cases) equal(quotient(a, b), wanted, `${a} / ${b}`);
  throws(() => quotient('1', '0'), { sqlstate: '22012' });
});

test('rounds half away from zero, before the point too', () => {
  deepEqual(roundDigits(25n, 1, 0), { units: 3n, scale: 0 });
  deepEqual(roundDigits(-25n, 1, 0), { units: -3n, scale: 0 });
  deepEqual(roundDigits(1550n, 0, -2), { units: 1600n, scale: 0 });
  deepEqual(roundDigits(15n, 1, 3), { units: 1500n, scale: 3 });
});

test('writes floats as Postgres does', () => {
  const cases = { '0.0001': 1e-4, '1e-05': 1e-5, '1e+15': 1e15, '-123456.75': -123456.75 };
  for (const [text, value] of Object.entries(cases)) equal(doubleText(value), text);
  equal(doubleText(999_999_999_999_999), '999999999999999');
  equal(doubleText(-0), '-0');
  equal(doubleText(Number.NaN), 'NaN');
  equal(doubleText(Number.NEGATIVE_INFINITY), '-Infinity');
  equal(doubleText(1.25e22), '1.25e+22');
});

test('writes and reads intervals in the style of Postgres', () => {
  const cases = {
    '00:00:00': 0n,
    '-00:00:00.5': -500_000n,
    '1 day': 86_400_000_000n,
    '-1 days -02:03:04': -93_784_000_000n,
    '40 days 00:00:00.000001': 3_456_000_000_001n,
  };
  for (const [text, us] of Object.entries(cases)) {
    equal(intervalText(us), text);
    // Postgres writes the sign before the hours only.
    equal(comparedUs(readInterval(text)), us, text);
  }
  equal(comparedUs(readInterval('1 year 2 mons -3 days +04:05:06.7')), 36_043_506_700_000n);
  for (const text of ['', '1 fortnight', 'P1D'])
    throws(() => readInterval(text), { sqlstate: '0A000' });
});

test('reads timestamps of any offset, and refuses other texts', () => {
  equal(readTimestamp('1970-01-01 00:00:00.000001+00'), 1n);
  equal(readTimestamp('1970-01-01 05:30:00+05:30'), 0n);
  equal(readTimestamp('1969-12-31 23:59:59.5-00'), -500_000n);
  equal(readTimestamp('0001-01-01 00:00:00+00'), -62_135_596_800_000_000n);
  equal(readTimestamp('infinity'), 'infinity');
  for (const text of ['', 'now', '2026-01-01T00:00:00Z', '0044-03-15 00:00:00+00 BC']) {
    throws(() => readTimestamp(text), { sqlstate: '0A000' });
  }
});

test('reads arrays as Postgres writes them', () => {
  deepEqual(readArray('{}'), []);
  deepEqual(readArray('{1,NULL,-2.5}'), ['1', null, '-2.5']);
  deepEqual(readArray('{"a b","NULL","q\\"\\\\"}'), ['a b', 'NULL', 'q"\\']);
  for (const text of ['', '1', '{{1},{2}}', '{"a']) throws(() => readArray(text));
});
