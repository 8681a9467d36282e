import assert from 'node:assert/strict';
import { test } from 'node:test';
import { schedule } from '../../../src/config/values.js';
import { formatDuration, parseDuration } from '../../../src/kernel/durations.js';
import fc from '../../support/properties.js';

test('durations are read with every unit and with fractions', () => {
  assert.equal(parseDuration('500ms'), 500);
  assert.equal(parseDuration('10s'), 10_000);
  assert.equal(parseDuration(' 5m '), 300_000);
  assert.equal(parseDuration('1.5h'), 5_400_000);
  assert.equal(parseDuration('7d'), 604_800_000);
});

test('what is no duration, or longer than a century, is refused', () => {
  for (const text of [
    '',
    '10',
    's',
    '-5s',
    '10 s',
    '10S',
    '1e3s',
    '1,5s',
    '36526d',
    '9999999999s',
  ]) {
    assert.equal(parseDuration(text), undefined, text);
  }
});

test('a written duration reads back as the same milliseconds', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 999_999_999 }), (ms) => {
      assert.equal(parseDuration(formatDuration(ms)), ms);
    }),
  );
  assert.equal(formatDuration(7_200_000), '2h');
  assert.equal(formatDuration(90_000), '90s');
});

test('schedules of five and six fields are accepted', () => {
  for (const text of [
    '*/2 * * * * *',
    '0 */5 * * * *',
    '*/15 * * * *',
    '0 0 3 1,15 jan-jun mon',
    '10-50/20 * * * * 7',
  ]) {
    assert.equal(schedule().parse(text), text);
  }
});

test('what the scheduler does not take is refused', () => {
  for (const text of [
    '* * * *',
    '60 * * * * *',
    '* * 24 * * *',
    '* * * 0 * *',
    '*/0 * * * * *',
    '5/2 * * * * *',
    '* * * * * * *',
    '1,,2 * * * * *',
    '',
    null,
  ]) {
    assert.equal(schedule().safeParse(text).success, false, String(text));
  }
});
