import assert from 'node:assert/strict';
import test from 'node:test';
import { NO_OUTCOMES, type RowOutcomes, type TradeRow } from '../../src/model/batch.js';
import { runSql } from '../support/postgres/postgres.js';
import { claim, miscountedDays, NOON_S, trade } from '../support/postgres/postgres-rows.js';
import fc from '../support/properties.js';
import { worlds } from '../support/seeds.js';
import { openWithStreams } from '../support/worlds/store-world.js';

/** A trade as it is told: some ids twice, at other seconds, in other words, with and without a time. */
const telling = fc.record({
  tid: fc.integer({ min: 1, max: 9 }),
  atS: fc.nat(9),
  fraction: fc.option(fc.constantFrom(7, 8), { freq: 2 }),
  price: fc.constantFrom('100.5', '100.50', '100.5', '99'),
});
const commit = fc.record({
  tellings: fc.array(telling, { maxLength: 6 }),
  claimed: fc.option(fc.tuple(fc.nat(9), fc.integer({ min: 1, max: 6 }))),
});

/** A row of the same second may have the exact time that the one before it has not, in conflict too. */
const knowsMore = (known: TradeRow, row: TradeRow) =>
  known.tradedAtS === row.tradedAtS && known.executedAtUs === null && row.executedAtUs !== null;

/** The rules for trades of one market in the fewest words. */
class Model {
  readonly rows = new Map<string, TradeRow>();

  store(told: readonly TradeRow[]): RowOutcomes {
    const outcomes = { ...NO_OUTCOMES } as { -readonly [name in keyof RowOutcomes]: number };
    const once: TradeRow[] = [];
    for (const row of told) {
      // Further apart the same id is one that began anew.
      const at = once.findIndex(
        ({ tid, tradedAtS }) => tid === row.tid && Math.abs(tradedAtS - row.tradedAtS) <= 1,
      );
      const held = once[at];
      if (held === undefined) {
        once.push(row);
        continue;
      }
      const outcome = this.#against(held, row);
      if (knowsMore(held, row)) once[at] = row;
      outcomes[outcome === 'updated' ? 'duplicate' : outcome] += 1;
    }
    for (const row of once) {
      const at = (second: number) => this.rows.get(`${row.tid} ${second}`);
      const known = at(row.tradedAtS) ?? at(row.tradedAtS - 1) ?? at(row.tradedAtS + 1);
      const outcome = known === undefined ? 'stored' : this.#against(known, row);
      outcomes[outcome] += 1;
      if (outcome === 'stored') this.rows.set(`${row.tid} ${row.tradedAtS}`, row);
      if (known !== undefined && knowsMore(known, row)) {
        const { executedAtUs } = row;
        this.rows.set(`${row.tid} ${row.tradedAtS}`, { ...known, executedAtUs });
      }
    }
    return outcomes;
  }

  #against(known: TradeRow, row: TradeRow): keyof RowOutcomes {
    const isSame = known.tradedAtS === row.tradedAtS && Number(known.price) === Number(row.price);
    if (!isSame) return 'conflict';
    if (row.executedAtUs === null || row.executedAtUs === known.executedAtUs) return 'duplicate';
    return known.executedAtUs === null ? 'updated' : 'conflict';
  }
}

test('whatever is told of trades again, each is stored once and what became of it is told', async () => {
  const { store, url, trades } = await openWithStreams();
  let shiftS = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(commit, { minLength: 2, maxLength: 12 }), async (commits) => {
      // Far enough from the seconds of the run before.
      shiftS += 100;
      const model = new Model();
      for (const { tellings, claimed } of commits) {
        const told = tellings.map(({ tid, atS, fraction, price }) => {
          const second = NOON_S + shiftS + atS;
          const executedAtUs = fraction === null ? null : second * 1_000_000 + fraction;
          return trade(tid, shiftS + atS, { executedAtUs, price });
        });
        const claims = [];
        if (claimed !== null) {
          const span = [shiftS + claimed[0], shiftS + claimed[0] + claimed[1]] as const;
          claims.push(claim(trades, ...span));
        }
        const { outcomes } = await store.commit({ trades: told, claims });
        assert.deepEqual(outcomes.trade, model.store(told));
      }
      const stored = await runSql(
        url,
        `SELECT tid::int AS tid, extract(epoch FROM traded_at)::int AS "tradedAtS", price::text AS price,
                (extract(epoch FROM executed_at) * 1000000)::float8 AS "executedAtUs"
         FROM trade WHERE traded_at >= to_timestamp($1) ORDER BY 1, 2`,
        [NOON_S + shiftS - 10],
      );
      const expected = [...model.rows.values()]
        .sort((a, b) => a.tid - b.tid || a.tradedAtS - b.tradedAtS)
        .map(({ tid, tradedAtS, price, executedAtUs }) => ({
          tid,
          tradedAtS,
          price,
          executedAtUs,
        }));
      assert.deepEqual(stored, expected);
      assert.deepEqual(await miscountedDays(url), []);
    }),
    { numRuns: worlds(25), endOnFailure: true },
  );
});
