import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endpointBlocks, rateWindows } from '../../../src/server/http/rate-window.js';
import { FakeClock } from '../../support/fake-clock.js';

const RULE = { limit: 2, windowMs: 60_000, enforce: true };

test('a window counts down, is exceeded past its limit, and begins anew at its end', () => {
  const clock = new FakeClock();
  const count = rateWindows(clock, RULE);
  assert.deepEqual(count('a'), { limit: 2, remaining: 1, resetS: 60, isExceeded: false });
  clock.advance(59_500);
  assert.deepEqual(count('a'), { limit: 2, remaining: 0, resetS: 1, isExceeded: false });
  assert.deepEqual(count('a'), { limit: 2, remaining: 0, resetS: 1, isExceeded: true });
  assert.equal(count('b').isExceeded, false, 'each address has its own');
  clock.advance(500);
  assert.deepEqual(count('a'), { limit: 2, remaining: 1, resetS: 60, isExceeded: false });
});

test('a wall clock that steps changes nothing', () => {
  const clock = new FakeClock();
  const count = rateWindows(clock, RULE);
  count('a');
  clock.stepWall(3_600_000);
  assert.equal(count('a').remaining, 0);
});

test('addresses are remembered up to a bound, and the oldest gives way', () => {
  const count = rateWindows(new FakeClock(), RULE);
  count('first');
  for (let at = 0; at < 9_999; at += 1) count(`address ${at}`);
  assert.equal(count('first').remaining, 0, 'still known');
  count('one more');
  assert.equal(count('first').remaining, 1, 'forgotten');
});

test('an endpoint is closed for a minute to an address beyond its limit, and to no other', () => {
  const clock = new FakeClock();
  const blockedS = endpointBlocks(clock, { perSecond: 2, perMinute: 4 });
  const counts = (...places: readonly (readonly [string, string])[]) =>
    places.map(([address, path]) => blockedS(address, path));
  const [a, other, b] = [
    ['a', '/history'],
    ['a', '/depth'],
    ['b', '/history'],
  ] as const;
  assert.deepEqual(counts(a, a, a, a), [0, 0, 60, 60], 'the third within a second');
  assert.deepEqual(counts(other, b), [0, 0]);
  clock.advance(59_500);
  assert.deepEqual(counts(a), [1]);
  clock.advance(500);
  assert.deepEqual(counts(a, a), [0, 0]);
  clock.advance(1000);
  assert.deepEqual(counts(a, a), [0, 0]);
  clock.advance(1000);
  assert.deepEqual(counts(a), [60], 'the fifth within a minute');
});
