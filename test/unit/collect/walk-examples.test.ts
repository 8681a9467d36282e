import { every, type Trade } from '../../support/worlds/trade-world.js';
import { each, type Phase, shifted, testWalks, times } from '../../support/worlds/walk-script.js';

/** The walk over a history that is written down trade by trade: what it covers, lists and asks for. */

/** Trades of which some cannot be read. */
const broken = (trades: readonly Trade[], ...tids: number[]): Trade[] =>
  trades.map((trade) => (tids.includes(trade.tid) ? { ...trade, isBroken: true } : trade));

const BEYOND = 'its time lies beyond the present of the exchange';

const stalls = { code: 'walk_stalled' };

testWalks({
  'a market without trades is covered as empty, and so is the time before its first trade': [
    { trades: [], now: 100 },
    // Two answers may both be cut; one request a look, no two of one address.
    { walk: 'look 6.5s look', covered: '', limits: [1000, 500] },
    { walk: '6.5s look', covered: '99-100', floor: 99, limits: [1000] },
    { walk: '6.5s look', covered: '99-106', limits: [500] },
    {
      add: [{ tid: 1, atS: 120.7 }],
      walk: '10s look fill',
      ...{ covered: '99-129', gaps: '', floor: 99, stored: 1 },
    },
  ],
  ...each(['skip', 'id'] as const, (mode) => [
    `first trades of time that was seen empty take all of it back, how ever many pages they fill: ${mode}`,
    [
      { trades: [], now: 100, mode },
      { walk: times(5, 'look 10s'), covered: '99-120' },
      // All answers so far were old ones.
      { trades: every(70, 0.5, 105), cap: 50, walk: 'look', look: { isConnected: false } },
      { walk: 'fill', covered: mode === 'skip' ? '106-139' : '116-150' },
    ],
  ]),
  // What was traded in the absence is forgotten but for the newest; what was expected stays so.
  'trades after a long absence prove nothing of it, though the market was empty before': [
    { trades: [], now: 100 },
    { walk: times(4, 'look 6s'), covered: '99-106' },
    {
      trades: every(10, 1, 1110),
      walk: '1000s look fill',
      ...{ covered: '1111-1124, 99-106', floor: 99 },
    },
  ],
  'a market whose only trade lies before what is covered was not empty: a hole in its trades is no quiet time':
    [
      { trades: [{ tid: 1, atS: 0.5 }], now: 100 },
      { walk: 'look fill', covered: '1-100' },
      {
        trades: every(40, 0.5, 200),
        walk: '130s restart look fill',
        ...{ lastGap: '100-201 unfillable', reasons: ['head moved', 'beyond history'] },
        covered: '201-230, 1-100',
      },
    ],
  'coverage ends with a whole second: what happens later in it was never called covered': [
    { trades: every(3, 2), now: 10.5 },
    { walk: 'look', top: 10 },
    { add: [{ tid: 4, atS: 10.9 }] },
  ],
  'history bounded by a duration is walked to there and no further': [
    { trades: every(1000, 1), now: 1000, cap: 100, from: 450 },
    { walk: 'look fill', covered: '412-1000', gaps: '' },
  ],
  'a quiet market of a bounded history is asked for small pages': [
    { trades: every(500, 1), now: 10_000, from: 9000 },
    { walk: times(11, 'look 6s') },
    { walk: 'look', limits: [10] },
  ],
  'what the exchange has forgotten between two islands is unfillable, and asked for rarely': [
    { trades: every(50, 1), now: 60 },
    { walk: 'look fill' },
    {
      trades: shifted(100, 1, 200, 1000),
      walk: '340s restart look fill',
      lastGap: '60-201 unfillable',
      covered: '201-400, 1-60',
    },
    { walk: '1800s fill', asked: 0 },
  ],
  // A cache has hidden the trades after 40 s.
  'after a restart a page that begins amid time claimed by an old page is not joined to that claim':
    [
      { trades: every(40, 1), now: 60 },
      { walk: 'look', top: 60 },
      { trades: every(105, 1), cap: 50, walk: '46s restart look fill' },
    ],
  'trades that such a page has hidden are all fetched, below the gap as well, page after page': [
    { trades: every(160, 1), now: 200 },
    { walk: 'look fill', covered: '1-200' },
    { trades: every(260, 1), cap: 20, walk: '60s restart look fill', covered: '1-260' },
  ],
  'a head older than what is stored is an error and claims nothing, over a restart as well': [
    { trades: every(20, 1), now: 30 },
    { walk: 'look fill', covered: '1-30' },
    {
      trades: every(15, 1),
      walk: '60s look',
      fails: {
        ...stalls,
        message: /its newest trade is 15, older than 20 and 4 more, which is stored/,
      },
    },
    { trades: [], walk: 'look', fails: /its history is empty, and was not before/ },
    { trades: every(15, 1), walk: 'restart look', fails: stalls },
    { trades: every(19, 1), walk: 'restart look', fails: /older than 20, which is/ },
    { covered: '1-30' },
  ],
  // The lowest row has one neighbour only, and waits for a second answer.
  'a trade that is dated into the future covers nothing, and leaves open where it may belong': [
    { trades: [...every(20, 1), { tid: 21, atS: 40_000 }], now: 30 },
    { walk: 'look', covered: '2-19', gaps: '19-30 open', refused: [BEYOND] },
  ],
  ...each(
    [
      ['the first second of the first exchanges is a time of trades', 0, []],
      ['the one before it is refused', -1, ['time outside the sane window']],
    ] as const,
    ([name, byS, refused]) => {
      const atS = (Date.UTC(2009, 0, 1) - Date.UTC(2026, 0, 1)) / 1000 + byS;
      const trades = [
        { tid: 1, atS },
        { tid: 2, atS: 10 },
      ];
      return [
        name,
        [
          { trades, now: 30 },
          { walk: 'look', refused },
        ],
      ];
    },
  ),
  'rows of times that cannot be do not let one pass that is an hour ahead': [
    {
      trades: [
        ...every(20, 1),
        ...[3600, 100_000, 100_001, 100_002, 100_003].map((atS, at) => ({ tid: 21 + at, atS })),
      ],
      now: 30,
    },
    { walk: 'look', refused: [BEYOND, ...Array(4).fill('time outside the sane window')] },
  ],
  'where the clock is behind, trades ahead of it are trades': [
    { trades: every(10, 1, 3600), now: 30 },
    { walk: 'look look', stored: 10, refused: [] },
  ],
  'before its first look a walk has no gap of its own': [
    { trades: every(20, 1), now: 30, from: 0 },
    { next: null },
  ],
  // Three pages, the last trade once more, and twice the end: that trade, and two empty looks below it.
  'the islands that an earlier run left are gone on with, not begun anew': [
    { trades: every(500, 1), now: 600, cap: 100 },
    { walk: 'look step step restart', covered: '206-600', next: 206 },
    { walk: 'fill', most: 10, covered: '1-600' },
  ],
  'a page that ends in the second in which coverage does takes nothing back where its gap is walked':
    [
      { trades: every(20, 1), now: 30 },
      { walk: 'look fill' },
      {
        add: [30, 30.5, 31, 32, 33].map((atS, at) => ({ tid: 21 + at, atS })),
        cap: 5,
        walk: '5s look',
        ...{ look: { isConnected: false }, gaps: '' },
      },
      { walk: 'fill', covered: '1-35' },
    ],
  // One trade of the second after it shows that nothing was missing; a cache hides ten seconds at most.
  ...each(
    [
      [58, 57, 'restart '],
      [40, 50, 'restart '],
      [61, 60, 'restart '],
      [58, 57, ''],
      [40, 50, ''],
    ] as const,
    ([count, untilS, restart]) => [
      `where no page can be had below the first of a run, its claim over ${count} trades is taken back to ${untilS} s: ${restart}look`,
      [
        { trades: every(count, 1), now: 60, mode: 'id', from: 0, hides: true },
        { walk: 'look', top: 60 },
        { trades: every(200, 1), cap: 50, walk: `140s ${restart}look`, lowest: untilS },
      ],
    ],
  ),
  // All but its lowest row, which no second answer has shown yet.
  'a page that could not be committed is counted as lost, claims nothing, and comes again': [
    { trades: every(20, 1), now: 30 },
    { down: true, walk: 'look', fails: /no database/, lost: 19, covered: '' },
    { down: false, walk: 'look fill', covered: '1-30' },
  ],
  'a head that moved on by hundreds of pages is caught up with in few requests': [
    { trades: every(200, 1), now: 200, cap: 20 },
    { walk: 'look' },
    { trades: every(5200, 1), walk: '5000s step', fails: stalls, most: 13 },
    { walk: '600s step', most: 7, covered: '168-200' },
  ],
  'a page with trades that the one before lacked claims up to its newest one, the next one up to now':
    [
      { trades: every(50, 1), now: 60 },
      { walk: 'look', top: 60 },
      { add: [{ tid: 51, atS: 55 }], walk: '5s look', top: 55 },
      { walk: '5s look', top: 70 },
    ],
  // The shorter page ends with the newest trade that is known.
  ...each([1000, 4], (cap) => [
    `a look that reaches down to what is known takes nothing back, however many trades are new: pages of ${cap}`,
    [
      { trades: every(20, 1), now: 30 },
      { walk: 'look fill' },
      {
        ...{ add: shifted(3, 1, 31, 20), cap, walk: '5s look' },
        ...{ look: { newRows: 3, isConnected: true }, covered: '1-35', gaps: '', news: 35 },
      },
    ],
  ]),
  'a look at a second that is longer than a page reaches the chain that the look before has left': [
    { trades: every(3000, 0.0002, 20), now: 21 },
    ...[false, true, true].map((isConnected) => ({ walk: 'look 0.2s', look: { isConnected } })),
  ],
  'a look at the head takes no chain back up that a step has led down within one second': [
    { trades: every(6000, 0.0001, 20), now: 21, from: 0 },
    { walk: times(8, 'look step 0.02s'), stored: 6000 },
  ],

  // Rows that cannot be read: what they put in doubt stays open.
  'a refused row in the middle of a page leaves its seconds open, listed, and the rest covered': [
    { trades: broken(every(10, 2), 6), now: 30 },
    { walk: 'look fill', covered: '13-30, 1-8', gaps: '8-13 open', pause: 600, refused: ['price'] },
  ],
  'a refused newest row leaves everything above the readable one open': [
    { trades: broken(every(5, 2), 5), now: 30 },
    { walk: 'look fill', covered: '1-6', gaps: '6-30 open', found: 1 },
    // Its growth is not written at every look; the same row is kept once, and a gap that grows is found once.
    { walk: times(5, '1s look'), gaps: '6-30 open, 6-31 open' },
    { walk: times(5, '6s look'), lastGap: '6-65 open', refused: ['price'], found: 1 },
    { add: [{ tid: 6, atS: 66 }], walk: '6s look' },
    // A row that can be read later closes the gap.
    { trades: [...every(5, 2), { tid: 6, atS: 66 }], walk: '1200s look fill', covered: '1-1271' },
  ],
  'refused rows across the end of a page do not stop the walk below them': [
    { trades: broken(every(400, 1), 299, 300, 301, 302, 303), now: 450, cap: 100 },
    { walk: 'look' },
    { walk: 'fill', most: 13, covered: '304-450, 1-297', gaps: '297-304 open' },
  ],
  'a page full of refused rows is no end of history': [
    {
      trades: broken(every(400, 1), ...every(199, 1).map(({ tid }) => tid + 100)),
      now: 450,
      cap: 100,
    },
    { walk: 'look' },
    {
      walk: 'fill',
      fails: stalls,
      next: null,
      floor: null,
      gaps: '',
      refused: Array(100).fill('price'),
    },
  ],
  'refused rows at the bottom of history leave its begin open, without asking again and again': [
    { trades: broken(every(6, 2), 1, 2), now: 30 },
    { walk: 'look fill', covered: '5-30', floor: null, gaps: '4-5 open' },
    { walk: '60s fill', asked: 0 },
    { trades: every(6, 2), walk: '600s fill', covered: '1-30', floor: 1 },
  ],
  'a stale head is seen after a restart although the newest island holds no trade': [
    { trades: broken(every(20, 1), 19), now: 30 },
    { walk: 'look', covered: '20-30, 2-17' },
    { trades: every(10, 1), walk: '60s restart look', fails: stalls, covered: '20-30, 2-17' },
  ],
  'a row that is refused after it was stored opens no gap in what is covered': [
    { trades: every(20, 1), now: 30 },
    { walk: 'look fill' },
    { trades: broken(every(20, 1), 11), walk: '6s look', covered: '1-36', gaps: '' },
  ],
  // The page below the head ends with the row below this one, in time that is covered.
  'a refused row in the covered time below a gap leaves nothing open once that gap is closed': [
    { trades: every(60, 1), now: 60, cap: 50 },
    { walk: 'look fill' },
    { trades: every(150, 1), walk: '90s look' },
    {
      ...{ trades: broken(every(150, 1), 53), walk: 'fill' },
      ...{ covered: '1-150', gaps: '', refused: ['price'] },
    },
  ],
  'a refused row is kept at once, also by a look that brings nothing else': [
    { trades: every(20, 1), now: 30 },
    { walk: 'look fill' },
    { add: [{ tid: 21, atS: 30.5, isBroken: true }], walk: '1s look', refused: ['price'] },
  ],
  'an offset of at least 1 that counts trades hides the newest: nothing is claimed of it': [
    { trades: every(5, 2), now: 30, refusesZero: true },
    { walk: 'look fill', covered: '1-6', gaps: '' },
    { add: [{ tid: 6, atS: 31 }], walk: '6s look', top: 8 },
  ],
  'where such an offset leaves one trade on the page, none was refused, and the next look is not put off':
    [
      { trades: every(2, 2), now: 30, refusesZero: true },
      { walk: 'look fill', gaps: '' },
      { add: shifted(2, 2, 31, 2), walk: '6s look', covered: '1-31' },
    ],
  'a market with one trade, which such an offset hides, is not covered as empty': [
    { trades: every(1, 2), now: 30, refusesZero: true },
    { walk: 'look', fails: /./, covered: '' },
    ...Array<Phase>(4).fill({ walk: '6s look', fails: /./, covered: '' }),
  ],
  'an offset of at least 1 that is an id hides nothing': [
    { trades: shifted(5, 2, 0, 1), now: 30, mode: 'id', refusesZero: true },
    { walk: 'look', top: 30 },
  ],
});
