import assert from 'node:assert/strict';
import test from 'node:test';
import type { StateRow } from '../../../src/model/batch.js';
import { SHAPES } from '../../../src/store/writer/series.js';

/** When two rows of one key say the same. */

const STATE: StateRow = {
  ...{ marketId: 1, periodS: 60, sessionId: 5, seq: 1, observedAtMs: 1000, receivedAtMs: 1001 },
  ...{ origin: 'update', last: '1.50', open: '1', close: '1', high: '2', low: '1' },
  ...{ volume: '3', quoteVolume: '4', change: null },
};
const shape = SHAPES.get('market_state');
const isSame = (one: Partial<StateRow>, other: Partial<StateRow>) =>
  shape?.isSame({ ...STATE, ...one }, { ...STATE, ...other });

test('figures are the same by value, and what is unknown is the same as nothing else', () => {
  assert.equal(isSame({}, {}), true);
  assert.equal(isSame({ last: '1.50' }, { last: '1.5' }), true);
  assert.equal(isSame({ last: '1.50' }, { last: '1.51' }), false);
  assert.equal(isSame({ change: null }, { change: '0' }), false);
  assert.equal(isSame({ change: '0' }, { change: null }), false);
  assert.equal(isSame({ change: '0.0' }, { change: '0' }), true);
});

test('when a row was received is no part of what it says', () => {
  assert.equal(isSame({ receivedAtMs: 1001 }, { receivedAtMs: 2000 }), true);
});

test('a row of either end of the sane window can be stored, one just outside cannot', () => {
  const faultOf = (fromMs: number, toMs: number) => shape?.faultOf(STATE, { fromMs, toMs });
  assert.equal(faultOf(1000, 1000), undefined);
  assert.equal(faultOf(1001, 2000), 'time outside the sane window');
  assert.equal(faultOf(0, 999), 'time outside the sane window');
});

test('rows are written by market, then by key: writers of one order do not lock each other out', () => {
  const places: (readonly [number, number, number])[] = [
    [1, 1000, 2],
    [1, 1000, 10],
    [1, 9000, 1],
    [2, 1000, 1],
  ];
  const rows = places.map(([marketId, observedAtMs, seq]) => ({
    ...{ ...STATE, marketId, observedAtMs, seq },
  }));
  const turned = rows.toReversed().sort((a, b) => shape?.compare(a, b) ?? 0);
  assert.deepEqual(turned, rows);
});

test('a row without a market cannot be stored', () => {
  const window = { fromMs: 0, toMs: 9000 };
  assert.equal(shape?.faultOf({ ...STATE, marketId: 0 }, window), 'market id not storable');
});
