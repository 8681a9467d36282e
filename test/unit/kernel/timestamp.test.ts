import assert from 'node:assert/strict';
import test from 'node:test';
import { isoMs, isoUs, timestampUs } from '../../../src/kernel/timestamp.js';

const US = Date.UTC(2026, 0, 31, 12, 34, 56) * 1000;

test('a text of microseconds reads as the same number, in the forms of files and of Postgres', () => {
  assert.equal(isoUs(US + 7), '2026-01-31T12:34:56.000007Z');
  for (const us of [US, US + 7, US + 120_000]) assert.equal(timestampUs(isoUs(us)), us);
  assert.equal(timestampUs(isoMs(US / 1000 + 5)), US + 5000);
  assert.equal(timestampUs('2026-01-31 12:34:56.12+00'), US + 120_000);
  assert.equal(timestampUs('2026-01-31 12:34:56'), US);
});

test('any other text is not a number', () => {
  for (const text of ['', '2026-01-31', '31.01.2026 12:34:56', 'infinity']) {
    assert.equal(timestampUs(text), Number.NaN, text);
  }
});
