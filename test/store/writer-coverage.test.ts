import assert from 'node:assert/strict';
import test from 'node:test';
import { runSql } from '../support/postgres/postgres.js';
import { claim, miscountedDays, NOON_S, trade } from '../support/postgres/postgres-rows.js';
import fc from '../support/properties.js';
import { worlds } from '../support/seeds.js';
import { openWithStreams } from '../support/worlds/store-world.js';

test('claims that touch become one island, whatever their order', async () => {
  const { store, url, trades } = await openWithStreams();
  await store.commit({ trades: [trade(1, 1)], claims: [claim(trades, 0, 10)] });
  await store.commit({ trades: [trade(21, 21)], claims: [claim(trades, 20, 30)] });
  const apart = await store.coveredRanges(trades, 10);
  assert.deepEqual(
    apart.map(({ span }) => span),
    [claim(trades, 20, 30).span, claim(trades, 0, 10).span],
  );
  const gaps = await store.gaps(trades, (NOON_S + 40) * 1_000);
  assert.deepEqual(gaps, [claim(trades, 10, 20).span, claim(trades, 30, 40).span]);
  const joined = await store.commit({ trades: [trade(15, 15)], claims: [claim(trades, 10, 20)] });
  const whole = { streamId: trades.streamId, span: claim(trades, 0, 30).span };
  assert.deepEqual(joined.ranges, [whole]);
  assert.deepEqual(await store.coveredRanges(trades, 10), joined.ranges);
  // All stored rows count, covered or not.
  await store.commit({ trades: [trade(16, 16), trade(99, 99)] });
  const found = (await store.statusRows((NOON_S + 60) * 1_000)).find(
    (row) => row.kind === 'trades',
  );
  assert.deepEqual(
    { rows: found?.rows, coveredS: found?.coveredS, gaps: found?.openGaps, gapS: found?.gapS },
    { rows: 5, coveredS: 30, gaps: 0, gapS: 0 },
  );
  assert.deepEqual(await miscountedDays(url), []);
});

test('a claim of another stream joins what it has, also beside trades of its market', async () => {
  const { store, trades } = await openWithStreams();
  const depth = await store.ensureStream({ kind: 'depth', marketId: 1, variant: 0 });
  for (const at of [0, 10, 20]) {
    await store.commit({
      trades: [trade(at + 1, at)],
      claims: [claim(trades, at, at + 10), claim(depth, at, at + 10)],
    });
  }
  const spans = (await store.coveredRanges(depth, 10)).map(({ span }) => span);
  assert.deepEqual(spans, [claim(depth, 0, 30).span]);
});

test('a claim of what is covered already writes nothing to the ledger', async () => {
  const { store, url, trades } = await openWithStreams();
  const again = { trades: [trade(1, 1)], claims: [claim(trades, 0, 10)] };
  await store.commit(again);
  const written = () => runSql(url, 'SELECT xmin::text FROM coverage');
  const first = await written();
  assert.equal(first.length, 1);
  await store.commit(again);
  await store.commit({ claims: [claim(trades, 2, 5)] });
  assert.deepEqual(await written(), first);
});

test('a claim of no whole milliseconds is refused with what is wrong', async () => {
  const { store, trades } = await openWithStreams();
  for (const toS of [-1, 0, 0.0005]) {
    await assert.rejects(store.commit({ claims: [claim(trades, 0, toS)] }), {
      code: 'data_refused',
      message: /covers no whole milliseconds/,
    });
  }
});

test('any order of pages, repeats and claims leaves exact counters', async () => {
  const { store, url, trades } = await openWithStreams();
  const operation = fc.record({
    fromS: fc.integer({ min: 0, max: 180 }),
    lengthS: fc.integer({ min: 1, max: 40 }),
    isTimed: fc.boolean(),
    isClaimed: fc.boolean(),
    skip: fc.integer({ min: 1, max: 5 }),
  });
  let shift = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(operation, { minLength: 1, maxLength: 4 }), { maxLength: 5 }),
      async (rounds) => {
        shift += 1_000;
        for (const round of rounds) {
          const results = await Promise.all(
            round.map(({ fromS, lengthS, isTimed, isClaimed, skip }) => {
              const rows = [];
              for (let at = fromS; at < fromS + lengthS; at += isClaimed ? 1 : skip) {
                const atS = shift + at;
                const executedAtUs = isTimed ? (NOON_S + atS) * 1_000_000 + 7 : null;
                rows.push(trade(2 * atS + 1, atS, { executedAtUs }), trade(2 * atS + 2, atS));
              }
              const span = [shift + fromS, shift + fromS + lengthS] as const;
              const claims = isClaimed ? [claim(trades, ...span)] : [];
              return store.commit({ trades: rows, claims });
            }),
          );
          for (const { outcomes } of results) assert.equal(outcomes.trade.conflict, 0);
        }
        assert.deepEqual(await miscountedDays(url), []);
      },
    ),
    { numRuns: worlds(25) },
  );
});

test('slots with trades are told by their begin, of the spans and the market asked about', async () => {
  const { store, trades } = await openWithStreams();
  const minuteMs = (minute: number) => (NOON_S + minute * 60) * 1_000;
  const span = (fromMin: number, toMin: number) => {
    return { fromMs: minuteMs(fromMin), toMs: minuteMs(toMin) };
  };
  await store.commit({
    trades: [trade(1, 0), trade(2, 59), trade(3, 120), trade(4, 179), trade(5, 600)],
    claims: [claim(trades, 0, 630)],
  });
  const spans = [span(0, 2), span(2, 9)];
  const traded = async (...asked: Parameters<typeof store.tradedSlots>) =>
    (await store.tradedSlots(...asked)).traded;
  assert.deepEqual(await traded(1, spans, 60_000), [minuteMs(0), minuteMs(2)]);
  assert.deepEqual(await traded(1, [span(0, 10)], 300_000), [minuteMs(0)]);
  assert.deepEqual(await traded(1, [span(3, 11)], 60_000), [minuteMs(10)], 'not covered');
  assert.deepEqual(await traded(2, spans, 60_000), []);
  assert.deepEqual(await traded(1, [], 60_000), []);
});
