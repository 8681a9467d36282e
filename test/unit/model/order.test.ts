import assert from 'node:assert/strict';
import test from 'node:test';
import {
  AHEAD,
  areAtOdds,
  comparePlaces,
  isOddHead,
  MISPLACED,
  screenPage,
  seamsOf,
} from '../../../src/model/order.js';

/** The order of trades, and which rows of a page cannot be where they are. */

/** Rows newest first with falling ids. */
const rowsAt = (...seconds: number[]) =>
  seconds.map((tradedAtS, at) => ({ tradedAtS, tid: 1000 - at }));

const refusedOf = (latestS: number, ...seconds: number[]) => {
  const { refused, isShuffled } = screenPage(rowsAt(...seconds), latestS);
  assert.equal(isShuffled, false);
  return Object.fromEntries(refused);
};

test('trades go by their second, within it by their id', () => {
  const [a, b, c] = [1, 2, 3].map((tid) => ({ tid, tradedAtS: tid === 3 ? 1 : 2 }));
  assert.ok(a && b && c);
  assert.ok(comparePlaces(a, b) < 0 && comparePlaces(b, a) > 0);
  assert.ok(comparePlaces(c, a) < 0, 'the second goes before the id');
  assert.equal(comparePlaces(a, { ...a }), 0);
});

test('two trades are at odds where ids and times more than two seconds apart disagree', () => {
  const at = (tradedAtS: number, tid: number) => ({ tradedAtS, tid });
  assert.equal(areAtOdds(at(100, 1), at(103, 2)), false);
  assert.equal(areAtOdds(at(103, 2), at(100, 1)), false);
  assert.equal(areAtOdds(at(103, 1), at(100, 2)), true);
  assert.equal(areAtOdds(at(100, 2), at(103, 1)), true);
  assert.equal(areAtOdds(at(102, 1), at(100, 2)), false, 'clocks of matching engines differ');
});

test('a row up to two seconds out of place is true, one further away is refused', () => {
  assert.deepEqual(refusedOf(200, 100, 96, 98, 95, 94), {});
  assert.deepEqual(refusedOf(200, 100, 96, 99, 95, 94), { 2: MISPLACED });
  assert.deepEqual(refusedOf(200, 100, 97, 95, 97, 96, 95), {});
  assert.deepEqual(refusedOf(200, 100, 98, 95, 98, 97, 96), { 2: MISPLACED });
  assert.deepEqual(refusedOf(200, 99, 100, 98), {}, 'the newest row of a page as well');
});

test('several rows in a row, and those at the ends of a page, are held against the next true one', () => {
  assert.deepEqual(refusedOf(200, 100, 99, 10, 11, 98, 97, 96), { 2: MISPLACED, 3: MISPLACED });
  assert.deepEqual(refusedOf(200, 50, 100, 99, 98), { 0: MISPLACED });
  assert.deepEqual(refusedOf(200, 100, 99, 98, 150), { 3: MISPLACED });
});

test('a few rows more than a minute ahead are refused; more of them, or all, show a wrong clock', () => {
  assert.deepEqual(refusedOf(100, 160, 100, 99), {});
  assert.deepEqual(refusedOf(100, 161, 100, 99), { 0: AHEAD });
  assert.deepEqual(refusedOf(100, 170, 170, 170, 100, 99, 98), { 0: AHEAD, 1: AHEAD, 2: AHEAD });
  assert.deepEqual(refusedOf(100, 170, 170, 170, 170, 100, 99, 98, 97), {});
  assert.deepEqual(refusedOf(100, 170), {});
  assert.deepEqual(refusedOf(100, 170, 100), { 0: AHEAD });
  assert.deepEqual(
    refusedOf(100, 100, 170, 99, 98),
    { 1: AHEAD },
    'amid others it is not misplaced',
  );
});

test('a page that came shuffled is screened in the order of its ids', () => {
  const rows = rowsAt(100, 99, 98, 97, 96, 95);
  const shuffled = [3, 0, 5, 1, 4, 2].map((at) => rows[at]).filter((row) => row !== undefined);
  assert.deepEqual(screenPage(shuffled, 200), { refused: new Map(), isShuffled: true });
  const wrong = shuffled.map((row) => (row.tid === 998 ? { ...row, tradedAtS: 10 } : row));
  const { refused, isShuffled } = screenPage(wrong, 200);
  assert.equal(isShuffled, true);
  assert.deepEqual([...refused], [[5, MISPLACED]]);
});

test('ids begin anew where three and more rows lie below most of the ids before', () => {
  const rows = (...tids: number[]) => tids.map((tid, at) => ({ tid, tradedAtS: 100 - at }));
  const seams = (...tids: number[]) => seamsOf(rows(...tids)).map(({ first }) => first.tid);
  assert.deepEqual(seams(3, 2, 1, 99, 98, 97), [1]);
  assert.deepEqual(
    seams(5, 4, 3, 2, 1, 99, 98, 97, 96, 95, 94, 93, 92),
    [1],
    'one place, and no other',
  );
  assert.deepEqual(seams(2, 1, 99, 98, 97), [], 'two rows above are too few');
  assert.deepEqual(seams(3, 2, 1, 99, 98), [], 'two rows below are too few');
  assert.deepEqual(seams(99, 98, 1, 97, 96, 95), [], 'one wrong id is no seam');
  assert.deepEqual(seams(9, 8, 7, 6, 5, 4), []);
});

test('a newest row is odd by an id far from those below it, or a time that is not the latest', () => {
  const isOdd = (step: number, atS = 100) => {
    const tids = [100 + step, 100, 95, 92];
    return isOddHead(
      tids.map((tid, at) => ({ tid, tradedAtS: at === 0 ? atS : 100 - at })),
      100_000,
    );
  };
  assert.deepEqual(
    [1, 50].map((step) => isOdd(step)),
    [false, false],
  );
  assert.deepEqual(
    [0, -3, 51].map((step) => isOdd(step)),
    [true, true, true],
  );
  assert.deepEqual([isOdd(1, 99), isOdd(1, 98), isOdd(1, 101)], [false, true, true]);
});
