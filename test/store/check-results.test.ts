import assert from 'node:assert/strict';
import test from 'node:test';
import { isoMs } from '../../src/kernel/timestamp.js';
import type { KlineRow, StreamRef } from '../../src/model/batch.js';
import { type CheckRow, judgeSlot, matchRow } from '../../src/model/check-results.js';
import { type CheckTarget, findUnsettled, type Store } from '../../src/store/index.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { claim, NOON_S, revoke, setCollectFrom, trade } from '../support/postgres/postgres-rows.js';
import { BTC } from '../support/worlds/store-world.js';

interface World {
  readonly store: Store;
  readonly url: string;
  readonly trades: StreamRef;
  readonly minutes: StreamRef;
  readonly target: CheckTarget;
}

async function openWorld(): Promise<World> {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([BTC], NOON_S * 1000);
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await store.ensureStream({ kind: 'candles', marketId: 1, variant: 3600 });
  const minutes = await store.ensureStream({ kind: 'candles', marketId: 1, variant: 60 });
  const [target] = await store.checks.targets();
  assert.ok(target !== undefined);
  return { store, url, trades, minutes, target };
}

/** A candle of the minute `atS` seconds after noon, of one trade of 2 at 100.5. */
function candle(atS: number, values: Partial<KlineRow> = {}): KlineRow {
  const prices = { open: '100.5', close: '100.5', high: '100.5', low: '100.50' };
  const key = { marketId: 1, intervalS: 60, openAtS: NOON_S + atS };
  const receivedAtMs = (NOON_S + atS + 70) * 1000;
  return { ...key, ...prices, volume: '2', quoteVolume: '201', receivedAtMs, ...values };
}

const spanS = (fromS: number, toS: number) => ({
  fromMs: (NOON_S + fromS) * 1000,
  toMs: (NOON_S + toS) * 1000,
});

const mismatch = (fromS: number, more: Partial<CheckRow> = {}): CheckRow => ({
  span: spanS(fromS, fromS + 60),
  outcome: 'mismatch',
  differences: [{ figure: 'volume', trades: '1', candle: '2' }],
  tries: 0,
  nextTryAtMs: NOON_S * 1000,
  isExact: false,
  ...more,
});

const CHECKED = { needsChecks: true, needsTimes: false };

test('targets name the streams of a market, the shortest candles first', async () => {
  const { target, trades, minutes } = await openWorld();
  assert.equal(target.market, 'BTC_USDT');
  assert.deepEqual(target.trades, trades);
  assert.deepEqual(
    target.klines.map(({ variant }) => variant),
    [60, 3600],
  );
  assert.deepEqual(target.klines[0], minutes);
});

test('figures are exact sums, first and last by time and id, and say what is covered', async () => {
  const { store, trades, minutes, target } = await openWorld();
  const many = [
    trade(4, 59, { price: '7', amount: '0.00000001', total: '0.00000007' }),
    trade(1, 0, { price: '100.5' }),
    trade(3, 59, { price: '300', amount: '0.1', total: '30' }),
    trade(2, 0, { price: '0.5', amount: '0.2', total: '0.1' }),
    trade(5, 61),
  ];
  await store.commit({ trades: many, claims: [claim(trades, 0, 150)] });
  await store.commit({ klines: [candle(60)], claims: [claim(minutes, -60, 120)] });
  const slots = await store.checks.figures(target, minutes, spanS(-60, 180));
  assert.deepEqual(
    slots.map(({ hasTrades, hasCandle }) => [hasTrades, hasCandle]),
    [
      [false, true],
      [true, true],
      [true, true],
      [false, false],
    ],
  );
  assert.deepEqual(slots[1]?.trades, {
    count: 4,
    amount: '2.30000001',
    total: '231.10000007',
    paid: '231.10000007',
    high: '300',
    low: '0.5',
    first: '100.5',
    last: '7',
  });
  assert.equal(slots[1]?.candle, null);
  assert.equal(slots[2]?.candle?.low, '100.50');
  assert.equal(slots[1]?.previousClose, null, 'nothing is known before');
  assert.equal(slots[3]?.previousClose, '100.5');
  assert.deepEqual(
    slots.map((one) => judgeSlot(one).outcome),
    ['unproven', 'mismatch', 'match', 'unproven'],
  );
  const [later] = await store.checks.figures(target, minutes, spanS(120, 180));
  assert.equal(later?.previousClose, '100.5', 'the close before the span');
  await assert.rejects(store.checks.figures(target, minutes, spanS(1, 61)), RangeError);
});

test('pending are whole slots that both roads cover, without those judged', async () => {
  const { store, url, trades, minutes } = await openWorld();
  assert.deepEqual(await store.checks.pending(10), []);
  await store.commit({ claims: [claim(trades, 30, 400)] });
  await store.commit({ claims: [claim(minutes, 0, 300)] });
  const pending = () => store.checks.pending(10);
  const one = { marketId: 1, intervalS: 60 };
  assert.deepEqual(await pending(), [{ ...one, span: spanS(60, 300) }]);
  await store.checks.record(1, 60, [matchRow(spanS(180, 240)), mismatch(240)]);
  assert.deepEqual(await pending(), [{ ...one, span: spanS(60, 180) }]);
  await store.checks.record(1, 60, [matchRow(spanS(60, 180))]);
  assert.deepEqual(await pending(), []);
  const [totals] = await store.checks.totals();
  assert.deepEqual(totals, {
    ...one,
    market: 'BTC_USDT',
    mismatches: 1,
    isListed: true,
    judgedUntilMs: spanS(0, 300).toMs,
  });
  const delist = (at: string) => runSql(url, `UPDATE market SET delisted_at = ${at}`);
  await delist('now()');
  assert.equal((await store.checks.totals())[0]?.isListed, false);
  await delist('NULL');
  const counted = async () => {
    const [known] = await store.checks.totals();
    const [asked] = await runSql(
      url,
      `SELECT mismatches::int AS count FROM analytics.completeness('BTC_USDT', '${isoMs(spanS(0, 0).fromMs).slice(0, 10)}')
       WHERE kind = 'candles' AND variant = 60`,
    );
    assert.deepEqual(asked, { count: known?.mismatches }, 'SQL counts the same');
    return known?.mismatches;
  };
  assert.equal(await counted(), 1);
  const gone = { reason: 'suspect', note: 'nothing came', atMs: spanS(0, 400).toMs } as const;
  await revoke(store, trades, spanS(250, 260), gone);
  assert.equal(await counted(), 0, 'what is a gap of trades says nothing of a candle');
  const absent = { figure: 'candle', trades: '1 trade', candle: null } as const;
  await store.checks.record(1, 60, [{ ...mismatch(240), differences: [absent] }]);
  assert.equal(await counted(), 1, 'a stored trade contradicts an absent candle alone');
  await revoke(store, minutes, spanS(240, 300), gone);
  assert.equal(await counted(), 0, 'but no gap');
});

test('a mismatch that is tried again holds back sealing, unless what it speaks of is given up', async () => {
  const { store, trades, minutes } = await openWorld();
  const covered = [claim(trades, 0, 600), claim(minutes, 0, 300)];
  await store.commit({ trades: [trade(1, 130)], klines: [candle(120)], claims: covered });
  const lost = { state: 'unfillable', reason: 'beyond history', atMs: spanS(0, 700).toMs } as const;
  await store.recordGap({ ...lost, stream: minutes, span: spanS(240, 600) });
  const matches = [0, 60, 180, 240].map((fromS) => matchRow(spanS(fromS, fromS + 60)));
  await store.checks.record(1, 60, [...matches, mismatch(120)]);
  const admin = await store.sealing.open(new AbortController().signal);
  const holdsBack = async () => {
    const part = { table: 'trade', span: spanS(60, 240) } as const;
    return (await findUnsettled(admin.connection, part, CHECKED))?.why;
  };
  assert.equal(await holdsBack(), 'mismatch');
  // One memory of a long time closes only when all of it is covered.
  await store.recordGap({ ...lost, stream: minutes, span: spanS(-600, 600) });
  assert.equal(await holdsBack(), 'mismatch', 'of covered time nothing is given up');
  const gone = { reason: 'suspect', note: 'it differs', atMs: spanS(0, 700).toMs } as const;
  await revoke(store, minutes, spanS(120, 180), gone);
  await store.checks.applySuspects(spanS(0, 700).toMs, 10);
  assert.equal(await holdsBack(), 'mismatch', 'it may still come');
  await store.recordGap({ ...lost, stream: minutes, span: spanS(120, 180) });
  assert.equal(await holdsBack(), undefined);
  await admin.close();
});

test('what is given up of a part of a slot leaves nothing to wait for, though the rest is covered', async () => {
  const { store, trades, minutes } = await openWorld();
  const covered = [claim(trades, 0, 130), claim(trades, 140, 600), claim(minutes, 0, 300)];
  await store.commit({
    trades: [trade(1, 30), trade(2, 150)],
    klines: [candle(120)],
    claims: covered,
  });
  const matches = [0, 60, 180, 240].map((fromS) => matchRow(spanS(fromS, fromS + 60)));
  await store.checks.record(1, 60, [...matches, mismatch(120)]);
  const lost = { state: 'unfillable', reason: 'beyond history', atMs: spanS(0, 700).toMs } as const;
  await store.recordGap({ ...lost, stream: trades, span: spanS(130, 140) });
  const admin = await store.sealing.open(new AbortController().signal);
  const part = { table: 'trade', span: spanS(60, 240) } as const;
  assert.equal(await findUnsettled(admin.connection, part, CHECKED), undefined);
  await store.recordGap({ ...lost, stream: trades, span: spanS(100, 150) });
  assert.equal(await findUnsettled(admin.connection, part, CHECKED), undefined);
  await admin.close();
});

test('matches become one row, mismatches keep one each, the later check stays', async () => {
  const { store, url } = await openWorld();
  for (let minute = 0; minute < 20; minute += 1) {
    await store.checks.record(1, 60, [matchRow(spanS(minute * 60, minute * 60 + 60))]);
  }
  await store.checks.record(1, 60, [mismatch(300), mismatch(600, { tries: 1 })]);
  const rows = await runSql<{ outcome: string }>(
    url,
    'SELECT outcome, tries FROM candle_check ORDER BY lower(span)',
  );
  assert.deepEqual(
    rows.map(({ outcome }) => outcome),
    ['match', 'mismatch', 'match', 'mismatch', 'match'],
  );
  const due = await store.checks.dueMismatches(NOON_S * 1000, 10);
  assert.deepEqual(
    due.map(({ span, tries }) => [span, tries]),
    [
      [spanS(600, 660), 1],
      [spanS(300, 360), 0],
    ],
  );
  assert.deepEqual(due[1], { ...mismatch(300), marketId: 1, intervalS: 60 });
  assert.deepEqual(await store.checks.dueMismatches(NOON_S * 1000 - 1, 10), []);
  await store.checks.record(1, 60, [matchRow(spanS(300, 360)), matchRow(spanS(600, 660))]);
  assert.equal((await runSql(url, 'SELECT 1 FROM candle_check')).length, 1);
  assert.deepEqual(await store.checks.mismatches({}, 10), []);
});

test('a late trade and a revised candle take back what was said of their slots', async () => {
  const { store, url, trades, minutes } = await openWorld();
  await store.commit({
    trades: [trade(1, 10), trade(9, 500)],
    klines: [candle(0), candle(120)],
    claims: [claim(trades, 0, 600), claim(minutes, 0, 600)],
  });
  const marks = () => runSql(url, 'SELECT interval_s FROM candle_recheck ORDER BY recheck_id');
  assert.deepEqual(await marks(), [], 'what comes with its first coverage is no change');
  await store.checks.record(1, 60, [
    matchRow(spanS(0, 240)),
    mismatch(240, { tries: 2, nextTryAtMs: null }),
  ]);
  await store.commit({ trades: [trade(2, 70), trade(3, 250)] });
  await store.commit({ klines: [candle(0, { volume: '3' })] });
  assert.deepEqual(await marks(), [{ interval_s: 0 }, { interval_s: 60 }]);
  const nowMs = (NOON_S + 900) * 1000;
  assert.equal(await store.checks.applySuspects(nowMs, 100), 2);
  assert.deepEqual(await marks(), []);
  const [again] = await store.checks.mismatches({ marketId: 1 }, 10);
  assert.deepEqual([again?.tries, again?.nextTryAtMs], [2, nowMs], 'tries are not forgotten');
  assert.deepEqual(await store.checks.pending(1), [
    { marketId: 1, intervalS: 60, span: spanS(300, 600) },
  ]);
  await store.checks.record(1, 60, [matchRow(spanS(300, 600))]);
  const [pending] = await store.checks.pending(1);
  assert.deepEqual(pending?.span, spanS(0, 240), 'all that lies within the changes');
});

test('a report adds mismatches, and has those looked at again that hold no more', async () => {
  const { store } = await openWorld();
  const check = (fromS: number, outcome: 'match' | 'mismatch') => ({
    ...{ span: spanS(fromS, fromS + 60), outcome, differences: [], reason: null, isExact: false },
  });
  await store.checks.record(1, 60, [
    matchRow(spanS(0, 120)),
    mismatch(120, { tries: 3, nextTryAtMs: null }),
    mismatch(180, { tries: 3, nextTryAtMs: null }),
  ]);
  const reported = [
    check(0, 'match'),
    check(60, 'mismatch'),
    check(120, 'match'),
    check(180, 'mismatch'),
  ];
  await store.checks.report(1, 60, reported, 5);
  const known = await store.checks.mismatches({ span: spanS(0, 600) }, 10);
  assert.deepEqual(
    known.map(({ span, tries, nextTryAtMs }) => [span.fromMs / 1000 - NOON_S, tries, nextTryAtMs]),
    [
      [180, 3, null],
      [120, 3, 5],
      [60, 0, 5],
    ],
  );
  assert.deepEqual(await store.checks.mismatches({ marketId: 7 }, 10), []);
});

test('expected is what both are collected of, up to where both are covered', async () => {
  const { store, trades, minutes, target } = await openWorld();
  const expected = async () => {
    const [known] = await store.checks.targets();
    return await store.checks.expected(known ?? target, minutes);
  };
  assert.deepEqual(await expected(), []);
  await setCollectFrom(store, trades.streamId, (NOON_S + 60) * 1000);
  await setCollectFrom(store, minutes.streamId, (NOON_S - 600) * 1000);
  assert.deepEqual(await expected(), []);
  await store.commit({ claims: [claim(trades, 500, 600), claim(minutes, 0, 540)] });
  assert.deepEqual(await expected(), [spanS(60, 540)]);
});

test('what was asked for is expected of both roads, though it lies before what is collected', async () => {
  const { store, trades, minutes, target } = await openWorld();
  for (const stream of [trades, minutes]) {
    await setCollectFrom(store, stream.streamId, (NOON_S + 600) * 1000);
    await store.commit({ claims: [claim(stream, 600, 900)] });
  }
  await store.want(trades, spanS(0, 300));
  assert.deepEqual(await store.checks.expected(target, minutes), [spanS(600, 900)]);
  await store.want(minutes, spanS(60, 240));
  await store.want(minutes, spanS(840, 2_000));
  assert.deepEqual(await store.checks.expected(target, minutes), [spanS(60, 240), spanS(600, 900)]);
});

test('older spans are found among many islands, too, and after a rest also what became open', async () => {
  const { store, url, trades, minutes } = await openWorld();
  await store.commit({ claims: [claim(minutes, 0, 6_000)] });
  const ranges = Array.from({ length: 40 }, (_, n) => [n * 150, n * 150 + 130] as const);
  await store.commit({ claims: ranges.map(([fromS, toS]) => claim(trades, fromS, toS)) });
  const slots = ranges.map(([fromS, toS]) =>
    spanS(Math.ceil(fromS / 60) * 60, Math.floor(toS / 60) * 60),
  );
  const judge = async () => {
    const [found] = await store.checks.pending(10);
    if (found !== undefined) await store.checks.record(1, 60, [matchRow(found.span)]);
    return found?.span;
  };
  for (const slot of slots.toReversed()) assert.deepEqual(await judge(), slot);
  assert.equal(await judge(), undefined);

  const oldest = slots[0] ?? assert.fail('no slots');
  await store.checks.record(1, 60, [{ ...mismatch(0), span: oldest }]);
  await runSql(url, `DELETE FROM candle_check WHERE outcome = 'mismatch'`);
  const found: unknown[] = [];
  for (let call = 0; call <= 20 && found.length === 0; call += 1) {
    found.push(...(await store.checks.pending(10)));
  }
  assert.deepEqual(found, [{ marketId: 1, intervalS: 60, span: oldest }]);
});
