import assert from 'node:assert/strict';
import test from 'node:test';
import type { StreamKind } from '../../src/model/series.js';
import { FILLER } from '../../src/store/index.js';
import { openTestStore, rememberedGaps, runSql } from '../support/postgres/postgres.js';
import { claim, miscountedDays, NOON_S, trade } from '../support/postgres/postgres-rows.js';
import { BTC } from '../support/worlds/store-world.js';

/** An archive whose exchange's time a test sets; seconds after noon of the rows' day. */
async function open(nowS: number, poolSize = 4) {
  const time = { nowMs: (NOON_S + nowS) * 1000 };
  const { store, url } = await openTestStore({ poolSize, exchangeNowMs: () => time.nowMs });
  await store.ensureMarkets([BTC], NOON_S * 1000);
  await store.claimArchive({ name: 'x', baseUrl: 'http://x', isSandbox: false, identity: null });
  const stream = (kind: StreamKind, variant = 0) =>
    store.ensureStream({ kind, variant, marketId: 1 });
  const present = (atS: number) => (NOON_S + atS) * 1000;
  return { store, url, time, stream, present };
}

const depthAt = (s: number) => ({
  ...{ marketId: 1, observedAtMs: (NOON_S + s) * 1000, receivedAtMs: NOON_S * 1000 },
  ...{ bidPrices: ['1'], bidAmounts: ['1'], askPrices: ['2'], askAmounts: [`${s}`] },
});

test('a daemon collects once it has noted the present, and what fills gaps does not', async () => {
  const { store, url, present } = await open(60);
  const { inspection } = store;
  const states = async () => [await inspection.isWritten(), await inspection.isCollecting()];
  await store.notePresent(() => ({ presentMs: present(60), pace: 1 }));
  assert.deepEqual(await states(), [false, false], 'an earlier one did');
  await store.acquireWriterLock();
  assert.deepEqual(await states(), [true, false], 'it waits');
  await store.notePresent(() => ({ presentMs: present(60), pace: 1 }));
  assert.deepEqual(await states(), [true, true]);
  await runSql(
    url,
    `UPDATE exclusive_lock SET held_since = held_since - interval '1 hour' WHERE name = 'writer'`,
  );
  await runSql(url, `UPDATE archive SET present_noted_at = now() - interval '2 minutes'`);
  assert.deepEqual(await states(), [true, false], 'it does not get on');
  await store.stop();
  const filling = await openTestStore({ databaseUrl: url });
  await filling.store.acquireWriterLock(FILLER);
  await filling.store.notePresent(() => ({ presentMs: present(60), pace: 1 }));
  assert.equal(await filling.store.inspection.isWritten(), true);
  assert.equal(await filling.store.inspection.isCollecting(), false, 'none but what is asked for');
});

test('a note of the present is dated by its begin, however long the database then hangs', async () => {
  const { store, url, present } = await open(60, 1);
  const [{ pid }] = (await store.query('SELECT pg_backend_pid() AS pid')) as [{ pid: number }];
  let noted: Promise<void> | undefined;
  await new Promise<void>((resolve) => {
    noted = store.notePresent(() => {
      process.kill(pid, 'SIGSTOP');
      resolve();
      return { presentMs: present(60), pace: 1 };
    });
  });
  const [{ at }] = (await runSql(url, 'SELECT clock_timestamp()::text AS at')) as [{ at: string }];
  process.kill(pid, 'SIGCONT');
  await noted;
  const before = 'SELECT FROM archive WHERE present_noted_at < $1::timestamptz';
  assert.equal((await runSql(url, before, [at])).length, 1);
  await store.notePresent(() => undefined);
  assert.equal((await runSql(url, before, [at])).length, 1, 'nothing is noted');
});

test('a claim that ends after the present is refused, by name, with all of its batch and nothing of others', async () => {
  const { store, stream, url } = await open(60);
  const trades = await stream('trades');
  const [good, bad] = await Promise.allSettled([
    store.commit({ trades: [trade(1, 10)], claims: [claim(trades, 0, 60)] }),
    store.commit({ trades: [trade(2, 59)], claims: [claim(trades, 30, 62)] }),
  ]);
  assert.equal(good.status, 'fulfilled');
  assert.ok(bad.status === 'rejected');
  const error = bad.reason as Error & { code: string; action: string };
  assert.deepEqual([error.code, error.action], ['claim_beyond_present', 'skip']);
  assert.match(error.message, /\(trades\) ends at .*12:01:02.* at the exchange it is .*12:01:00/);
  const tids = await runSql<{ tid: string }>(url, 'SELECT tid::text FROM trade');
  assert.deepEqual(tids, [{ tid: '1' }]);
  assert.deepEqual(await miscountedDays(url), []);
});

test('what is covered beyond a new present is taken back of every stream, as a gap; rows stay, counts are exact', async () => {
  const { store, stream, url, time, present } = await open(600);
  const trades = await stream('trades');
  const depth = await stream('depth');
  const klines = await stream('candles', 60);
  const ticker = await stream('tickers');
  await store.commit({
    trades: [trade(1, 10), trade(2, 99), trade(3, 100), trade(4, 300)],
    depths: [depthAt(50), depthAt(99), depthAt(200)],
    claims: [
      ...[trades, depth, ticker].map((one) => claim(one, 0, 500)),
      ...[claim(klines, 0, 480), claim(ticker, 550, 600)],
    ],
  });
  time.nowMs = present(100) + 500;
  const revoked = await store.revokeBeyond(time.nowMs, { isStart: false });
  assert.equal(revoked.length, 5);
  const covered = async (one: typeof trades) =>
    (await store.coveredRanges(one, 10)).map(({ span }) => [
      ...[(span.fromMs - present(0)) / 1000, (span.toMs - present(0)) / 1000],
    ]);
  assert.deepEqual(await covered(trades), [[0, 100]], 'whole seconds');
  assert.deepEqual(await covered(klines), [[0, 60]], 'whole candles');
  assert.deepEqual(await covered(depth), [[0, 100.5]]);
  assert.deepEqual(await covered(ticker), [[0, 100.5]]);
  const rows = await runSql<{ count: number }>(url, 'SELECT count(*)::int AS count FROM depth');
  assert.deepEqual(rows, [{ count: 3 }]);
  const [gap] = await rememberedGaps(store, depth);
  assert.deepEqual([gap?.reason, gap?.state], ['clock jumped', 'unfillable']);
  assert.deepEqual(await miscountedDays(url), []);
  assert.deepEqual(await store.revokeBeyond(time.nowMs, { isStart: false }), []);
});

test('what was not observed beyond a new present is forgotten up to it; what is given up of trades stays', async () => {
  const { store, stream, present } = await open(600);
  const kinds = ['depth', 'tickers', 'states', 'trades'] as const;
  const given = { state: 'unfillable', reason: 'not observed', atMs: present(600) } as const;
  const streams = await Promise.all(kinds.map((kind) => stream(kind, kind === 'states' ? 60 : 0)));
  const spans = [
    [10, 20],
    [50, 300],
    [310, 500],
  ] as const;
  for (const one of streams) {
    for (const [fromS, toS] of spans) {
      const span = { fromMs: present(fromS), toMs: present(toS) };
      await store.recordGap({ stream: one, span, ...given });
    }
  }
  // A source of time that is more cautious shows nothing of what was missed.
  await store.revokeBeyond(present(30), { isStart: false, presentMs: present(100) });
  for (const one of streams) {
    const left = (await rememberedGaps(store, one)).map(({ span }) => [
      ...[(span.fromMs - present(0)) / 1000, (span.toMs - present(0)) / 1000],
    ]);
    const expected =
      one.kind === 'trades'
        ? spans
        : [
            [10, 20],
            [50, 100],
          ];
    assert.deepEqual(left.reverse(), expected, one.kind);
  }
});

test('coverage beyond the noted present is suspect, and the present that readers take is not moved by it', async () => {
  const { store, stream, time, present } = await open(600);
  const depth = await stream('depth');
  assert.deepEqual(await store.beyondPresent(), [], 'nothing was ever noted');
  await store.commit({ claims: [claim(depth, 0, 500)] });
  await store.notePresent(() => ({ presentMs: present(500), pace: 1 }));
  assert.deepEqual(await store.beyondPresent(), []);
  time.nowMs = present(9000);
  await store.commit({ claims: [claim(depth, 500, 4000)] });
  const [suspect, ...others] = await store.beyondPresent();
  assert.deepEqual(others, []);
  assert.deepEqual([suspect?.kind, suspect?.span.toMs], ['depth', present(4000)]);
  const nowMs = (await store.exchangeNowMs()) ?? 0;
  assert.ok(nowMs >= present(500) && nowMs < present(600), new Date(nowMs).toISOString());
});

test('what is suspect begins with the second, or the candle, in which the present lies', async () => {
  const { store, stream, present } = await open(600);
  const streams = await Promise.all([stream('trades'), stream('candles', 60), stream('depth')]);
  await store.commit({ claims: streams.map((one) => claim(one, 0, 480)) });
  // A pace of nought: the present stays where it was noted.
  await store.notePresent(() => ({ presentMs: present(130) + 500, pace: 0 }));
  const found = await store.beyondPresent();
  assert.deepEqual(
    found.map(({ kind, span }) => [kind, span.fromMs - present(0), span.toMs - present(0)]),
    [
      ['candles', 120_000, 480_000],
      ['depth', 130_500, 480_000],
      ['trades', 130_000, 480_000],
    ],
  );
});

test('after a run whose clock was ahead to its end, the pause before the start is not covered either', async () => {
  const { store, stream, present, url } = await open(600);
  const depth = await stream('depth');
  await store.commit({ claims: [claim(depth, 0, 500)] });
  await store.notePresent(() => ({ presentMs: present(500), pace: 1 }));
  // The note was made at 440, by a clock that is right.
  await runSql(url, `UPDATE archive SET present_noted_at = now() - interval '25 seconds'`);
  await store.revokeBeyond(present(465), { isStart: true });
  const [left] = await store.coveredRanges(depth, 10);
  const endS = ((left?.span.toMs ?? 0) - present(0)) / 1000;
  assert.ok(endS <= 440 && endS > 400, `covered up to ${endS} s`);
});

test('of a sandbox that begins anew, a start takes back only what never was past', async () => {
  const { store, stream, present, url } = await open(600);
  await runSql(url, 'UPDATE archive SET is_sandbox = true');
  const depth = await stream('depth');
  await store.commit({ claims: [claim(depth, 0, 500)] });
  await store.notePresent(() => ({ presentMs: present(300), pace: 1 }));
  const [revoked, ...others] = await store.revokeBeyond(present(50), { isStart: true });
  assert.deepEqual(others, []);
  assert.ok((revoked?.span.fromMs ?? 0) >= present(300), 'the former run had come as far as that');
  const [left] = await store.revokeBeyond(present(50), { isStart: false });
  assert.equal(left?.span.fromMs, present(50), 'but a jump back while it runs takes all');
});
