import assert from 'node:assert/strict';
import test from 'node:test';
import { orderPage } from '../../../src/model/order.js';
import {
  type LocateInput,
  type Location,
  locate,
  type SeekInput,
  seek,
} from '../../../src/model/page.js';
import { goDeeper, searchFrom } from '../../../src/model/search.js';

const rowsOf = (...tids: number[]) => tids.map((tid) => ({ tid, tradedAtS: tid }));

const BASE = {
  target: { tid: 50, tradedAtS: 50 },
  search: searchFrom(10),
  asked: 5,
  largestPage: 5,
  end: undefined,
};
const BEYOND = { tid: 60, tradedAtS: 60 };
/** A page held the target alone, and this one is asked for right below it. */
const PROBE = goDeeper(searchFrom(9), 1, BASE.target);

interface Expected {
  readonly kind: Location['kind'];
  readonly skip: number;
  readonly isProbe: boolean;
}

interface Case {
  readonly name: string;
  readonly tids: readonly number[];
  readonly input?: Partial<LocateInput>;
  readonly expected: Partial<Expected>;
}

const again = (skip: number, isProbe = false): Partial<Expected> => ({
  kind: 'again',
  skip,
  isProbe,
});

const CASES: readonly Case[] = [
  {
    name: 'the target and older rows',
    tids: [50, 40, 30],
    expected: { kind: 'found' },
  },
  {
    name: 'the target among newer and older rows',
    tids: [60, 50, 40],
    expected: { kind: 'found' },
  },
  { name: 'only newer rows', tids: [90, 80, 70], expected: again(12) },
  { name: 'a single newer row still makes progress', tids: [60], expected: again(11) },
  { name: 'only older rows', tids: [40, 30], expected: again(5) },
  {
    name: 'only older rows near the head',
    tids: [40, 30],
    input: { search: searchFrom(2) },
    expected: again(0),
  },
  {
    name: 'only older rows at the head itself',
    tids: [40, 30],
    input: { search: searchFrom(0) },
    expected: { kind: 'broken' },
  },
  {
    name: 'older rows below a probe',
    tids: [40],
    input: { search: PROBE },
    expected: { kind: 'broken' },
  },
  { name: 'the target is not where it belongs', tids: [60, 40], expected: { kind: 'broken' } },
  {
    name: 'a short page that ends at the target proves nothing yet',
    tids: [60, 50],
    expected: again(11),
  },
  {
    name: 'a page that ends at the target after long strides: right below it',
    tids: [60, 50],
    input: { search: { ...searchFrom(10), stride: 8 } },
    expected: again(11),
  },
  {
    name: 'a short page where no longer one was ever seen',
    tids: [60, 50],
    input: { largestPage: 2 },
    expected: again(11),
  },
  {
    name: 'a full page that ends at the target',
    tids: [90, 80, 70, 60, 50],
    expected: again(14),
  },
  {
    name: 'a full page of which one row is the target and the rest could not be read',
    tids: [50],
    input: { received: 5 },
    expected: again(11, true),
  },
  {
    name: 'a full page with a row twice ends at the target, which is no end of history',
    tids: [80, 70, 60, 50],
    input: { received: 5 },
    expected: again(13),
  },
  {
    name: 'only the target, and no page was ever longer',
    tids: [50],
    input: { asked: 1, largestPage: 1 },
    expected: again(11, true),
  },
  {
    name: 'the second of the target began below it: half a page up',
    tids: [],
    input: { rows: [60, 40].map((tid) => ({ tid, tradedAtS: 50 })), received: 2 },
    expected: again(8),
  },
  {
    name: 'nothing below a probe',
    tids: [],
    input: { search: PROBE },
    expected: { kind: 'endOfHistory' },
  },
  {
    name: 'nothing readable below a probe',
    tids: [],
    input: { search: PROBE, received: 3 },
    expected: { kind: 'unreadableEnd' },
  },
  {
    name: 'a full page without a readable row below a probe',
    tids: [],
    input: { search: PROBE, received: 5 },
    expected: { kind: 'broken' },
  },
  ...[
    { what: 'all that was asked for, less than a page', asked: 3, received: 3 },
    { what: 'the largest page, less than was asked for', asked: 9, received: 5 },
  ].map(({ what, ...input }) => ({
    name: `no readable row below a probe: ${what}, shows no end`,
    ...{ tids: [], input: { search: PROBE, ...input }, expected: { kind: 'broken' } as const },
  })),
  ...[
    { what: 'nothing', tids: [], received: 0, skip: 13 },
    { what: 'nothing readable', tids: [], received: 4, skip: 18 },
    { what: 'only older rows', tids: [40, 30], received: 2, skip: 18 },
  ].map(({ what, tids, received, skip }) => ({
    name: `${what} far below a short page: right below that one only where history ends`,
    ...{ tids, expected: again(skip) },
    input: { received, search: { ...goDeeper(searchFrom(10), 3, BEYOND), skip: 30 } },
  })),
  {
    name: 'the target at the end of a page that shows the end of history',
    tids: [60, 50],
    input: { end: 'isEnd' },
    expected: { kind: 'endOfHistory' },
  },
  {
    name: 'rows above the target at the end of a page that shows the end of history',
    tids: [70, 60],
    input: { end: 'isEnd' },
    expected: { kind: 'beyondHistory' },
  },
  {
    name: 'the end of history in a page that is too short to show it',
    tids: [60, 50],
    input: { end: searchFrom(7) },
    expected: again(7),
  },
  { name: 'nothing at a depth', tids: [], expected: again(5) },
  {
    name: 'nothing at all',
    tids: [],
    input: { search: searchFrom(0) },
    expected: { kind: 'broken' },
  },
  {
    name: 'nothing readable at all',
    tids: [],
    input: { search: searchFrom(0), received: 4 },
    expected: { kind: 'broken' },
  },
];

for (const { name, tids, input, expected } of CASES) {
  test(`locate: ${name}`, () => {
    const location = locate({ ...BASE, received: tids.length, rows: rowsOf(...tids), ...input });
    const { kind } = location;
    const search = location.kind === 'again' ? location.search : undefined;
    const isProbe = search?.skip === search?.shallowEnd && search?.lowest?.tid === 50;
    const found: Record<string, unknown> = { ...location, skip: search?.skip, isProbe };
    const seen = Object.fromEntries(Object.keys(expected).map((key) => [key, found[key]]));
    assert.deepEqual({ ...seen, kind }, expected);
  });
}

const SOUGHT = {
  ...{ edgeMs: 50_500, search: searchFrom(10), largestPage: 5, end: undefined },
};
/** A page ended above the edge, and this one is asked for right below it. */
const BELOW = { ...goDeeper(searchFrom(7), 3, BEYOND), skip: 10 };

interface SeekCase {
  readonly name: string;
  readonly tids: readonly number[];
  readonly input?: Partial<SeekInput>;
  readonly expected: { readonly kind: Location['kind']; readonly skip?: number };
}

const SEEK_CASES: readonly SeekCase[] = [
  { name: 'rows on both sides', tids: [51, 50], expected: { kind: 'found' } },
  {
    name: 'a row just at the edge, and older ones',
    tids: [51, 40],
    input: { edgeMs: 51_000 },
    expected: { kind: 'found' },
  },
  {
    name: 'a row just at the edge, and newer ones',
    tids: [60, 51],
    input: { edgeMs: 51_000 },
    expected: { kind: 'again', skip: 11 },
  },
  { name: 'only newer rows', tids: [90, 80, 70], expected: { kind: 'again', skip: 12 } },
  {
    name: 'only newer rows, of which one at an end is not believed yet',
    tids: [90, 80, 70],
    input: { shown: 4 },
    expected: { kind: 'again', skip: 13 },
  },
  { name: 'only older rows', tids: [40, 30], expected: { kind: 'again', skip: 5 } },
  {
    name: 'only older rows in a page that is longer than any before',
    tids: [40, 30],
    input: { largestPage: 1 },
    expected: { kind: 'again', skip: 8 },
  },
  {
    name: 'only older rows at the head',
    tids: [40, 30],
    input: { search: searchFrom(0) },
    expected: { kind: 'head' },
  },
  {
    name: 'nothing at the head',
    tids: [],
    input: { search: searchFrom(0) },
    expected: { kind: 'head' },
  },
  { name: 'nothing at a depth', tids: [], expected: { kind: 'again', skip: 5 } },
  {
    name: 'nothing right below a page above the edge',
    tids: [],
    input: { search: BELOW },
    expected: { kind: 'beyondHistory' },
  },
  {
    name: 'nothing readable right below a page above the edge',
    tids: [],
    input: { search: BELOW, received: 3 },
    expected: { kind: 'again', skip: 9 },
  },
  {
    name: 'rows above the edge in a page that shows the end of history',
    tids: [70, 60],
    input: { end: 'isEnd' },
    expected: { kind: 'beyondHistory' },
  },
  {
    name: 'the end of history in a page that is too short to show it',
    tids: [70, 60],
    input: { end: searchFrom(7) },
    expected: { kind: 'again', skip: 7 },
  },
];

for (const { name, tids, input, expected } of SEEK_CASES) {
  test(`seek: ${name}`, () => {
    const page = { rows: rowsOf(...tids), received: tids.length, shown: tids.length };
    const location = seek({ ...SOUGHT, ...page, ...input });
    const { kind } = location;
    const skip = location.kind === 'again' ? { skip: location.search.skip } : {};
    assert.deepEqual({ kind, ...skip }, expected);
  });
}

test('a page is put in order, and a repeated id counts once', () => {
  const rows = [
    { tid: 3, tradedAtS: 1, mark: 'first' },
    { tid: 5, tradedAtS: 2, mark: '' },
    { tid: 3, tradedAtS: 1, mark: 'second' },
  ];
  assert.deepEqual(
    orderPage(rows).map(({ tid, mark }) => [tid, mark]),
    [
      [5, ''],
      [3, 'first'],
    ],
  );
});
