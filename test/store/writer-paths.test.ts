import assert from 'node:assert/strict';
import test from 'node:test';
import type { Batch, StreamRef } from '../../src/model/batch.js';
import { runSql } from '../support/postgres/postgres.js';
import { claim, miscountedDays, NOON_S, trade } from '../support/postgres/postgres-rows.js';
import fc from '../support/properties.js';
import { worlds } from '../support/seeds.js';
import { openWithStreams } from '../support/worlds/store-world.js';

/*
 * Trades go one of two ways: what is new and next to which nothing needs counting is copied in the
 * message that commits it; what is new elsewhere is copied first and counted where it lies. Pages that
 * go together take other ways than the same ones one by one, and leave the same archive. Trades in other
 * words, of which the first ones stay, are left to writer-trades.
 */

const DAY_S = 86_400;
/** Seconds after noon. */
const MIDNIGHT_S = DAY_S / 2;

const page = fc.record({
  fromS: fc.nat(40),
  lengthS: fc.integer({ min: 1, max: 20 }),
  everyS: fc.integer({ min: 1, max: 4 }),
  isTimed: fc.boolean(),
  /** How far its claims reach beyond it. */
  claimed: fc.option(fc.constantFrom(0, 0, 3)),
});
type Page = typeof page extends fc.Arbitrary<infer T> ? T : never;
const commits = fc.array(fc.array(page, { minLength: 1, maxLength: 3 }), {
  ...{ minLength: 2, maxLength: 8 },
});

function batchOf(given: Page, stream: StreamRef, shiftS: number): Batch {
  const { marketId } = stream;
  const { fromS, lengthS, everyS, isTimed, claimed } = given;
  const trades = [];
  for (let s = fromS; s < fromS + lengthS; s += everyS) {
    const executedAtUs = isTimed ? (NOON_S + shiftS + s) * 1_000_000 + 7 : null;
    trades.push(trade(s + 1, shiftS + s, { marketId, executedAtUs }));
  }
  const span = [shiftS + fromS, shiftS + fromS + lengthS + (claimed ?? 0)] as const;
  const claims = claimed === null ? [] : [claim(stream, ...span)];
  return { trades, claims };
}

test('whichever way trades take into the archive, it is the same archive', async () => {
  const { store, url, trades } = await openWithStreams();
  const single = await store.ensureStream({ kind: 'trades', marketId: 2, variant: 0 });
  const rows = <Row extends object>(sql: string, values: readonly unknown[] = []) =>
    runSql<Row>(url, sql, values);
  const archiveOf = async (marketId: number) => ({
    trades: await rows(
      `SELECT tid, traded_at, executed_at FROM trade WHERE market_id = $1 ORDER BY 1, 2`,
      [marketId],
    ),
    coverage: await rows(
      `SELECT kind, span FROM coverage JOIN stream USING (stream_id, market_id)
       WHERE market_id = $1 ORDER BY kind, span`,
      [marketId],
    ),
  });
  let run = 0;
  await fc.assert(
    fc.asyncProperty(commits, async (rounds) => {
      // A day for each; in every other one the pages lie on both sides of a midnight.
      run += 1;
      const shiftS = run * DAY_S + (run % 2 === 0 ? MIDNIGHT_S - 25 : 0);
      for (const pages of rounds) {
        const together = pages.map((one) => batchOf(one, trades, shiftS));
        await Promise.all(together.map((batch) => store.commit(batch)));
        for (const one of pages) await store.commit(batchOf(one, single, shiftS));
      }
      assert.deepEqual(await archiveOf(1), await archiveOf(2));
      assert.deepEqual(await miscountedDays(url), []);
    }),
    { numRuns: worlds(12), endOnFailure: true },
  );
});
