import { every, type Trade } from '../../support/worlds/trade-world.js';
import { each, shifted, testWalks, times } from '../../support/worlds/walk-script.js';

/** Examples of the far end of history, of spans that are wanted besides, and of what is listed as missing. */

const floods = [10, 10.2, 10.4, 11, 12, 12.5].map((atS, index) => ({ tid: index + 1, atS }));
const ENDED = 'beyond history: its history ended above when this was asked for';
const burst: Trade[] = every(300, 0.01, 112).map(({ atS }, at) => ({ tid: 101 + at, atS }));

testWalks({
  // That second may still go on, or lie behind.
  ...each([0, 40], (later) => [
    `a history of one second proves nothing of it, and leaves no gap: looked at again ${later} s later`,
    [
      { trades: every(5, 0, 10), now: 10 },
      {
        walk: `look ${later}s look fill 20s look fill`,
        ...{ covered: `11-${30 + later}`, floor: 11, gaps: '', stored: 5 },
      },
    ],
  ]),
  'where the start was chosen, the second in which history ends is part of the gap': [
    { trades: floods, now: 60, from: 0 },
    { walk: 'look fill', covered: '11-60', lastGap: '0-11 unfillable', stored: floods.length },
  ],
  // A page of these reaches down no more than five seconds.
  'a restart whose first page shows the newest known trade takes nothing back': [
    { trades: every(5000, 0.005), now: 25, from: 20 },
    { walk: 'look', covered: '21-25' },
    { walk: 'restart look', covered: '21-25', gaps: '' },
  ],
  'what only extends the newest coverage by a short time waits for the next rows, no longer than five seconds':
    [
      { trades: every(20, 1), now: 30 },
      { walk: 'look fill 6s look' },
      { walk: '1s look 1s look', commits: 0 },
      { walk: '3s look', commits: 1 },
      { add: [{ tid: 21, atS: 42.5 }], walk: '2s look', commits: 1 },
    ],
  'the only trade that there is is shown by a second answer, at another address': [
    { trades: every(1, 1), now: 1 },
    { walk: 'look', limits: [1000, 500], stored: 1 },
  ],
  // How much is missing nobody knows.
  'tries below the lowest trade are remembered while nobody knows where history begins': [
    { trades: every(500, 1), now: 500, cap: 50 },
    { walk: 'look' },
    { away: 'not today', walk: 'step', fails: /not today/ },
    { walk: '20s step', fails: /not today/ },
    { walk: '20s step', fails: /not today/, gaps: '', tried: '3 exchange failed: not today' },
    // The pause goes on over a restart.
    { away: null, walk: 'restart look', next: null },
    { walk: '8s', next: 452 },
    { walk: 'step', tried: '' },
    { walk: 'fill', covered: '1-540' },
  ],
  'failed tries are written down with their number and next moment, and hold over a restart': [
    { trades: every(60, 1), now: 60, cap: 50 },
    { walk: 'look fill' },
    { trades: every(500, 1), walk: '440s look' },
    { away: 'not today', walk: 'step', fails: /not today/ },
    { walk: '20s step', fails: /not today/ },
    { walk: '20s step', fails: /not today/, gapTried: '3 exchange failed: not today', pause: 6.11 },
    { away: null, from: 0, walk: 'restart look', next: null },
    { walk: '8s', next: 451 },
    { walk: 'fill close', left: 0 },
  ],
  'a start of history that lies lower an hour later moves down, and one that lies higher does not':
    [
      { trades: every(300, 1).slice(100), now: 300 },
      { walk: 'look fill', floor: 101 },
      { trades: every(300, 1), walk: '3600s look fill', floor: 1 },
      { trades: every(300, 1).slice(200), walk: '3600s look fill', floor: 1 },
    ],
  'where trades that were seen are forgotten, the end of what is left is no start of history': [
    { trades: every(3, 0, 10), now: 10 },
    // All of them lie in one second.
    { walk: 'look', covered: '' },
    {
      ...{ trades: shifted(11, 1, 60, 3), walk: '70s look fill' },
      ...{ covered: '61-80', tried: `1 ${ENDED}`, floor: null },
    },
  ],
  'after a restart, too, the end of what is left above a covered range of trades is no start': [
    { trades: every(50, 1), now: 60 },
    { walk: 'look', covered: '2-60' },
    {
      ...{ trades: shifted(11, 1, 200, 50), walk: '160s restart look fill' },
      ...{ top: 220, lastGap: '60-201 unfillable', floor: null },
      covered: '201-220, 2-60',
    },
  ],
  // Nothing is older: a second sign is waited for.
  'the first trades of a market lead a step straight on to what is wanted of the time before': [
    { trades: [], now: 5000, from: 4999 },
    { walk: times(4, 'look 2s') },
    { wanted: [100, 200], trades: every(10, 1, 5010), walk: '12s', next: 200 },
    { walk: 'step', next: null, gaps: '' },
  ],
  // The first page of the second step comes from before them.
  'the first trades of a market amid a step neither give up what is wanted of the time before, nor count as a failed try':
    [
      { trades: [], now: 5000, from: 4999 },
      { walk: times(4, 'look 2s') },
      { wanted: [100, 200], walk: 'step' },
      { trades: every(10, 1, 5010), liesOnce: [], walk: '12s', next: 200 },
      { walk: 'step', gaps: '' },
      { walk: 'fill', lastGap: '100-200 unfillable', covered: '4999-5020' },
    ],
  // The page that closes it, one that shows the oldest trade as well, and one that shows nothing older.
  'the looks below a gap that is closed end where history does': [
    { trades: every(3, 1), now: 3 },
    { walk: 'look fill' },
    { add: shifted(90, 1, 100, 3), cap: 60, walk: '187s restart look' },
    { walk: 'step', asked: 3, covered: '1-190' },
  ],
  'what is wanted of a time before history is given up as beyond it, until somebody asks for it again':
    [
      { trades: every(300, 1, 1000), now: 1400, from: 1350 },
      { walk: 'look' },
      {
        ...{ wanted: [0, 1100], walk: 'fill', covered: '1001-1400', next: null },
        ...{ gaps: '0-1001 unfillable', reasons: ['beyond history'] },
      },
      // Not of a span above it.
      { retry: [1001, 1100], next: null },
      { retry: [0, 500], next: 1001 },
      { walk: 'restart', next: null },
    ],
  'a gap that the next page closes is not written down; one that lasts is, once': [
    { trades: every(60, 1), now: 60, cap: 50 },
    { walk: 'look fill' },
    { trades: every(120, 1), walk: '60s look fill', gaps: '' },
    { trades: every(500, 1), walk: '380s look fill', reasons: ['head moved'], covered: '1-500' },
  ],
  'a gap that is listed because the head moved on is not listed anew after a restart': [
    { trades: every(60, 1), now: 60, cap: 50, from: 0 },
    { walk: 'look fill' },
    { trades: every(500, 1), walk: '440s look step', moved: 1 },
    { walk: 'restart step', moved: 1, next: 356 },
  ],
  'a span just below a covered range of a single trade is reached from the head': [
    { trades: every(500, 1), now: 500, cap: 2, from: 499 },
    { walk: 'look look', stored: 2 },
    { wanted: [490, 492], walk: 'fill', stalls: 0, covered: '499-500, 490-492' },
  ],
  'in id mode a head that does not connect is asked for again in full before anything is lost': [
    { trades: every(100, 1), now: 100, mode: 'id', from: 0 },
    { walk: times(12, 'look 1s'), newest: true },
    { add: burst, walk: '5s look', limits: [50, 1000], newest: true, covered: '1-117' },
  ],
  'as long as nobody knows how the server counts, only the head is asked for': [
    { trades: every(500, 1), now: 500, cap: 100, isModeKnown: false },
    { walk: 'look', next: null, asked: 1 },
    { walk: 'step', asked: 0 },
    { isModeKnown: true, walk: 'fill', covered: '1-500' },
  ],
  // An id amid the others, of rows that no page has joined to what is stored.
  'one low id among those above a gap begins no epoch': [
    { trades: every(60, 1), now: 60 },
    { walk: 'look fill' },
    {
      add: shifted(100, 1, 200, 1_000_000).map((row, at) => (at === 75 ? { ...row, tid: 1 } : row)),
      ...{ cap: 50, walk: '240s restart look', gaps: '' },
      covered: '252-300, 1-60',
    },
  ],
});
