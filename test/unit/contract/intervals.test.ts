import assert from 'node:assert/strict';
import test from 'node:test';
import { DOCUMENTED_INTERVALS_S, isKlineInterval } from '../../../src/contract/limits.js';

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;

const offered = (fromS: number, toS: number) => {
  const found: number[] = [];
  for (let seconds = fromS; seconds < toS; seconds += 1) {
    if (isKlineInterval(seconds)) found.push(seconds);
  }
  return found;
};

test('every interval that the contract lists is offered', () => {
  assert.deepEqual([...DOCUMENTED_INTERVALS_S], [60, 900, 1800, 3600, 14_400, 86_400]);
  for (const seconds of DOCUMENTED_INTERVALS_S) assert.equal(isKlineInterval(seconds), true);
});

test('below a minute: what divides a minute', () => {
  assert.deepEqual(offered(0, 60), [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30]);
});

test('below an hour: whole minutes that divide an hour', () => {
  const minutes = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30];
  assert.deepEqual(
    offered(60, HOUR_S),
    minutes.map((count) => count * 60),
  );
});

test('below a day: whole hours that divide a day', () => {
  const hours = [1, 2, 3, 4, 6, 8, 12];
  assert.deepEqual(
    offered(HOUR_S, DAY_S),
    hours.map((count) => count * HOUR_S),
  );
});

test('from a day on: whole days, and a week is the longest', () => {
  assert.deepEqual(
    offered(DAY_S, 15 * DAY_S),
    [1, 2, 3, 4, 5, 6, 7].map((count) => count * DAY_S),
  );
});

test('what is no positive whole number is no interval', () => {
  for (const seconds of [0, -1, -60, 0.5, 60.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.equal(isKlineInterval(seconds), false, String(seconds));
  }
});
