import assert from 'node:assert/strict';
import test from 'node:test';
import { Filling } from '../../src/cli/fill/filling.js';
import { openSession } from '../../src/cli/opening/session.js';
import type { GapRecord, StreamRef } from '../../src/model/batch.js';
import { matchRow } from '../../src/model/check-results.js';
import { findUnsettled, type GapFilter, type Store } from '../../src/store/index.js';
import { FakeClock } from '../support/fake-clock.js';
import { inSeconds, spanOf } from '../support/models/model-ledger.js';
import { openTestStore, rememberedGaps, runSql } from '../support/postgres/postgres.js';
import { claim, marketOf, NOON_S, setCollectFrom } from '../support/postgres/postgres-rows.js';

const market = marketOf('A_USDT');
const ms = (s: number) => (NOON_S + s) * 1_000;
const all = { limit: 100 };

/** Writes to all gaps that a filter selects. */
async function noteAll(store: Store, filter: GapFilter, text: string): Promise<number> {
  return await store.inspection.note(await store.listGaps(filter, ms(100)), text, ms(100));
}

/** A stream that is covered in [0, 10) and [90, 100) seconds after noon. */
async function openWithGap(): Promise<{ store: Store; url: string; stream: StreamRef }> {
  const { store, url } = await openTestStore({ commitLatencyMs: 0 });
  await store.ensureMarkets([market], 0);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await store.commit({ claims: [claim(stream, 0, 10), claim(stream, 90, 100)] });
  return { store, url, stream };
}

const attempt = (stream: StreamRef, fromS: number, toS: number): GapRecord => ({
  ...{
    stream,
    span: spanOf(fromS, toS),
    state: 'open',
    reason: 'exchange failed',
    note: 'HTTP 502',
  },
  ...{ atMs: ms(100), nextAttemptAtMs: ms(200), isAttempt: true },
});

test('a person who follows a daemon that does nothing of it is not left to guess', async () => {
  const { store, url, stream } = await openWithGap();
  await store.acquireWriterLock();
  const { store: other } = await openTestStore({ databaseUrl: url });
  const clock = new FakeClock();
  const ending = new AbortController();
  const said: string[] = [];
  const session = { ...openSession({}, { env: {} }), clock };
  const progress = { show: () => undefined, write: (text: string) => said.push(text) };
  const filling = new Filling(session, other, ending.signal, progress);
  assert.equal(await filling.begin(), false);
  const end = filling.run([{ ...stream, market: 'A_USDT', span: spanOf(10, 90) }]);
  for (let seconds = 0; seconds < 130; seconds += 1) {
    await clock.timersPending();
    clock.advance(1000);
  }
  ending.abort();
  assert.equal(await end, 'stopped');
  const hints = said.filter((text) => text.startsWith('No change for a minute. '));
  assert.equal(hints.length, 1, said.join());
});

test('requests of streams that nothing works on do not take the place of others', async () => {
  const { store, url, stream } = await openWithGap();
  await store.recordGap({ ...attempt(stream, 10, 90), nextAttemptAtMs: null });
  const other = await store.ensureStream({ kind: 'depth', marketId: 1, variant: 0 });
  await runSql(
    url,
    `INSERT INTO gap (market_id, stream_id, span, state, reason, first_seen_at)
     SELECT 1, ${other.streamId}, tstzrange(at, at + interval '1 s'), 'open', 'suspect', now()
     FROM generate_series(1000, 2999, 2) AS n, LATERAL (SELECT to_timestamp(${NOON_S} + n) AS at) t`,
  );
  const idsOf = (due: ReadonlyArray<{ readonly streamId: number }>) => [
    ...new Set(due.map(({ streamId }) => streamId)),
  ];
  assert.deepEqual(idsOf((await store.fillRequests(ms(9000))).due), [other.streamId]);
  const own = await store.fillRequests(ms(9000), [stream.streamId]);
  assert.deepEqual(idsOf(own.due), [stream.streamId]);
  assert.deepEqual(await store.fillRequests(ms(9000), []), { ...own, due: [] });
  await store.commit({ claims: [claim(other, 1000, 3000)] });
  assert.deepEqual(idsOf((await store.fillRequests(ms(9000))).suspects), [other.streamId]);
  assert.deepEqual((await store.fillRequests(ms(9000), [stream.streamId])).suspects, []);
});

test('tries are counted on, also when the gap shrinks from either end, and tell when the next is due', async () => {
  const { store, stream } = await openWithGap();
  await store.recordGap(attempt(stream, 10, 90));
  await store.recordGap({ ...attempt(stream, 10, 90), nextAttemptAtMs: ms(300) });
  assert.deepEqual((await store.fillRequests(ms(299))).due, []);
  assert.deepEqual((await store.fillRequests(ms(300))).due.map(inSeconds), [
    { fromS: 10, toS: 90 },
  ]);
  await store.commit({ claims: [claim(stream, 60, 90), claim(stream, 10, 20)] });
  await store.recordGap(attempt(stream, 20, 60));
  const [gap, ...others] = await store.listGaps(all, ms(100));
  assert.deepEqual(others, []);
  assert.deepEqual(
    [gap && inSeconds(gap), gap?.attempts, gap?.nextAttemptAtMs, gap?.firstSeenAtMs],
    [{ fromS: 20, toS: 60 }, 3, ms(200), ms(100)],
  );
  await store.recordGap({
    ...attempt(stream, 20, 60),
    ...{ state: 'unfillable', reason: 'beyond history', nextAttemptAtMs: null },
  });
  assert.deepEqual((await store.fillRequests(ms(999))).due, []);
  await store.commit({ claims: [claim(stream, 20, 60)] });
  assert.deepEqual(await store.listGaps(all, ms(100)), []);
});

test('what people write stays, whatever is tried after it', async () => {
  const { store, stream } = await openWithGap();
  assert.equal(await noteAll(store, all, 'asked the exchange'), 1);
  await store.recordGap(attempt(stream, 10, 90));
  await store.recordGap({ ...attempt(stream, 30, 40), note: 'empty page' });
  assert.equal(await noteAll(store, { ...all, span: spanOf(35, 36) }, 'they answered'), 1);
  const notes = (await store.listGaps(all, ms(100))).map(({ note }) => note);
  assert.deepEqual(notes, [
    'HTTP 502\nasked the exchange',
    'empty page\nasked the exchange\nthey answered',
    'HTTP 502\nasked the exchange',
  ]);
});

test('gaps are made due again, given up ones only when asked for', async () => {
  const { store, stream } = await openWithGap();
  await store.recordGap(attempt(stream, 10, 50));
  await store.recordGap({ ...attempt(stream, 50, 70), state: 'unfillable' });
  assert.deepEqual((await store.fillRequests(ms(100))).due, []);
  assert.equal(await store.retryGaps(all, ms(100), false), 1);
  assert.deepEqual((await store.fillRequests(ms(100))).due.map(inSeconds), [
    { fromS: 10, toS: 50 },
  ]);
  assert.equal(await store.retryGaps({ ...all, states: ['unfillable'] }, ms(100), true), 1);
  assert.deepEqual((await store.fillRequests(ms(100))).due.map(inSeconds), [
    { fromS: 50, toS: 70 },
    { fromS: 10, toS: 50 },
  ]);
});

test('what is wanted is asked for once, and until it is covered or given up', async () => {
  const { store, url, stream } = await openWithGap();
  const span = spanOf(-50, -20);
  const wanted = await store.want(stream, span);
  assert.deepEqual(await store.want(stream, span), wanted);
  assert.deepEqual((await store.fillRequests(ms(100))).wanted, [wanted]);
  // Nothing can be added to what is in files.
  await runSql(
    url,
    `INSERT INTO partition_state (table_name, span, state)
     SELECT 'trade', tstzrange(NULL, lower(span) + interval '5 s'), 'archived' FROM wanted`,
  );
  const { fromMs, toMs } = wanted.span;
  const left = { ...wanted, span: { fromMs: fromMs + 5000, toMs } };
  assert.deepEqual((await store.fillRequests(ms(100))).wanted, [left]);
  await runSql(url, `DELETE FROM partition_state WHERE state = 'archived'`);
  assert.deepEqual((await store.gaps(stream, ms(10)))[0]?.fromMs, span.fromMs);
  const status = (await store.statusRows(ms(100))).find(({ kind }) => kind === 'trades');
  assert.deepEqual([status?.gapsWithinHistory, status?.gapS], [2, 130]);
  await store.commit({ claims: [claim(stream, -40, -20)] });
  assert.deepEqual((await store.fillRequests(ms(100))).wanted, [wanted]);
  await store.recordGap({
    ...attempt(stream, -60, -40),
    ...{ state: 'unfillable', reason: 'beyond history', nextAttemptAtMs: null },
  });
  assert.deepEqual((await store.fillRequests(ms(100))).wanted, []);
  await assert.rejects(store.want(stream, spanOf(5, 5)), { code: 'data_refused' });
});

const DAY_S = 86_400;

/** A stream of candles, a month of whose partitions has left, and what is asked of it and keeps the next one from sealing. */
async function openBehind(
  variant: number,
  state: 'archived' | 'expired',
  [from, to]: readonly [string, string] = ['2026-01-01Z', '2026-02-01Z'],
) {
  const { store, url } = await openTestStore({ commitLatencyMs: 0 });
  await store.ensureMarkets([market], 0);
  const stream = await store.ensureStream({ kind: 'candles', marketId: 1, variant });
  await runSql(
    url,
    `INSERT INTO partition_state (table_name, span, state)
     VALUES ('kline', tstzrange('${from}', '${to}'), '${state}')`,
  );
  const spanAt = (from: string, to: string) => ({ fromMs: Date.parse(from), toMs: Date.parse(to) });
  const wantedOf = async () => (await store.fillRequests(Date.parse('2026-03-01Z'))).wanted;
  return {
    ...{ store, stream, spanAt },
    want: (from: string, to: string) => store.want(stream, spanAt(from, to)),
    cover: (from: string, to = '2026-02-26Z') =>
      store.commit({ claims: [{ stream, span: spanAt(from, to), evidence: {} }] }),
    giveUp: (from: string, to: string) =>
      store.recordGap({
        ...{ stream, span: spanAt(from, to), state: 'unfillable', reason: 'beyond history' },
        atMs: Date.parse('2026-02-27Z'),
      }),
    wanted: async () => (await wantedOf()).map(({ span }) => span),
    unsettled: async (needsChecks = false) => {
      const admin = await store.sealing.open(new AbortController().signal);
      const part = { table: 'kline', span: spanAt('2026-02-01Z', '2026-02-25T16:00Z') } as const;
      const found = await findUnsettled(admin.connection, part, { needsChecks, needsTimes: false });
      await admin.close();
      return found?.span;
    },
  };
}

test('candles that begin in files are not wanted, also where they end behind them', async () => {
  const week = await openBehind(7 * DAY_S, 'archived');
  const { store, spanAt } = week;
  await week.want('2026-01-20Z', '2026-02-26Z');
  const wanted = [spanAt('2026-02-01Z', '2026-02-26Z')];
  assert.deepEqual(await week.wanted(), wanted, 'where weeks begin is not known');
  const { candlesInFiles } = await store.fillRequests(Date.parse('2026-03-01Z'));
  assert.deepEqual(candlesInFiles, [spanAt('2026-01-01Z', '2026-02-01Z')]);
  await week.cover('2026-02-12Z');
  const open = spanAt('2026-02-05Z', '2026-02-26Z');
  assert.deepEqual(await week.wanted(), [open], 'another candle is open');
  assert.deepEqual(await week.unsettled(), spanAt('2026-02-05Z', '2026-02-12Z'));
  await week.cover('2026-02-05Z');
  assert.deepEqual(await week.wanted(), []);
  await week.want('2026-02-01Z', '2026-02-03Z');
  assert.deepEqual(await week.wanted(), [], 'nor where what is wanted ends before them');
});

test('a candle that begins before time in files, and ends in it, is wanted whole', async () => {
  const week = await openBehind(7 * DAY_S, 'archived', ['2026-02-01Z', '2026-03-01Z']);
  await week.want('2026-01-20Z', '2026-03-10Z');
  await week.cover('2026-03-05Z', '2026-03-12Z');
  assert.deepEqual(await week.wanted(), [week.spanAt('2026-01-20Z', '2026-02-05Z')]);
});

test('a candle that begins in time that has left keeps nothing from being sealed', async () => {
  for (const state of ['archived', 'expired'] as const) {
    const day = await openBehind(DAY_S, state);
    await day.want('2026-02-01Z', '2026-02-25T16:00Z');
    await day.cover('2026-02-02T16:00Z', '2026-02-25T16:00Z');
    assert.deepEqual(await day.unsettled(), day.spanAt('2026-02-01T16:00Z', '2026-02-02T16:00Z'));
    await day.cover('2026-02-01T16:00Z', '2026-02-02T16:00Z');
    assert.deepEqual([await day.wanted(), await day.unsettled()], [[], undefined]);
    const week = await openBehind(7 * DAY_S, state);
    await week.want('2026-02-01Z', '2026-02-26Z');
    await week.giveUp('2026-02-05Z', '2026-02-26Z');
    const givenUp = [await week.wanted(), await week.unsettled()];
    assert.deepEqual(givenUp, [[], undefined], `${state}, and given up`);
    const { store, stream, spanAt } = week;
    const noted = { stream, span: spanAt('2026-03-04Z', '2026-03-04T20:00Z') } as const;
    const atMs = Date.parse('2026-02-27Z');
    await store.recordGap({ ...noted, state: 'open', reason: 'exchange failed', atMs });
    assert.deepEqual(await week.unsettled(), undefined, 'what is open shows no grid');
    await week.cover('2026-02-05Z');
    assert.deepEqual([await week.wanted(), await week.unsettled()], [[], undefined]);
  }
});

test('a doubt of a candle that begins in time that has left keeps nothing from being sealed', async () => {
  for (const state of ['archived', 'expired'] as const) {
    const { store, stream, spanAt, cover, unsettled } = await openBehind(7 * DAY_S, state);
    const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
    await cover('2026-01-22Z');
    const claims = [{ stream: trades, span: spanAt('2026-01-22Z', '2026-02-26Z'), evidence: {} }];
    await store.commit({ claims });
    await setCollectFrom(store, trades.streamId, Date.parse('2026-01-22Z'));
    const doubt = async (span: GapRecord['span']) => {
      const suspect = { stream, span, state: 'open', reason: 'suspect' } as const;
      await store.recordGap({ ...suspect, atMs: Date.parse('2026-02-27Z') });
      const { suspects } = await store.fillRequests(Date.parse('2026-03-01Z'));
      return [suspects.map((one) => one.span), await unsettled()];
    };
    const behind = spanAt('2026-02-05Z', '2026-02-12Z');
    const across = spanAt('2026-01-29Z', '2026-02-05Z');
    assert.deepEqual(await doubt(across), [[], undefined], `${state}: nobody can act upon it`);
    assert.deepEqual(await doubt(behind), [[behind], behind]);
    await store.recordGap({ stream, span: behind, state: 'filled', reason: 'suspect', atMs: 1 });
    const nextTryAtMs = Date.parse('2026-03-01Z');
    const judge = async (span: GapRecord['span']) => {
      const wrong = {
        outcome: 'mismatch',
        differences: [],
        tries: 1,
        nextTryAtMs,
        isExact: false,
      } as const;
      await store.checks.record(1, 7 * DAY_S, [{ span, ...wrong }]);
      return await unsettled(true);
    };
    const span = spanAt('2026-02-05Z', '2026-02-26Z');
    await store.checks.record(1, 7 * DAY_S, [matchRow(span)]);
    const [target = assert.fail()] = await store.checks.targets();
    const [slot] = await store.checks.figures(target, stream, across);
    assert.equal(slot?.hasCandle, false, 'it is not judged again');
    assert.equal(await judge(across), undefined, state);
    assert.deepEqual(await judge(behind), behind);
  }
});

test('what follows a fill waits for the next try of a gap only where it is near', async () => {
  const { store, stream } = await openWithGap();
  const follow = async (pauseS: number) => {
    const nowMs = (await store.exchangeNowMs()) ?? assert.fail();
    const nextAttemptAtMs = Math.floor(nowMs) + pauseS * 1000;
    await store.recordGap({ ...attempt(stream, 10, 90), nextAttemptAtMs });
    // A second look: it waits.
    const ending = new AbortController();
    let looks = 0;
    const show = () => {
      looks += 1;
      if (looks > 1) ending.abort();
    };
    const progress = { show, write: () => undefined };
    const filling = new Filling(openSession({}, { env: {} }), store, ending.signal, progress);
    return await filling.run([{ ...stream, market: market.name, span: spanOf(10, 90) }]);
  };
  assert.equal(await follow(30), 'settled');
  assert.equal(await follow(6), 'stopped');
});

test('how the endpoints page is remembered, as long as the exchange stays at its address', async () => {
  const { store } = await openWithGap();
  const archive = { name: 'a', baseUrl: 'http://a', isSandbox: true, identity: 'seed 1' };
  assert.deepEqual(await store.offsetModes(), {});
  await store.claimArchive(archive);
  await store.rememberOffsetMode('history', 'skip');
  await store.rememberOffsetMode('historyResult', 'id');
  await store.rememberOffsetMode('history', 'id');
  await store.claimArchive(archive);
  assert.deepEqual(await store.offsetModes(), { history: 'id', historyResult: 'id' });
  await store.claimArchive({ ...archive, baseUrl: 'http://b' });
  assert.deepEqual(await store.offsetModes(), {});
});

test('what was given up is filled once coverage holds it all the same', async () => {
  const { store, stream } = await openWithGap();
  const givenUp = { state: 'unfillable', reason: 'beyond history', nextAttemptAtMs: null } as const;
  await store.recordGap({ ...attempt(stream, 10, 40), ...givenUp });
  await store.recordGap({ ...attempt(stream, 50, 90), ...givenUp });
  await store.commit({ claims: [claim(stream, 10, 50)] });
  assert.equal(await store.closeFilledGaps(), 1);
  const memories = await rememberedGaps(store, stream);
  assert.deepEqual(
    memories.map((one) => [inSeconds(one), one.state]),
    [
      [{ fromS: 50, toS: 90 }, 'unfillable'],
      [{ fromS: 10, toS: 40 }, 'filled'],
    ],
  );
});

test('an exchange that fails says nothing of its history, and opens no gap in what is older', async () => {
  const { store, stream } = await openWithGap();
  const beyond = {
    ...attempt(stream, 20, 50),
    reason: 'beyond history',
    note: 'shows none',
  } as const;
  await store.recordGap({ ...beyond, state: 'unfillable', nextAttemptAtMs: null });
  await store.recordGap(attempt(stream, 10, 60));
  const told = async () =>
    (await store.listGaps(all, ms(100))).map((gap) => {
      const { state, reason, note, attempts } = gap;
      return { ...inSeconds(gap), state, reason, note, attempts };
    });
  const failed = { state: 'open', reason: 'exchange failed', note: 'HTTP 502', attempts: 1 };
  const unseen = { state: 'open', reason: 'not collected', note: null, attempts: 0 };
  assert.deepEqual(await told(), [
    { fromS: 60, toS: 90, ...unseen },
    { fromS: 50, toS: 60, ...failed },
    {
      fromS: 20,
      toS: 50,
      state: 'unfillable',
      reason: 'beyond history',
      note: 'shows none',
      attempts: 1,
    },
    { fromS: 10, toS: 20, ...failed },
  ]);
  await store.recordGap({ ...beyond, state: 'open' });
  await store.recordGap({ ...attempt(stream, 30, 40), nextAttemptAtMs: ms(400) });
  const again = (await store.listGaps(all, ms(100))).filter(
    ({ reason }) => reason === 'beyond history',
  );
  assert.deepEqual(
    again.map((gap) => [inSeconds(gap), gap.note, gap.nextAttemptAtMs]),
    [
      [{ fromS: 40, toS: 50 }, 'shows none', ms(200)],
      [{ fromS: 30, toS: 40 }, 'HTTP 502', ms(400)],
      [{ fromS: 20, toS: 30 }, 'shows none', ms(200)],
    ],
  );
});
