import assert from 'node:assert/strict';
import test from 'node:test';
import type { Span } from '../../../src/kernel/span.js';
import type { StreamRef } from '../../../src/model/batch.js';
import { runSql } from '../../support/postgres/postgres.js';
import { miscountedDays, revoke } from '../../support/postgres/postgres-rows.js';
import {
  bringBack,
  DAY_MS,
  FIRST_MS,
  live,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';

/** What is doubted while rows of it are in files: the ledger must stay exact to the row. */

const COLD = { coldAfterMs: DAY_MS };
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** Hours after the begin of the first day. */
const hours = (from: number, to: number): Span => ({
  fromMs: FIRST_MS + from * HOUR_MS,
  toMs: FIRST_MS + to * HOUR_MS,
});
const doubt = { reason: 'suspect', note: 'the volume differs', atMs: FIRST_MS } as const;

async function openDoubted(t: Parameters<typeof openSealingWorld>[0]) {
  const world = await openSealingWorld(t);
  const [trades] = world.streams;
  assert.ok(trades !== undefined);
  return { ...world, trades };
}

async function archiveDays(world: SealingWorld, ...days: readonly number[]): Promise<void> {
  const isChosen = ({ span }: { span: Span }) =>
    days.some((day) => span.fromMs === FIRST_MS + day * DAY_MS);
  const { failures } = await live(world, { rules: COLD, isChosen });
  assert.deepEqual(failures, []);
}

const spansOf = async ({ store }: SealingWorld, stream: StreamRef) =>
  (await store.coveredRanges(stream, 100))
    .map(({ span }) => [(span.fromMs - FIRST_MS) / HOUR_MS, (span.toMs - FIRST_MS) / HOUR_MS])
    .reverse();

/** Brings all rows back, and holds the ledger against them. */
async function assertExact(world: SealingWorld): Promise<void> {
  assert.deepEqual((await bringBack(world)).failures, []);
  assert.deepEqual(await miscountedDays(world.url), []);
}

test('what is in files cannot be doubted before it is brought back', async (t) => {
  const world = await openDoubted(t);
  const { store, trades } = world;
  await archiveDays(world, 0, 1);
  const before = await runSql(world.url, 'SELECT * FROM coverage ORDER BY coverage::text');
  await revoke(store, trades, hours(1, 30), doubt);
  const after = await runSql(world.url, 'SELECT * FROM coverage ORDER BY coverage::text');
  assert.deepEqual(after, before);
  await bringBack(world);
  await revoke(store, trades, hours(1, 30), doubt);
  assert.deepEqual(await spansOf(world, trades), [
    [0, 1],
    [30, 72],
  ]);
  assert.deepEqual(await miscountedDays(world.url), []);
});

test('of a doubt that reaches into files the rest is taken back, and every count stays exact', async (t) => {
  for (const [days, span, left] of [
    // The rest lies in files whole.
    [
      [0],
      hours(12, 71),
      [
        [0, 24],
        [71, 72],
      ],
    ],
    // It lies in files and beside them, and is the longer or the shorter part.
    [
      [0],
      hours(50, 60),
      [
        [0, 50],
        [60, 72],
      ],
    ],
    [
      [0, 1],
      hours(40, 49),
      [
        [0, 48],
        [49, 72],
      ],
    ],
    // Files on both sides, and between two pieces that are taken back.
    [
      [0, 2],
      hours(0, 72),
      [
        [0, 24],
        [48, 72],
      ],
    ],
    [
      [1],
      hours(1, 71),
      [
        [0, 1],
        [24, 48],
        [71, 72],
      ],
    ],
  ] as const) {
    const world = await openDoubted(t);
    await archiveDays(world, ...days);
    await revoke(world.store, world.trades, span, doubt);
    assert.deepEqual(await spansOf(world, world.trades), left);
    await assertExact(world);
  }
});

test('what is doubted after it was sealed does not leave before that is settled', async (t) => {
  const world = await openDoubted(t);
  const { store, trades } = world;
  await live(world);
  const span = { fromMs: FIRST_MS + DAY_MS, toMs: FIRST_MS + DAY_MS + MINUTE_MS };
  await store.recordGap({ ...{ stream: trades, span, state: 'open' }, ...doubt });
  const { outcomes } = await live(world, { rules: COLD });
  assert.deepEqual(
    outcomes.map(({ became, note }) => [became, note]),
    [
      ['archived', null],
      [
        'kept',
        'trades of BTC_USDT are doubted from 2026-01-14 00:00:00 on, and not fetched again yet',
      ],
      ['archived', null],
    ],
  );
  assert.deepEqual(
    (await tradePartitions(store)).map(({ state }) => state),
    ['archived', 'sealed', 'archived'],
  );
  // What is in files waits until it is back.
  const away = { fromMs: FIRST_MS, toMs: FIRST_MS + MINUTE_MS };
  await store.recordGap({ ...{ stream: trades, span: away, state: 'open' }, ...doubt });
  const doubted = async () =>
    (await store.fillRequests(FIRST_MS + 9 * DAY_MS)).suspects.map((one) => one.span.fromMs);
  assert.deepEqual(await doubted(), [span.fromMs]);
  await bringBack(world);
  assert.deepEqual(await doubted(), [span.fromMs, away.fromMs]);
});

test('time whose trades are in files is not known to be without any', async (t) => {
  const world = await openDoubted(t);
  const { store, url } = world;
  // Of each market every other minute has a trade, for 80 minutes of a day.
  const day = (n: number) => FIRST_MS + n * DAY_MS;
  const asked = (n: number) => [{ fromMs: day(n), toMs: day(n) + 4 * MINUTE_MS }];
  const inHot = { traded: [0, 2].map((minute) => day(0) + minute * MINUTE_MS), left: [] };
  assert.deepEqual(await store.tradedSlots(1, asked(0), MINUTE_MS), inHot);
  assert.equal(await store.hasTradeBefore(1, day(0)), false);
  assert.equal(await store.hasTradeBefore(1, day(0) + 1000), true);
  await archiveDays(world, 0);
  const inFiles = [0, 1, 2, 3].map((minute) => day(0) + minute * MINUTE_MS);
  const unknown = { traded: [], left: inFiles };
  assert.deepEqual(await store.tradedSlots(1, asked(0), MINUTE_MS), unknown);
  assert.equal((await store.tradedSlots(1, asked(1), MINUTE_MS)).traded.length, 2);
  await runSql(url, `DELETE FROM trade WHERE traded_at >= '2026-01-14Z'`);
  assert.equal(await store.hasTradeBefore(1, day(3)), true);
  assert.equal(await store.hasTradeBefore(1, day(0)), false);

  // What the files are known to hold nothing of was without trades.
  const none = { traded: [], left: [] };
  assert.deepEqual(await store.tradedSlots(3, asked(0), MINUTE_MS), none);
  assert.equal(await store.hasTradeBefore(3, day(3)), false);
  await runSql(url, `UPDATE partition_state SET state = 'expired' WHERE state = 'archived'`);
  assert.deepEqual(await store.tradedSlots(3, asked(0), MINUTE_MS), unknown);
  const listed = (since: number) =>
    runSql(url, 'UPDATE market SET first_seen_at = $1 WHERE market_id = 2', [new Date(since)]);
  await listed(day(0));
  assert.equal(await store.hasTradeBefore(2, day(3)), true);
  assert.equal(await store.hasTradeBefore(2, day(0)), false);
  await listed(day(1));
  assert.equal(await store.hasTradeBefore(2, day(3)), false, 'it was not listed then');
});
