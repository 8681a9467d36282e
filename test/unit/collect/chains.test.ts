import assert from 'node:assert/strict';
import test from 'node:test';
import { Chains, countAfter, seenDepth } from '../../../src/collect/trades/chains.js';

/** Where the walk goes on below coverage, and how deep that lies. */

const trade = (tradedAtS: number, tid = tradedAtS) => ({ tid, tradedAtS });
const chain = (edgeS: number, lowestS: number, seenUntilMs?: number) => ({
  ...trade(lowestS),
  ...{ edgeMs: edgeS * 1000, wholeFromMs: (lowestS + 1) * 1000, depth: 10, seenUntilMs },
});

const put = (chains: Chains, one: ReturnType<typeof chain>) => chains.set(one.edgeMs, one);

test('a trade of the instant until which a depth was seen is part of it, a later one is not', () => {
  assert.equal(countAfter([trade(12), trade(11), trade(10)], 11_000), 1);
  assert.equal(countAfter([trade(12), trade(11), trade(10)], 10_999), 2);
  assert.equal(countAfter([trade(12), trade(11)]), 2, 'a depth that was reckoned holds none');
});

test('what happened within a second of the question or its Date is part of the depth', () => {
  const page = { sentAtMs: 20_000, dateMs: 22_000 };
  assert.deepEqual(seenDepth(7, page), { depth: 7, seenUntilMs: 23_000 });
  assert.deepEqual(seenDepth(7, { ...page, dateMs: null }), { depth: 7, seenUntilMs: 21_000 });
});

test('trades at the head push chains deeper; what a depth has seen counts once', () => {
  const chains = new Chains();
  put(chains, chain(100, 90, 200_000));
  put(chains, chain(50, 40));
  chains.push([trade(201), trade(200)]);
  assert.deepEqual([chains.get(100_000)?.depth, chains.get(50_000)?.depth], [11, 12]);
  chains.push([trade(200, 900)]);
  assert.deepEqual([chains.get(100_000)?.depth, chains.get(50_000)?.depth], [12, 13]);
});

test('a chain that is deleted is gone, the others stay', () => {
  const chains = new Chains();
  for (const edgeS of [100, 50]) put(chains, chain(edgeS, 40));
  chains.delete(100_000);
  assert.deepEqual([...chains.keys()], [50_000]);
});

test('a suspect span drops the chains that rest on its trades, to the second', () => {
  const drop = (fromS: number, toS: number) => {
    const chains = new Chains();
    put(chains, chain(100, 90));
    chains.dropWithin({ fromMs: fromS * 1000, toMs: toS * 1000 });
    return [...chains.keys()].length === 0;
  };
  assert.equal(drop(80, 90), false, 'all of it lies below the lowest trade');
  assert.equal(drop(80, 91), true);
  assert.equal(drop(100, 110), true);
  assert.equal(drop(101, 110), false, 'all of it lies above the edge');
});

test('a chain stays while its edge lies in a gap or at its top', () => {
  const keep = (fromS: number, edgeS: number) => {
    const chains = new Chains();
    put(chains, chain(100, 90));
    chains.keepWithin([{ fromMs: fromS * 1000, edgeMs: edgeS * 1000 }]);
    return [...chains.keys()].length === 1;
  };
  assert.deepEqual([keep(50, 100), keep(50, 101), keep(50, 99)], [true, true, false]);
  assert.deepEqual([keep(99, 120), keep(100, 120)], [true, false]);
});

test('the chain that was set longest ago is forgotten beyond a hundred', () => {
  const chains = new Chains();
  for (let at = 1; at <= 100; at += 1) put(chains, chain(at * 10, at * 10 - 5));
  put(chains, chain(10, 1));
  put(chains, chain(5000, 4000));
  assert.equal([...chains.keys()].length, 100);
  assert.equal(chains.get(20_000), undefined);
  assert.equal(chains.get(10_000)?.tid, 1);
});
