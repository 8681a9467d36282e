import assert from 'node:assert/strict';
import test from 'node:test';
import { nearestName } from '../../../src/kernel/nearest.js';

test('the name that takes the fewest changes is meant; of equally near ones the first', () => {
  assert.equal(nearestName('BTC_USD', ['ETH_USDT', 'BTC_USDT', 'LTC_USDT']), 'BTC_USDT');
  assert.equal(nearestName('btc_usdt', ['BTC_EUR', 'BTC_USDT']), 'BTC_USDT', 'case is no change');
  assert.equal(nearestName('abcd', ['abce', 'abcf']), 'abce');
  assert.equal(nearestName('abcd', ['abxy', 'abcf', 'abcg']), 'abcf');
});

test('insertions, deletions and replacements are one change each', () => {
  for (const name of ['klines', 'kine', 'kxine'])
    assert.equal(nearestName(name, ['kline']), 'kline');
});

test('up to two changes, or a third of the name, are near; nothing else is proposed', () => {
  assert.equal(nearestName('ab', ['cd']), 'cd');
  assert.equal(nearestName('abc', ['xyz']), undefined);
  assert.equal(nearestName('abcdefghi', ['abcdefxyz']), 'abcdefxyz');
  assert.equal(nearestName('abcdefghi', ['abcdewxyz']), undefined);
  assert.equal(nearestName('abc', []), undefined);
  assert.equal(nearestName('a'.repeat(120), ['a'.repeat(121)]), 'a'.repeat(121));
  assert.equal(nearestName('a'.repeat(121), ['a'.repeat(121)]), undefined);
});
