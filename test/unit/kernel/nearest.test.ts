import assert from 'node:assert/strict';
import test from 'node:test';
import { nearestName } from '../../../src/kernel/nearest.js';

test('the name that takes the fewest changes is meant; of equally near ones the first', () => {
  assert.equal(nearestName('BTC_USD', ['ETH_USDT', 'BTC_USDT', 'LTC_USDT']), 'BTC_USDT');
  assert.equal(nearestName('btc_usdt', ['BTC_EUR', 'BTC_USDT']), 'BTC_USDT', 'case is no change');
  assert.equal(nearestName('abcd', ['abce', 'abcf']), 'abce');
  assert.equal(nearestName('abcd', ['abxy', 'abcf', 'abcg']), 'abcf');
});

test('insertions, deletions, replacements and swaps are one change each', () => {
  for (const name of ['klines', 'kine', 'kxine', 'kilne'])
    assert.equal(nearestName(name, ['kline']), 'kline');
});

test('a change in every four letters of what differs is near; nothing else is proposed', () => {
  assert.equal(nearestName('ab', ['cd']), undefined);
  assert.equal(nearestName('port', ['host']), undefined);
  assert.equal(nearestName('abc', ['xyz']), undefined);
  assert.equal(nearestName('abcdefghi', ['abcdefxyz']), 'abcdefxyz');
  assert.equal(nearestName('abcdefghi', ['abcdewxyz']), undefined);
  assert.equal(nearestName('abc', []), undefined);
  assert.equal(nearestName('abyz', ['cayz']), undefined, 'half a swap is none');
  assert.equal(nearestName('abyz', ['bcyz']), undefined, 'nor is the other half');
  assert.equal(nearestName('a'.repeat(120), ['a'.repeat(121)]), 'a'.repeat(121));
  assert.equal(nearestName('a'.repeat(121), ['a'.repeat(121)]), undefined);
});

test('the words that both begin with make nothing nearer', () => {
  const known = ['TAPEKEEP_MARKETS', 'TAPEKEEP_EXCHANGE_NAME', 'TAPEKEEP_EXCHANGE_URL'];
  assert.equal(nearestName('TAPEKEEP_MARKET', known), 'TAPEKEEP_MARKETS');
  assert.equal(nearestName('tapekeep_exchange_ulr', known), 'TAPEKEEP_EXCHANGE_URL');
  assert.equal(nearestName('TAPEKEEP_PORTT', known), undefined);
  assert.equal(nearestName('TAPEKEEP_EXCHANGE_REQEST', known), undefined);
  assert.equal(nearestName('BTC_EUR', ['BTC_USDT']), undefined);
  assert.equal(nearestName('exchange.abc', ['exchange.axy']), undefined);
});
