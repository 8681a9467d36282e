import assert from 'node:assert/strict';
import test from 'node:test';
import {
  endShown,
  goDeeper as goBelow,
  goShallower,
  isPastTheEnd,
  type Search,
  searchFrom,
} from '../../../src/model/search.js';
import fc from '../../support/properties.js';

const rowAt = (tid: number) => ({ tid, tradedAtS: tid });
const goDeeper = (search: Search, rows: number) => goBelow(search, rows, rowAt(50));

test('strides double until the place is overshot, then what is left is halved', () => {
  const skips: number[] = [];
  let search = searchFrom(0);
  for (const place = 10_000; skips.length < 30; ) {
    skips.push(search.skip);
    if (search.skip + 100 <= place) search = goDeeper(search, 100);
    else if (search.skip > place) search = goShallower(search, 100);
    else break;
  }
  assert.deepEqual(skips.slice(0, 8), [0, 99, 297, 693, 1485, 3069, 6237, 12_573]);
  assert.ok(skips.length <= 16, skips.join(' '));
});

test('an empty answer proves the end only right below a page that lies above the place', () => {
  const below = goDeeper(searchFrom(10), 1);
  assert.equal(below.skip, 11);
  assert.ok(isPastTheEnd(below));
  assert.ok(!isPastTheEnd(goDeeper(searchFrom(10), 5)), 'the last row is asked for once more');
  assert.ok(!isPastTheEnd(searchFrom(10)));
});

test('any place is found in few requests, whatever the estimate and however the head moves', () => {
  const world = fc.record({
    place: fc.integer({ min: 0, max: 1_000_000 }),
    estimate: fc.integer({ min: 0, max: 1_000_000 }),
    page: fc.integer({ min: 10, max: 1000 }),
    arrivals: fc.integer({ min: 0, max: 100 }),
  });
  fc.assert(
    fc.property(world, ({ place, estimate, page, arrivals }) => {
      let search = searchFrom(estimate);
      let at = place;
      let requests = 0;
      for (; requests < 200; requests += 1) {
        if (search.skip > at) search = goShallower(search, page);
        else if (search.skip + page <= at) search = goDeeper(search, page);
        else break;
        // The head moves by a part of a page while a request is under way.
        at += Math.min(arrivals, page >> 2);
      }
      const pages = Math.max(2, Math.abs(place - estimate) / page);
      assert.ok(requests <= 12 + 4 * Math.log2(pages), `${requests} requests`);
    }),
    { numRuns: 500 },
  );
});

test('below a short page with nothing beneath, the end is looked for right below that page', () => {
  const short = goDeeper(searchFrom(1000), 683);
  const empty = goShallower({ ...short, skip: 3000 }, 1000, true);
  assert.equal(empty.skip, 1683);
  assert.ok(isPastTheEnd(empty));
  const full = goShallower({ ...goDeeper(searchFrom(1000), 1000), skip: 3000 }, 1000, true);
  assert.ok(!isPastTheEnd(full), 'below a full page there may be much more');
});

test('between what is too shallow and what is too deep the page in the middle is asked for', () => {
  const deep = { ...goDeeper(searchFrom(0), 100), skip: 1099 };
  assert.deepEqual([deep.shallow, goShallower(deep, 100).skip], [99, 549]);
});

test('a page that contradicts what was too shallow is left upwards, and that is forgotten', () => {
  const { skip, shallow, deep } = goShallower(goDeeper(searchFrom(500), 100), 100);
  assert.deepEqual({ skip, shallow, deep }, { skip: 499, shallow: undefined, deep: 599 });
});

test('while newer rows push the end down, a long page that ends at the lowest row again shows it', () => {
  const ends = (search: Search, tid: number, rows: number, room = 100) =>
    endShown(search, { oldest: rowAt(tid), rows, room });
  const short = goDeeper(searchFrom(1000), 30);
  assert.equal(ends(short, 50, 40), undefined, 'nothing was empty below it yet');
  const search = goShallower({ ...short, skip: 1050 }, 100, true);
  assert.deepEqual([search.unseen, search.skip], [20, 1030]);
  assert.equal(ends(search, 50, 80), 'isEnd');
  assert.equal(ends(search, 50, 81), undefined, 'no room for all that may lie below');
  assert.equal(ends(search, 51, 40), undefined, 'the head moved by more than a page');
  assert.equal(ends(search, 49, 40), undefined, 'there is more');
  assert.equal(ends({ ...search, skip: 0 }, 50, 3), 'isEnd', 'all that there is');
  const above = ends(search, 50, 3);
  assert.deepEqual(above, { ...search, skip: 993 }, 'so short a page may be cut just there');
  const half = ends(search, 50, 3, 40);
  assert.ok(
    typeof half === 'object',
    'a longer page may show it where it has room for as much again',
  );
  assert.equal(ends(search, 50, 3, 39), undefined);
  const seen = goShallower(
    { ...goShallower({ ...search, skip: 1045 }, 100), skip: 1040 },
    100,
    true,
  );
  assert.equal(ends(seen, 50, 80), undefined, 'a page showed rows below it');
  const lower = goBelow(search, 40, rowAt(49));
  assert.deepEqual([lower.lowest, lower.unseen], [rowAt(49), 20]);
  assert.equal(goDeeper(lower, 40).lowest?.tid, 49, 'a page from further up hides no lower row');
});
