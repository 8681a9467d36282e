import assert from 'node:assert/strict';
import test from 'node:test';
import { leftOutText, nextTryText } from '../../../src/cli/gaps.js';

test('markets of the archive that the settings do not name are named, the first of many', () => {
  assert.equal(leftOutText([], ['A', 'B']), undefined, 'all are collected');
  assert.equal(leftOutText(['A', 'B'], ['A', '*']), undefined);
  assert.match(leftOutText(['A'], ['A', 'B', '*']) ?? '', /"markets" does not name B: a daemon/);
  const many = leftOutText(['A'], ['B', 'C', 'D', 'E', 'F', 'G', 'H']) ?? '';
  assert.match(many, /does not name B, C, D, E, F and 2 more markets: /);
});

test('what is missing of a delisted market waits for the list', () => {
  const gap = { kind: 'trades', state: 'unfillable', reason: 'delisted' } as const;
  const text = nextTryText({ ...gap, nextAttemptAtMs: null }, true, 0);
  assert.equal(text, 'once the market is listed again');
  const given = { kind: 'candles', state: 'unfillable', nextAttemptAtMs: null } as const;
  const next = (gap: Partial<Parameters<typeof nextTryText>[0]>) =>
    nextTryText({ ...given, reason: 'walk stalled', ...gap }, true, 0);
  assert.equal(next({}), 'every hour while a daemon runs');
  assert.equal(
    next({ kind: 'trades', reason: 'beyond history' }),
    'every hour while a daemon runs',
  );
  assert.equal(next({ kind: 'depth', reason: 'not observed' }), 'none');
});
