import assert from 'node:assert/strict';
import test from 'node:test';
import { FolderStorage } from '../../../../src/archive/cold/storage.js';
import type { Moment } from '../../../../src/archive/events/event.js';
import {
  type EventPlan,
  type EventSlice,
  findStream,
  marketsOf,
  microsOf,
  planEvents,
} from '../../../../src/archive/events/plan.js';
import { openEvents } from '../../../../src/archive/events/sources.js';
import type { Store } from '../../../../src/store/index.js';

type PlannedQuery = Parameters<typeof planEvents>[0];

const US = Date.UTC(2026, 0, 31, 12, 34, 56) * 1000;

test('an instant is a text, a Date or microseconds, to the microsecond', () => {
  assert.equal(microsOf('2026-01-31T12:34:56.000007Z'), US + 7);
  assert.equal(microsOf('2026-01-31 12:34:56'), US);
  assert.equal(microsOf('2026-01-31 12:34'), US - 56_000_000);
  assert.equal(microsOf('2026-01-31T14:34:56.5+02:00'), US + 500_000);
  assert.equal(microsOf('2026-01-31T14:34:56+02'), US);
  assert.equal(microsOf('2026-01-31'), Date.UTC(2026, 0, 31) * 1000);
  assert.equal(microsOf(new Date(US / 1000)), US);
  assert.equal(microsOf(US), US);
});

test('what is no instant is refused, also a day that no month has', () => {
  const none = ['', 'soon', '2026-02-30', '2026-01-31T25:00', US / 1000, new Date(Number.NaN)];
  for (const one of none) assert.throws(() => microsOf(one), { code: 'bad_moment' }, String(one));
  // Programs without types.
  for (const one of [undefined, null, {}, true] as unknown as Moment[])
    assert.throws(() => microsOf(one), { code: 'bad_moment' }, String(one));
});

test('a market that the archive does not have is named with those that it has', () => {
  const known = [{ market: 'BTC_USDT', marketId: 1 }] as unknown as Parameters<typeof marketsOf>[1];
  assert.throws(
    () => marketsOf(['ETH_USDT'], known),
    /no market ETH_USDT; the archive has BTC_USDT/,
  );
  assert.throws(
    () => marketsOf(['ETH_USDT'], []),
    /no market ETH_USDT; the archive has no market yet/,
  );
  assert.throws(() => marketsOf([], known), { code: 'bad_option' });
  assert.deepEqual(marketsOf(['BTC_USDT', 'BTC_USDT'], known), known);
});

test('the lengths of one kind choose none of another, and are listed from the shortest on', () => {
  const known = [{ market: 'A', marketId: 1 }] as unknown as Parameters<typeof marketsOf>[1];
  const streams = [
    ['trades', 0],
    ['states', 3600],
    ['states', 60],
    ['states', 86_400],
  ].map(([kind, variant]) => ({
    ...{ kind, variant, market: 'A', marketId: 1 },
    ...{ oldestCoveredMs: 0, newestCoveredMs: US / 1000, expiredUntilMs: null },
  })) as never;
  const query = { from: US, to: US + 1, order: 'happened', gaps: 'ignore' } as const;
  const plan = planEvents({ ...query, periodsS: [60] } as PlannedQuery, streams, known);
  assert.deepEqual(
    plan.slices.map(({ kind, variantS }) => [kind, variantS]),
    [
      ['trades', 0],
      ['states', 60],
    ],
  );
  assert.throws(() => findStream({ market: 'A', kind: 'states' }, streams, known), {
    message: /of 60, 3600, 86400 seconds/,
  });
});

test('more than 24 kinds and lengths at once are refused before anything is opened', async () => {
  const store = { snapshot: () => Promise.reject(new Error('opened')) } as unknown as Store;
  const open = (slices: number) => {
    const slice = { kind: 'candles', variantS: 60 } as EventSlice;
    const plan = {
      ...{ slices: Array.from({ length: slices }, () => slice), streams: [] },
      ...{ order: 'happened', gaps: 'ignore' },
    } as unknown as EventPlan;
    return openEvents(
      { store, cold: new FolderStorage('') },
      plan,
      new AbortController().signal,
    ).next();
  };
  await assert.rejects(open(24), { message: 'opened' });
  await assert.rejects(open(25), { code: 'bad_option', message: /more than 24 kinds/ });
});

test('candles of a span are those that close in it, of each length on its own grid, the shortest first', () => {
  const noonMs = Date.UTC(2026, 0, 31, 12);
  const covered = { oldestCoveredMs: noonMs - 86_400_000, newestCoveredMs: noonMs + 86_400_000 };
  const streams = [3600, 60].map((variant) => ({
    ...{ streamId: variant, kind: 'candles' as const, marketId: 1, market: 'BTC_USDT', variant },
    ...{
      delistedAtMs: null,
      collectFromMs: null,
      countedUntilMs: null,
      startTries: null,
      startReason: null,
      expiredUntilMs: null,
      ...covered,
    },
  }));
  const query = { from: '2026-01-31T12:00:30Z', to: '2026-01-31T14:30:00Z', kinds: ['candles'] };
  const plan = planEvents(query as PlannedQuery, streams, [{ market: 'BTC_USDT', marketId: 1 }]);
  assert.deepEqual(
    plan.streams.map(({ variantS, span }) => [
      variantS,
      (span.fromMs - noonMs) / 60_000,
      (span.toMs - noonMs) / 60_000,
    ]),
    [
      [60, 0, 149],
      [3600, 0, 120],
    ],
  );
});

test('kinds that are collected of none of all markets are refused, and the markets are named', () => {
  const known = ['BTC_USDT', 'ETH_USDT'].map((market, at) => ({ market, marketId: at + 1 }));
  const query: PlannedQuery = { from: '2026-01-31', to: '2026-02-01', kinds: ['depth'] };
  assert.throws(() => planEvents(query, [], known), {
    code: 'not_collected',
    message: /nothing of the kinds asked for is collected of BTC_USDT, ETH_USDT/,
  });
});
