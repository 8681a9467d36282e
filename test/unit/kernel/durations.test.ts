import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownDuration } from '../../../src/kernel/durations.js';

test('a length of time is said in its two largest units, rounded and never as 60 of one', () => {
  const said: ReadonlyArray<readonly [number, string]> = [
    ...([
      [-1, '0s'],
      [0, '0s'],
      [40, '0.0s'],
      [440, '0.4s'],
      [9949, '9.9s'],
      [9950, '10s'],
    ] as const),
    ...([
      [59_499, '59s'],
      [59_500, '1m'],
      [61_000, '1m 1s'],
      [185_000, '3m 5s'],
    ] as const),
    ...([
      [3_599_600, '1h'],
      [3_600_000, '1h'],
      [5_400_000, '1h 30m'],
    ] as const),
    ...([
      [86_399_700, '1d'],
      [633_600_000, '7d 8h'],
      [31_536_000_000, '365d'],
    ] as const),
  ];
  for (const [ms, text] of said) assert.equal(shownDuration(ms), text, `${ms} ms`);
});
