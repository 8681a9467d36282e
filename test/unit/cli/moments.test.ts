import assert from 'node:assert/strict';
import test from 'node:test';
import { instantArgument, spanStartArgument } from '../../../src/cli/options.js';
import { selectSpan } from '../../../src/cli/selection.js';
import { resolveInstant } from '../../../src/kernel/instants.js';
import { formatInstant } from '../../../src/kernel/timestamp.js';
import fc from '../../support/properties.js';

const NOW_MS = Date.parse('2026-03-01T00:00:00Z');

const read = (text: string) => resolveInstant(instantArgument(text), NOW_MS);

test('days, times, zones and durations are read exactly', () => {
  for (const [text, iso] of [
    ['2026-01-31', '2026-01-31T00:00:00.000Z'],
    [' 2026-01-31 ', '2026-01-31T00:00:00.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'],
    ['2026-01-31T12:00', '2026-01-31T12:00:00.000Z'],
    ['2026-01-31 12:00:59', '2026-01-31T12:00:59.000Z'],
    ['2026-01-31T12:00:00.5Z', '2026-01-31T12:00:00.500Z'],
    ['2026-01-31T23:59:59.999Z', '2026-01-31T23:59:59.999Z'],
    // The day before or after in UTC.
    ['2026-01-01T00:30+01:00', '2025-12-31T23:30:00.000Z'],
    ['2025-12-31T23:30-01:00', '2026-01-01T00:30:00.000Z'],
    ['2026-01-31T12:00:00+05:45', '2026-01-31T06:15:00.000Z'],
    ['1970-01-01', '1970-01-01T00:00:00.000Z'],
    ['0s', '2026-03-01T00:00:00.000Z'],
    ['now', '2026-03-01T00:00:00.000Z'],
    ['1ms', '2026-02-28T23:59:59.999Z'],
    ['1d', '2026-02-28T00:00:00.000Z'],
    ['-5m', '2026-02-28T23:55:00.000Z'],
  ] as const) {
    assert.equal(new Date(read(text)).toISOString(), iso, text);
  }
});

test('a span that begins at the start is one without a beginning of its own', () => {
  assert.deepEqual(selectSpan({ from: spanStartArgument('start'), to: undefined }, NOW_MS), {});
  assert.deepEqual(spanStartArgument('2h'), instantArgument('2h'));
  assert.throws(() => instantArgument('start'), /Write a day such as/);
});

test('a span that is none is refused as it was typed, and says which time is meant', () => {
  for (const [from, to, said] of [
    [
      '2026-01-31 12:00',
      '2026-01-31',
      '--from: "2026-01-31 12:00" is not allowed; it must be before --to, 2026-01-31',
    ],
    [
      '1h',
      '2h',
      '--from: "1h" is not allowed; it (2026-02-28T23:00:00.000Z) must be before --to, 2h (2026-02-28T22:00:00.000Z)',
    ],
    [
      '2026-03-02',
      undefined,
      `--from: "2026-03-02" is not allowed; it must be before the exchange's time now, 2026-03-01T00:00:00.000Z`,
    ],
  ] as const) {
    const end = to === undefined ? undefined : instantArgument(to);
    const select = () => selectSpan({ from: instantArgument(from), to: end }, NOW_MS);
    assert.throws(select, { code: 'usage', message: said });
  }
});

test('what is no moment is refused with what is allowed', () => {
  for (const text of [
    ...['', ' ', 'yesterday', 'nowadays', '2026', '2026-1-1', '26-01-01', '2026-01', '20260131'],
    // Days and times that no calendar and no clock have.
    ...['2026-02-29', '2026-02-30', '2026-04-31', '2026-13-01', '2026-00-10', '2026-01-00'],
    ...['2026-01-31T24:00:01', '2026-01-31T25:00', '2026-01-31T12:60', '2026-01-31T12:00:60'],
    ...['2026-01-31T12', '2026-01-31T12:00:00.1234Z', '2026-01-31T', '2026-01-31Z'],
    ...[
      '2026-01-31T12:00+0100',
      '2026-01-31T12:00+25:00',
      '2026-01-31T12:00z',
      '--5m',
      '1.5.2h',
      '5 parsecs',
    ],
    ...['2026-01-31\n2026-02-01', '2026-01-31; DROP', '１９７０-01-01', 'NaN', 'Infinity', '1e3'],
  ]) {
    assert.throws(() => instantArgument(text), /2026-01-31T12:00:00Z/, JSON.stringify(text));
  }
});

test('every moment of the common calendar comes back as it was written', () => {
  const from = Date.parse('1970-01-01T00:00:00Z');
  const to = Date.parse('9999-12-31T23:59:59.999Z');
  fc.assert(
    fc.property(fc.integer({ min: from, max: to }), (ms) => {
      assert.equal(read(new Date(ms).toISOString()), ms);
      assert.equal(read(formatInstant(ms)), ms);
    }),
  );
});
