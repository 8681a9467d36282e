import assert from 'node:assert/strict';
import test from 'node:test';
import { selectGaps } from '../../src/console/api/selection.js';
import type { StreamKind } from '../../src/model/series.js';
import { openTestStore, rememberedGaps, runSql } from '../support/postgres/postgres.js';
import {
  claim,
  marketOf,
  NOON_S,
  setCollectFrom,
  trade,
} from '../support/postgres/postgres-rows.js';

const SANDBOX = {
  name: 'sandbox',
  baseUrl: 'http://127.0.0.1:1',
  isSandbox: true,
  identity: 'seed 1',
  dialect: 'contract',
};

test('an archive belongs to one exchange', async () => {
  const { store } = await openTestStore();
  assert.equal(await store.archive(), null);
  await store.claimArchive({ ...SANDBOX, identity: null });
  await store.claimArchive(SANDBOX);
  const moved = { ...SANDBOX, baseUrl: 'http://127.0.0.1:2' };
  await store.claimArchive(moved);
  await store.claimArchive({ ...moved, identity: null });
  assert.deepEqual(await store.archive(), moved);
  // An address that gives another name is no other exchange while its identity is the known one.
  await store.claimArchive({ ...moved, name: 'elsewhere' });
  assert.deepEqual(await store.archive(), { ...moved, name: 'elsewhere' });
  const others = [
    { name: 'other', identity: null },
    { isSandbox: false },
    { identity: 'seed 2' },
    { dialect: 'p2b' },
  ];
  for (const other of others) {
    await assert.rejects(store.claimArchive({ ...moved, ...other }), {
      code: 'archive_of_another_exchange',
      action: 'fatal',
      message: /"elsewhere".*cannot take the data of/,
    });
  }
  for (const kind of ['sandbox', 'replay']) {
    await assert.rejects(store.claimArchive({ ...moved, identity: `${kind}-2` }), {
      message: new RegExp(`cannot take the data of the ${kind} "sandbox" at`),
    });
  }
});

test('of a long list only what is wanted and has room is taken in', async () => {
  const { store, url } = await openTestStore();
  const names = async () =>
    (await runSql<{ name: string }>(url, 'SELECT name FROM market ORDER BY 1'))
      .map(({ name }) => name)
      .join('');
  const list = async (listed: string, wanted: readonly string[], isComplete = true) => {
    const markets = [...listed].map((name) => marketOf(name));
    const changes = await store.ensureMarkets(markets, NOON_S * 1_000, {
      ...{ isComplete, take: { wanted, max: 3 } },
    });
    return [...changes.ids.keys()].sort().join('');
  };
  assert.deepEqual([await list('FEDCBA', []), await names()], ['ABC', 'ABC']);
  // What is listed anew has no room, before as after them; a place that becomes free is taken.
  assert.deepEqual([await list('ZFEDCBA0', []), await names()], ['ABC', 'ABC']);
  assert.deepEqual([await list('FEDCA', []), await names()], ['ACD', 'ABCD']);
  // What was left out by a list that could not be read whole keeps its place.
  assert.deepEqual([await list('FE', [], false), await names()], ['ACD', 'ABCD']);
  // Known ones that are not wanted take no room.
  assert.deepEqual([await list('ACDEFGHIJ', [...'EGIJ']), await names()], ['ACDEGI', 'ABCDEGI']);
});

test('markets come, change and go, and their past terms are kept', async () => {
  const { store, url } = await openTestStore();
  const at = (hour: number) => NOON_S * 1_000 + hour * 3_600_000;
  const first = await store.ensureMarkets([marketOf('B_USDT'), marketOf('A_USDT')], at(0));
  assert.deepEqual(first.added, ['A_USDT', 'B_USDT']);
  assert.deepEqual([...first.ids.values()].sort(), [1, 2]);
  const same = [marketOf('A_USDT', { minAmount: '0.00100' }), marketOf('B_USDT')];
  const second = await store.ensureMarkets(same, at(1));
  assert.deepEqual([second.added, second.removed, second.changed], [[], [], []]);
  assert.deepEqual(second.ids, first.ids);
  const third = await store.ensureMarkets([marketOf('A_USDT', { moneyPrec: 4 })], at(2));
  assert.deepEqual([third.added, third.removed, third.changed], [[], ['B_USDT'], ['A_USDT']]);
  const after = await store.ensureMarkets([marketOf('A_USDT', { moneyPrec: 4 })], at(2));
  assert.deepEqual([third.delisted, after.removed, after.delisted], [['B_USDT'], [], ['B_USDT']]);
  const fourth = await store.ensureMarkets([marketOf('A_USDT'), marketOf('B_USDT')], at(3));
  assert.deepEqual([fourth.added, fourth.changed], [['B_USDT'], ['A_USDT']]);
  assert.equal(fourth.ids.get('B_USDT'), first.ids.get('B_USDT'));
  const history = await runSql<{ quote_prec: number; hours: string }>(
    url,
    `SELECT quote_prec, extract(epoch FROM upper(span) - lower(span))::int / 3600 AS hours
     FROM market_history ORDER BY span`,
  );
  assert.deepEqual(history, [
    { quote_prec: 2, hours: 2 },
    { quote_prec: 4, hours: 1 },
  ]);
});

test('an incomplete list delists nothing and keeps every id', async () => {
  const { store } = await openTestStore();
  const first = await store.ensureMarkets([marketOf('A_USDT'), marketOf('B_USDT')], 0);
  const second = await store.ensureMarkets([marketOf('A_USDT')], 1_000, { isComplete: false });
  assert.deepEqual([second.added, second.removed], [[], []]);
  assert.deepEqual(second.ids, first.ids);
});

test('a stream is made once, even by a race', async () => {
  const { store } = await openTestStore();
  await store.ensureMarkets([marketOf('A_USDT')], 0);
  const key = { kind: 'candles', marketId: 1, variant: 60, collectFromMs: 5_000 } as const;
  const made = await Promise.all(Array.from({ length: 8 }, () => store.ensureStream(key)));
  assert.equal(new Set(made.map(({ streamId }) => streamId)).size, 1);
  assert.deepEqual(made[0], { ...key, streamId: made[0]?.streamId });
  await setCollectFrom(store, made[0]?.streamId ?? 0, 7_000);
  assert.equal((await store.ensureStream(key)).collectFromMs, 7_000);
});

test('gaps are what is expected and not covered, and what became of them is remembered', async () => {
  const { store } = await openTestStore();
  await store.ensureMarkets([marketOf('A_USDT')], 0);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const ms = (s: number) => (NOON_S + s) * 1_000;
  assert.deepEqual(await store.gaps(stream, ms(50)), []);
  await store.commit({ claims: [claim(stream, 10, 20), claim(stream, 30, 40)] });
  assert.deepEqual(await store.gaps(stream, ms(50)), [
    { fromMs: ms(20), toMs: ms(30) },
    { fromMs: ms(40), toMs: ms(50) },
  ]);
  assert.deepEqual(await store.gaps(stream, ms(5)), []);
  await setCollectFrom(store, stream.streamId, ms(0));
  const span = { fromMs: ms(0), toMs: ms(10) };
  assert.deepEqual((await store.gaps(stream, ms(35)))[0], span);
  const gap = { stream, span, reason: 'exchange failed' as const, atMs: ms(50) };
  await store.recordGap({ ...gap, state: 'filling', nextAttemptAtMs: ms(60) });
  await store.recordGap({ ...gap, state: 'filling' });
  await store.recordGap({ ...gap, state: 'unfillable', reason: 'beyond history', note: 'why' });
  const [recorded, ...others] = await rememberedGaps(store, stream);
  assert.deepEqual(others, []);
  assert.deepEqual(recorded, {
    ...{ gapId: recorded?.gapId, streamId: stream.streamId, marketId: 1, span },
    ...{ state: 'unfillable', reason: 'beyond history', note: 'why' },
    ...{ firstSeenAtMs: ms(50), attempts: 2, nextAttemptAtMs: null, closedAtMs: ms(50) },
  });
  // What lies past the newest covered moment is lag, not a gap, as long as it was not asked for in vain.
  const statusOf = async () => (await store.statusRows(ms(50)))[0];
  const openMs = async () =>
    (await store.gapTotals(ms(50))).reduce(
      (sum, { state, lengthMs }) => sum + (state === 'open' ? lengthMs : 0),
      0,
    );
  const { ageS, ...status } = (await statusOf()) ?? assert.fail();
  assert.ok(ageS >= 0);
  assert.equal(await openMs(), 10_000);
  assert.deepEqual(status, {
    ...{ streamId: stream.streamId, kind: 'trades', marketId: 1, market: 'A_USDT', variant: 0 },
    ...{
      rows: 0,
      timed: 0,
      oldestCoveredMs: ms(10),
      newestCoveredMs: ms(40),
      coveredS: 20,
      gapS: 20,
      unfillableS: 0,
      beforeHistoryS: 10,
      neverAskedS: 0,
      gapsWithinHistory: 1,
      openGaps: 1,
      openS: 10,
    },
    collectFromMs: ms(0),
    ...{ startReason: null, expiredUntilMs: null },
  });
  const refused = { fromMs: ms(42), toMs: ms(48) };
  await store.recordGap({ ...gap, span: refused, state: 'open', reason: 'refused rows' });
  const later = await statusOf();
  assert.deepEqual([later?.newestCoveredMs, later?.gapS, later?.openGaps], [ms(40), 28, 2]);
  assert.equal(await openMs(), 18_000, 'the sums by reason say the same');
  const [known] = await store.inspection.streams();
  assert.equal(known?.countedUntilMs, ms(48));
});

test('a candle that is not closed yet is no gap, also where no candle was had', async () => {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([marketOf('A_USDT')], 0);
  const hourMs = Math.floor((NOON_S * 1000) / 3_600_000) * 3_600_000;
  const key = { kind: 'candles', marketId: 1, variant: 3600, collectFromMs: hourMs } as const;
  await store.ensureStream(key);
  const seen = async (untilMs: number) => {
    const [status] = await store.statusRows(untilMs);
    return [status?.gapS, status?.openGaps, (await store.gapTotals(untilMs)).length];
  };
  for (const minutes of [1, 59, 60]) {
    assert.deepEqual(await seen(hourMs + minutes * 60_000), [0, 0, 0], `${minutes} minutes`);
  }
  // A minute after its end it is final: by then it should have been asked for.
  assert.deepEqual(await seen(hourMs + 61 * 60_000), [3600, 1, 1]);
  // Nor is it where older ones are missing, for whoever counts them.
  const untilMs = hourMs + 150 * 60_000;
  const trades = await store.ensureStream({ ...key, kind: 'trades', variant: 0 });
  const span = { fromMs: hourMs, toMs: untilMs };
  await store.commit({ claims: [{ stream: trades, span, evidence: {} }] });
  assert.deepEqual(await seen(untilMs), [7200, 1, 1]);
  const { gaps } = await selectGaps(store, { bounds: {} }, untilMs, 10);
  const missing = { fromMs: hourMs, toMs: hourMs + 7_200_000 };
  assert.deepEqual(
    gaps.map((gap) => gap.span),
    [missing],
  );
  const listed = await runSql(
    url,
    `SELECT extract(epoch FROM length)::int AS "lengthS", is_lag AS "isLag" FROM analytics.gaps
     WHERE kind = 'candles' AND (NOT is_lag OR length < interval '1 hour') ORDER BY starts_at`,
  );
  assert.deepEqual(listed[0], { lengthS: 7200, isLag: false });
  assert.equal(listed.length, 2);
});

test('a stream that never got anything has one gap that grows, once it is known where it begins', async () => {
  const { store } = await openTestStore();
  await store.ensureMarkets([marketOf('A_USDT')], 0);
  const ms = (s: number) => (NOON_S + s) * 1_000;
  const key = { kind: 'depth', marketId: 1, variant: 0 } as const;
  const stream = await store.ensureStream({ ...key, collectFromMs: ms(10) });
  await store.ensureStream({ ...key, kind: 'trades' });
  for (const [untilS, gapS] of [
    [5, 0],
    [40, 30],
    [100, 90],
  ] as const) {
    const [depth, trades] = await store.statusRows(ms(untilS));
    const gaps = gapS === 0 ? 0 : 1;
    assert.deepEqual([depth?.kind, depth?.gapsWithinHistory, depth?.gapS], ['depth', gaps, gapS]);
    assert.deepEqual([trades?.kind, trades?.gapsWithinHistory, trades?.gapS], ['trades', 0, 0]);
  }
  assert.deepEqual(await store.gaps(stream, ms(40)), [{ fromMs: ms(10), toMs: ms(40) }]);
  // Where history begins later than was wished, the rest is lag as long as nothing more was tried.
  const span = { fromMs: ms(10), toMs: ms(30) };
  const gap = { stream, span, atMs: ms(40), state: 'unfillable' } as const;
  await store.recordGap({ ...gap, reason: 'beyond history' });
  const [depth] = await store.statusRows(ms(40));
  assert.equal(depth?.newestCoveredMs, null);
  assert.deepEqual([depth.gapS, depth.beforeHistoryS, depth.gapsWithinHistory], [20, 20, 0]);
  // While it is asked for once more it is no less before history.
  const remembered = { reasons: ['beyond history'], limit: 1 };
  assert.equal(await store.retryGaps(remembered, ms(40), true), 1);
  const again = (await store.statusRows(ms(40)))[0];
  assert.deepEqual([again?.unfillableS, again?.openGaps], [0, 0]);
  assert.deepEqual([again?.beforeHistoryS, again?.gapsWithinHistory], [20, 0]);
  const [listed] = await store.listGaps(remembered, ms(40));
  assert.deepEqual([listed?.state, listed?.isBeforeHistory], ['open', true]);
});

test('of a delisted market nothing is expected from when it was missing from the list, until it is back', async () => {
  const { store, url } = await openTestStore();
  const at = (minute: number) => NOON_S * 1_000 + minute * 60_000;
  const { ids } = await store.ensureMarkets([marketOf('A_USDT'), marketOf('B_USDT')], at(0));
  const marketId = ids.get('B_USDT') ?? 0;
  const key = { kind: 'trades', variant: 0 } as const;
  const stream = await store.ensureStream({ ...key, marketId, collectFromMs: at(0) });
  const missing = async (untilMs: number) => {
    const gaps = await store.listGaps({ limit: 10, hasLag: true }, untilMs);
    const [asked] = await runSql<{ minutes: number }>(
      url,
      `SELECT extract(epoch FROM upper(spans) - lower(spans))::int / 60 AS minutes
       FROM range_merge(analytics.expected($1, '2000-01-01', '2100-01-01')) AS spans`,
      [stream.streamId],
    );
    const minutes = (ms: number) => (ms - at(0)) / 60_000;
    return [gaps.map(({ span }) => minutes(span.toMs)), asked?.minutes];
  };
  // The newest coverage of any stream is what analysts take for the present.
  const other = await store.ensureStream({ ...key, marketId: ids.get('A_USDT') ?? 0 });
  await store.commit({
    claims: [{ stream: other, span: { fromMs: at(0), toMs: at(60) }, evidence: {} }],
  });
  await store.ensureMarkets([marketOf('A_USDT'), marketOf('B_USDT')], at(5));
  assert.deepEqual((await missing(at(6)))[0], [6]);
  await store.ensureMarkets([marketOf('A_USDT')], at(7));
  assert.deepEqual(await missing(at(50)), [[7], 7]);
  await store.ensureMarkets([marketOf('A_USDT'), marketOf('B_USDT')], at(40));
  const [gaps, expected] = await missing(at(50));
  // What had been given up is a memory of its own, next to what is expected since.
  assert.deepEqual(gaps, [50, 7]);
  assert.ok(Number(expected) >= 60);
});

test('what is missing of a delisted market is given up with its reason, and taken up when it is back', async () => {
  const { store } = await openTestStore();
  const at = (minute: number) => NOON_S * 1_000 + minute * 60_000;
  const A = marketOf('A_USDT');
  const { ids } = await store.ensureMarkets([A, marketOf('B_USDT')], at(0));
  const marketId = ids.get('B_USDT') ?? 0;
  const key = { variant: 0, marketId, collectFromMs: at(0) };
  const trades = await store.ensureStream({ ...key, kind: 'trades' });
  const depth = await store.ensureStream({ ...key, kind: 'depth' });
  const tickers = await store.ensureStream({ ...key, kind: 'tickers' });
  // The candle that is open when it leaves never closes.
  const candles = await store.ensureStream({ ...key, kind: 'candles', variant: 180 });
  await store.commit({
    claims: [
      { stream: candles, span: { fromMs: at(0), toMs: at(3) }, evidence: {} },
      { stream: trades, span: { fromMs: at(1), toMs: at(4) }, evidence: {} },
      { stream: depth, span: { fromMs: at(0), toMs: at(3) }, evidence: {} },
      { stream: tickers, span: { fromMs: at(0), toMs: at(3) }, evidence: {} },
    ],
  });
  const gaps = async (untilMs: number) => {
    const listed = await store.listGaps({ limit: 20, hasLag: true }, untilMs);
    const minute = (ms: number) => (ms - at(0)) / 60_000;
    return listed
      .map(({ kind, span, state, reason }) =>
        [kind, minute(span.fromMs), minute(span.toMs), state, reason].join(' '),
      )
      .sort();
  };
  await store.ensureMarkets([A, marketOf('B_USDT')], at(5));
  const left = await store.ensureMarkets([A], at(7));
  assert.deepEqual(left.givenUp.map(({ kind }) => kind).sort(), [
    ...['candles', 'depth', 'tickers', 'trades', 'trades'],
  ]);
  const givenUp = [
    'candles 3 6 unfillable delisted',
    // It may have been there until a list lacked it.
    'depth 3 7 unfillable not observed',
    'tickers 3 7 unfillable not observed',
    'trades 0 1 unfillable delisted',
    'trades 4 7 unfillable delisted',
  ];
  assert.deepEqual(await gaps(at(50)), givenUp);
  // Opened meanwhile, though nothing can be asked: given up again with the next list.
  assert.equal(await store.retryGaps({ limit: 10 }, at(10), true), 5);
  assert.match((await gaps(at(50))).join(), /depth 3 7 open/);
  const again = await store.ensureMarkets([A], at(20));
  assert.deepEqual(again.givenUp, [], 'they were known');
  assert.deepEqual(await gaps(at(50)), givenUp);
  await store.ensureMarkets([A, marketOf('B_USDT', { moneyPrec: 3 })], at(40));
  assert.deepEqual(await gaps(at(50)), [
    'candles 3 6 open not collected',
    'candles 6 50 open not collected',
    'depth 3 7 unfillable not observed',
    'depth 40 50 open not collected',
    'depth 7 40 unfillable delisted',
    'tickers 3 7 unfillable not observed',
    'tickers 40 50 open not collected',
    'tickers 7 40 unfillable delisted',
    'trades 0 1 open not collected',
    'trades 4 7 open not collected',
    'trades 7 50 open not collected',
  ]);
  const noteOf = async (kind: StreamKind) =>
    (await store.listGaps({ kinds: [kind], limit: 9 }, at(40))).find(({ note }) => note)?.note ??
    '';
  assert.match(await noteOf('trades'), /^the exchange lists the market again since .*12:40:00/);
  assert.match(
    await noteOf('depth'),
    /list at .*12:05:00.* missing from it at .*12:07:00.* back at .*12:40:00.*: nothing was observed/,
  );
});

test('a market that leaves twice before anything of it is covered was away twice', async () => {
  const { store, url } = await openTestStore();
  const at = (second: number) => (NOON_S + second) * 1000;
  const [A, B] = [marketOf('A_USDT'), marketOf('B_USDT')];
  const { ids } = await store.ensureMarkets([A, B], at(0));
  const marketId = ids.get('B_USDT') ?? 0;
  await store.ensureStream({ kind: 'states', variant: 60, marketId, collectFromMs: at(0) });
  // Of what never began nothing is missing.
  const unbegun = await store.ensureStream({ kind: 'depth', variant: 0, marketId });
  await store.ensureMarkets([A], at(30));
  await store.ensureMarkets([A, B], at(90));
  await store.ensureMarkets([A], at(100));
  await store.ensureMarkets([A, B], at(120));
  const ofUnbegun = await runSql(url, `SELECT FROM gap WHERE stream_id = ${unbegun.streamId}`);
  assert.equal(ofUnbegun.length, 0);
  const gaps = await store.listGaps({ limit: 9 }, at(120));
  assert.deepEqual(
    gaps.map(({ span, state, reason }) => [span.fromMs, span.toMs, state, reason]),
    [
      [at(100), at(120), 'unfillable', 'delisted'],
      [at(90), at(100), 'unfillable', 'not observed'],
      [at(30), at(90), 'unfillable', 'delisted'],
      [at(0), at(30), 'unfillable', 'not observed'],
    ],
  );
  const away = await runSql(
    url,
    `SELECT extract(epoch FROM lower(span))::float8 * 1000 AS from_ms,
            extract(epoch FROM upper(span))::float8 * 1000 AS to_ms
     FROM market_absence ORDER BY 1`,
  );
  assert.deepEqual(away, [
    { from_ms: at(30), to_ms: at(90) },
    { from_ms: at(100), to_ms: at(120) },
  ]);
});

test('more gaps of a delisted market than are given up at once are given up by the next lists', async () => {
  const { store } = await openTestStore();
  const at = (second: number) => (NOON_S + second) * 1000;
  const A = marketOf('A_USDT');
  const { ids } = await store.ensureMarkets([A, marketOf('B_USDT')], at(0));
  const marketId = ids.get('B_USDT') ?? 0;
  const key = { variant: 0, marketId, collectFromMs: at(0) };
  const stream = await store.ensureStream({ ...key, kind: 'trades' });
  const seconds = Array.from({ length: 1100 }, (_, n) => 2 * n);
  await store.commit({
    claims: seconds.map((s) => ({
      stream,
      span: { fromMs: at(s), toMs: at(s + 1) },
      evidence: {},
    })),
  });
  const open = async () =>
    (await store.listGaps({ states: ['open'], limit: 2000, hasLag: true }, at(2300))).length;
  const list = async (s: number) => (await store.ensureMarkets([A], at(s))).givenUp.length;
  assert.equal(await open(), 1100);
  assert.deepEqual([await list(2250), await open()], [999, 101]);
  // The one that was left as a memory is no news any more.
  assert.deepEqual([await list(2260), await open()], [100, 0]);
  assert.deepEqual([await list(2270), await open()], [0, 0]);
});

test('sessions that a crash left open end at their last message, or where what they proved ends', async () => {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([marketOf('A_USDT')], 0);
  const stream = await store.ensureStream({ kind: 'states', marketId: 1, variant: 60 });
  const closed = await store.openSession(stream, 1_000);
  await store.closeSession(closed, { atMs: 2_000, code: 1000, reason: 'done' });
  const crashed = await store.openSession(stream, 3_000);
  await store.touchSession(crashed, 9_000);
  await store.touchSession(crashed, 5_000);
  const other = await store.ensureStream({ kind: 'states', marketId: 1, variant: 3_600 });
  const proving = await store.openSession(other, 3_000);
  await store.touchSession(proving, 9_000);
  const evidence = { session: proving, records: 0 };
  await store.commit({
    claims: [
      { stream: other, span: { fromMs: 3_000, toMs: 12_000 }, evidence },
      { stream: other, span: { fromMs: 20_000, toMs: 30_000 }, evidence: { session: proving + 1 } },
    ],
  });
  assert.equal(await store.closeOrphanSessions(), 2);
  const rows = await runSql(
    url,
    'SELECT extract(epoch FROM closed_at)::int AS at, close_code FROM session ORDER BY session_id',
  );
  assert.deepEqual(rows, [
    { at: 2, close_code: 1000 },
    { at: 9, close_code: null },
    { at: 12, close_code: null },
  ]);
});

test('tries at an unknown start of history are counted until one leads further, or it is known', async () => {
  const { store } = await openTestStore();
  await store.ensureMarkets([marketOf('A_USDT')], 0);
  const { streamId } = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const ms = (s: number) => (NOON_S + s) * 1_000;
  const failed = (s: number) => {
    return { reason: 'walk stalled', note: `at ${s}`, nextAttemptAtMs: ms(s) + 0.5 } as const;
  };
  assert.equal(await store.startTries(streamId), null);
  await store.noteStartTry(streamId, failed(10));
  await store.noteStartTry(streamId, failed(20));
  const tries = { attempts: 2, ...failed(20) };
  assert.deepEqual(await store.startTries(streamId), tries);
  const [known] = await store.inspection.streams();
  assert.deepEqual(known?.startTries, tries);
  await store.noteStartTry(streamId, null);
  assert.equal(await store.startTries(streamId), null);
  await store.noteStartTry(streamId, failed(30));
  await setCollectFrom(store, streamId, ms(0));
  assert.equal(await store.startTries(streamId), null, 'there is nothing below it');
  await store.noteStartTry(streamId, failed(40));
  assert.equal(await store.startTries(streamId), null);
});

test('one daemon writes: the second is refused until the first has gone', async () => {
  const { store, url } = await openTestStore();
  await store.acquireWriterLock();
  await store.acquireWriterLock();
  const second = await openTestStore({ databaseUrl: url });
  await assert.rejects(second.store.acquireWriterLock(), { code: 'writer_lock_held' });
  await store.stop();
  await second.store.acquireWriterLock();
  await second.store.commit({ trades: [trade(1, 1)] });
});

test('a stopped store refuses everything, and readers cannot write', async () => {
  const { store } = await openTestStore();
  await store.ping();
  await assert.rejects(store.query("INSERT INTO market_history VALUES (1, 'empty', 0, 0, 0, 0)"));
  assert.deepEqual(await store.query('SELECT $1::int + 1 AS two', [1]), [{ two: 2 }]);
  const last = store.commit({ trades: [trade(1, 1)] });
  await Promise.all([store.stop(), store.stop()]);
  assert.equal((await last).outcomes.trade.stored, 1);
  for (const work of [store.ping(), store.commit({}), store.acquireWriterLock()]) {
    await assert.rejects(work, { code: 'aborted' });
  }
});
