import assert from 'node:assert/strict';
import test from 'node:test';
import { archiveStatus } from '../../src/console/status-document.js';
import { runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import { NOON_S, setCollectFrom } from '../support/postgres/postgres-rows.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';

const HOURS = `'2026-01-15 12:00Z', '2026-01-15 17:00Z'`;

/** The values of the rows, times as HH:MM. */
async function linesOf(url: string, sql: string): Promise<string[]> {
  const text = (value: unknown) =>
    value instanceof Date ? value.toISOString().slice(11, 16) : String(value);
  return (await runSql(url, sql)).map((row) => Object.values(row).map(text).join(' '));
}

test('a missing slot is neither a zero nor a candle: each is told apart', async () => {
  const { url } = await openAnalystWorld();
  assert.deepEqual(
    await linesOf(
      url,
      `SELECT open_at, state, close, revision FROM analytics.klines('BTC_USDT', '1 hour', ${HOURS}) ORDER BY 1`,
    ),
    [
      ...['12:00 candle 103 0', '13:00 candle 103.9 1', '14:00 candle 106 0'],
      ...['15:00 no candle null null', '16:00 gap null null'],
    ],
  );
  assert.deepEqual(
    await linesOf(
      url,
      `SELECT open_at, open, high, low, close, volume, quote_volume, trades, is_complete
       FROM analytics.candles('BTC_USDT', '1 hour', ${HOURS}) ORDER BY 1`,
    ),
    [
      '12:00 100 103 100 103 8 816 4 true',
      '13:00 104 104.1 103.9 103.9 1.8 187.19 3 true',
      '14:00 105 106 105 106 3 316 2 false',
      '15:00 null null null null 0 0 0 true',
      '16:00 null null null null null null null false',
    ],
  );
  // A slot may begin anywhere: half past, here; the last one still reaches beyond the span.
  assert.deepEqual(
    await linesOf(
      url,
      `SELECT open_at, volume FROM analytics.candles('BTC_USDT', 3600, '2026-01-15 12:00Z',
         '2026-01-15 13:00Z', origin => '2026-01-01 00:30Z') ORDER BY 1`,
    ),
    ['12:30 6.8'],
  );
});

test('candles are told as they were known at a moment', async () => {
  const { url } = await openAnalystWorld();
  const volumes = async (asOf: string) =>
    await linesOf(
      url,
      `SELECT open_at, volume FROM analytics.klines('BTC_USDT', '1 hour', '2026-01-15 12:00Z',
         '2026-01-15 14:00Z', as_of => '${asOf}') ORDER BY 1`,
    );
  assert.deepEqual(await volumes('2026-01-15 13:00Z'), ['12:00 null', '13:00 null']);
  assert.deepEqual(await volumes('2026-01-15 14:30:59Z'), ['12:00 8', '13:00 1.7']);
  assert.deepEqual(await volumes('2026-01-15 14:31Z'), ['12:00 8', '13:00 1.8']);
  // That the exchange has no candle is not said of one that came later, nor of what had not ended.
  const states = async (asOf: string) =>
    await linesOf(
      url,
      `SELECT open_at, state FROM analytics.klines('BTC_USDT', '1 hour', ${HOURS}, as_of => '${asOf}') ORDER BY 1`,
    );
  assert.deepEqual(await states('2026-01-15 14:30Z'), [
    ...['12:00 candle', '13:00 candle', '14:00 gap', '15:00 gap', '16:00 gap'],
  ]);
  assert.deepEqual(await states('2026-01-15 16:00Z'), [
    ...['12:00 candle', '13:00 candle', '14:00 candle', '15:00 no candle', '16:00 gap'],
  ]);
});

test('days of another time zone are seen where the exchange has them', async () => {
  const { url, store } = await openAnalystWorld();
  const openAtS = Date.UTC(2026, 0, 14, 21) / 1000;
  const figures = { open: '1', close: '1', high: '1', low: '1', volume: '1', quoteVolume: '1' };
  const receivedAtMs = (NOON_S + 86_400) * 1000;
  const row = { marketId: 1, intervalS: 86_400, openAtS, ...figures, receivedAtMs };
  await store.commit({ klines: [row] });
  const sql = `SELECT open_at, state FROM analytics.klines('BTC_USDT', '1 day', '2026-01-13', '2026-01-16') ORDER BY 1`;
  assert.deepEqual(await linesOf(url, sql), ['21:00 gap', '21:00 candle', '21:00 gap']);
});

test('the last trade of each market is the newest by time and id', async () => {
  const { url, store } = await openAnalystWorld();
  const row = { side: 'buy', price: '7', amount: '1', total: '7', executedAtUs: null } as const;
  const receivedAtMs = (NOON_S + 200_000) * 1000;
  await store.commit({
    trades: [901, 903, 902].map((tid) => ({
      ...{ ...row, receivedAtMs, marketId: 1, tid, tradedAtS: NOON_S + 172_800 },
    })),
  });
  const last = await linesOf(url, 'SELECT market, tid FROM analytics.last_trades() ORDER BY 1');
  const asked = `SELECT DISTINCT ON (market) market, tid FROM analytics.trades ORDER BY market, traded_at DESC, tid DESC`;
  assert.deepEqual(last, await linesOf(url, asked));
  assert.ok(last.includes('BTC_USDT 903'));
});

test('what is asked in a wrong way is refused by name', async () => {
  const { url } = await openAnalystWorld();
  const span = `'2026-01-15', '2026-01-16'`;
  const reversed = `'2026-01-16', '2026-01-15'`;
  const byMarket = ['trades', 'tickers', 'depth_levels', 'spread'];
  const byLength = ['candles', 'klines', 'vwap', 'returns', 'states'];
  const calls = [
    ...byMarket.map((name) => (market: string, at: string) => `${name}('${market}', ${at})`),
    ...byLength.map(
      (name) => (market: string, at: string) => `${name}('${market}', '1 day', ${at})`,
    ),
    (market: string, at: string) => `coverage('${market}', 'trades', ${at})`,
    (market: string, at: string) => `gaps('${market}', 'trades', ${at})`,
  ];
  for (const call of calls) {
    const ask = (text: string) => runSql(url, `SELECT * FROM analytics.${text}`);
    await ask(call('BTC_USDT', span));
    await assert.rejects(ask(call('btcusd', span)), {
      code: '22023',
      message: "there is no market 'btcusd'",
      hint: /The nearest name is BTC_USDT/,
    });
    await assert.rejects(ask(call('BTC_USDT', reversed)), {
      code: '22023',
      message: /^the span ends at 2026-01-15/,
    });
  }
  // Those that list time take it as without end.
  for (const call of calls.slice(0, -2)) {
    for (const open of [`NULL, '2026-01-16'`, `'2026-01-15', NULL`, 'NULL, NULL']) {
      await assert.rejects(runSql(url, `SELECT * FROM analytics.${call('BTC_USDT', open)}`), {
        code: '22023',
        message: /^a span needs a begin and an end/,
      });
    }
  }
  await assert.rejects(runSql(url, `SELECT * FROM analytics.depth_at('BTC_USDT', NULL)`), {
    code: '22023',
    message: /^a span needs a begin and an end/,
  });
  // Slots are counted one by one, and so are days.
  const hour = `'BTC_USDT', '1 hour'`;
  for (const [call, argument] of [
    ...['candles', 'vwap', 'returns'].flatMap((name) => [
      [`${name}(${hour}, '-infinity', 'infinity')`, 'from_at is -infinity'],
      [`${name}(${hour}, '2026-01-15', 'infinity')`, 'to_at is infinity'],
      [`${name}(${hour}, ${span}, origin => NULL)`, 'origin is NULL'],
    ]),
    [`klines(${hour}, '-infinity', '2026-01-16')`, 'from_at is -infinity'],
    [`slots('1 hour', '2026-01-15', 'infinity')`, 'to_at is infinity'],
    [`completeness('BTC_USDT', NULL)`, 'day is NULL'],
    [`completeness('BTC_USDT', 'infinity')`, 'day is infinity'],
  ] as const) {
    await assert.rejects(runSql(url, `SELECT * FROM analytics.${call}`), {
      code: '22023',
      message: `${argument}, and no moment to count from or to`,
    });
  }
  for (const length of [`'1 month'`, `'0 s'`, `'1.5 s'`, `interval '-1 h'`, '0']) {
    const sql = `SELECT * FROM analytics.candles('BTC_USDT', ${length}, ${span})`;
    await assert.rejects(runSql(url, sql), { code: '22023', message: /is not a whole number/ });
  }
});

test('a kind may be named as the ledger or as the settings do, and no other way', async () => {
  const { url, store } = await openAnalystWorld();
  const state = { kind: 'states', marketId: 1, variant: 60 } as const;
  await store.ensureStream(state);
  const answer = (call: string) =>
    runSql(url, `SELECT * FROM analytics.${call} ORDER BY 1, 2, 3, 4`);
  const span = `'2026-01-15', '2026-01-16'`;
  for (const [one, other] of [
    ['trades', 'trade'],
    ['kline', 'candles'],
    ['ticker', ' Tickers'],
    ['state', 'states'],
  ] as const) {
    for (const question of ['gaps', 'coverage']) {
      const [rows, same] = await Promise.all(
        [one, other].map((kind) => answer(`${question}('BTC_USDT', '${kind}', ${span})`)),
      );
      assert.deepEqual(same, rows, `${question} of ${one}`);
    }
  }
  assert.notEqual((await answer(`coverage('BTC_USDT', 'candles', ${span})`)).length, 0);
  const unknown = { code: '22023', message: "there is no kind 'tradez'", hint: /trades, candles/ };
  const noPeriod = { code: '22023', message: /states over 7 s were never/, hint: /60, 86400 s/ };
  for (const [call, error] of [
    [`gaps('BTC_USDT', 'tradez', ${span})`, unknown],
    [`gaps(NULL, 'tradez', NULL, NULL)`, unknown],
    [`coverage('BTC_USDT', 'tradez', ${span})`, unknown],
    [`covered(1, 'tradez', 0, ${span}), (VALUES (1, 2, 3)) v`, unknown],
    [`states('BTC_USDT', 7, ${span})`, noPeriod],
  ] as const) {
    await assert.rejects(answer(call), error, call);
  }
});

test('a length may be text, an interval or seconds', async () => {
  const { url } = await openAnalystWorld();
  for (const name of ['candles', 'klines', 'vwap', 'returns', 'states']) {
    const answers = [`'1 day'`, `'86400'`, `interval '24 hours'`, '86400'].map((length) =>
      runSql(
        url,
        `SELECT * FROM analytics.${name}('BTC_USDT', ${length}, '2026-01-15', '2026-01-16')`,
      ),
    );
    const [first, ...others] = await Promise.all(answers);
    assert.equal(first?.length, 1, name);
    for (const other of others) assert.deepEqual(other, first, name);
  }
});

test('coverage and gaps are of all time, and gaps of all, where nothing is said of it', async () => {
  const { url } = await openAnalystWorld();
  const listed = (text: string) =>
    linesOf(url, `SELECT * FROM analytics.${text} ORDER BY 1, 2, 3, 4`);
  const all = await listed('gaps');
  assert.ok(all.length > 6);
  assert.deepEqual(await listed('gaps()'), all);
  const ofMarket = await listed(`gaps('BTC_USDT')`);
  assert.ok(ofMarket.length > 2 && ofMarket.length < all.length);
  assert.deepEqual(await listed(`gaps('BTC_USDT', NULL, NULL)`), ofMarket);
  const covered = await listed(`coverage('BTC_USDT', 'trades')`);
  assert.ok(covered.length > 1);
  assert.deepEqual(await listed(`coverage('BTC_USDT', 'trades', NULL, NULL)`), covered);
});

test('gaps are those that the program itself lists', async () => {
  const { url, store } = await openAnalystWorld();
  // Nothing of it but a request, of an hour that ends after the market was found delisted.
  const wanted = await store.ensureStream({ kind: 'candles', marketId: 2, variant: 60 });
  await store.want(wanted, { fromMs: NOON_S * 1000, toMs: NOON_S * 1000 + 3_600_000 });
  const missedMs = NOON_S * 1000 + 1_800_000;
  await runSql(
    url,
    `UPDATE market SET last_seen_at = to_timestamp($1 - 60), delisted_at = to_timestamp($1) WHERE market_id = 2`,
    [missedMs / 1000],
  );
  const fromMs = NOON_S * 1000 - 86_400_000;
  const toMs = NOON_S * 1000 + 10 * 3_600_000;
  const listed = await store.listGaps({ span: { fromMs, toMs }, limit: 100, hasLag: true }, toMs);
  const told = await runSql<Record<string, unknown>>(
    url,
    `SELECT market, kind, variant, starts_at, ends_at, state, reason, attempts, note
     FROM analytics.gaps(NULL, NULL, to_timestamp($1), to_timestamp($2))`,
    [fromMs / 1000, toMs / 1000],
  );
  const sorted = (rows: readonly (readonly unknown[])[]) => rows.map((row) => row.join(' ')).sort();
  const iso = (ms: number) => new Date(ms).toISOString();
  assert.ok(listed.length > 6);
  const ofDelisted = listed.filter(({ marketId }) => marketId === 2);
  assert.deepEqual([...new Set(ofDelisted.map(({ span }) => span.toMs))], [missedMs]);
  assert.deepEqual(
    sorted(
      told.map((row) =>
        Object.values(row).map((one) => (one instanceof Date ? one.toISOString() : one)),
      ),
    ),
    sorted(
      listed.map((gap) => [
        ...[gap.market, gap.kind, gap.variant, iso(gap.span.fromMs), iso(gap.span.toMs)],
        ...[gap.state, gap.reason, gap.attempts, gap.note],
      ]),
    ),
  );
});

test('of a day that goes on, completeness is that of the status and the lag stands apart', async () => {
  const { url, store } = await openAnalystWorld();
  const day = (hour: number) => `2030-03-05 ${String(hour).padStart(2, '0')}:00Z`;
  const cover = (kind: string, from: string, to: string) =>
    runSql(
      url,
      `INSERT INTO coverage (stream_id, market_id, span, evidence)
       SELECT stream_id, market_id, tstzrange($2, $3), '{}' FROM stream
       WHERE kind = $1 AND market_id = 77`,
      [kind, from, to],
    );
  await runSql(
    url,
    `INSERT INTO market (market_id, name, base, quote, base_prec, quote_prec, fee_prec,
                         min_amount, first_seen_at, last_seen_at)
     SELECT 77, 'NEW_USDT', base, quote, base_prec, quote_prec, fee_prec, min_amount,
            first_seen_at, last_seen_at FROM market WHERE market_id = 1`,
  );
  await runSql(
    url,
    `INSERT INTO stream (kind, market_id, variant, collect_from)
     VALUES ('trades', 77, 0, $1), ('candles', 77, 60, $1)`,
    [day(8)],
  );
  await cover('trades', day(8), day(9));
  await cover('trades', day(10), day(12));
  await cover('candles', day(8), day(11));
  const read = () =>
    runSql<{ kind: string; lag: number }>(
      url,
      `SELECT kind, covered_s::float8 AS "coveredS", missing_s::float8 AS "gapS", gaps::int AS gaps,
              share::float8 AS share, is_complete AS "isComplete", lag_s::float8 AS lag
       FROM analytics.completeness('NEW_USDT', '2030-03-05') WHERE kind IN ('trades', 'candles')
       ORDER BY kind`,
    );
  const [kline, trades] = await read();
  const nowMs = Date.parse('2030-03-05T12:00:05Z');
  const status = (await store.statusRows(nowMs)).filter(({ marketId }) => marketId === 77);
  const shown = status.map(({ kind, coveredS, gapS, gapsWithinHistory: gaps }) => ({
    ...{ kind, coveredS, gapS, gaps },
  }));
  assert.deepEqual(shown, [
    { kind: 'candles', coveredS: 10_800, gapS: 0, gaps: 0 },
    { kind: 'trades', coveredS: 10_800, gapS: 3600, gaps: 1 },
  ]);
  assert.deepEqual({ ...kline, lag: 0 }, { ...shown[0], share: 1, isComplete: false, lag: 0 });
  assert.deepEqual({ ...trades, lag: 0 }, { ...shown[1], share: 0.75, isComplete: false, lag: 0 });
  assert.ok((kline?.lag ?? 0) >= 3600 && (trades?.lag ?? 3600) < 3600);
  await cover('trades', '2030-03-06 00:00Z', '2030-03-06 01:00Z');
  const [over] = await read();
  const missing = { coveredS: 10_800, gapS: 13 * 3600, gaps: 1, share: 0.1875 };
  assert.deepEqual(over, { kind: 'candles', ...missing, isComplete: false, lag: 0 });
});

test('a candle that is not closed yet is lag, also of a stream without any, as the program has it', async () => {
  const { url, store } = await openAnalystWorld();
  const hourMs = 3_600_000;
  const noonMs = Date.parse('2030-03-05T12:00:00Z');
  const [trades, hourly, daily] = await Promise.all([
    store.ensureStream({ kind: 'trades', marketId: 2, variant: 0 }),
    store.ensureStream({ kind: 'candles', marketId: 2, variant: 3600 }),
    store.ensureStream({ kind: 'candles', marketId: 2, variant: 86_400 }),
  ]);
  for (const [{ streamId }, fromMs] of [
    [trades, noonMs - hourMs],
    [hourly, noonMs - 10 * hourMs],
    [daily, noonMs - 12 * hourMs],
  ] as const) {
    await setCollectFrom(store, streamId, fromMs);
  }
  // Their history begins later: all closed candles were asked for in vain.
  await store.recordGap({
    ...{ stream: hourly, span: { fromMs: noonMs - 10 * hourMs, toMs: noonMs }, atMs: noonMs },
    ...{ state: 'unfillable', reason: 'beyond history' },
  });
  await runSql(
    url,
    `INSERT INTO coverage (stream_id, market_id, span, evidence)
     SELECT stream_id, market_id, '[2030-03-05 11:00Z, 2030-03-05 12:10Z)', '{}' FROM stream
     WHERE stream_id = $1`,
    [trades.streamId],
  );
  const [{ market } = { market: '' }] = await runSql<{ market: string }>(
    url,
    'SELECT name AS market FROM market WHERE market_id = 2',
  );
  const listed = await runSql(
    url,
    `SELECT variant, state, is_lag, is_before_history AS is_before FROM analytics.gaps($1, 'candles', NULL, NULL)
     WHERE market = $1 AND variant > 60 ORDER BY variant, starts_at`,
    [market],
  );
  assert.deepEqual(listed, [
    { variant: 3600, state: 'unfillable', is_lag: false, is_before: true },
    { variant: 3600, state: 'open', is_lag: true, is_before: false },
    { variant: 86_400, state: 'open', is_lag: true, is_before: false },
  ]);
  const days = await runSql(
    url,
    `SELECT variant, missing_s::int, before_history_s::int AS before, gaps::int, lag_s >= 600 AS "isLate"
     FROM analytics.completeness($1, '2030-03-05') WHERE kind = 'candles' AND variant > 60
     ORDER BY variant`,
    [market],
  );
  assert.deepEqual(days, [
    { variant: 3600, missing_s: 0, before: 36_000, gaps: 0, isLate: true },
    { variant: 86_400, missing_s: 0, before: 0, gaps: 0, isLate: true },
  ]);
});

test("what is before the exchange's history lowers no share, as in status, and leaves a day incomplete", async () => {
  const { url, store } = await openAnalystWorld();
  const at = (hour: number) => Date.UTC(2026, 1, 4, hour);
  const stream = await store.ensureStream({ kind: 'candles', marketId: 2, variant: 3600 });
  await setCollectFrom(store, stream.streamId, at(0));
  const beyond = { atMs: at(24), state: 'unfillable', reason: 'beyond history' } as const;
  // From 14:00 to 16:00 it is younger than what is covered: that was lost.
  await store.recordGap({ ...beyond, stream, span: { fromMs: at(0), toMs: at(10) } });
  await store.recordGap({ ...beyond, stream, span: { fromMs: at(14), toMs: at(16) } });
  for (const [fromHour, toHour] of [
    [10, 14],
    [16, 24],
  ] as const) {
    const span = { fromMs: at(fromHour), toMs: at(toHour) };
    await store.commit({ claims: [{ stream, span, evidence: {} }] });
  }
  const readDay = async () =>
    await runSql(
      url,
      `SELECT expected_s::int AS expected, covered_s::int AS covered, missing_s::int AS missing,
            unfillable_s::int AS lost, before_history_s::int AS before, gaps::int, share::float8,
            is_complete AS "isComplete"
     FROM analytics.completeness((SELECT name FROM market WHERE market_id = 2), '2026-02-04')
     WHERE kind = 'candles' AND variant = 3600`,
    );
  const [day] = await readDay();
  const hourS = 3600;
  assert.deepEqual(day, {
    ...{ expected: 14 * hourS, covered: 12 * hourS, missing: 2 * hourS, lost: 2 * hourS },
    ...{ before: 10 * hourS, gaps: 1, share: 0.857142, isComplete: false },
  });
  const show = async () => {
    const [streams, gaps] = [await store.statusRows(at(24)), await store.gapTotals(at(24))];
    const status = archiveStatus({ atMs: at(24), streams, gaps, checks: [] }, at(24));
    const stream = status.streams.find(
      ({ kind, intervalS, beforeHistoryS }) =>
        kind === 'candles' && intervalS === 3600 && beforeHistoryS > 0,
    );
    return { stream, open: status.openGaps, lost: status.lostGaps };
  };
  const before = await show();
  const { stream: shown, lost } = before;
  assert.equal(shown?.unfillableS, day?.lost);
  const beyondS = lost.find(({ reason }) => reason === 'beyond history')?.lengthS;
  assert.equal(beyondS, day?.lost, 'what lies before history is not lost');
  assert.deepEqual(
    [shown?.coverageRatio, shown?.coveredS, shown?.missingS, shown?.beforeHistoryS, shown?.gaps],
    [day?.share, day?.covered, day?.missing, day?.before, day?.gaps],
  );
  // While it is asked for once more, that is still what is known of it.
  const span = { fromMs: at(0), toMs: at(10) };
  const asked = { marketIds: [2], kinds: ['candles'] as const, span, limit: 10 };
  assert.equal(await store.retryGaps(asked, at(24), true), 1);
  assert.deepEqual(await readDay(), [day]);
  assert.deepEqual(await show(), before);
});

test('a day is complete from its first moment on, or not at all', async () => {
  const { url, store } = await openAnalystWorld();
  const dayMs = Date.UTC(2026, 1, 5);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const isComplete = async () => {
    const sql = `SELECT is_complete AS "isComplete", share::float8 AS share
                 FROM analytics.completeness('BTC_USDT', '2026-02-05') WHERE kind = 'trades'`;
    const [row] = await runSql<{ isComplete: boolean; share: number }>(url, sql);
    assert.equal(row?.share, 1);
    return row.isComplete;
  };
  const cover = (fromMs: number, toMs: number) =>
    store.commit({ claims: [{ stream, span: { fromMs, toMs }, evidence: {} }] });
  for (const table of ['coverage', 'gap', 'wanted']) {
    await runSql(url, `DELETE FROM ${table} WHERE stream_id = ${stream.streamId}`);
  }
  await cover(dayMs + 3_600_000, dayMs + 2 * 86_400_000);
  // The walk has not come to the start of the day, may not, or found history beginning within it.
  const starts = [
    'NULL, NULL',
    `'2026-02-05 01:00Z', 'history horizon'`,
    `'2026-02-05 01:00Z', 'history begins'`,
  ];
  for (const start of starts) {
    await runSql(
      url,
      `UPDATE stream SET (collect_from, start_reason) = (${start}) WHERE stream_id = ${stream.streamId}`,
    );
    assert.equal(await isComplete(), false, start);
  }
  await runSql(
    url,
    `UPDATE stream SET (collect_from, start_reason) = ('2026-02-05 00:00Z', NULL) WHERE stream_id = ${stream.streamId}`,
  );
  await cover(dayMs, dayMs + 3_600_000);
  assert.equal(await isComplete(), true);
});

test('a book holds until the next one, and no longer than somebody looked', async () => {
  const { url } = await openAnalystWorld();
  const held = (span: string) =>
    linesOf(
      url,
      `SELECT held_from, held_to, held_s::int, bid, ask, spread, mid
       FROM analytics.spread('BTC_USDT', ${span}) ORDER BY 1`,
    );
  assert.deepEqual(
    (await held(`'2026-01-15 12:05Z', '2026-01-15 13:00Z'`)).map((line) => line.replace(/0+$/, '')),
    [
      '12:05 12:10 300 99 101 2 100.',
      '12:10 12:30 1200 100 101 1 100.5',
      '12:40 13:00 1200 100 100.5 0.5 100.25',
    ],
  );
  const bookAt = (at: string) =>
    linesOf(
      url,
      `SELECT side, level, price, amount, total_amount
       FROM analytics.depth_at('BTC_USDT', '2026-01-15 ${at}Z') ORDER BY 1, 2`,
    );
  assert.deepEqual(await bookAt('12:09:59'), [
    ...['ask 1 101 3 3', 'ask 2 102 1 4', 'bid 1 99 1 1', 'bid 2 98 2 3'],
  ]);
  assert.deepEqual(await bookAt('12:35'), []);
  // After the newest look there is the last book, with its age.
  const aged = (at: string) =>
    linesOf(
      url,
      `SELECT DISTINCT observed_at, extract(epoch FROM age)::int > 0 AS is_old FROM analytics.depth_at('BTC_USDT', ${at})`,
    );
  assert.deepEqual(await aged(`'2026-01-15 12:09:59Z'`), ['12:00 false']);
  assert.deepEqual(await aged(`'2026-01-15 15:00Z'`), ['13:30 true']);
  assert.equal((await aged('now()')).length, 1);
});

test('time in which a side of the book is empty is watched, and has no part in the mean spread', async () => {
  const { url } = await openAnalystWorld();
  const span = `'2026-01-15 13:00Z', '2026-01-15 14:00Z'`;
  assert.deepEqual(
    await linesOf(
      url,
      `SELECT held_from, held_s::int, bid, ask, spread, mid FROM analytics.spread('BTC_USDT', ${span}) ORDER BY 1`,
    ),
    ['13:00 1800 100 100.5 0.5 100.2500000000000000', '13:30 1800 100 null null null'],
  );
  const [told] = await runSql<{ readonly comment: string }>(
    url,
    `SELECT obj_description('analytics.spread(text, timestamptz, timestamptz)'::regprocedure) AS comment`,
  );
  const example = told?.comment.split('Example: ')[1] ?? assert.fail('spread has no example');
  const mean = example.replace("'2026-01-15', '2026-01-16'", span);
  assert.notEqual(mean, example);
  assert.deepEqual(
    (await linesOf(url, mean)).map((line) => line.replace(/0+$/, '')),
    ['0.5'],
  );
});

/** Examples stand in the comments, after this word. */
const EXAMPLE = /Example: (.+)$/s;

test('every object tells what it is, and its example runs', async () => {
  const { url } = await openAnalystWorld();
  const reader = await loginAs(url, 'tapekeep_reader');
  const objects = await runSql<{ name: string; comment: string | null }>(
    url,
    `SELECT c.oid::regclass::text AS name, obj_description(c.oid, 'pg_class') AS comment
     FROM pg_class c WHERE c.relnamespace = 'analytics'::regnamespace AND c.relkind IN ('v', 'r')
     UNION ALL
     SELECT p.oid::regprocedure::text, obj_description(p.oid, 'pg_proc')
     FROM pg_proc p WHERE p.pronamespace = 'analytics'::regnamespace`,
  );
  assert.ok(objects.length > 30);
  for (const { name, comment } of objects) {
    const example = EXAMPLE.exec(comment ?? '')?.[1];
    assert.ok(example !== undefined, `${name} has no example`);
    await assert.doesNotReject(runSql(reader, example), example);
  }
  const silent = await runSql(
    url,
    `SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'analytics'::regnamespace AND c.relkind IN ('v', 'r') AND a.attnum > 0
       AND NOT a.attisdropped AND col_description(c.oid, a.attnum) IS NULL`,
  );
  assert.deepEqual(silent, []);
  const slow = await runSql(
    url,
    `SELECT p.oid::regprocedure::text FROM pg_proc p
     WHERE p.pronamespace = 'analytics'::regnamespace
       AND (p.provolatile = 'v' OR p.proparallel <> 's' OR p.proisstrict AND p.proretset
            OR p.proretset AND p.proconfig IS NOT NULL 
              AND p.proname NOT IN ('slot_sums', 'depth_at', 'last_trades'))`,
  );
  assert.deepEqual(slow, [], 'functions that cannot be planned as a part of the query');
});
