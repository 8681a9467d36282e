import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { DAY, DAYS, MARKETS } from '../../src/console/api/documents.js';
import { dayHandlers } from '../../src/console/api/handlers/days.js';
import { marketHandlers } from '../../src/console/api/handlers/markets.js';
import { DAY_MS, HOUR_MS } from '../../src/kernel/durations.js';
import { isoMs } from '../../src/kernel/timestamp.js';
import type { StreamRef } from '../../src/model/batch.js';
import type { Store } from '../../src/store/index.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { marketOf, trade } from '../support/postgres/postgres-rows.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

/** An archive with a day of each sort, asked through the handlers of the API. */

const FIRST_MS = Date.UTC(2026, 0, 10);
const DAY_COUNT = 8;
/** Six hours into the last day. */
const NOW_MS = FIRST_MS + 7 * DAY_MS + 6 * HOUR_MS;
const dayMs = (day: number, h = 0) => FIRST_MS + day * DAY_MS + h * HOUR_MS;
const dateOf = (day: number) => isoMs(dayMs(day)).slice(0, 10);
const NEVER = new AbortController().signal;
/** Texts come from the exchange. */
const ODD = `O'DD <b>_USDT`;

let store: Store;
let url: string;

async function cover(stream: StreamRef, fromMs: number, toMs: number): Promise<void> {
  await store.commit({ claims: [{ stream, span: { fromMs, toMs }, evidence: {} }] });
}

async function stream(marketId: number, kind: StreamRef['kind'], fromMs: number, variant = 0) {
  const one = await store.ensureStream({ kind, marketId, variant });
  await runSql(url, 'UPDATE stream SET collect_from = $2 WHERE stream_id = $1', [
    one.streamId,
    isoMs(fromMs),
  ]);
  return { ...one, collectFromMs: fromMs };
}

before(async () => {
  ({ store, url } = await openTestStore(
    { exchangeNowMs: () => NOW_MS, commitLatencyMs: 0 },
    'file',
  ));
  await store.ensureMarkets([marketOf('A_USDT'), marketOf('B_USDT'), marketOf(ODD)], FIRST_MS);
  const trades = await stream(1, 'trades', dayMs(0));
  const candles = await stream(1, 'candles', dayMs(2), 60);
  const rows = [0, 1, 2].map((day) =>
    trade(day + 1, 0, { tradedAtS: dayMs(day, 5) / 1000, receivedAtMs: dayMs(day, 5) }),
  );
  const span = { fromMs: dayMs(0), toMs: dayMs(3, 20) };
  await store.commit({ trades: rows, claims: [{ stream: trades, span, evidence: {} }] });
  await cover(trades, dayMs(3, 21), dayMs(4, 10));
  await cover(trades, dayMs(4, 11), dayMs(5));
  await cover(trades, dayMs(6), NOW_MS);
  await cover(candles, dayMs(2), NOW_MS);
  const gap = { stream: trades, atMs: NOW_MS, isAttempt: true } as const;
  await store.recordGap({
    ...{ ...gap, state: 'open', reason: 'exchange failed' },
    span: { fromMs: dayMs(3, 20), toMs: dayMs(3, 21) },
  });
  for (const [fromMs, toMs] of [
    [dayMs(4, 10), dayMs(4, 11)],
    [dayMs(5), dayMs(6)],
  ] as const) {
    await store.recordGap({
      ...{ ...gap, state: 'unfillable', reason: 'history horizon', span: { fromMs, toMs } },
    });
  }
  const differences = [{ figure: 'close', trades: '1', candle: '2' }] as never;
  await store.checks.record(1, 60, [
    {
      ...{ span: { fromMs: dayMs(6, 3), toMs: dayMs(6, 3) + 60_000 }, outcome: 'mismatch' },
      ...{ differences, tries: 0, nextTryAtMs: null, isExact: false },
    },
  ] as never);
  const other = await stream(2, 'trades', dayMs(3, 6));
  await runSql(url, `UPDATE stream SET start_reason = 'history begins' WHERE stream_id = $1`, [
    other.streamId,
  ]);
  await cover(other, dayMs(3, 6), dayMs(5, 12));
  await runSql(url, 'UPDATE market SET delisted_at = $1 WHERE market_id = 2', [
    isoMs(dayMs(5, 12)),
  ]);
  const depth = await stream(3, 'depth', dayMs(6));
  await cover(depth, dayMs(6), dayMs(6, 12));
  await cover(depth, dayMs(6, 13), NOW_MS);
  // Two days leave: one for good, one into files.
  await runSql(url, `SELECT expire_partition('trade', $1)`, [isoMs(dayMs(1))]);
});

const deps = {
  store: () => store,
  nowMs: () => NOW_MS,
  leftOut: () => undefined,
  troubleOf: () => null,
};
const YEAR = { from: dateOf(0), to: dateOf(7), limit: 500, offset: 0 };

async function calendar(kind: 'trades' | 'candles' | 'depth') {
  const answer = DAYS.parse(await dayHandlers(deps).days({ ...YEAR, kind }, NEVER, 'viewer'));
  assert.equal(answer.days, DAY_COUNT);
  return Object.fromEntries(answer.rows.map((row) => [row.market, row]));
}

describe('days of an archive', () => {
  test('each has its condition, in the calendar as in SQL', async () => {
    const trades = await calendar('trades');
    assert.equal(trades.A_USDT?.conditions, '--apdmdp');
    assert.equal(trades.B_USDT?.conditions, '---aaa--', 'before history, and delisted');
    assert.deepEqual(trades.A_USDT?.missing, [
      [3, 3600],
      [4, 3600],
      [5, 86_400],
    ]);
    assert.equal((await calendar('candles')).A_USDT?.conditions, '--aaaadp');
    assert.equal((await calendar('depth'))[ODD]?.conditions, '------dp');
    const rows = await runSql<{ day: string; condition: string; reasons: string[] }>(
      url,
      `SELECT day::text, condition, reasons FROM analytics.day_conditions($1, $2, 'A_USDT', 'trades', $3) ORDER BY day`,
      [dateOf(0), dateOf(7), isoMs(NOW_MS)],
    );
    assert.deepEqual(
      rows.map(({ condition, reasons }) => `${condition} ${reasons.join()}`.trim()),
      [
        'available',
        'pending exchange failed',
        'degraded history horizon',
        'missing history horizon',
        'degraded mismatch',
        'pending',
      ],
    );
  });

  test('analysts may ask for them', async () => {
    await runSql(
      url,
      `BEGIN; SET LOCAL ROLE tapekeep_reader;
       SELECT * FROM analytics.days('2026-01-10', '2026-01-17', 'A_USDT');
       SELECT count(*) FROM analytics.days; SELECT * FROM run; COMMIT`,
    );
  });

  test('an archived day keeps its condition', async (t) => {
    const place = { store, url, coldDir: await makeFolder(t) };
    assert.equal((await archiveDay(place, 'trades', dateOf(2))).length, 1);
    const [found] = await runSql<{ state: string }>(
      url,
      `SELECT state FROM partition_state WHERE table_name = 'trade' AND span @> $1::timestamptz`,
      [isoMs(dayMs(2))],
    );
    assert.equal(found?.state, 'archived');
    assert.equal((await calendar('trades')).A_USDT?.conditions, '--apdmdp');
  });

  test('one day tells its pieces, reasons and what to do', async () => {
    const { day } = dayHandlers(deps);
    const ask = async (at: number, of = 'A_USDT', kind: 'trades' | 'depth' = 'trades') =>
      DAY.parse(await day({ market: of, kind, day: dateOf(at) }, NEVER, 'viewer'));
    const open = await ask(3);
    assert.equal(open.condition, 'pending');
    assert.deepEqual(open.reasons, ['1h can still be fetched: exchange failed.']);
    assert.deepEqual([open.expectedS, open.coveredS], [86_400, 82_800]);
    assert.deepEqual(
      open.pieces.map(({ state }) => state),
      ['covered', 'open', 'covered'],
    );
    assert.match(open.pieces[1]?.advice ?? '', /gaps fill \d+$/);
    assert.equal((await ask(5)).changedAt, isoMs(NOW_MS), 'the gap was first seen then');
    const wrong = await ask(6);
    assert.deepEqual(wrong.reasons, ['1 candle contradicts the trades.']);
    assert.deepEqual(wrong.checks, [
      { intervalS: 60, verified: 0, mismatches: 1, unchecked: 1439 },
    ]);
    assert.deepEqual(
      wrong.commands.map(({ command }) => command.split(' ').slice(0, 3).join(' ')),
      [
        'tapekeep gaps fill',
        'tapekeep gaps explain',
        'tapekeep verify --market',
        'tapekeep export --kind',
      ],
    );
    const older = await ask(0);
    assert.deepEqual([older.condition, older.reasons, older.rows], [null, [], 0]);
    const odd = await ask(6, ODD, 'depth');
    assert.deepEqual(odd.reasons, ['1h cannot be fetched any more: not collected.']);
    assert.match(odd.commands[0]?.command ?? '', /explain 'O'\\''DD <b>_USDT' depth/);
    await assert.rejects(ask(3, 'A_USD'), /did you mean A_USDT\?/);
  });

  test('the last 24 hours of each stream come worst first', async () => {
    const { markets } = marketHandlers(deps);
    const answer = MARKETS.parse(
      await markets({ sort: 'worst', limit: 10, offset: 0 }, NEVER, 'viewer'),
    );
    assert.deepEqual(
      answer.rows.map((row) => `${row.market} ${row.kind} ${row.coverageRatio?.toFixed(3)}`),
      [
        `${ODD} depth 0.958`,
        'A_USDT candles 1.000',
        'A_USDT trades 1.000',
        'B_USDT trades undefined',
      ],
    );
    const [worst, , , gone] = answer.rows;
    assert.equal(worst?.bar.length, 48);
    assert.deepEqual([worst?.lostS, worst?.openS, worst?.lagS], [3600, 0, 0]);
    assert.deepEqual(
      worst?.bar.flatMap((percent, at) => (percent === 100 ? [] : [[at, percent]])),
      [
        [12, 0],
        [13, 0],
      ],
    );
    assert.deepEqual(
      [gone?.isListed, gone?.lagS, new Set(gone?.bar)],
      [false, null, new Set([-1])],
    );
    const some = await markets(
      { search: 'b_us', sort: 'name', limit: 10, offset: 0 },
      NEVER,
      'viewer',
    );
    assert.deepEqual([some.total, some.rows[0]?.market], [1, 'B_USDT']);
  });

  test('a candle that has not ended is not missing', async () => {
    await store.ensureMarkets([marketOf('YOUNG_USDT')], NOW_MS);
    await stream(4, 'candles', dayMs(7), 86_400);
    const { markets } = marketHandlers(deps);
    const asked = { search: 'young', sort: 'worst', limit: 10, offset: 0 } as const;
    const { coverageRatio, rows } = await markets(asked, NEVER, 'viewer');
    assert.equal(coverageRatio, null);
    assert.deepEqual([rows[0]?.kind, rows[0]?.openGaps, rows[0]?.openS], ['candles', 0, 0]);
    assert.deepEqual(new Set(rows[0]?.bar), new Set([-1]));
  });

  test('too many days, and days in the wrong order, are refused', async () => {
    const { days } = dayHandlers(deps);
    const ask = (from: string, to: string) =>
      days({ kind: 'trades', limit: 10, offset: 0, from, to }, NEVER, 'viewer');
    await assert.rejects(ask('2026-01-02', '2026-01-01'), /write the earlier day first/);
    await assert.rejects(ask('2000-01-01', '2026-01-01'), /at most 1100/);
  });
});
