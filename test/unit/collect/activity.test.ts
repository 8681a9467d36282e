import assert from 'node:assert/strict';
import test from 'node:test';
import { TickerSweep } from '../../../src/collect/tickers.js';
import { activityOf } from '../../../src/collect/trades/evidence.js';

const figures = (last: string, volume: string, deal: string | null) => ({ last, volume, deal });

test('a rise of volume or deal, and another last price, are trades for certain', () => {
  const before = figures('10', '5', '50');
  assert.equal(activityOf(before, figures('10', '5.1', '50')), 'trade');
  assert.equal(activityOf(before, figures('10', '5', '50.01')), 'trade');
  assert.equal(activityOf(before, figures('9', '4', '40')), 'trade');
});

test('figures that only fall may be an old trade that leaves; the same ones are nothing', () => {
  const before = figures('10', '5', '50');
  assert.equal(activityOf(before, figures('10', '4', '40')), 'maybe');
  assert.equal(activityOf(before, figures('10', '4', '50')), 'maybe');
  assert.equal(activityOf(before, figures('10', '5', '40')), 'maybe');
  assert.equal(activityOf(before, figures('10.0', '5.00', '5e1')), undefined);
});

test('a deal that is not told, now or before, says nothing', () => {
  const [told, untold] = [figures('10', '5', '50'), figures('10', '5', null)];
  assert.equal(activityOf(told, untold), undefined);
  assert.equal(activityOf(untold, told), undefined);
  assert.equal(activityOf(untold, figures('10', '6', null)), 'trade');
});

test('a sweep names the markets that moved since the answer before', () => {
  const entry = (last: string, vol: string) => ({
    at: 0,
    ticker: {
      ...{ name: '', bid: '1', ask: '2', open: '1', high: '2', low: '1', last },
      ...{ vol, deal: vol, change: '0' },
    },
  });
  const sweep = new TickerSweep();
  assert.deepEqual([...sweep.compare({ A: entry('1', '1'), B: entry('1', '1') })], []);
  const activities = sweep.compare({ A: entry('1', '2'), B: entry('1', '0'), C: entry('1', '9') });
  assert.deepEqual(
    [...activities],
    [
      ['A', 'trade'],
      ['B', 'maybe'],
    ],
  );
  assert.deepEqual([...sweep.compare({ C: entry('2', '9') }).keys()], ['C']);
});
