import assert from 'node:assert/strict';
import test from 'node:test';
import { BoundedMap, BoundedSet } from '../../../src/kernel/bounded.js';

test('what was set longest ago is forgotten beyond the bound, and what is set again counts as new', () => {
  const map = new BoundedMap<string, number>(2);
  for (const [key, value] of [
    ['a', 1],
    ['b', 2],
    ['a', 3],
    ['c', 4],
  ] as const)
    map.set(key, value);
  assert.deepEqual(
    [...map],
    [
      ['a', 3],
      ['c', 4],
    ],
  );
  const set = new BoundedSet<string>(2);
  for (const value of ['a', 'b', 'a', 'c']) set.add(value);
  assert.deepEqual([...set], ['a', 'c']);
});
