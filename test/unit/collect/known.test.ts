import assert from 'node:assert/strict';
import test from 'node:test';
import { KnownTrades } from '../../../src/collect/trades/known.js';
import { FakeClock } from '../../support/fake-clock.js';

/** What earlier answers showed of the newest trades. */

const at = (...seconds: number[]) => seconds.map((tradedAtS) => ({ tid: tradedAtS, tradedAtS }));

test('what is taken back around trades that never were reaches from the row below to the row above', () => {
  const known = new KnownTrades(new FakeClock());
  const around = (missing: number[], page: number[]) =>
    known.spanAround(at(...missing), at(...page), 99_000);
  assert.deepEqual(around([60, 50], [80, 70, 40, 30]), { fromMs: 40_000, toMs: 71_000 });
  assert.deepEqual(around([60, 50], [40, 30]), { fromMs: 40_000, toMs: 99_000 }, 'no row above');
  assert.deepEqual(around([60, 50], [80, 70]), { fromMs: 50_000, toMs: 71_000 }, 'no row below');
});
