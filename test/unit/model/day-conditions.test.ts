import assert from 'node:assert/strict';
import test from 'node:test';
import {
  type Condition,
  conditionOf,
  countedPieces,
  dayCondition,
  expectedUntilMs,
  sumBySteps,
  sumPieces,
} from '../../../src/model/day-conditions.js';
import type { Piece } from '../../../src/model/explain.js';
import type { StreamKind } from '../../../src/model/series.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const piece = (
  fromH: number,
  toH: number,
  state: Piece['state'],
  reason: string = state,
): Piece => ({
  ...{ gapId: null, note: null, attempts: 0, nextAttemptAtMs: null, firstSeenAtMs: null },
  ...{ span: { fromMs: fromH * HOUR_MS, toMs: toH * HOUR_MS }, state, reason },
});

const covered = piece(0, 23, 'covered');

const stream = (kind: StreamKind, variant = 0, newestCoveredMs: number | null = null) => ({
  ...{ kind, variant, newestCoveredMs },
});

/** Pieces of a day that has ended unless said otherwise, and what it must be. */
const CASES: readonly [
  string,
  readonly Piece[],
  Partial<{ wrong: number; nowH: number }>,
  Condition | null,
][] = [
  ['all covered', [piece(-5, 30, 'covered')], {}, 'available'],
  ['open', [covered, piece(23, 24, 'open')], {}, 'pending'],
  ['being filled', [covered, piece(23, 24, 'filling')], {}, 'pending'],
  ['newer than all that is collected', [covered, piece(23, 24, 'later')], {}, 'pending'],
  ['open beats unfillable', [piece(0, 1, 'open'), piece(1, 24, 'unfillable')], {}, 'pending'],
  ['not over', [piece(0, 12, 'covered'), piece(12, 24, 'later')], { nowH: 12 }, 'pending'],
  ['not over, and nothing covered', [piece(0, 24, 'unfillable')], { nowH: 23 }, 'pending'],
  ['nothing covered', [piece(0, 24, 'unfillable')], {}, 'missing'],
  [
    'nothing expected covered',
    [piece(0, 20, 'expired'), piece(20, 24, 'unfillable')],
    {},
    'missing',
  ],
  ['a part lost', [covered, piece(23, 24, 'unfillable')], {}, 'degraded'],
  ['a mismatch', [piece(0, 24, 'covered')], { wrong: 1 }, 'degraded'],
  ['a mismatch where nothing is covered', [piece(0, 24, 'unfillable')], { wrong: 1 }, 'missing'],
  ['before history', [piece(0, 20, 'before history'), piece(20, 24, 'covered')], {}, 'available'],
  ['before collecting', [piece(0, 24, 'before collecting')], {}, null],
  ['delisted', [piece(0, 3, 'covered'), piece(3, 24, 'not listed')], {}, 'available'],
  ['expired', [piece(0, 24, 'expired')], { wrong: 1 }, null],
  ['to come', [piece(0, 24, 'later')], { nowH: -1 }, null],
  ['of other days', [piece(-24, 0, 'unfillable'), piece(0, 24, 'covered')], {}, 'available'],
];

test('a day has the condition of the first rule that holds', () => {
  for (const [what, pieces, { wrong = 0, nowH = 48 }, expected] of CASES) {
    const { condition } = dayCondition(stream('trades'), pieces, wrong, 0, nowH * HOUR_MS);
    assert.equal(condition, expected, what);
  }
});

test('what exists only while it happens is lost where it was not seen', () => {
  const missed = [covered, piece(23, 24, 'open', 'not collected')];
  assert.equal(dayCondition(stream('depth'), missed, 0, 0, 2 * DAY_MS).condition, 'degraded');
  const stopped = [piece(0, 24, 'later')];
  assert.equal(dayCondition(stream('depth'), stopped, 0, 0, 2 * DAY_MS).condition, 'missing');
  assert.deepEqual(
    countedPieces(stream('states'), stopped, 2 * DAY_MS).map(({ state }) => state),
    ['unfillable'],
  );
});

test('what is on its way is not missing until it takes five minutes', () => {
  const minute = HOUR_MS / 60;
  const trades = stream('trades', 0, DAY_MS);
  assert.equal(expectedUntilMs(trades, DAY_MS + 5 * minute), DAY_MS);
  assert.equal(expectedUntilMs(trades, DAY_MS + 5 * minute + 1), DAY_MS + 5 * minute + 1);
  assert.equal(expectedUntilMs(stream('trades'), DAY_MS), DAY_MS);
  const pieces = [piece(0, 24, 'covered'), piece(24, 48, 'later', 'not collected')];
  const counted = countedPieces(trades, pieces, DAY_MS + minute);
  assert.deepEqual(
    counted.map(({ state }) => state),
    ['covered'],
  );
});

test('a candle that is not closed is not missing', () => {
  const late = [piece(0, 24, 'covered'), piece(24, 48, 'later', 'not collected')];
  const openMs = (variant: number, nowMs: number) =>
    countedPieces(stream('candles', variant, DAY_MS), late, nowMs)
      .filter(({ state }) => state === 'open')
      .reduce((sum, { span }) => sum + span.toMs - span.fromMs, 0);
  assert.equal(openMs(86_400, DAY_MS + 10 * HOUR_MS), 0);
  assert.equal(openMs(3600, DAY_MS + 10.5 * HOUR_MS), 10 * HOUR_MS);
  // It is final some time after its end.
  assert.equal(openMs(3600, DAY_MS + HOUR_MS + 59_999), 0);
  assert.equal(openMs(3600, DAY_MS + HOUR_MS + 60_000), HOUR_MS);
  // Weeks begin where the exchange has them.
  assert.equal(openMs(7 * 86_400, DAY_MS + 7 * DAY_MS), 0);
  const daily = stream('candles', 86_400, DAY_MS);
  const { condition, reasons } = dayCondition(daily, late, 0, DAY_MS, DAY_MS + 10 * HOUR_MS);
  assert.deepEqual([condition, reasons], [null, []]);
});

test('a day says why, the longest reason first', () => {
  const pieces = [
    piece(0, 1, 'unfillable', 'not observed'),
    piece(1, 22, 'covered'),
    piece(22, 24, 'unfillable', 'history horizon'),
  ];
  assert.deepEqual(dayCondition(stream('trades'), pieces, 2, 0, 2 * DAY_MS).reasons, [
    '2h cannot be fetched any more: history horizon.',
    '1h cannot be fetched any more: not observed.',
    '2 candles contradict the trades.',
  ]);
  const going = [piece(0, 1, 'covered'), piece(1, 2, 'open', 'not collected')];
  assert.deepEqual(dayCondition(stream('trades'), going, 0, 0, 2 * HOUR_MS).reasons, [
    'The day has not ended.',
    '1h can still be fetched: not collected.',
  ]);
  assert.deepEqual(dayCondition(stream('trades'), [covered], 0, 0, 2 * DAY_MS).reasons, []);
});

test('pieces are summed by steps, and cut to them', () => {
  const pieces = countedPieces(
    stream('trades'),
    [piece(-1, 3, 'covered'), piece(3, 9, 'open')],
    DAY_MS,
  );
  assert.deepEqual(
    sumBySteps(pieces, 0, 2 * HOUR_MS, 3).map((sum) =>
      [sum.coveredMs, sum.openMs].map((ms) => ms / HOUR_MS),
    ),
    [
      [2, 0],
      [1, 1],
      [0, 2],
    ],
  );
  const wrong = [1, 5, 7].map((h) => ({
    ...piece(h - 1, h, 'covered').span,
    state: 'mismatch' as const,
  }));
  assert.deepEqual(sumPieces(wrong, 0, 2 * HOUR_MS, 3).mismatches, [1, 0, 1]);
  assert.equal(conditionOf({ coveredMs: 0, openMs: 0, unfillableMs: 0 }, 3, true), null);
});
