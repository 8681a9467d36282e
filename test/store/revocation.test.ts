import assert from 'node:assert/strict';
import test, { before, beforeEach } from 'node:test';
import { normalizeSpans } from '../../src/kernel/span.js';
import type { KlineRow, StreamRef } from '../../src/model/batch.js';
import type { Store } from '../../src/store/index.js';
import { inSeconds, spanOf } from '../support/models/model-ledger.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import {
  claim,
  marketOf,
  miscountedDays,
  NOON_S,
  revoke,
  trade,
} from '../support/postgres/postgres-rows.js';
import fc from '../support/properties.js';
import { worlds } from '../support/seeds.js';

const END_S = 90;
const market = marketOf('A_USDT');
const ms = (s: number) => (NOON_S + s) * 1_000;
const doubt = { reason: 'suspect', note: 'volume differs', atMs: ms(END_S) } as const;

let store: Store;
let url: string;
let trades: StreamRef;
let klines: StreamRef;

before(async () => {
  ({ store, url } = await openTestStore({ commitLatencyMs: 0 }, 'file'));
  await store.ensureMarkets([market], 0);
  trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  klines = await store.ensureStream({ kind: 'candles', marketId: 1, variant: 60 });
});
beforeEach(() => clear());

async function clear(): Promise<void> {
  await runSql(
    url,
    'SET session_replication_role = replica; TRUNCATE coverage, gap, wanted, trade, kline, rows_by_day',
  );
}

/** One trade a second, some seconds with three, some with none; those of odd seconds have a time. */
function tradesOf(fromS: number, toS: number) {
  const rows = [];
  for (let s = fromS; s < toS; s += 1) {
    for (let n = 0; n < (s % 7 === 0 ? 3 : s % 5 === 0 ? 0 : 1); n += 1) {
      rows.push(trade(10 * s + n + 1, s, { executedAtUs: (NOON_S + s) * 1_000_000 + n }));
    }
  }
  return rows;
}

const rangesOf = async (stream: StreamRef) =>
  (await store.coveredRanges(stream, 100)).map(inSeconds).reverse();

const stretch = fc
  .tuple(fc.integer({ min: 0, max: END_S - 1 }), fc.integer({ min: 1, max: 40 }))
  .map(([fromS, lengthS]) => [fromS, Math.min(END_S, fromS + lengthS)] as const);
const operation = fc.record({
  kind: fc.constantFrom('commit', 'commit', 'uncover', 'rows'),
  at: stretch,
});

test('after any commits and doubts every count and id is exact, and what was expected stays so', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { maxLength: 14 }), async (operations) => {
      await clear();
      const covered = new Set<number>();
      const ever = new Set<number>();
      for (const { kind, at } of operations) {
        if (kind === 'uncover') {
          await revoke(store, trades, spanOf(...at), doubt);
          for (let s = at[0]; s < at[1]; s += 1) covered.delete(s);
        } else {
          const claims = kind === 'commit' ? [claim(trades, ...at)] : [];
          await store.commit({ trades: tradesOf(...at), claims });
          if (kind === 'commit') {
            for (let s = at[0]; s < at[1]; s += 1) {
              covered.add(s);
              ever.add(s);
            }
          }
        }
        assert.deepEqual(await miscountedDays(url), []);
      }
      const seconds = [...covered].map((s) => spanOf(s, s + 1));
      assert.deepEqual(
        await rangesOf(trades),
        normalizeSpans(seconds).map((span) => inSeconds({ span })),
      );
      const gaps = (await store.gaps(trades, ms(END_S))).map((span) => inSeconds({ span }));
      for (const s of ever) {
        const isGap = gaps.some(({ fromS, toS }) => fromS <= s && s < toS);
        assert.equal(isGap, !covered.has(s), `second ${s}`);
      }
      // Once expected, always expected: from the first second that was ever covered there is no gap.
      if (ever.size === 0) return;
      for (let s = Math.min(...ever); s < Math.max(...ever); s += 1) {
        const isGap = gaps.some(({ fromS, toS }) => fromS <= s && s < toS);
        assert.equal(isGap, !covered.has(s), `second ${s} between`);
      }
    }),
    { numRuns: worlds(30) },
  );
});

test('the edges of what is taken back', async () => {
  await store.commit({
    trades: tradesOf(0, 60),
    claims: [claim(trades, 0, 20), claim(trades, 30, 60)],
  });
  const cases: [readonly [number, number], (readonly [number, number])[]][] = [
    [
      [22, 28],
      [
        [0, 20],
        [30, 60],
      ],
    ],
    [
      [20, 30],
      [
        [0, 20],
        [30, 60],
      ],
    ],
    [
      [0, 2],
      [
        [2, 20],
        [30, 60],
      ],
    ],
    [
      [18, 20],
      [
        [2, 18],
        [30, 60],
      ],
    ],
    [
      [10, 40],
      [
        [2, 10],
        [40, 60],
      ],
    ],
    [[1, 11], [[40, 60]]],
    [
      [50, 51],
      [
        [40, 50],
        [51, 60],
      ],
    ],
    [[0, 90], []],
  ];
  for (const [at, left] of cases) {
    await revoke(store, trades, spanOf(...at), doubt);
    assert.deepEqual(
      await rangesOf(trades),
      left.map(([fromS, toS]) => ({ fromS, toS })),
    );
    assert.deepEqual(await miscountedDays(url), []);
  }
});

test('a doubt is taken up once: uncovered, then due, then filled by what is fetched', async () => {
  const batch = { trades: tradesOf(0, 60), claims: [claim(trades, 0, 60)] };
  await store.commit(batch);
  const span = spanOf(20, 30);
  await store.recordGap({ stream: trades, span, state: 'open', reason: 'suspect', atMs: ms(60) });
  assert.equal(await store.closeFilledGaps(), 0);
  const asked = await store.fillRequests(ms(60));
  assert.deepEqual(
    asked.suspects.map((one) => [one.streamId, one.span]),
    [[trades.streamId, span]],
  );
  assert.deepEqual([asked.due, asked.wanted], [[], []]);
  await revoke(store, trades, span, doubt);
  const [gap, ...others] = await store.listGaps({ limit: 10 }, ms(60));
  assert.deepEqual(
    [gap?.reason, gap?.state, gap?.note, others.length],
    ['suspect', 'open', doubt.note, 0],
  );
  const after = await store.fillRequests(ms(60));
  assert.deepEqual([after.suspects, after.due.map((one) => one.span)], [[], [span]]);
  await store.commit({ claims: [claim(trades, 20, 25)] });
  assert.deepEqual((await store.fillRequests(ms(60))).suspects, []);
  assert.equal(await store.closeFilledGaps(), 0);
  await store.commit(batch);
  assert.equal(await store.closeFilledGaps(), 1);
  assert.deepEqual(await store.listGaps({ limit: 10 }, ms(60)), []);
  assert.deepEqual((await store.fillRequests(ms(60))).due, []);
  assert.deepEqual(await miscountedDays(url), []);
});

test('coverage of candles is revoked too, and each candle is counted once', async () => {
  const candle = (openAtS: number): KlineRow => ({
    ...{ marketId: 1, intervalS: 60, openAtS: NOON_S + openAtS, receivedAtMs: ms(600) },
    ...{ open: '1', high: '1', low: '1', close: '1', volume: '0', quoteVolume: '0' },
  });
  const rows = [0, 60, 120, 180, 240].map(candle);
  await store.commit({ klines: rows.slice(3) });
  await store.commit({ klines: rows.slice(0, 4), claims: [claim(klines, 0, 240)] });
  await store.commit({ klines: rows.slice(4), claims: [claim(klines, 0, 60)] });
  await store.commit({ claims: [claim(klines, 0, 600)] });
  await revoke(store, klines, spanOf(120, 180), doubt);
  assert.deepEqual(await rangesOf(klines), [
    { fromS: 0, toS: 120 },
    { fromS: 180, toS: 600 },
  ]);
  await revoke(store, klines, spanOf(0, 600), doubt);
  await store.commit({ klines: rows, claims: [claim(klines, 0, 600)] });
  assert.deepEqual(await miscountedDays(url), []);
  // The oldest one leaves with its partition, as far as the ledger knows.
  const leave = `INSERT INTO partition_state (table_name, span, state)
                 VALUES ('kline', tstzrange(NULL, to_timestamp($1)), 'archived')`;
  await runSql(url, leave, [NOON_S + 60]);
  for (const [from, to] of [
    [120, 300],
    [60, 540],
    [540, 600],
  ] as const) {
    await revoke(store, klines, spanOf(from, to), doubt);
    await store.commit({ klines: rows, claims: [claim(klines, from, to)] });
  }
  await runSql(url, `DELETE FROM partition_state WHERE lower(span) IS NULL`);
});

test('a claim and a doubt at the same time leave an exact ledger', async () => {
  for (let round = 0; round < 10; round += 1) {
    await Promise.all([
      store.commit({ trades: tradesOf(0, 60), claims: [claim(trades, 0, 30 + round)] }),
      revoke(store, trades, spanOf(10, 20 + round), doubt),
      store.commit({ trades: tradesOf(20, 80), claims: [claim(trades, 25, 80)] }),
      store.recordGap({
        stream: trades,
        span: spanOf(round, 15),
        state: 'open',
        reason: 'suspect',
        atMs: 1,
      }),
      store.closeFilledGaps(),
    ]);
    assert.deepEqual(await miscountedDays(url), []);
  }
});
