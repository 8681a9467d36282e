import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../src/kernel/clock.js';
import type { Batch, CommitResult, StreamRef } from '../../src/model/batch.js';
import { Partitions } from '../../src/store/schema/partitions.js';
import { prepareGroup } from '../../src/store/writer/groups.js';
import { Quarantine } from '../../src/store/writer/refused-rows.js';
import { WriterSession } from '../../src/store/writer/session.js';
import { commitGroup } from '../../src/store/writer/transaction.js';
import { quietStoreEvents, runSql } from '../support/postgres/postgres.js';
import { brokenCoverage, claim, trade } from '../support/postgres/postgres-rows.js';
import { worlds } from '../support/seeds.js';
import { openWithStreams } from '../support/worlds/store-world.js';

/*
 * Trades go one of three ways: what is new and next to which nothing needs counting is copied in the
 * message that commits it; what is new elsewhere is copied first and counted where it lies; and when a
 * key was there against all knowledge, everything is staged. All three leave the same archive.
 */

const DAY_S = 86_400;
/** Seconds after noon. */
const MIDNIGHT_S = DAY_S / 2;
const WINDOW = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };

const page = fc.record({
  fromS: fc.nat(40),
  lengthS: fc.integer({ min: 1, max: 20 }),
  everyS: fc.integer({ min: 1, max: 4 }),
  isTimed: fc.boolean(),
  /** One second where the other endpoint reports them. */
  lateS: fc.constantFrom(0, 0, 1),
  price: fc.constantFrom('100.5', '100.50', '100.5', '100.5', '99'),
  /** How far its claims reach beyond it. */
  claimed: fc.option(fc.constantFrom(0, 0, 3)),
});
type Page = typeof page extends fc.Arbitrary<infer T> ? T : never;
const commits = fc.array(fc.array(page, { minLength: 1, maxLength: 3 }), {
  ...{ minLength: 2, maxLength: 8 },
});

function batchOf(given: Page, streams: readonly StreamRef[], shiftS: number): Batch {
  const [marketId = 0] = streams.map((stream) => stream.marketId);
  const { fromS, lengthS, everyS, isTimed, lateS, price, claimed } = given;
  const trades = [];
  for (let s = fromS; s < fromS + lengthS; s += everyS) {
    const values = isTimed ? { marketId, price } : { marketId, price, executedAtUs: null };
    trades.push(trade(s + 1, shiftS + s + lateS, values));
  }
  const span = [shiftS + fromS, shiftS + fromS + lengthS + (claimed ?? 0)] as const;
  const claims = claimed === null ? [] : streams.map((stream) => claim(stream, ...span));
  return { trades, claims };
}

/** What must not depend on the way: all but which stream it is. */
const told = ({ outcomes, ranges }: CommitResult) => ({
  trade: outcomes.trade,
  ranges: ranges.map(({ span, firstId, lastId, rowCount }) => [span, firstId, lastId, rowCount]),
});

test('whichever way trades take into the archive, it is the same archive', async () => {
  const { store, url, trades, times } = await openWithStreams();
  const staged = await Promise.all(
    (['trades', 'times'] as const).map((kind) =>
      store.ensureStream({ kind, marketId: 2, variant: 0 }),
    ),
  );
  const timeouts = { connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 };
  const session = new WriterSession({ databaseUrl: url, clock: systemClock, ...timeouts });
  after(() => session.close());
  const rows = <Row extends object>(sql: string, values: readonly unknown[] = []) =>
    runSql<Row>(url, sql, values);
  const context = {
    connection: await session.connection(),
    partitions: new Partitions({ rows }, quietStoreEvents()),
    quarantine: new Quarantine(100),
    trades: { isDirect: false, whenSent: () => undefined },
  };
  const archiveOf = async (marketId: number) => ({
    trades: await rows(
      `SELECT tid, traded_at, executed_at, price::text FROM trade WHERE market_id = $1 ORDER BY 1, 2`,
      [marketId],
    ),
    coverage: await rows(
      `SELECT kind, span, first_id, last_id, row_count, evidence
       FROM coverage JOIN stream USING (stream_id, market_id)
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
        const direct = pages.map((one) => batchOf(one, [trades, times], shiftS));
        const results = await Promise.all(direct.map((batch) => store.commit(batch)));
        const same = pages.map((one) => batchOf(one, staged, shiftS));
        const group = await commitGroup(context, prepareGroup(same, WINDOW));
        assert.deepEqual(results.map(told), group.results.map(told));
      }
      assert.deepEqual(await archiveOf(1), await archiveOf(2));
      assert.deepEqual(await brokenCoverage(url), []);
    }),
    { numRuns: worlds(12), endOnFailure: true },
  );
});
