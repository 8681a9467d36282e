import assert from 'node:assert/strict';
import test from 'node:test';
import { coveredOf, gapsOf } from '../../../src/client/reply-reader.js';

const SINCE = '2026-01-31T12:01:00.000Z';
const NOW = '2026-01-31T12:03:00.000Z';
const SPAN = { fromMs: Date.parse(SINCE), toMs: Date.parse(NOW) };
const TOLD = {
  'x-tapekeep-gap': `trades ${SINCE} ${NOW} not collected`,
  'x-tapekeep-covered': `${SINCE} ${NOW}`,
};

test('gaps are believed of a replay, and of nobody else', () => {
  const replay = { ...TOLD, 'x-tapekeep-exchange': 'replay-1' };
  assert.deepEqual(
    gapsOf(replay).map(({ span }) => span),
    [SPAN],
  );
  assert.deepEqual(coveredOf(replay), SPAN);
  for (const other of [TOLD, { ...TOLD, 'x-tapekeep-exchange': 'sandbox-1' }]) {
    assert.deepEqual([gapsOf(other), coveredOf(other)], [[], null]);
  }
});

test('what a replay tells and nobody can read puts all of its answer in doubt', () => {
  for (const garbled of [
    { 'x-tapekeep-gap': 'trades yesterday' },
    { 'x-tapekeep-gap': 'x'.repeat(100_000) },
    { 'x-tapekeep-covered': `${NOW} ${SINCE} and more` },
  ]) {
    const [gap] = gapsOf({ ...garbled, 'x-tapekeep-exchange': 'replay-1' });
    assert.ok(gap !== undefined && gap.span.fromMs <= 0 && gap.span.toMs > Date.UTC(9000, 0));
  }
});
