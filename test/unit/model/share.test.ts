import assert from 'node:assert/strict';
import test from 'node:test';
import { SHARES_MAX, Share } from '../../../src/model/share.js';

/** Shares of the markets. */

const all = (of: number) =>
  Array.from({ length: of }, (_, at) => Share.parse(`${at + 1}/${of}`) ?? Share.whole);

test('a market has its share on every machine and for ever', () => {
  const expected: Readonly<Record<string, readonly [number, number, number]>> = {
    BTC_USDT: [2, 1, 10],
    ETH_USDT: [1, 3, 11],
    ETH_BTC: [2, 2, 54],
    LTC_USDT: [1, 1, 61],
    ЧЕ_USDT: [2, 1, 10],
  };
  const found = Object.keys(expected).map((market) => [
    market,
    [2, 3, 64].map((of) => all(of).find((share) => share.has(market))?.number),
  ]);
  assert.deepEqual(Object.fromEntries(found), expected);
});

test('each market belongs to one share, and shares are about even', () => {
  const markets = Array.from({ length: 900 }, (_, n) => `M${n}_USDT`);
  for (const of of [2, 3, 7]) {
    const counts = all(of).map((share) => markets.filter((market) => share.has(market)).length);
    assert.equal(
      counts.reduce((sum, one) => sum + one),
      markets.length,
    );
    for (const count of counts) assert.ok(Math.abs(count - 900 / of) < 180 / of, counts.join());
  }
});

test('reads shares, and nothing else', () => {
  assert.equal(String(Share.parse('2/3')), '2/3');
  assert.equal(Share.parse('1/1'), Share.whole);
  assert.equal(Share.parse(`1/${SHARES_MAX}`)?.of, SHARES_MAX);
  for (const text of ['', '0/3', '4/3', '1/0', '1', '1/65', '01/3', ' 1/3', '1/3/5', '-1/3', 'a/b'])
    assert.equal(Share.parse(text), undefined, text);
});

test('the first share keeps the tickers of all markets', () => {
  const [first, second] = all(2);
  assert.equal(first?.keeps({ kind: 'tickers', market: 'BTC_USDT' }), true);
  assert.equal(second?.keeps({ kind: 'tickers', market: 'BTC_USDT' }), false);
  assert.equal(second?.keeps({ kind: 'trades', market: 'BTC_USDT' }), true);
  assert.equal(Share.whole.keeps({ kind: 'tickers', market: 'ETH_USDT' }), true);
});
