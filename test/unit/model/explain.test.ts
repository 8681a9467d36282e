import assert from 'node:assert/strict';
import test from 'node:test';
import {
  adviceOn,
  explain,
  type KnownGap,
  type KnownStream,
  nextTryOf,
  type StreamFacts,
  startText,
  whyOf,
} from '../../../src/model/explain.js';
import { incidentsOf } from '../../../src/model/incidents.js';

const TRADES: KnownStream = {
  ...{ streamId: 1, kind: 'trades', marketId: 1, market: 'A', variant: 0, collectFromMs: 100 },
  ...{ delistedAtMs: null, oldestCoveredMs: 200, newestCoveredMs: 800, countedUntilMs: 800 },
  ...{ startTries: null, startReason: null, expiredUntilMs: null },
};
const CANDLES: KnownStream = { ...TRADES, kind: 'candles', variant: 60 };

const span = (fromMs: number, toMs: number) => ({ fromMs, toMs });
const gap = (fromMs: number, toMs: number, more: Partial<KnownGap> = {}): KnownGap => ({
  ...{ gapId: 7, span: span(fromMs, toMs), state: 'open', reason: 'exchange failed', note: null },
  ...{ attempts: 2, nextAttemptAtMs: null, firstSeenAtMs: 1 },
  ...more,
});
const COVERED = [span(200, 400), span(500, 800)];

/** Pieces from 0 to 1000 as `from-to state: reason`. */
function cut(stream: KnownStream, facts: Partial<StreamFacts> = {}): string[] {
  const all = { stream, covered: COVERED, remembered: [], wanted: [], nowMs: 900, ...facts };
  return explain(all, span(0, 1000)).map(
    ({ span: { fromMs, toMs }, state, reason }) => `${fromMs}-${toMs} ${state}: ${reason}`,
  );
}

const INSIDE = [
  '200-400 covered: covered',
  '400-500 open: not collected',
  '500-800 covered: covered',
];
const LATER = ['800-900 later: not collected', '900-1000 later: not collected'];

test('a time range is cut into pieces that are alike', () => {
  assert.deepEqual(cut(TRADES), [
    '0-100 before collecting: before collecting',
    '100-200 open: not collected',
    ...INSIDE,
    ...LATER,
  ]);
  assert.deepEqual(
    cut({ ...TRADES, collectFromMs: null }),
    ['0-200 open: not collected', ...INSIDE, ...LATER],
    'the walk back goes on',
  );
  const known = { ...TRADES, collectFromMs: 200 } as const;
  for (const reason of ['history begins', 'history horizon'] as const) {
    assert.deepEqual(cut({ ...known, startReason: reason }), [
      '0-200 before history: beyond history',
      ...INSIDE,
      ...LATER,
    ]);
  }
  const wanted = [span(0, 60)];
  assert.deepEqual(cut(known, { wanted }).slice(0, 2), [
    '0-60 open: not collected',
    '60-200 before collecting: before collecting',
  ]);
});

test('what is remembered holds before what follows from the stream', () => {
  const remembered = [
    gap(0, 150, { state: 'unfillable', reason: 'beyond history' }),
    gap(400, 450),
    gap(900, 950, { state: 'unfillable', reason: 'not observed' }),
  ];
  assert.deepEqual(cut({ ...TRADES, countedUntilMs: 950 }, { remembered }), [
    '0-150 before history: beyond history',
    '150-200 open: not collected',
    '200-400 covered: covered',
    '400-450 open: exchange failed',
    '450-500 open: not collected',
    '500-800 covered: covered',
    '800-900 open: not collected',
    '900-950 unfillable: not observed',
    '950-1000 later: not collected',
  ]);
});

test('expired time and that of a delisted market are no gaps', () => {
  assert.deepEqual(cut({ ...TRADES, expiredUntilMs: 450, delistedAtMs: 900 }), [
    '0-200 expired: expired',
    '200-400 covered: covered',
    '400-450 expired: expired',
    '450-500 open: not collected',
    '500-800 covered: covered',
    '800-900 later: not collected',
    '900-1000 not listed: delisted',
  ]);
  const nothing = { oldestCoveredMs: null, newestCoveredMs: null, countedUntilMs: null } as const;
  assert.deepEqual(cut({ ...TRADES, ...nothing }, { covered: [] }).slice(1), [
    '100-900 open: not collected',
    '900-1000 later: not collected',
  ]);
  const candles = { ...CANDLES, ...nothing, collectFromMs: 0, delistedAtMs: 100_000 };
  const facts = { stream: candles, covered: [], remembered: [], wanted: [], nowMs: 110_000 };
  assert.deepEqual(
    explain(facts, span(0, 120_000)).map((one) => [one.span.toMs, one.state]),
    [
      [60_000, 'later'],
      [120_000, 'not listed'],
    ],
    'the candle that was open when it left never closed',
  );
});

test('each piece says why it is so, and what to do', () => {
  const by = { nowMs: 900 };
  const piece = (state: string, reason: string, fromMs = 400, toMs = 500) =>
    ({ ...gap(fromMs, toMs), state, reason }) as ReturnType<typeof explain>[number];
  const cases: readonly [KnownStream, ReturnType<typeof piece>, RegExp, RegExp | null][] = [
    [TRADES, piece('covered', 'covered'), /^Nothing is missing\.$/, null],
    [TRADES, piece('open', 'exchange failed'), /^Requests failed/, /daemon fetches it.* fill 7$/],
    [TRADES, piece('open', 'refused rows'), /in quarantine/, /quarantine --market A$/],
    [TRADES, piece('unfillable', 'history horizon'), /newest trades/, /fill 7 --again$/],
    [TRADES, piece('unfillable', 'delisted'), /did not list/, /lists A again/],
    [{ ...TRADES, kind: 'depth' }, piece('unfillable', 'not observed'), /No daemon/, /only while/],
    [{ ...TRADES, expiredUntilMs: 450 }, piece('expired', 'expired'), /^Expired: .*before/, null],
    [TRADES, piece('before collecting', ''), /starts at/, /backfill --market A --kinds trades --f/],
    [TRADES, piece('not listed', 'delisted'), /did not list/, /lists A again/],
    [TRADES, piece('later', 'not collected', 800, 900), /^Newer than all/, /daemon/],
    [TRADES, piece('later', 'not collected', 950, 1000), /has not come yet/, null],
  ];
  for (const [stream, one, why, what] of cases) {
    assert.match(whyOf(stream, one, by.nowMs), why);
    const advice = adviceOn(stream, one, by, '7');
    if (what === null) assert.equal(advice, null, one.state);
    else assert.match(advice ?? '', what);
  }
  const hourly = piece('later', 'not collected', 800, 850);
  const hours = { ...CANDLES, variant: 3600, newestCoveredMs: 0 };
  assert.match(whyOf(hours, hourly, 900_000), /^The candle of 1h ends at 1970-01-01 01:00:00\.$/);
  const open = piece('open', 'exchange failed');
  assert.match(
    adviceOn(TRADES, open, { ...by, isArchived: true }) ?? '',
    /tapekeep restore --kind/,
  );
  assert.match(adviceOn(TRADES, open, { ...by, leftOut: 'Off' }) ?? '', /^Off\. Without a daemon/);
});

test('a gap is tried again by its state', () => {
  const next = (more: Partial<KnownGap>, by = {}, stream: KnownStream = TRADES) =>
    nextTryOf(stream, gap(0, 1, more), { nowMs: 900, isWritten: true, ...by });
  assert.equal(next({}), 'soon');
  assert.equal(next({}, { isWritten: false }), 'at the next start');
  assert.equal(next({ nextAttemptAtMs: 1000 }), '1970-01-01 00:00:01');
  assert.equal(next({}, { leftOut: 'Off' }), 'none');
  assert.equal(next({}, { isArchived: true }), 'none');
  assert.equal(next({ state: 'unfillable', reason: 'delisted' }), 'when it is listed');
  assert.equal(next({ state: 'unfillable', reason: 'beyond history' }), 'hourly');
  assert.equal(next({ state: 'unfillable', reason: 'history horizon' }), 'none');
  assert.equal(next({}, {}, { ...TRADES, kind: 'depth' }), 'none', 'what is gone is not asked for');
});

test('the start of a stream is said as far as it is known', () => {
  const walked = { ...TRADES, collectFromMs: null };
  const tries = {
    ...{ attempts: 3, note: 'no way', nextAttemptAtMs: 5000 },
    reason: 'walk stalled',
  } as const;
  assert.match(startText(walked, 0), /^older history is still being fetched; reached: 1970/);
  assert.match(
    startText({ ...walked, startTries: tries }, 0),
    /the last 3 tries led no further \(walk stalled: no way\), next try at 1970-01-01 00:00:05$/,
  );
  assert.match(startText({ ...TRADES, startReason: 'history horizon' }, 0), /no longer serves it/);
  assert.match(startText({ ...TRADES, startReason: 'history begins' }, 0), /history starts at/);
  assert.match(startText(TRADES, 0), /^collecting starts at/);
});

test('gaps of one cause and one time are one incident', () => {
  const at = (fromS: number, toS: number) => span(fromS * 1000, toS * 1000);
  const of = (market: string, where: ReturnType<typeof at>, reason: string, more = {}) => ({
    ...gap(where.fromMs, where.toMs, { reason, state: 'unfillable', ...more }),
    ...{ market, streamId: market.charCodeAt(0) },
  });
  const gaps = [
    of('A', at(1000, 1025), 'not observed'),
    of('A', at(1001, 1027), 'no connection'),
    of('B', at(999, 1030), 'head moved', { state: 'open' }),
    of('B', at(1000, 1025), 'not observed', { note: 'a request waited' }),
    of('A', at(3000, 3025), 'not observed'),
    of('A', at(3030, 3040), 'not observed'),
    of('B', at(3000, 3025), 'no connection', { note: 'refused' }),
    of('A', at(0, 500_000), 'not collected', { state: 'open' }),
    of('B', at(10, 480_000), 'not collected', { state: 'open' }),
    of('A', at(2000, 2010), 'exchange failed', { state: 'open' }),
  ];
  assert.deepEqual(
    incidentsOf(gaps).map(({ cause, state, streams, span: { fromMs, toMs } }) => [
      ...[cause, state, streams, fromMs / 1000, toMs / 1000],
    ]),
    [
      ['daemon stopped', 'mixed', 2, 999, 1030],
      ['not observed', 'unfillable', 1, 1000, 1025],
      ['not observed', 'unfillable', 1, 3000, 3040],
      ['no connection', 'unfillable', 1, 3000, 3025],
      ['not collected', 'open', 2, 0, 500_000],
      ['exchange failed', 'open', 1, 2000, 2010],
    ],
  );
});
